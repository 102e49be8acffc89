//! Progress, cancellation, logs: what belongs to a call on its way.

use mainstay_gateway::Scope;
use mainstay_testkit::Speaks;
use serde_json::json;

use crate::router::client::{Client, modern};
use crate::router::{gateway, one, speaking};

#[tokio::test]
async fn progress_comes_under_the_client_s_own_token_and_before_the_answer() {
    for (speaks, client_is_modern) in [
        (Speaks::Legacy, false),
        (Speaks::Modern, false),
        (Speaks::Legacy, true),
        (Speaks::Modern, true),
    ] {
        let a = speaking(speaks);
        let gateway = gateway(&[("a", &a)]).await;
        let mut client = Client::connect(&gateway, one("a"));
        let mut meta = if client_is_modern {
            modern(&json!({}))
        } else {
            json!({})
        };
        meta["progressToken"] = json!("mine");
        let params = json!({ "name": "progress", "arguments": { "steps": 3 }, "_meta": meta });
        let id = client.begin("tools/call", params).await;
        for _ in 0..3 {
            let progress = client.message().await;
            assert_eq!(
                progress["method"], "notifications/progress",
                "{speaks:?} {progress}"
            );
            assert_eq!(progress["params"]["progressToken"], "mine");
        }
        assert_eq!(client.message().await["id"], id);
        client.leave().await;
    }
}

#[tokio::test]
async fn a_cancelled_request_is_cancelled_at_the_server_and_not_answered() {
    for client_is_modern in [false, true] {
        let a = speaking(Speaks::Legacy);
        let gateway = gateway(&[("a", &a)]).await;
        let side = a.side(1).await;
        let mut client = Client::connect(&gateway, one("a"));
        let meta = if client_is_modern {
            modern(&json!({}))
        } else {
            json!({})
        };
        let params = json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 }, "_meta": meta });
        let id = client.begin("tools/call", params).await;
        side.wait_for("tools/call", 1).await;
        client
            .notify("notifications/cancelled", json!({ "requestId": id }))
            .await;
        side.wait_for("notifications/cancelled", 1).await;
        let next = client.begin("ping", json!({})).await;
        assert_eq!(
            client.message().await["id"],
            next,
            "no answer to what was cancelled"
        );
        client.leave().await;
    }
}

#[tokio::test]
async fn a_log_message_goes_to_the_client_whose_call_caused_it_at_the_level_it_wants() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut caller, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut bystander, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let log = |level: &str| json!({ "name": "a__log", "arguments": { "level": level, "text": level } });
    caller
        .ask("logging/setLevel", json!({ "level": "warning" }))
        .await;
    caller.ask("tools/call", log("info")).await;
    caller.ask("tools/call", log("error")).await;
    let received = caller.received("notifications/message").await;
    assert_eq!(
        received["params"]["level"], "error",
        "info is below what it wants"
    );
    let next = bystander.begin("ping", json!({})).await;
    assert_eq!(
        bystander.message().await["id"],
        next,
        "a bystander receives nothing"
    );
    let unknown = caller.ask("logging/setLevel", json!({ "level": "loud" })).await;
    assert_eq!(unknown["error"]["code"], -32602);
}

#[tokio::test]
async fn a_resource_that_is_not_there_has_the_code_of_the_client_s_era() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    for (meta, code) in [(json!({}), -32002), (modern(&json!({})), -32602)] {
        let missing = client
            .ask("resources/read", json!({ "uri": "nowhere://", "_meta": meta }))
            .await;
        assert_eq!(missing["error"]["code"], code, "{missing}");
        assert_eq!(missing["error"]["message"], "no such resource: nowhere://");
    }
    client.leave().await;
}

#[tokio::test]
async fn what_a_modern_client_reads_from_a_legacy_server_says_that_it_must_not_be_kept() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let read = |meta| json!({ "uri": "mem://one", "_meta": meta });
    let answer = client.ask("resources/read", read(modern(&json!({})))).await;
    let result = &answer["result"];
    assert_eq!(
        (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private")),
        "{answer}"
    );
    client.leave().await;

    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let answer = client.ask("resources/read", read(json!({}))).await;
    assert!(answer["result"]["contents"].is_array(), "{answer}");
    assert!(
        answer["result"].get("ttlMs").is_none(),
        "a legacy client gets what the server answered"
    );
}
