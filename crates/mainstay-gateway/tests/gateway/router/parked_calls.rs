//! Calls that wait for the answer of a modern client which may never come back.

use std::time::Duration;

use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::router::client::{Client, modern};
use crate::router::{gateway, one, speaking};

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
    let input_required = absent.ask("tools/call", asks(Some(&modern(&can)))).await;
    assert_eq!(input_required["result"]["resultType"], "input_required");
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(
        side.count("notifications/cancelled"),
        0,
        "it is in no other client's way"
    );

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
    retry["requestState"] = input_required["result"]["requestState"].clone();
    let late = absent.ask("tools/call", retry).await;
    assert!(
        late["error"]["message"].as_str().unwrap().contains("call again"),
        "{late}"
    );

    // The cancellation of a call may reach its server late: only then is a question known to be for the other.
    tokio::time::sleep(Duration::from_secs(31)).await;
    let id = other.begin("tools/call", asks(None)).await;
    let asked = other.received("elicitation/create").await;
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    other.write(&answer.to_string()).await;
    assert!(other.answer(id).await.to_string().contains("decline"));
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_waits_two_minutes_though_others_call() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let input_required = client.ask("tools/call", asks(Some(&meta))).await["result"].clone();
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    other
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    tokio::time::sleep(Duration::from_secs(110)).await;
    let mut retry = asks(Some(&meta));
    retry["requestState"] = input_required["requestState"].clone();
    let key = input_required["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap();
    retry["inputResponses"] = json!({ key: { "action": "decline" } });
    let done = client.ask("tools/call", retry).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
}

/// Parks a call at this server, or returns the error.
async fn parks_at(client: &mut Client, server: usize) -> Value {
    let mut params = asks(Some(&modern(&json!({ "elicitation": {} }))));
    params["name"] = json!(format!("s{server}__ask"));
    client.ask("tools/call", params).await
}

#[tokio::test]
async fn one_client_cannot_keep_another_from_parking_a_call() {
    // A server for each call: nothing tells whose a question is while several calls run at one.
    let names: Vec<_> = (0..130).map(|n| format!("s{n}")).collect();
    let memories: Vec<_> = names.iter().map(|_| speaking(Speaks::Legacy)).collect();
    let servers: Vec<_> = names.iter().map(String::as_str).zip(&memories).collect();
    let gateway = gateway(&servers).await;
    let mut greedy = Client::connect(&gateway, Scope::Union);
    for server in 0..128 {
        let input_required = parks_at(&mut greedy, server).await;
        assert_eq!(
            input_required["result"]["resultType"], "input_required",
            "{server}: {input_required}"
        );
    }
    let refused = parks_at(&mut greedy, 128).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("128 calls of this client wait"), "{words}");
    memories[128]
        .side(1)
        .await
        .wait_for("notifications/cancelled", 1)
        .await;
    let mut other = Client::connect(&gateway, Scope::Union);
    let input_required = parks_at(&mut other, 129).await;
    assert_eq!(
        input_required["result"]["resultType"], "input_required",
        "another client still parks: {input_required}"
    );
}
