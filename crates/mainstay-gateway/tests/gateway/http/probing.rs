//! Health probes: they need no token, and disclose reasons to those alone who may use MCP.

use std::io;
use std::sync::Arc;

use mainstay::transport::{Connecting, Connector};
use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{Gateway, HttpDoor};
use mainstay_testkit::Script;
use mainstay_testkit::client::{Ask, LONG, Reply};
use serde_json::json;
use tokio::sync::Notify;

use crate::http::support::{Memory, World, initialize};

async fn answer(reply: Reply) -> (u16, String) {
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let status = reply.status;
    (status, reply.body().await.0)
}

async fn ask(world: &World, path: &str) -> (u16, String) {
    answer(world.send(Ask::new("GET", path)).await).await
}

#[tokio::test(start_paused = true)]
async fn probes_need_no_token_and_come_by_any_address_but_by_no_other_name() {
    let world = World::open(HttpDoor::new().token("t").allowed_host("gateway.test").rate(1, 1)).await;
    for (path, word) in [("/healthz", "ok"), ("/health", "ok"), ("/readyz", "ready")] {
        for host in ["10.1.2.3:7332", "[2001:db8::1]", "localhost", "gateway.test"] {
            let reply = world.send(Ask::new("GET", path).header("host", host)).await;
            assert_eq!(answer(reply).await, (200, word.to_owned()), "{host}");
        }
        let nameless = world.send_text(&format!("GET {path} HTTP/1.0\r\n\r\n")).await;
        assert_eq!(answer(nameless).await, (200, word.to_owned()));
        let foreign = Ask::new("GET", path).header("host", "evil.example");
        assert_eq!(world.send(foreign).await.status, 421);
        let page = Ask::new("GET", path).header("origin", "http://evil.example");
        assert_eq!(world.send(page).await.status, 403);
        let head = world.send(Ask::new("HEAD", path)).await;
        assert_eq!(head.status, 200);
        let post = world.send(Ask::post(path, &initialize(json!({})))).await;
        assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    }
    for path in ["/healthz/x", "/health/x", "/heal"] {
        assert_eq!(world.send(Ask::new("GET", path)).await.status, 401, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_required_server_that_is_down_makes_the_gateway_not_ready_and_one_that_is_not_does_not() {
    let (needed, other) = (Memory::new(Script::new()), Memory::new(Script::new()));
    other.set_down(true);
    let configs = [
        ServerConfig::custom("needed", "needed", needed.clone()).required(true),
        ServerConfig::custom("other", "other", other.clone()),
    ];
    let gateway = Gateway::start(Fleet::builder(), configs.map(|config| config.build().unwrap()));
    let server = gateway.fleet().server("needed").unwrap();
    server.wait_connected(LONG).await.expect("connected");
    let world = World::serving(HttpDoor::new(), gateway);
    assert_eq!(ask(&world, "/readyz").await, (200, "ready".to_owned()));
    needed.set_down(true);
    needed.side().cut();
    let gone = async {
        while ask(&world, "/readyz").await.0 == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.expect("seen to be down");
    let (status, said) = ask(&world, "/readyz").await;
    assert_eq!(status, 503);
    assert!(said.starts_with("not ready\nneeded: reconnecting: "), "{said}");
    assert!(!said.contains("other"), "it is not required: {said}");
    assert_eq!(ask(&world, "/healthz").await, (200, "ok".to_owned()));
    needed.set_down(false);
    server.wait_connected(LONG).await.expect("connected");
    assert_eq!(ask(&world, "/readyz").await, (200, "ready".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn where_no_server_is_required_the_gateway_is_ready_when_every_first_attempt_is_over() {
    let (up, slow) = (Memory::new(Script::new()), Arc::new(Slow::default()));
    let configs = [
        ServerConfig::custom("up", "up", up),
        ServerConfig::custom("slow", "slow", slow.clone()),
    ];
    let gateway = Gateway::start(Fleet::builder(), configs.map(|config| config.build().unwrap()));
    let server = gateway.fleet().server("up").unwrap();
    server.wait_connected(LONG).await.expect("connected");
    let mut world = World::serving(HttpDoor::new(), gateway);
    assert_eq!(
        ask(&world, "/readyz").await,
        (503, "not ready\nslow: connecting".to_owned())
    );
    slow.0.notify_one();
    let settled = async {
        while ask(&world, "/readyz").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, settled)
        .await
        .expect("it has failed once");

    // A gateway that goes down sends clients elsewhere, and is alive until it has ended.
    let session = world.session("/mcp/up").await;
    let mut call = session.call(1, "ask", json!({ "kind": "elicitation" })).await;
    let asked = call.message().await;
    world.stop();
    let draining = async {
        while ask(&world, "/readyz").await.0 == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, draining).await.expect("it goes down");
    assert_eq!(ask(&world, "/healthz").await, (200, "ok".to_owned()));
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    assert_eq!(session.post(&answer).await.status, 202);
    assert_eq!(call.message().await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn reasons_need_the_token_where_mcp_needs_one_and_a_wrong_token_is_refused() {
    let config = ServerConfig::custom("slow", "slow", Arc::new(Slow::default()));
    let gateway = Gateway::start(Fleet::builder(), [config.build().unwrap()]);
    let world = World::serving(HttpDoor::new().token("t"), gateway);
    assert_eq!(ask(&world, "/readyz").await, (503, "not ready".to_owned()));
    let with = |token: &str| Ask::new("GET", "/readyz").header("authorization", &format!("Bearer {token}"));
    let received = answer(world.send(with("t")).await).await;
    assert_eq!(received, (503, "not ready\nslow: connecting".to_owned()));
    assert_eq!(world.send(with("wrong")).await.status, 401);
}

/// A server that refuses connections from the moment a test says so.
#[derive(Default)]
struct Slow(Notify);

impl Connector for Slow {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(async {
            self.0.notified().await;
            Err(io::ErrorKind::ConnectionRefused.into())
        })
    }
}
