use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay_testkit::http::{Port, SocksProxy};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

fn by_proxy(url: &str) -> Dialer {
    let url = Url::parse(url).unwrap();
    let proxies = || {
        let proxies = Matcher::builder().all("http://user:pass@proxy.example:3128");
        proxies.no("inside.example").build()
    };
    Dialer::by(&url, &HttpOptions::new(), &HeaderMap::new(), proxies).unwrap()
}

#[test]
fn a_proxy_of_the_environment_stands_before_what_it_is_named_for() {
    let plain = by_proxy("http://mcp.example/mcp");
    assert!(plain.port_probe().is_none());
    assert!(plain.names_the_origin(), "it is the proxy that goes there");
    assert_eq!(plain.of_proxy().unwrap(), "Basic dXNlcjpwYXNz");
    let encrypted = by_proxy("https://mcp.example/mcp");
    assert!(encrypted.port_probe().is_none());
    assert!(!encrypted.names_the_origin(), "the proxy sees nothing of it");
    assert_eq!(encrypted.of_proxy(), None);
    for near in [
        "http://inside.example/",
        "http://127.0.0.1/",
        "https://localhost/",
    ] {
        let direct = by_proxy(near);
        assert!(
            matches!(direct.port_probe(), Some(PortProbe::Port { .. })),
            "{near}"
        );
        assert!(!direct.names_the_origin());
    }
}

/// The head of the request that comes on a stream, answered so.
async fn answer(remote: &mut DuplexStream, answer: &str) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(remote.read_u8().await.unwrap());
    }
    remote.write_all(answer.as_bytes()).await.unwrap();
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_way_that_it_does_not_look_into() {
    let (near, mut remote) = duplex(1024);
    let proxy = tokio::spawn(async move {
        let head = answer(&mut remote, "HTTP/1.1 200 OK\r\n\r\nthrough").await;
        (head, remote)
    });
    let origin = "https://mcp.example".parse().unwrap();
    let headers = [
        (PROXY_AUTHORIZATION, Some(HeaderValue::from_static("Basic eA=="))),
        (USER_AGENT, Some(HeaderValue::from_static("mainstay/1"))),
    ];
    let mut stream = tunnel(Box::new(near), &origin, headers).await.unwrap();
    let (head, mut remote) = proxy.await.unwrap();
    assert!(head.starts_with("CONNECT mcp.example:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: Basic eA==\r\n"), "{head}");
    assert!(head.contains("user-agent: mainstay/1\r\n"), "{head}");
    let mut received = [0; 7];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"through");
    stream.write_all(b"back").await.unwrap();
    let mut received = [0; 4];
    remote.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"back");
}

#[tokio::test]
async fn a_proxy_that_refuses_says_so() {
    let (near, mut remote) = duplex(1024);
    let proxy = tokio::spawn(async move {
        answer(
            &mut remote,
            "HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n",
        )
        .await
    });
    let origin = "https://mcp.example".parse().unwrap();
    let refused = tunnel(
        Box::new(near),
        &origin,
        [(PROXY_AUTHORIZATION, None), (USER_AGENT, None)],
    )
    .await
    .err()
    .unwrap();
    assert!(refused.to_string().contains("status 407"), "{refused}");
    proxy.await.unwrap();
}

#[tokio::test]
async fn a_proxy_that_answers_with_any_success_has_opened_the_way() {
    for head in [
        "201 Created",
        "204 No Content\r\nvia: x",
        "299",
        "100 Wait\r\n\r\nHTTP/1.0 200 OK",
    ] {
        let (near, mut remote) = duplex(1024);
        let proxy = tokio::spawn(async move {
            answer(&mut remote, &format!("HTTP/1.1 {head}\r\n\r\nthrough")).await;
            remote
        });
        let origin = "https://mcp.example".parse().unwrap();
        let headers = [(PROXY_AUTHORIZATION, None), (USER_AGENT, None)];
        let mut stream = tunnel(Box::new(near), &origin, headers).await.unwrap();
        let mut received = [0; 7];
        stream.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"through", "{head}");
        proxy.await.unwrap();
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_speak_http_or_never_ends_its_head_fails_the_dial() {
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(70 * 1024));
    for said in ["SSH-2.0-x\r\n", "HTTP/1.1 2", "HTTP/1.1 abc\r\n\r\n", &endless] {
        let (near, mut remote) = duplex(128 * 1024);
        let said = said.to_owned();
        let proxy = tokio::spawn(async move { answer(&mut remote, &said).await });
        let origin = "https://mcp.example".parse().unwrap();
        let headers = [(PROXY_AUTHORIZATION, None), (USER_AGENT, None)];
        assert!(
            tunnel(Box::new(near), &origin, headers).await.is_err(),
            "accepted"
        );
        proxy.await.unwrap();
    }
}

