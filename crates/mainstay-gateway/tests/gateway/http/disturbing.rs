//! Clients that do everything wrong, beside one that works: nothing of theirs reaches it, nor the server behind.

use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{Gateway, HttpDoor};
use mainstay_testkit::Script;
use mainstay_testkit::client::{Ask, LONG, Reply};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::http::support::{Memory, World, initialize, modern, request, text};

/// How often each mistake is made.
const TIMES: usize = 5;

/// Steps of a call that runs all the while.
const STEPS: u64 = 50;

fn bearing(ask: Ask, token: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {token}"))
}

/// Every mistake, with the status and the error that it is answered with. `in_use` is the id of a session.
fn mistakes(in_use: &str) -> Vec<(&'static str, Ask, (u16, i64))> {
    let ping = request(1, "ping", json!({}));
    let of_session = |ask: Ask| ask.header("mcp-session-id", in_use);
    let posted = |text: &str| of_session(Ask::post_text("/mcp/one", text));
    let sent = |ask: Ask| bearing(ask, "bad");
    let unknown = sent(Ask::post("/mcp/one", &ping)).header("mcp-session-id", "guessed");
    let version = sent(posted(&ping.to_string())).header("mcp-protocol-version", "1999-01-01");
    let origin = sent(posted(&ping.to_string())).header("origin", "https://evil.example");
    let host = sent(posted(&ping.to_string())).header("host", "evil.example");
    let another = modern(
        "/mcp/one",
        1,
        "tools/call",
        json!({ "name": "echo", "arguments": {} }),
    );
    vec![
        ("malformed", sent(posted("{\"jsonrpc\"")), (400, -32700)),
        // Only the client that opened a session can use it.
        (
            "a batch",
            sent(posted(&json!([ping, ping]).to_string())),
            (404, -32001),
        ),
        ("a wrong version", version, (400, -32022)),
        ("an unknown session", unknown, (404, -32001)),
        // The session belongs to another client.
        ("a stolen session", sent(posted(&ping.to_string())), (404, -32001)),
        ("a wrong method", sent(Ask::new("PUT", "/mcp/one")), (405, -32600)),
        ("too long", sent(posted(&" ".repeat(5000))), (413, -32600)),
        ("a bad origin", origin, (403, -32600)),
        ("a bad host", host, (421, -32600)),
        ("no token", posted(&ping.to_string()), (401, -32600)),
        (
            "a wrong token",
            bearing(posted(&ping.to_string()), "worse"),
            (401, -32600),
        ),
        (
            "other headers",
            sent(another).header("mcp-name", "pid"),
            (400, -32020),
        ),
    ]
}

#[tokio::test]
async fn no_mistake_of_one_client_disturbs_another_or_reaches_a_server() {
    let door = HttpDoor::new()
        .token("good")
        .token("bad")
        .max_body(4000)
        .rate(10_000, 10_000);
    let world = World::open(door).await;
    let session = Bearer::open(&world).await;
    let params = json!({ "name": "progress", "arguments": { "steps": STEPS, "interval_ms": 10 }, "_meta": { "progressToken": 7 } });
    let mut running = session.send(&request(1, "tools/call", params)).await;
    let (done, over) = watch::channel(false);
    let disturbing = async {
        for _ in 0..TIMES {
            for (what, ask, refused) in mistakes(&session.id) {
                assert_eq!(world.send(ask).await.refusal().await, refused, "{what}");
            }
        }
        done.send_replace(true);
    };
    let working = async {
        let mut calls = 0;
        while !*over.borrow() {
            calls += 1;
            let params = json!({ "name": "echo", "arguments": { "n": calls } });
            let called = session
                .send(&request(1 + calls, "tools/call", params))
                .await
                .json()
                .await;
            assert_eq!(called["result"]["structuredContent"]["n"], calls);
        }
        calls
    };
    let ((), calls) = tokio::join!(disturbing, working);
    for step in 1..=STEPS {
        assert_eq!(running.message().await["params"]["progress"], step);
    }
    assert_eq!(text(&running.message().await), "finished");
    let side = world.server.side();
    assert_eq!(side.count("tools/call") as u64, 1 + calls, "and none of another");
    assert_eq!(side.count("ping") + side.count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_client_does_not_slow_another() {
    const FLOOD: usize = 200;
    let world = World::open(HttpDoor::new().token("good").token("bad").rate(1, 20)).await;
    let session = Bearer::open(&world).await;
    let flooding = async {
        let mut refused = 0;
        for _ in 0..FLOOD {
            let ask = modern("/mcp/one", 1, "tools/list", json!({}));
            let reply = world.send(bearing(ask, "bad")).await;
            refused += usize::from(reply.status == 429);
        }
        refused
    };
    let working = async {
        for n in 0..10 {
            let params = json!({ "name": "echo", "arguments": {} });
            assert_eq!(session.send(&request(n, "tools/call", params)).await.status, 200);
        }
    };
    let (refused, ()) = tokio::join!(flooding, working);
    assert!(refused > FLOOD / 2, "{refused} of {FLOOD}");
}

#[tokio::test(start_paused = true)]
async fn a_session_may_run_so_many_requests_and_one_more_is_refused() {
    const BOUND: usize = 512;
    // One client has no room for so many calls at one server.
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let servers = NAMES.map(|_| Memory::new(Script::new()));
    let configs = NAMES.iter().zip(&servers);
    let configs = configs.map(|(name, server)| {
        ServerConfig::custom(*name, *name, server.clone())
            .build()
            .unwrap()
    });
    let gateway = Gateway::start(Fleet::builder(), configs);
    for name in NAMES {
        let server = gateway.fleet().server(name).unwrap();
        server.wait_connected(LONG).await.expect("connected");
    }
    let world = World::serving(HttpDoor::new(), gateway);
    let (busy, other) = (world.session("/mcp").await, world.session("/mcp").await);
    for n in 0..BOUND {
        let (name, side) = (NAMES[n % 4], servers[n % 4].side());
        let tool = format!("{name}__sleep_ms");
        // Its client goes away, and the call runs on.
        tokio::select! {
            _ = busy.call(n as u64, &tool, json!({ "ms": 600_000 })) => panic!("answered"),
            () = side.wait_for("tools/call", n / 4 + 1) => {}
        }
    }
    let refused = busy.ask(BOUND as u64, "ping", json!({})).await;
    assert_eq!(refused.refusal().await, (429, -32000));
    assert_eq!(other.ask(1, "ping", json!({})).await.status, 200);
    assert_eq!(busy.end().await.status, 204, "it may always end");
    for server in &servers {
        server.side().wait_for("notifications/cancelled", BOUND / 4).await;
    }
}

/// The session of a client with the good token.
struct Bearer<'a> {
    world: &'a World,
    id: String,
}

impl<'a> Bearer<'a> {
    async fn open(world: &'a World) -> Self {
        let opened = world
            .send(bearing(Ask::post("/mcp/one", &initialize(json!({}))), "good"))
            .await;
        let id = opened.header("mcp-session-id").expect("a session").to_owned();
        Self { world, id }
    }

    async fn send(&self, message: &Value) -> Reply {
        let ask = bearing(Ask::post("/mcp/one", message), "good").header("mcp-session-id", &self.id);
        self.world.send(ask).await
    }
}
