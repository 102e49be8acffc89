//! How the door is closed.

use std::time::Duration;

use mainstay::{CallErrorKind, Era, Fleet, ServerConfig, StateKind};
use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::{Ask, LONG};
use mainstay_testkit::{Fault, Rule, Script, Step};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use crate::http::support::{World, initialize, modern, request, text};

#[tokio::test(start_paused = true)]
async fn what_runs_is_finished_listens_are_ended_and_nothing_new_begins() {
    let mut world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut listen = world
        .send(modern("/mcp/one", 1, "subscriptions/listen", wanted))
        .await;
    listen.message().await;
    let mut running = session.call(2, "ask", json!({ "kind": "elicitation" })).await;
    let asked = running.message().await;
    world.stop();
    let ended = listen.message().await;
    assert_eq!(
        (&ended["id"], &ended["result"]["resultType"]),
        (&json!(1), &json!("complete"))
    );
    assert_eq!(listen.event().await, None);
    let refused = [
        Ask::post("/mcp", &initialize(json!({}))),
        modern("/mcp", 3, "server/discover", json!({})),
        session.sign(Ask::post("/mcp/one", &request(4, "ping", json!({})))),
        Ask::new("GET", "/sse"),
    ];
    for ask in refused {
        let reply = world.send(ask).await;
        assert!(reply.header("retry-after").is_some());
        assert_eq!(reply.refusal().await, (503, -32000));
    }
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": { "name": "Ada" } } });
    assert_eq!(
        session.post(&answer).await.status,
        202,
        "what a running call waits for comes in"
    );
    assert!(text(&running.message().await).contains("Ada"));
    let closed = timeout(LONG, world.serving).await.expect("closed in time");
    closed.unwrap().unwrap();
    assert!(world.door.connect().await.is_err(), "the port is closed");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_cut_and_cancelled() {
    let mut world = World::open(HttpDoor::new().drain_within(Duration::from_millis(100))).await;
    let session = world.session("/mcp/one").await;
    let mut standing = session.listen(None).await;
    let arguments = json!({ "steps": 1000, "interval_ms": 50 });
    let mut running = session.call_with_progress(1, "progress", arguments).await;
    running.message().await;
    world.stop();
    let mut last = running.message().await;
    while last.get("method").is_some() {
        last = running.message().await;
    }
    let facts = &last["result"]["_meta"]["mainstay"];
    assert_eq!(
        (&last["id"], facts),
        (&json!(1), &json!({ "outcome": "unknown", "server": "one" }))
    );
    assert!(text(&last).contains("shut down"), "{last}");
    assert_eq!(running.event().await, None);
    assert_eq!(standing.event().await, None);
    let closed = timeout(LONG, world.serving).await.expect("closed in time");
    closed.unwrap().unwrap();
    world.server.side().wait_for("notifications/cancelled", 1).await;
}

#[tokio::test]
async fn a_mainstay_in_front_of_the_gateway_knows_that_a_refused_call_did_not_run() {
    let mut world = World::on_a_port(HttpDoor::new(), Script::new()).await;
    let address = format!("http://{}/mcp/one", world.door);
    let front = |name, era| {
        ServerConfig::http(name, address.as_str())
            .era(era)
            .build()
            .unwrap()
    };
    let fleet = Fleet::builder().start([front("legacy", Era::Legacy), front("modern", Era::Modern)]);
    for server in fleet.servers() {
        server.wait_connected(LONG).await.unwrap();
    }
    // A call that runs keeps the door from being closed.
    let session = world.session("/mcp/one").await;
    let mut running = session.call(1, "ask", json!({ "kind": "elicitation" })).await;
    running.message().await;
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut listen = world
        .send(modern("/mcp/one", 2, "subscriptions/listen", wanted))
        .await;
    listen.message().await;
    world.stop();
    listen.message().await;

    for server in fleet.servers() {
        let refused = server.call("echo", &json!({})).await.unwrap_err();
        let CallErrorKind::Rpc(error) = &refused.kind else {
            panic!("{refused:?}");
        };
        let facts: Value = error.data().unwrap().parse().unwrap();
        assert_eq!(facts, json!({ "mainstay": { "outcome": "not_sent" } }));
    }
}

/// Reading resources takes for ever.
fn never_reads() -> Script {
    let silent = Rule::new(Step::of("resources/read"), Fault::NoAnswer).method("resources/read");
    Script {
        rules: vec![silent],
        ..Script::new()
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_that_is_cut_is_answered_with_its_outcome_whichever_way_it_came() {
    let door = HttpDoor::new().drain_within(Duration::from_millis(100));
    let mut world = World::with(door, never_reads()).await;
    let session = world.session("/mcp/one").await;
    let mut stream = world.send(Ask::new("GET", "/sse/one")).await;
    let endpoint = stream.event().await.unwrap().data;
    let read = json!({ "uri": "mem://one" });
    // All of them hold back the heads of their responses: the answer is one body.
    let asks = [
        session.sign(Ask::post("/mcp/one", &request(1, "resources/read", read.clone()))),
        modern("/mcp/one", 1, "resources/read", read.clone()),
        session.sign(Ask::post(
            "/mcp/one",
            &request(
                2,
                "tools/call",
                json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 } }),
            ),
        )),
    ];
    let asks = asks.map(|ask| tokio::spawn(ask.send(world.door.clone())));
    let posted = Ask::post(&endpoint, &request(1, "resources/read", read));
    assert_eq!(world.send(posted).await.status, 202);
    let side = world.server.side();
    side.wait_for("resources/read", 3).await;
    side.wait_for("tools/call", 1).await;
    world.stop();
    let mut answers = vec![stream.message().await];
    assert_eq!(stream.event().await, None);
    for ask in asks {
        let reply = ask.await.unwrap();
        assert_eq!(reply.status, 200);
        answers.push(reply.json().await);
    }
    let call = answers.pop().unwrap();
    assert_eq!(
        call["result"]["_meta"]["mainstay"]["outcome"], "unknown",
        "{call}"
    );
    for answer in answers {
        assert_eq!(answer["id"], 1);
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        let facts = &answer["error"]["data"]["mainstay"];
        assert_eq!(
            *facts,
            json!({ "outcome": "unknown", "server": "one" }),
            "{answer}"
        );
    }
    let closed = timeout(LONG, world.serving).await.expect("closed in time");
    closed.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cut_while_it_waits_for_its_server_was_not_sent() {
    let mut world = World::open(HttpDoor::new().drain_within(Duration::from_millis(100))).await;
    let session = world.session("/mcp/one").await;
    world.server.set_down(true);
    world.server.side().cut();
    let server = world.gateway.fleet().server("one").unwrap();
    let is_down = server.wait_until(LONG, |status| status.state != StateKind::Connected);
    is_down.await.unwrap();
    let read = request(1, "resources/read", json!({ "uri": "mem://one" }));
    let ask = session
        .sign(Ask::post("/mcp/one", &read))
        .send(world.door.clone());
    let ask = tokio::spawn(ask);
    while world
        .gateway
        .sessions()
        .iter()
        .all(|session| session.running.is_empty())
    {
        tokio::task::yield_now().await;
    }
    world.stop();
    let answer = ask.await.unwrap().json().await;
    let facts = &answer["error"]["data"]["mainstay"];
    assert_eq!(facts["outcome"], "not_sent", "{answer}");
}

/// Closes the door, and says how long that took.
async fn closed(mut world: World) -> Duration {
    let began = Instant::now();
    world.stop();
    let closed = timeout(LONG, world.serving).await.expect("closed in time");
    closed.unwrap().unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_not_finished_asking_does_not_hold_up_the_end() {
    let world = World::open(HttpDoor::new()).await;
    let text = modern("/mcp", 1, "server/discover", json!({})).text(&world.door);
    let mut halves = Vec::new();
    for sent in ["", &text[..10], &text[..text.len() - 5]] {
        let mut half = world.connect().await;
        half.write_all(sent.as_bytes()).await.unwrap();
        // It was accepted and read before this, which came later.
        let asked = modern("/mcp", 1, "server/discover", json!({}));
        assert_eq!(world.send(asked).await.status, 200);
        halves.push(half);
    }
    let took = closed(world).await;
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_has_a_second_for_its_answer() {
    let world = World::open(HttpDoor::new()).await;
    let call = json!({ "name": "big", "arguments": { "bytes": 12_000_000 } });
    let mut stream = world
        .send_unread(&modern("/mcp/one", 1, "tools/call", call))
        .await;
    stream.read_u8().await.expect("the beginning of an answer");
    let took = closed(world).await;
    assert!(took >= Duration::from_millis(900), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}
