//! A token that is removed while the door is open.

use mainstay_gateway::{DoorTokens, HttpDoor};
use mainstay_testkit::client::Ask;
use mainstay_testkit::{Fault, Rule, Script, Step};
use serde_json::{Value, json};

use crate::http::support::{World, initialize, modern, request, text};

/// Reading resources takes for ever.
fn never_reads() -> Script {
    let silent = Rule::new(Step::of("resources/read"), Fault::NoAnswer).method("resources/read");
    Script {
        rules: vec![silent],
        ..Script::new()
    }
}

fn bearing(ask: Ask, token: &str) -> Ask {
    ask.header("authorization", &format!("Bearer {token}"))
}

/// Opens a session with this token, and returns its id.
async fn session(world: &World, token: &str) -> String {
    let opened = world
        .send(bearing(Ask::post("/mcp/one", &initialize(json!({}))), token))
        .await;
    opened.header("mcp-session-id").expect("a session").to_owned()
}

async fn two_tokens() -> (World, DoorTokens) {
    let door = HttpDoor::new().token("stays").token("goes");
    let tokens = door.tokens();
    (World::with(door, never_reads()).await, tokens)
}

#[tokio::test(start_paused = true)]
async fn what_runs_for_a_token_that_is_removed_is_cut_and_answered_with_its_outcome() {
    let (world, tokens) = two_tokens().await;
    let (goes, stays) = (session(&world, "goes").await, session(&world, "stays").await);
    let mut stream = world.send(bearing(Ask::new("GET", "/sse/one"), "goes")).await;
    let endpoint = stream.event().await.unwrap().data;
    let read = json!({ "uri": "mem://one" });
    let in_session = |id: &str, message: &Value| {
        let ask = Ask::post("/mcp/one", message).header("mcp-session-id", id);
        ask.header("mcp-protocol-version", "2025-11-25")
    };
    let call = |tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 1 } });
        request(2, "tools/call", params)
    };
    // Their responses are held back: each answer is one body.
    let asks = [
        in_session(&goes, &request(1, "resources/read", read.clone())),
        modern("/mcp/one", 1, "resources/read", read.clone()),
    ];
    let asks = asks.map(|ask| tokio::spawn(bearing(ask, "goes").send(world.door.clone())));
    // Of another token, which stays.
    let kept = in_session(&stays, &call("sleep_ms", json!({ "ms": 600_000 })));
    let kept = tokio::spawn(bearing(kept, "stays").send(world.door.clone()));
    let posted = Ask::post(&endpoint, &request(1, "resources/read", read));
    assert_eq!(world.send(bearing(posted, "goes")).await.status, 202);
    let progress = in_session(
        &goes,
        &call("progress", json!({ "steps": 100_000, "interval_ms": 50 })),
    );
    let mut events = world.send(bearing(progress, "goes")).await;
    assert!(events.is_events());
    events.message().await;
    let side = world.server.side();
    side.wait_for("resources/read", 3).await;
    side.wait_for("tools/call", 2).await;

    tokens.replace(["stays"]).unwrap();

    let unknown = json!({ "outcome": "unknown", "server": "one" });
    let mut last = events.message().await;
    while last.get("method").is_some() {
        last = events.message().await;
    }
    assert_eq!(
        (&last["id"], &last["result"]["_meta"]["mainstay"]),
        (&json!(2), &unknown)
    );
    assert!(
        text(&last).starts_with("The token of this client was removed"),
        "{last}"
    );
    assert_eq!(events.event().await, None);
    let mut answers = vec![stream.message().await];
    assert_eq!(stream.event().await, None);
    for ask in asks {
        let reply = ask.await.unwrap();
        assert_eq!(reply.status, 200);
        answers.push(reply.json().await);
    }
    for answer in answers {
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(1), &json!(-32000))
        );
        assert_eq!(answer["error"]["data"]["mainstay"], unknown, "{answer}");
    }
    side.wait_for("notifications/cancelled", 4).await;
    assert!(!kept.is_finished(), "the calls of the other token run on");
    kept.abort();
}