fn by(url: &str, proxy: &str) -> Result<Dialer, HttpConfigError> {
    let url = Url::parse(url).unwrap();
    let proxies = || Matcher::builder().all(proxy).build();
    Dialer::by(&url, &HttpOptions::new(), &HeaderMap::new(), proxies)
}

async fn dial(dialer: &Dialer) -> Result<Box<dyn ByteStream>, BoxError> {
    dial_trusting(dialer, &HttpOptions::new()).await
}

async fn dial_trusting(dialer: &Dialer, options: &HttpOptions) -> Result<Box<dyn ByteStream>, BoxError> {
    let tls = tls::config(dialer.encrypts(), options).unwrap();
    dialer.dial(&Arc::new(tls)).await.map(|dialled| dialled.stream)
}

#[tokio::test]
async fn the_certificate_of_an_encrypted_proxy_is_checked_against_the_roots_before_a_plain_server() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let directory = tempfile::tempdir().unwrap();
    let roots = directory.path().join("ca.pem");
    std::fs::write(&roots, issuer.pem()).unwrap();

    let dialer = by("http://mcp.example/mcp", &format!("https://127.0.0.1:{port}")).unwrap();
    let options = HttpOptions::new().root_certificates(&roots);
    let proxy = async {
        let (remote, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(Arc::new(config)).accept(remote).await.unwrap()
    };
    let (near, mut remote) = tokio::join!(dial_trusting(&dialer, &options), proxy);
    near.expect("trusted").write_all(b"GET").await.unwrap();
    let mut received = [0; 3];
    remote.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"GET");
}

#[tokio::test]
async fn a_socks_proxy_is_asked_for_the_server_and_passes_every_byte_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().port();
    let plain = SocksProxy::start(target, None).await.unwrap();
    let guarded = SocksProxy::start(target, Some(("user", "p@ss"))).await.unwrap();
    let plain_port = plain.port();
    let guarded_port = guarded.port();
    for (url, proxy) in [
        (
            "http://mcp.example:81/mcp",
            format!("socks5h://127.0.0.1:{plain_port}"),
        ),
        (
            "http://mcp.example/mcp",
            format!("socks5h://us%65r:p%40ss@127.0.0.1:{guarded_port}"),
        ),
        ("http://192.0.2.1/mcp", format!("socks5://127.0.0.1:{plain_port}")),
        (
            "http://[2001:db8::1]:82/mcp",
            format!("socks5h://127.0.0.1:{plain_port}"),
        ),
    ] {
        let dialer = by(url, &proxy).unwrap();
        assert!(dialer.port_probe().is_none(), "no port is probed behind a proxy");
        assert!(!dialer.names_the_origin() && dialer.of_proxy().is_none());
        let mut near = dial(&dialer).await.unwrap();
        let (mut remote, _) = listener.accept().await.unwrap();
        near.write_all(b"GET / HTTP/1.1").await.unwrap();
        let mut received = [0; 14];
        remote.read_exact(&mut received).await.unwrap();
        assert_eq!(
            &received, b"GET / HTTP/1.1",
            "the first byte that the server sees"
        );
        remote.write_all(b"back").await.unwrap();
        let mut received = [0; 4];
        near.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"back");
    }
    assert_eq!(
        plain.asked(),
        ["mcp.example:81", "192.0.2.1:80", "2001:db8::1:82"]
    );
    assert_eq!(guarded.asked(), ["mcp.example:80"]);
}

