//! Any client in front of any server: what a server asks reaches the client whose call caused it, in the client's way.

use std::time::Duration;

use mainstay::{Era, Fleet};
use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::fleet::{Memory, connected};
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::router::client::{Client, LONG, modern};
use crate::router::{gateway, one, speaking};

const ELICITS: &str = r#"{"name":"ask","arguments":{"kind":"elicitation"}}"#;

fn ask(meta: Option<&Value>) -> Value {
    let mut params: Value = serde_json::from_str(ELICITS).unwrap();
    if let Some(meta) = meta {
        params["_meta"] = meta.clone();
    }
    params
}

#[tokio::test]
async fn a_legacy_client_is_asked_by_a_request_whatever_the_server_s_era() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let a = speaking(speaks);
        let gateway = gateway(&[("a", &a)]).await;
        let (mut client, _) = Client::initialized(&gateway, one("a"), json!({ "elicitation": {} })).await;
        let id = client.begin("tools/call", ask(None)).await;
        let asked = client.received("elicitation/create").await;
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
    let input_required = client.ask("tools/call", ask(Some(&meta))).await;
    let input_required = &input_required["result"];
    assert_eq!(input_required["resultType"], "input_required");
    let (key, request) = input_required["inputRequests"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    assert_eq!(request["method"], "elicitation/create");

    let mut retry = ask(Some(&meta));
    retry["requestState"] = input_required["requestState"].clone();
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

/// The clock stands still unless every task waits.
#[tokio::test(start_paused = true)]
async fn a_call_whose_client_does_not_come_back_ends_in_its_own_time_and_says_so_when_it_does() {
    let a = speaking(Speaks::Legacy);
    let config = a
        .config("a")
        .call_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let gateway = Gateway::start(Fleet::builder(), [config]);
    connected(&gateway.fleet().server("a").unwrap()).await;
    let side = a.side(1).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let input_required = client.ask("tools/call", ask(Some(&meta))).await["result"].clone();
    assert_eq!(input_required["resultType"], "input_required");
    // No client comes back for it, and the server gets a cancellation.
    let over = timeout(LONG, side.wait_for("notifications/cancelled", 1)).await;
    over.expect("the call is over");

    let mut retry = ask(Some(&meta));
    retry["requestState"] = input_required["requestState"].clone();
    retry["inputResponses"] = json!({ "request": { "action": "decline" } });
    let late = client.ask("tools/call", retry).await;
    assert_eq!(
        late["result"]["_meta"]["mainstay"]["outcome"], "unknown",
        "{late}"
    );
    client.leave().await;
}

#[tokio::test]
async fn a_retry_without_the_answer_is_asked_again_and_finds_the_same_call() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let mut input_required = client.ask("tools/call", ask(Some(&meta))).await["result"].clone();
    let mut retry = ask(Some(&meta));
    for answers in [json!({}), json!({ "other": { "action": "accept" } }), Value::Null] {
        retry["requestState"] = input_required["requestState"].clone();
        retry["inputResponses"] = answers;
        let again = client.ask("tools/call", retry.clone()).await["result"].clone();
        assert_eq!(again["inputRequests"], input_required["inputRequests"], "{again}");
        assert_ne!(again["requestState"], input_required["requestState"]);
        input_required = again;
    }
    let key = input_required["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap();
    retry["inputResponses"] = json!({ key: { "action": "decline" } });
    retry["requestState"] = input_required["requestState"].clone();
    let done = client.ask("tools/call", retry).await;
    assert!(done["result"].to_string().contains("decline"), "{done}");
    assert_eq!(side.count("tools/call"), 1, "one call at the server");
    client.leave().await;
}

#[tokio::test]
async fn a_client_is_not_asked_for_what_it_did_not_declare() {
    for era in [Era::Legacy, Era::Modern] {
        let a = speaking(Speaks::Legacy);
        let gateway = gateway(&[("a", &a)]).await;
        let (mut client, meta) = match era {
            Era::Legacy => (
                Client::initialized(&gateway, one("a"), json!({ "sampling": {} }))
                    .await
                    .0,
                None,
            ),
            Era::Modern => (
                Client::connect(&gateway, one("a")),
                Some(modern(&json!({ "sampling": {} }))),
            ),
        };
        let done = client.ask("tools/call", ask(meta.as_ref())).await;
        let received = done["result"]["structuredContent"]["error"].clone();
        assert_eq!(
            received["code"], -32601,
            "the server gets the error, and can do without: {done}"
        );
        client.leave().await;
    }
}

#[tokio::test]
async fn a_call_that_fails_for_what_a_modern_client_did_not_declare_says_what_is_missing() {
    for if_declined in ["fail", "refuse"] {
        let a = speaking(Speaks::Legacy);
        let gateway = gateway(&[("a", &a)]).await;
        let mut client = Client::connect(&gateway, one("a"));
        let mut params = ask(Some(&modern(&json!({}))));
        params["arguments"]["if_declined"] = json!(if_declined);
        let failed = client.ask("tools/call", params.clone()).await;
        assert_eq!(failed["error"]["code"], -32021, "{if_declined}: {failed}");
        assert_eq!(
            failed["error"]["data"]["requiredCapabilities"],
            json!({ "elicitation": {} })
        );
        // A client that could have been asked, and declines, gets what the server made of it.
        params["_meta"] = modern(&json!({ "elicitation": {} }));
        let input_required = client.ask("tools/call", params).await;
        assert_eq!(input_required["result"]["resultType"], "input_required");
        client.leave().await;
    }
}

#[tokio::test]
async fn a_legacy_server_can_ask_for_the_roots_of_its_caller() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let declared = a.side(1).await.last_params("initialize").unwrap()["capabilities"].clone();
    assert!(declared["roots"].is_object(), "{declared}");
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({ "roots": {} })).await;
    let id = client
        .begin(
            "tools/call",
            json!({ "name": "ask", "arguments": { "kind": "roots" } }),
        )
        .await;
    let asked = client.received("roots/list").await;
    let roots = json!({ "roots": [{ "uri": "file:///here" }] });
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": roots });
    client.write(&answer.to_string()).await;
    assert!(client.answer(id).await.to_string().contains("file:///here"));
    client.leave().await;
}

