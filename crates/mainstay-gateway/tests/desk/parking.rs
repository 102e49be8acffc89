//! Calls that wait for the answer of a modern client which may never come back.

use std::time::Duration;

use mainstay_testkit::Speaks;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, modern};
use crate::{gateway, one, speaking};

fn asks(meta: Option<&Value>) -> Value {
    let mut params = json!({ "name": "ask", "arguments": { "kind": "elicitation" } });
    if let Some(meta) = meta {
        params["_meta"] = meta.clone();
    }
    params
}

/// The clock stands still except where the test waits.
#[tokio::test(start_paused = true)]
async fn a_call_whose_client_does_not_come_back_gives_way_to_others_after_a_while() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let can = json!({ "elicitation": {} });
    let mut absent = Client::connect(&gateway, one("a"));
    let wish = absent.ask("tools/call", asks(Some(&modern(&can)))).await;
    assert_eq!(wish["result"]["resultType"], "input_required");
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(side.count("notifications/cancelled"), 0, "it is in nobody's way");

    let (mut other, _) = Client::initialized(&gateway, one("a"), can).await;
    other
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    let called = Instant::now();
    side.wait_for("notifications/cancelled", 1).await;
    assert!(
        called.elapsed() < Duration::from_secs(60),
        "it had its time before"
    );
    let mut retry = asks(Some(&modern(&json!({ "elicitation": {} }))));
    retry["requestState"] = wish["result"]["requestState"].clone();
    let late = absent.ask("tools/call", retry).await;
    assert!(
        late["error"]["message"].as_str().unwrap().contains("call again"),
        "{late}"
    );

    // A server may hear late that a call was given up: only then is a question known to be for the other.
    tokio::time::sleep(Duration::from_secs(31)).await;
    let id = other.begin("tools/call", asks(None)).await;
    let asked = other.heard("elicitation/create").await;
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    other.write(&answer.to_string()).await;
    assert!(other.answer(id).await.to_string().contains("decline"));
}

#[tokio::test(start_paused = true)]
async fn a_person_who_answers_soon_is_waited_for_though_others_call() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let wish = client.ask("tools/call", asks(Some(&meta))).await["result"].clone();
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    other
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    tokio::time::sleep(Duration::from_secs(110)).await;
    let mut retry = asks(Some(&meta));
    retry["requestState"] = wish["requestState"].clone();
    let key = wish["inputRequests"].as_object().unwrap().keys().next().unwrap();
    retry["inputResponses"] = json!({ key: { "action": "decline" } });
    let done = client.ask("tools/call", retry).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
}
