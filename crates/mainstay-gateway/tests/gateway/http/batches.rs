//! Several messages by one POST: in the one version that has them, and refused in every other.

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::{Ask, Reply};
use serde_json::{Value, json};

use crate::http::support::{World, initialize, modern, request};

/// The session of a client of this version, which names it only where its version has the header.
struct Batcher<'a> {
    world: &'a World,
    id: String,
}

impl<'a> Batcher<'a> {
    async fn open(world: &'a World, version: &str) -> Self {
        let mut hello = initialize(json!({ "elicitation": {} }));
        hello["params"]["protocolVersion"] = json!(version);
        let opened = world.send(Ask::post("/mcp/one", &hello)).await;
        let id = opened.header("mcp-session-id").unwrap().to_owned();
        assert_eq!(opened.json().await["result"]["protocolVersion"], version);
        Self { world, id }
    }

    fn ask(&self, batch: &Value) -> Ask {
        Ask::post("/mcp/one", batch).header("mcp-session-id", &self.id)
    }

    async fn send(&self, batch: &Value) -> Reply {
        self.world.send(self.ask(batch)).await
    }
}

fn echo(id: impl Into<Value>, n: u64) -> Value {
    let mut echo = request(
        0,
        "tools/call",
        json!({ "name": "echo", "arguments": { "n": n } }),
    );
    echo["id"] = id.into();
    echo
}

fn notification(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_answered_by_one_array_in_the_version_that_has_them() {
    let world = World::open(HttpDoor::new()).await;
    let client = Batcher::open(&world, "2025-03-26").await;
    assert_eq!(
        client
            .send(&json!([notification("notifications/initialized")]))
            .await
            .status,
        202
    );
    let batch = json!([
        echo("a", 1),
        notification("notifications/unknown"),
        request(2, "ping", json!({})),
        echo(3, 3)
    ]);
    for accept in ["application/json, text/event-stream", "application/json"] {
        let reply = world.send(client.ask(&batch).header("accept", accept)).await;
        assert_eq!(reply.status, 200);
        let answers = reply.json().await;
        let ids: Vec<_> = answers
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| &answer["id"])
            .collect();
        assert_eq!(ids, [&json!("a"), &json!(2), &json!(3)]);
        assert_eq!(answers[0]["result"]["structuredContent"]["n"], 1);
        assert_eq!(answers[1]["result"], json!({}));
    }
    let mut events = world
        .send(client.ask(&batch).header("accept", "text/event-stream"))
        .await;
    assert_eq!(events.message().await.as_array().map(Vec::len), Some(3));
    assert_eq!(events.event().await, None, "the answers end the stream");
}

#[tokio::test(start_paused = true)]
async fn questions_and_notifications_come_before_the_answers_and_a_batch_may_hold_answers() {
    let world = World::open(HttpDoor::new()).await;
    let client = Batcher::open(&world, "2025-03-26").await;
    let ask = request(
        1,
        "tools/call",
        json!({ "name": "ask", "arguments": { "kind": "elicitation" } }),
    );
    let mut reply = client.send(&json!([ask, echo(2, 2)])).await;
    assert!(reply.is_events());
    let asked = reply.message().await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    assert_eq!(client.send(&json!([answer])).await.status, 202);
    let answers = reply.message().await;
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(1), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_same_batch_finds_its_request() {
    let world = World::open(HttpDoor::new()).await;
    let client = Batcher::open(&world, "2025-03-26").await;
    let mut cancel = notification("notifications/cancelled");
    cancel["params"] = json!({ "requestId": 1 });
    let answers = client
        .send(&json!([echo(1, 1), cancel, echo(2, 2)]))
        .await
        .json()
        .await;
    assert_eq!(answers.as_array().map(Vec::len), Some(1));
    assert_eq!(answers[0]["id"], 2);
    assert_eq!(world.server.side().count("tools/call"), 1);
    assert_eq!(client.send(&json!([echo(1, 1), cancel])).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_in_a_batch_is_refused_by_itself() {
    let world = World::open(HttpDoor::new()).await;
    let client = Batcher::open(&world, "2025-03-26").await;
    let modern_call = {
        let mut call = echo("m", 1);
        call["params"]["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
        call
    };
    let batch = json!([1, { "a": 1 }, initialize(json!({})), modern_call, echo("x", 1), echo("x", 2)]);
    let answers = client.send(&batch).await.json().await;
    let seen: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (answer.get("id").cloned(), answer["error"]["code"].as_i64()))
        .collect();
    assert_eq!(
        seen,
        [
            (Some(Value::Null), Some(-32600)),
            (Some(Value::Null), Some(-32600)),
            (Some(json!(0)), Some(-32600)),
            (Some(json!("m")), Some(-32600)),
            (Some(json!("x")), None),
            (Some(json!("x")), Some(-32600)),
        ]
    );
    let many: Vec<_> = (0..101).map(|n| request(n, "ping", json!({}))).collect();
    for batch in [json!([]), json!(many), json!([[request(1, "ping", json!({}))]])] {
        assert_eq!(client.send(&batch).await.refusal().await, (400, -32600));
    }
    let answers = client.send(&json!(many[..100])).await.json().await;
    assert_eq!(answers.as_array().map(Vec::len), Some(100));
}

#[tokio::test(start_paused = true)]
async fn every_other_version_refuses_a_batch_and_says_why() {
    let world = World::open(HttpDoor::new()).await;
    let batch = json!([echo(1, 1)]);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let client = Batcher::open(&world, version).await;
        let refused = client.send(&batch).await;
        assert_eq!(refused.status, 400);
        let refused = refused.json().await;
        let words = refused["error"]["message"].as_str().unwrap();
        assert!(words.contains("2025-03-26") && words.contains(version), "{words}");
    }
    let alone = modern("/mcp/one", 1, "tools/list", json!({}));
    let alone = Ask::post("/mcp/one", &batch).headers_of(alone);
    assert_eq!(world.send(alone).await.refusal().await, (400, -32600));
    assert_eq!(
        world.send(Ask::post("/mcp/one", &batch)).await.refusal().await,
        (400, -32600),
        "without a session"
    );
    assert_eq!(world.server.side().count("tools/call"), 0);
}