#[tokio::test]
async fn a_socks_proxy_that_refuses_or_is_not_there_is_a_failure_that_says_so() {
    let proxy = SocksProxy::start(1, Some(("user", "right"))).await.unwrap();
    let wrong = format!("socks5h://user:wrong@127.0.0.1:{}", proxy.port());
    let refused = dial(&by("http://mcp.example/", &wrong).unwrap())
        .await
        .err()
        .unwrap();
    assert!(refused.to_string().contains("SOCKS proxy"), "{refused}");
    assert!(!refused.to_string().contains("wrong"), "{refused}");
    let nobody = Port::free().unwrap();
    let absent = format!("socks5h://127.0.0.1:{}", nobody.number());
    let refused = dial(&by("http://mcp.example/", &absent).unwrap())
        .await
        .err()
        .unwrap();
    let error = crate::transport::http::client::pool::ExchangeError::NotConnected(refused);
    let refusal = crate::transport::http::client::refusal::Refusal::from(error);
    let crate::transport::HttpFailure::ConnectFailed { kind, .. } = refusal.failure else {
        panic!("{refusal:?}");
    };
    assert_eq!(kind, io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_proxy_of_an_unknown_kind_is_refused_with_a_remedy() {
    let refused = by("http://mcp.example/", "socks4://127.0.0.1:1080")
        .err()
        .unwrap();
    assert!(
        refused.to_string().contains("\"socks4\"") && refused.to_string().contains("socks5h://"),
        "{refused}"
    );
    let near = by("http://localhost/", "socks4://127.0.0.1:1080").unwrap();
    assert!(
        near.port_probe().is_some(),
        "a proxy never stands between this machine and itself"
    );
}

/// A lookup that gives these addresses, one list after the other, and counts how often it is asked.
fn scripted_lookup(answers: &[&[&str]]) -> (HostLookup, Arc<AtomicUsize>) {
    let answers: Vec<Vec<SocketAddr>> = answers
        .iter()
        .map(|addresses| {
            let address = |text: &&str| SocketAddr::new(text.parse().unwrap(), 0);
            addresses.iter().map(address).collect()
        })
        .collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let lookup: HostLookup = Arc::new(move |_name| {
        let turn = counted.fetch_add(1, Ordering::Relaxed);
        let found = answers[turn.min(answers.len() - 1)].clone();
        Box::pin(std::future::ready(Ok(found)))
    });
    (lookup, asked)
}

/// Whether the dial was refused by the check, and not by the system.
fn is_refused(dialled: Result<DialledStream, BoxError>) -> bool {
    let Err(error) = dialled else {
        return false;
    };
    let mut causes =
        std::iter::successors(Some(&*error as &(dyn Error + 'static)), |error| (*error).source());
    causes.any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied)
    })
}

fn public_only() -> AddressCheck {
    // What a check of the internet refuses is tested with the check; here it is enough that 127.0.0.2 stands for it.
    Arc::new(|address| address.to_string() == "127.0.0.2")
}

#[tokio::test]
async fn a_name_that_resolves_to_a_refused_address_is_not_connected_to() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (inside, _) = scripted_lookup(&[&["127.0.0.1", "::1", "::ffff:127.0.0.1"]]);
    for host in [
        "inside.example",
        "inside.example.",
        "INSIDE.example",
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
    ] {
        let origin: Uri = format!("http://{host}:{port}").parse().unwrap();
        let dialled = checked_tcp(&origin, &public_only(), &inside).await;
        assert!(is_refused(dialled), "{host}");
    }
    // A check that permits the address connects, so the listener can be reached.
    let origin: Uri = format!("http://inside.example:{port}").parse().unwrap();
    let anywhere: AddressCheck = Arc::new(|_| true);
    checked_tcp(&origin, &anywhere, &inside).await.expect("permitted");
    let (_stream, from) = listener.accept().await.unwrap();
    assert!(
        is_unreached(&listener).await,
        "one connection in all, from {from}"
    );
}

/// Whether the next connection that a listener accepts is one that is made only now.
async fn is_unreached(listener: &TcpListener) -> bool {
    let own = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (_stream, next) = listener.accept().await.unwrap();
    next == own.local_addr().unwrap()
}

#[tokio::test]
async fn a_name_that_changes_its_address_between_the_check_and_the_connection_gains_nothing() {
    // A port that is free at one address may be in use at the other.
    let (outside, inside, port) = loop {
        let outside = TcpListener::bind(("127.0.0.2", 0)).await.unwrap();
        let port = outside.local_addr().unwrap().port();
        if let Ok(inside) = TcpListener::bind(("127.0.0.1", port)).await {
            break (outside, inside, port);
        }
    };
    let (rebinding, asked) = scripted_lookup(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let origin: Uri = format!("http://rebinding.example:{port}").parse().unwrap();
    let first = checked_tcp(&origin, &public_only(), &rebinding).await;
    assert!(first.is_ok(), "the address that was checked");
    assert_eq!(
        asked.load(Ordering::Relaxed),
        1,
        "looked up once for one connection"
    );
    let (_stream, _) = outside.accept().await.unwrap();
    // The next connection looks the name up again, and checks again.
    assert!(is_refused(checked_tcp(&origin, &public_only(), &rebinding).await));
    // Among several addresses, only the permitted ones are tried.
    let (mixed, _) = scripted_lookup(&[&["127.0.0.1", "127.0.0.2"]]);
    checked_tcp(&origin, &public_only(), &mixed)
        .await
        .expect("the permitted one");
    let (_stream, _) = outside.accept().await.unwrap();
    assert!(
        is_unreached(&inside).await,
        "no connection to the address that is refused"
    );
}
