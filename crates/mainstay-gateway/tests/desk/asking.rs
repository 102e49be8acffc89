//! Any client in front of any server: what a server asks reaches the client whose call caused it, in the client's way.

use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use serde_json::{Value, json};

use crate::client::{Client, modern};
use crate::{gateway, one, speaking};

const ELICITS: &str = r#"{"name":"ask","arguments":{"kind":"elicitation"}}"#;

fn ask(meta: Option<&Value>) -> Value {
    let mut params: Value = serde_json::from_str(ELICITS).unwrap();
    if let Some(meta) = meta {
        params["_meta"] = meta.clone();
    }
    params
}

#[tokio::test]
async fn a_legacy_client_is_asked_by_a_request_whatever_the_server_speaks() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let a = speaking(speaks);
        let gateway = gateway(&[("a", &a)]).await;
        let (mut client, _) = Client::initialized(&gateway, one("a"), json!({ "elicitation": {} })).await;
        let id = client.begin("tools/call", ask(None)).await;
        let asked = client.heard("elicitation/create").await;
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": { "n": 7 } } });
        client.write(&answer.to_string()).await;
        let done = client.answer(id).await;
        assert!(
            done["result"].to_string().contains(r#""n\":7"#),
            "{speaks:?}: {done}"
        );
        client.leave().await;
    }
}

#[tokio::test]
async fn a_modern_client_is_asked_by_a_result_and_its_retry_finds_the_waiting_call() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let wish = client.ask("tools/call", ask(Some(&meta))).await;
    let wish = &wish["result"];
    assert_eq!(wish["resultType"], "input_required");
    let (key, request) = wish["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");

    let mut retry = ask(Some(&meta));
    retry["requestState"] = wish["requestState"].clone();
    retry["inputResponses"] = json!({ key: { "action": "accept", "content": { "n": 7 } } });
    let done = client.ask("tools/call", retry.clone()).await;
    assert_eq!(done["result"]["resultType"], "complete");
    assert!(done["result"].to_string().contains(r#""n\":7"#), "{done}");
    assert_eq!(side.count("tools/call"), 1, "one call at the server");

    let again = client.ask("tools/call", retry.clone()).await;
    assert_eq!(again["error"]["code"], -32602, "a state is good for one retry");
    retry["requestState"] = json!("mainstay.AAAA");
    let forged = client.ask("tools/call", retry).await;
    assert_eq!(forged["error"]["code"], -32602);
    client.leave().await;
}

#[tokio::test]
async fn a_client_that_never_said_that_it_can_answer_is_not_asked() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let cannot = json!({ "roots": {}, "sampling": {} });
    let (mut legacy, _) = Client::initialized(&gateway, one("a"), cannot.clone()).await;
    let id = legacy.begin("tools/call", ask(None)).await;
    let done = legacy.message().await;
    assert_eq!(done["id"], id, "the answer, and no question before it: {done}");
    assert!(done.to_string().contains("declined"), "{done}");
    legacy.leave().await;

    let mut modern_client = Client::connect(&gateway, one("a"));
    let done = modern_client.ask("tools/call", ask(Some(&modern(&cannot)))).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert!(done.to_string().contains("declined"), "{done}");
    modern_client.leave().await;
}

#[tokio::test]
async fn a_modern_server_s_wish_for_input_passes_to_a_modern_client_as_it_is() {
    let a = speaking(Speaks::Modern);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let wish = client.ask("tools/call", ask(Some(&meta))).await;
    assert_eq!(wish["result"]["requestState"], "state-1", "the server's own");
    let mut retry = ask(Some(&meta));
    retry["requestState"] = json!("state-1");
    retry["inputResponses"] = json!({ "question": { "action": "decline" } });
    let done = client.ask("tools/call", retry).await;
    assert_eq!(
        done["result"]["structuredContent"]["inputResponses"]["question"]["action"],
        "decline"
    );
    client.leave().await;
}

#[tokio::test]
async fn what_nobody_s_call_can_be_known_to_have_caused_is_declined_and_asked_of_no_bystander() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let can = json!({ "elicitation": {} });
    let (mut busy, _) = Client::initialized(&gateway, Scope::Union, can.clone()).await;
    let (mut asker, _) = Client::initialized(&gateway, Scope::Union, can).await;
    let waits = json!({ "name": "a__sleep_ms", "arguments": { "ms": 600_000 } });
    busy.begin("tools/call", waits).await;
    side.wait_for("tools/call", 1).await;
    let asks = json!({ "name": "a__ask", "arguments": { "kind": "elicitation" } });
    let done = asker.ask("tools/call", asks).await;
    assert!(done.to_string().contains("declined"), "{done}");
    for client in [&mut busy, &mut asker] {
        let next = client.begin("ping", json!({})).await;
        assert_eq!(client.message().await["id"], next, "nobody was asked");
    }
}
