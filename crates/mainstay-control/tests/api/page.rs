//! The dashboard's logins at the HTTP door: links that work once, and tokens that only their page can read.

use std::net::SocketAddr;

use mainstay_control::api::{EventDetail, EventRecord};
use mainstay_control::{
    API_ROOT, Control, ControlClient, ControlService, EventStream, MetricsAccess, PAGE_ROOT, PageLogins,
    Role, read_audit,
};
use mainstay_gateway::HttpDoor;
use mainstay_testkit::fleet::{LONG, Memory};
use mainstay_testkit::{Script, poll};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::{World, raw, record_with};

const TOKEN: &str = "control-token";

/// The dashboard of the world at a port.
async fn serve(world: &World) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let pages = PageLogins::new(TOKEN, None);
    let service = ControlService::with_pages(&world.control, MetricsAccess::none(), pages, None);
    let door = HttpDoor::new().mount(
        &[API_ROOT, PAGE_ROOT],
        Some(TOKEN.into()),
        std::sync::Arc::new(service),
    );
    let gateway = world.gateway.clone();
    tokio::spawn(async move { gateway.serve_http(listener, door, std::future::pending()).await });
    address
}

async fn post(address: SocketAddr, path: &str, body: &Value, headers: &str) -> (u16, Value) {
    let stream = TcpStream::connect(address).await.expect("a connection");
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    raw(stream, &request).await
}

fn code(path: &str) -> &str {
    path.strip_prefix("/ui/#/login/").expect("a link")
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("text").as_bytes();
    let pairs = hex.chunks(2).map(|pair| std::str::from_utf8(pair).expect("hex"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

/// What the page of these keys reads in an answer.
fn token(keys: &Value, sealed: &Value, nonce: &str) -> Option<String> {
    let mut sealed = bytes(sealed);
    let key = UnboundKey::new(&AES_256_GCM, &bytes(&keys["run_key"])).expect("a key");
    let (start, text) = sealed.split_at_mut(12);
    let start = Nonce::try_assume_unique_for_key(start).expect("twelve bytes");
    let opened = LessSafeKey::new(key).open_in_place(start, Aad::from(nonce.as_bytes()), text);
    let granted: Value = serde_json::from_slice(opened.ok()?).expect("JSON");
    granted["token"].as_str().map(str::to_owned)
}

async fn link_used(events: &mut EventStream) -> EventRecord {
    record_with(events, |detail| {
        matches!(detail, EventDetail::PageLinkUsed { .. })
    })
    .await
}

#[tokio::test]
async fn a_link_lets_one_page_in_and_its_second_use_ends_that_page_and_both_are_events_that_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let control = Control::builder(Role::Serve).audit(Some(directory.path().to_owned()));
    let memory = Memory::new(Script::new());
    let server = memory.config("one").build().expect("valid");
    let world = World::with(control, [server]);
    let address = serve(&world).await;
    let host = format!("Host: {address}\r\nUser-Agent: a browser\r\n");
    let person = ControlClient::tcp(address, TOKEN).timeout(LONG);
    let mut events = person.events(None, 0).await.expect("a stream");
    let link = person.page_link().await.expect("a link");
    let login = json!({ "code": code(&link.path) });
    let (status, keys) = post(address, "/ui/login", &login, &host).await;
    assert_eq!(status, 200, "{keys}");
    let used = link_used(&mut events).await.detail;
    let expected = |again| EventDetail::PageLinkUsed {
        link: link.link,
        again,
        agent: Some("a browser".to_owned()),
    };
    assert_eq!(used, expected(false));

    let ask = json!({ "session": keys["session"], "key": "run", "nonce": "n1" });
    let (status, answer) = post(address, "/ui/token", &ask, &host).await;
    assert_eq!(status, 200, "{answer}");
    assert!(
        !answer.to_string().contains("page2."),
        "the token is encrypted: {answer}"
    );
    let token = token(&keys, &answer["sealed"], "n1").expect("the page can read it");
    let page = ControlClient::tcp(address, token).timeout(LONG);
    page.program().await.expect("the page is let in");
    let mut stream = page.events(None, 0).await.expect("a stream");

    let (status, refused) = post(address, "/ui/login", &login, &host).await;
    assert_eq!(status, 403, "{refused}");
    assert_eq!(link_used(&mut events).await.detail, expected(true));
    let end = async { while stream.next().await.is_some() {} };
    timeout(LONG, end).await.expect("the stream of the page ends");
    let refused = page.program().await.expect_err("it is logged out");
    assert_eq!(refused.problem().map(|problem| problem.status), Some(401));
    let (status, answer) = post(address, "/ui/token", &ask, &host).await;
    assert_eq!(status, 403, "{answer}");
    person.program().await.expect("others go on");
    let kept = || {
        let records = read_audit(directory.path()).expect("readable").records;
        let details = records.into_iter().map(|record| record.event.detail);
        details.collect::<Vec<_>>()
    };
    let both = [expected(false), expected(true)];
    assert!(
        poll::comes_true_async(LONG, || kept() == both).await,
        "{:?}",
        kept()
    );
}

#[tokio::test]
async fn pages_of_other_origins_and_names_are_not_let_in_and_a_code_is_used_up_by_none_of_them() {
    let world = World::one().await;
    let address = serve(&world).await;
    let link = {
        let person = ControlClient::tcp(address, TOKEN).timeout(LONG);
        person.page_link().await.expect("a link")
    };
    let login = json!({ "code": code(&link.path) });
    let ask = json!({ "session": "9999999999-00", "key": "run", "nonce": "n" });
    for (headers, status) in [
        ("Host: rebound.example\r\n".to_owned(), 421),
        (
            format!("Host: {address}\r\nOrigin: https://evil.example\r\n"),
            403,
        ),
        (format!("Host: {address}\r\nOrigin: http://127.0.0.1:1\r\n"), 403),
        (format!("Host: {address}\r\nOrigin: null\r\n"), 403),
    ] {
        for (path, body) in [("/ui/login", &login), ("/ui/token", &ask)] {
            let (answered, answer) = post(address, path, body, &headers).await;
            assert_eq!(answered, status, "{path} {headers}: {answer}");
        }
    }
    let own = format!("Host: {address}\r\nOrigin: http://{address}\r\n");
    let (status, keys) = post(address, "/ui/login", &login, &own).await;
    assert_eq!(status, 200, "{keys}");
}
