//! Notifications of clients, and which server receives them.

use mainstay::StateKind;
use mainstay::gateway::message::MAX_MEMBERS;
use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use serde_json::json;

use crate::router::client::{Client, LONG};
use crate::router::{gateway, one, speaking};

const UNKNOWN: &str = "notifications/x-vendor";
const PROGRESS: &str = "notifications/progress";

#[tokio::test]
async fn a_client_s_notification_reaches_the_server_that_it_sees_before_its_next_request() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    // In one write, and many more than the queue to a server holds.
    let odd = r#"{"z":1.0,"a":[ ],"twice":1,"twice":2}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","method":"{UNKNOWN}","params":{odd}}}"#);
    client.write(&[line.as_str(); 300].join("\n")).await;
    client
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    assert_eq!(side.count(UNKNOWN), 300, "all of them, and before the call");
    let received = side.received();
    let [.., last, call] = &received[..] else {
        panic!("{received:?}");
    };
    assert_eq!((last.method(), last.raw_params()), (UNKNOWN, odd));
    assert_eq!(call.method(), "tools/call");
    assert_eq!(b.side(1).await.count(UNKNOWN), 0);
}

#[tokio::test]
async fn a_client_s_notification_with_too_many_members_is_dropped() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    for members in [MAX_MEMBERS, MAX_MEMBERS + 1] {
        let params = vec![r#""":0"#; members].join(",");
        let line = format!(r#"{{"jsonrpc":"2.0","method":"{UNKNOWN}","params":{{{params}}}}}"#);
        client.write(&line).await;
    }
    client
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    assert_eq!(side.count(UNKNOWN), 1, "the one with as many as there may be");
}

#[tokio::test]
async fn a_request_without_an_id_is_refused_and_reaches_no_server() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let mut client = Client::connect(&gateway, one("a"));
    let info = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": info });
    client.ask("initialize", hello).await;
    let params = json!({ "name": "echo", "arguments": {} });
    let without = json!({ "jsonrpc": "2.0", "method": "tools/call", "params": params });
    let null = json!({ "jsonrpc": "2.0", "id": null, "method": "tools/call", "params": params });
    for request in [&without, &null] {
        client.write(&request.to_string()).await;
        let refused = client.message().await;
        assert_eq!(refused["error"]["code"], -32600, "{request}: {refused}");
        client.write(&json!([request]).to_string()).await;
        let refused = client.message().await;
        assert_eq!(
            refused[0]["error"]["code"], -32600,
            "{request} in a batch: {refused}"
        );
    }
    client.ask("tools/call", params).await;
    assert_eq!(side.count("tools/call"), 1, "the one with an id");
}

#[tokio::test]
async fn in_the_union_nothing_says_which_server_it_is_for() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    client.notify(UNKNOWN, json!({})).await;
    for (name, server) in [("a", &a), ("b", &b)] {
        let call = json!({ "name": format!("{name}__echo"), "arguments": {} });
        client.ask("tools/call", call).await;
        assert_eq!(server.side(1).await.count(UNKNOWN), 0);
    }
}

#[tokio::test]
async fn a_client_s_notification_while_the_server_is_down_is_dropped() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    a.set_down(true);
    a.side(1).await.cut();
    let server = gateway.fleet().server("a").unwrap();
    let left = |status: &mainstay::Status| status.state != StateKind::Connected;
    server.wait_until(LONG, left).await.expect("it is seen");
    client.notify(UNKNOWN, json!({})).await;
    client.ask("ping", json!({})).await;
    a.set_down(false);
    client
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    assert_eq!(a.side(2).await.count(UNKNOWN), 0);
}

#[tokio::test]
async fn a_client_s_progress_with_a_question_reaches_the_server_that_asked_under_its_own_token() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let can = json!({ "elicitation": {} });
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, can).await;
    let call = json!({ "name": "a__sleep_ms", "arguments": { "ms": 86_400_000 } });
    client.begin("tools/call", call).await;
    let side = a.side(1).await;
    side.wait_for("tools/call", 1).await;
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?","_meta":{"progressToken":"t\u006fken"}}}"#;
    side.inject(question).await;
    let asked = client.received("elicitation/create").await;
    assert_eq!(asked["params"]["_meta"]["progressToken"], "token");
    client
        .notify(PROGRESS, json!({ "progressToken": "other", "progress": 1 }))
        .await;
    client
        .notify(
            PROGRESS,
            json!({ "progressToken": "token", "progress": 2, "x-new": 1.0 }),
        )
        .await;
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    client.write(&answer.to_string()).await;
    client
        .notify(PROGRESS, json!({ "progressToken": "token", "progress": 3 }))
        .await;
    side.wait_for("", 1).await;
    client
        .ask("tools/call", json!({ "name": "a__echo", "arguments": {} }))
        .await;
    let received = side.received();
    let forwarded: Vec<_> = received
        .iter()
        .filter(|message| message.method() == PROGRESS || message.id() == "q")
        .collect();
    assert_eq!(
        forwarded.len(),
        2,
        "neither another's, nor after the answer: {forwarded:?}"
    );
    let spelt = r#"{"progress":2,"progressToken":"t\u006fken","x-new":1.0}"#;
    assert_eq!(forwarded[0].raw_params(), spelt);
    assert_eq!(forwarded[1].id(), "q", "the answer comes last");
    assert_eq!(b.side(1).await.count(PROGRESS), 0);
}
