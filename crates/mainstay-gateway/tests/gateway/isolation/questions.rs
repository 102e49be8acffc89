//! What a session's own server asks is asked of that session, whether a call runs or not.

use mainstay_gateway::Scope;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};

use crate::isolation::{call, gateway, server};
use crate::router::client::{Client, modern};

async fn asks(side: &MemoryServer, id: u64, method: &str) {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} });
    side.inject_message(&request).await;
}

/// The answer that a server got to its request.
async fn answered(side: &MemoryServer, count: usize) -> Value {
    side.wait_for("", count).await;
    let received = side.received();
    let answers = received.iter().rev().find(|message| message.method().is_empty());
    answers.expect("an answer").outcome().clone()
}

#[tokio::test]
async fn a_question_of_an_own_server_outside_of_calls_reaches_its_session_alone() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let can = json!({ "roots": { "listChanged": true }, "sampling": {} });
    let (mut one, _) = Client::initialized(&gateway, Scope::Union, can.clone()).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Union, can.clone()).await;
    for client in [&mut one, &mut two] {
        client.ask("tools/call", call("own__echo", json!({}))).await;
    }
    let side = own.side(2).await;
    assert_eq!(
        side.last_params("initialize").unwrap()["capabilities"],
        can,
        "what its one client can answer"
    );
    for (n, method) in [(1, "roots/list"), (2, "sampling/createMessage")] {
        asks(&side, n, method).await;
        let asked = one.received(method).await;
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "n": n } });
        one.write(&answer.to_string()).await;
        let count = usize::try_from(n).unwrap();
        assert_eq!(answered(&side, count).await, json!({ "result": { "n": n } }));
    }
    let next = two.begin("ping", json!({})).await;
    assert_eq!(two.message().await["id"], next, "a bystander is not asked");

    one.notify("notifications/roots/list_changed", json!({})).await;
    side.wait_for("notifications/roots/list_changed", 1).await;
    assert_eq!(
        own.side(3).await.count("notifications/roots/list_changed"),
        0,
        "another's roots are as they were"
    );
    one.leave().await;
    two.leave().await;
}

#[tokio::test]
async fn what_it_asks_is_never_in_doubt_not_even_after_a_cancelled_call() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut client, _) =
        Client::initialized(&gateway, Scope::Server("own".into()), json!({ "roots": {} })).await;
    client.ask("tools/call", call("echo", json!({}))).await;
    let side = own.side(2).await;
    let slow = client
        .begin("tools/call", call("sleep_ms", json!({ "ms": 60_000 })))
        .await;
    side.wait_for("tools/call", 2).await;
    client
        .notify("notifications/cancelled", json!({ "requestId": slow }))
        .await;
    side.wait_for("notifications/cancelled", 1).await;
    asks(&side, 1, "roots/list").await;
    let asked = client.received("roots/list").await;
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } });
    client.write(&answer.to_string()).await;
    assert_eq!(answered(&side, 1).await, json!({ "result": { "roots": [] } }));
    client.leave().await;
}

#[tokio::test]
async fn a_question_of_the_template_server_is_declined() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let can = json!({ "roots": {}, "sampling": {} });
    let (mut only, _) = Client::initialized(&gateway, Scope::Union, can).await;
    only.ask("tools/call", call("own__echo", json!({}))).await;
    let template = own.side(1).await;
    asks(&template, 1, "roots/list").await;
    let declined = answered(&template, 1).await;
    assert_eq!(declined["error"]["code"], -32600, "{declined}");
    let next = only.begin("ping", json!({})).await;
    assert_eq!(only.message().await["id"], next, "it has a server of its own");
    only.leave().await;
}

#[tokio::test]
async fn a_notification_of_an_own_server_outside_of_calls_reaches_its_session() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut one, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for client in [&mut one, &mut two] {
        client.ask("tools/call", call("own__echo", json!({}))).await;
    }
    let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "hot" } });
    own.side(2).await.inject_message(&log).await;
    let received = one.received("notifications/message").await;
    assert_eq!(received["params"]["data"], "hot");
    let next = two.begin("ping", json!({})).await;
    assert_eq!(two.message().await["id"], next);
    one.leave().await;
    two.leave().await;
}

#[tokio::test]
async fn a_client_s_notification_reaches_its_own_server_alone_and_starts_none() {
    const UNKNOWN: &str = "notifications/x-vendor";
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut one, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    one.notify(UNKNOWN, json!({ "n": 0 })).await;
    for client in [&mut one, &mut two] {
        client.ask("tools/call", call("echo", json!({}))).await;
    }
    one.notify(UNKNOWN, json!({ "n": 1 })).await;
    one.ask("tools/call", call("echo", json!({}))).await;
    let side = own.side(2).await;
    assert_eq!(side.count(UNKNOWN), 1, "nothing ran when it was first notified");
    assert_eq!(side.last_params(UNKNOWN), Some(json!({ "n": 1 })));
    for other in [own.side(1).await, own.side(3).await, all.side(1).await] {
        assert_eq!(other.count(UNKNOWN), 0);
    }
    one.leave().await;
    two.leave().await;
}

#[tokio::test]
async fn a_client_that_opened_no_session_is_not_asked_outside_of_its_calls() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let mut client = Client::connect(&gateway, Scope::Server("own".into()));
    let mut params = call("echo", json!({}));
    params["_meta"] = modern(&json!({ "roots": {} }));
    client.ask("tools/call", params).await;
    let side = own.side(2).await;
    asks(&side, 1, "roots/list").await;
    let declined = answered(&side, 1).await;
    assert_eq!(declined["error"]["code"], -32600, "{declined}");
    assert!(
        declined.to_string().contains("only while a call of it runs"),
        "{declined}"
    );
    client.leave().await;
}
