//! The calls that one client may have under way on a server, and what is left for the others.

use std::time::Duration;

use mainstay::{Fleet, StateKind};
use mainstay_gateway::Gateway;
use mainstay_testkit::Speaks;
use mainstay_testkit::fleet::connected;
use serde_json::json;

use crate::router::client::{Client, LONG};
use crate::router::{gateway, gateway_for_one, one, speaking};

#[tokio::test]
async fn one_client_cannot_take_all_places_for_calls_at_a_server() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut busy, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let slow = || json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 } });
    let mut running = Vec::new();
    for _ in 0..192 {
        running.push(busy.begin("tools/call", slow()).await);
    }
    side.wait_for("tools/call", 192).await;
    let echo = || json!({ "name": "echo", "arguments": { "x": 1 } });
    let waiting = busy.begin("tools/call", echo()).await;

    let slow_of_other = other.begin("tools/call", slow()).await;
    side.wait_for("tools/call", 193).await;
    let answer = other.ask("tools/call", echo()).await;
    assert_eq!(answer["result"]["structuredContent"]["x"], 1, "{answer}");
    // Beside another client it has a quarter.
    for id in running.drain(..128) {
        busy.notify("notifications/cancelled", json!({ "requestId": id }))
            .await;
    }
    side.wait_for("notifications/cancelled", 128).await;
    let answer = other.ask("tools/call", echo()).await;
    assert_eq!(answer["result"]["structuredContent"]["x"], 1, "{answer}");
    assert_eq!(side.count("tools/call"), 195, "one call waits");
    other
        .notify("notifications/cancelled", json!({ "requestId": slow_of_other }))
        .await;
    let answer = busy.answer(waiting).await;
    assert_eq!(answer["result"]["structuredContent"]["x"], 1, "{answer}");
}

#[tokio::test]
async fn a_call_that_gets_no_place_in_time_did_not_run_and_says_why() {
    let a = speaking(Speaks::Legacy);
    let config = a
        .config("a")
        .wait_timeout(Duration::from_millis(1))
        .build()
        .unwrap();
    let gateway = Gateway::start(Fleet::builder(), [config]);
    let server = gateway.fleet().server("a").unwrap();
    connected(&server).await;
    let side = a.side(1).await;
    let (mut busy, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let slow = || json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 } });
    for _ in 0..192 {
        busy.begin("tools/call", slow()).await;
    }
    side.wait_for("tools/call", 192).await;
    let refused = busy.ask("tools/call", slow()).await;
    let facts = json!({ "outcome": "not_sent", "server": "a" });
    assert_eq!(refused["result"]["_meta"]["mainstay"], facts, "{refused}");
    let words = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        words.starts_with("192 calls of this client wait for server a or run there"),
        "{words}"
    );
    assert!(
        words.contains("waited") && words.contains("or cancel one"),
        "{words}"
    );
    let refused = busy.ask("resources/read", json!({ "uri": "mem://one" })).await;
    assert_eq!(refused["error"]["data"]["mainstay"], facts, "{refused}");
    assert_eq!(side.count("tools/call"), 192);
}

#[tokio::test]
async fn one_client_cannot_take_all_places_among_the_calls_that_wait_for_a_server() {
    let a = speaking(Speaks::Legacy);
    let config = a.config("a").waiters(4).build().unwrap();
    let gateway = Gateway::start(Fleet::builder(), [config]);
    let server = gateway.fleet().server("a").unwrap();
    connected(&server).await;
    let (mut busy, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    a.set_down(true);
    a.side(1).await.cut();
    let is_down = server.wait_until(LONG, |status| status.state != StateKind::Connected);
    is_down.await.unwrap();
    let echo = || json!({ "name": "echo", "arguments": { "x": 1 } });
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(busy.begin("tools/call", echo()).await);
    }
    let refused = busy.ask("tools/call", echo()).await;
    let words = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(words.starts_with("3 calls of this client wait"), "{words}");
    let call = other.begin("tools/call", echo()).await;
    // In order: the call waits by the time that this is answered.
    other.ask("ping", json!({})).await;
    a.set_down(false);
    let answer = other.answer(call).await;
    assert_eq!(answer["result"]["structuredContent"]["x"], 1, "{answer}");
    for id in waiting {
        assert!(busy.answer(id).await["result"]["isError"] != true);
    }
}

#[tokio::test]
async fn the_only_client_of_a_gateway_has_all_places_at_a_server() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway_for_one(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    for _ in 0..300 {
        let slow = json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 } });
        client.begin("tools/call", slow).await;
    }
    a.side(1).await.wait_for("tools/call", 300).await;
}