#[tokio::test]
async fn input_required_of_a_modern_server_passes_to_a_modern_client_as_it_is() {
    let a = speaking(Speaks::Modern);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let input_required = client.ask("tools/call", ask(Some(&meta))).await;
    assert_eq!(
        input_required["result"]["requestState"], "state-1",
        "the server's own"
    );
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
async fn a_question_that_no_single_call_can_have_caused_is_declined() {
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
        assert_eq!(client.message().await["id"], next, "no client was asked");
    }
}

#[tokio::test]
async fn retries_without_an_answer_leave_nothing_behind() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let meta = modern(&json!({ "elicitation": {} }));
    let mut input_required = client.ask("tools/call", ask(Some(&meta))).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..50 {
        let mut retry = ask(Some(&meta));
        retry["requestState"] = input_required["result"]["requestState"].clone();
        input_required = client.ask("tools/call", retry).await;
        assert_eq!(
            input_required["result"]["resultType"], "input_required",
            "{input_required}"
        );
    }
    assert!(tasks() < before + 10, "{} tasks, {before} before", tasks());
    client.leave().await;
}

#[tokio::test]
async fn a_cancelled_call_keeps_no_question_from_others_once_the_server_has_answered_it() {
    let silent = Rule::new(Step::Call, Fault::NoAnswer).named("echo");
    let a = Memory::new(Script::new().rule(silent));
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let can = json!({ "elicitation": {} });
    let (mut leaving, _) = Client::initialized(&gateway, one("a"), can.clone()).await;
    let (mut asker, _) = Client::initialized(&gateway, one("a"), can).await;
    let call = leaving
        .begin("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    side.wait_for("tools/call", 1).await;
    let received = side.received();
    let at_server = received
        .iter()
        .rev()
        .find(|message| message.method() == "tools/call");
    let id = at_server.expect("the call").id().clone();
    leaving
        .notify("notifications/cancelled", json!({ "requestId": call }))
        .await;
    side.wait_for("notifications/cancelled", 1).await;
    let done = asker.ask("tools/call", ask(None)).await;
    assert!(
        done.to_string().contains("declined"),
        "it may be for the cancelled call: {done}"
    );

    side.inject_message(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
        .await;
    let call = asker.begin("tools/call", ask(None)).await;
    let asked = asker.received("elicitation/create").await;
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": { "n": 7 } } });
    asker.write(&answer.to_string()).await;
    let done = asker.answer(call).await;
    assert!(done["result"].to_string().contains(r#""n\":7"#), "{done}");
}
