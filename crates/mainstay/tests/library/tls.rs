//! Encrypted servers, on loopback: whom the client trusts, and as whom it shows itself.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mainstay::transport::HttpFailure;
use mainstay::{Fleet, ServerConfig, Status};
use mainstay_testkit::Script;
use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig as TlsConfig};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Longer than anything takes on a busy machine; reached only by a test that fails.
const LONG: Duration = Duration::from_secs(60);

/// An authority that nobody else trusts, and the files it writes.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = TempDir::new().unwrap();
        Self { issuer, directory }
    }

    fn file(&self, name: &str, pem: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    }

    fn ca(&self) -> PathBuf {
        self.file("ca.pem", &self.issuer.pem())
    }

    /// A certificate for this name, and its key.
    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// What a server on 127.0.0.1 encrypts with.
    fn server(&self, asks_for_a_certificate: bool) -> TlsConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (certificate, key) = self.issue("127.0.0.1");
        let builder = TlsConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = if asks_for_a_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        builder
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}

/// An encrypted door to a scripted server.
struct Front {
    url: String,
    /// The certificates that clients have shown, as DER.
    shown: watch::Receiver<Vec<Vec<u8>>>,
    _behind: FaultyHttpServer,
}

impl Front {
    async fn open(config: TlsConfig) -> Self {
        let behind = FaultyHttpServer::start(Script::new(), HttpScript::new())
            .await
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("https://{}/mcp", listener.local_addr().unwrap());
        let (sender, shown) = watch::channel(Vec::new());
        let (acceptor, port) = (TlsAcceptor::from(Arc::new(config)), behind.port());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                tokio::spawn(async move {
                    let Ok(mut client) = acceptor.accept(client).await else {
                        return;
                    };
                    if let Some([certificate, ..]) = client.get_ref().1.peer_certificates() {
                        sender.send_modify(|shown| shown.push(certificate.to_vec()));
                    }
                    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
                    // Either side may leave without a word.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self {
            url,
            shown,
            _behind: behind,
        }
    }
}

/// How a server is once it is connected, or has failed.
async fn settled(config: mainstay::config::ServerBuilder<mainstay::config::HttpTarget>) -> (Fleet, Status) {
    let fleet = Fleet::builder().start([config.build().unwrap()]);
    let server = fleet.server("s").unwrap();
    let settled = |status: &Status| status.protocol.is_some() || status.last_error.is_some();
    let status = server.wait_until(LONG, settled).await.expect("settled");
    (fleet, status)
}

/// How the handshake failed, in words.
#[track_caller]
fn refusal(status: &Status) -> (std::io::ErrorKind, String) {
    let failure = status.last_error.as_ref().expect("it failed");
    match failure.http.as_deref() {
        Some(HttpFailure::ConnectFailed { kind, message }) => (*kind, message.clone()),
        other => panic!("{other:?} {failure}"),
    }
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_when_it_is_named_and_only_then() {
    let authority = Authority::new();
    let front = Front::open(authority.server(false)).await;
    let named = ServerConfig::http("s", front.url.as_str()).root_certificates(authority.ca());
    let (fleet, status) = settled(named).await;
    assert!(status.last_error.is_none(), "{:?}", status.last_error);
    let server = fleet.server("s").unwrap();
    server.wait_connected(LONG).await.unwrap();
    let arguments = json!({ "text": "x" });
    let reply = server.call("echo", &arguments).await;
    reply.expect("an answer");
    fleet.close(LONG).await;

    let (fleet, status) = settled(ServerConfig::http("s", front.url.as_str())).await;
    let (kind, message) = refusal(&status);
    assert_eq!(kind, std::io::ErrorKind::InvalidData, "{message}");
    assert!(message.contains("invalid peer certificate"), "{message}");
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_is_shown_the_one_configured() {
    let authority = Authority::new();
    let front = Front::open(authority.server(true)).await;
    let (certificate, key) = authority.issue("client.example");
    let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
    let both = authority.file("client.pem", &pem);
    let known = ServerConfig::http("s", front.url.as_str())
        .root_certificates(authority.ca())
        .client_certificate(&both, &both);
    let (fleet, status) = settled(known).await;
    assert!(status.last_error.is_none(), "{:?}", status.last_error);
    assert_eq!(front.shown.borrow().first(), Some(&certificate.der().to_vec()));
    fleet.close(LONG).await;

    let front = Front::open(authority.server(true)).await;
    let nobody = ServerConfig::http("s", front.url.as_str()).root_certificates(authority.ca());
    let (fleet, status) = settled(nobody).await;
    let (kind, message) = refusal(&status);
    assert_eq!(kind, std::io::ErrorKind::PermissionDenied, "{message}");
    assert!(
        message.contains("asks for a certificate of its client"),
        "{message}"
    );
    assert!(front.shown.borrow().is_empty());
    fleet.close(LONG).await;
}

#[tokio::test]
async fn a_certificate_that_was_renewed_is_shown_from_the_next_connection_on() {
    let authority = Authority::new();
    let front = Front::open(authority.server(true)).await;
    let write = || {
        let (certificate, key) = authority.issue("client.example");
        let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
        (authority.file("client.pem", &pem), certificate.der().to_vec())
    };
    let (both, old) = write();
    let config = ServerConfig::http("s", front.url.as_str())
        .root_certificates(authority.ca())
        .client_certificate(&both, &both);
    let fleet = Fleet::builder().start([config.build().unwrap()]);
    let server = fleet.server("s").unwrap();
    server.wait_connected(LONG).await.unwrap();
    assert!(front.shown.borrow().iter().all(|shown| *shown == old));

    let (_, new) = write();
    let before = front.shown.borrow().len();
    server.restart().await.unwrap();
    let again = |status: &Status| status.starts == 2 && status.protocol.is_some();
    server.wait_until(LONG, again).await.expect("connected again");
    assert!(front.shown.borrow()[before..].contains(&new));
    fleet.close(LONG).await;
}
