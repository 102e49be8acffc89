//! The era without sessions.

use serde_json::json;

use super::client::{Client, LIMIT, modern, request};
use crate::http::{FaultyHttpServer, HttpScript, Traffic};
use crate::script::{MODERN_VERSION, Script, Speaks};

async fn start(speaks: Speaks) -> FaultyHttpServer {
    let script = Script::new().speaks(speaks);
    FaultyHttpServer::start(script, HttpScript::new()).await.unwrap()
}

#[tokio::test]
async fn there_is_no_session_and_neither_get_nor_delete() {
    let server = start(Speaks::Modern).await;
    let mut client = Client::connect(server.port()).await;
    let answer = client.post_modern(&modern(1, "server/discover", json!({}))).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.session(), "");
    assert_eq!(answer.json()["result"]["supportedVersions"][0], MODERN_VERSION);
    assert_eq!(client.ask("GET /mcp", &[], "").await.status, 405);
    assert_eq!(client.ask("DELETE /mcp", &[], "").await.status, 405);
    assert_eq!(server.traffic(Traffic::sessions_opened), 0);
}

#[tokio::test]
async fn headers_that_do_not_say_what_the_body_says_are_refused() {
    let server = start(Speaks::Both).await;
    let mut client = Client::connect(server.port()).await;
    let body = modern(4, "tools/call", json!({ "name": "echo" })).to_string();
    for headers in [
        [("Mcp-Method", "tools/call"), ("Mcp-Name", "other")],
        [("Mcp-Method", "tools/list"), ("Mcp-Name", "echo")],
        [("Mcp-Method", "tools/call"), ("X-None", "")],
    ] {
        let headers = [headers[0], headers[1], ("MCP-Protocol-Version", MODERN_VERSION)];
        let answer = client.ask("POST /mcp", &headers, &body).await;
        assert_eq!(answer.status, 400, "{headers:?}");
        assert_eq!(answer.json()["id"], 4);
        assert_eq!(answer.json()["error"]["code"], -32020);
    }
    assert_eq!(server.traffic(|traffic| traffic.count("tools/call")), 0);
}

#[tokio::test]
async fn protocol_errors_have_statuses_of_their_own() {
    let server = start(Speaks::Modern).await;
    let mut client = Client::connect(server.port()).await;
    let legacy = client.initialize().await;
    assert_eq!(
        (legacy.status, &legacy.json()["error"]["code"]),
        (400, &json!(-32022))
    );
    let unknown = client.post_modern(&modern(1, "x/unknown", json!({}))).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (404, &json!(-32601))
    );
    let bare = client.post_modern(&request(2, "tools/list", &json!({}))).await;
    assert_eq!(
        (bare.status, &bare.json()["error"]["code"]),
        (400, &json!(-32602))
    );
}

#[tokio::test]
async fn a_legacy_server_answers_a_modern_probe_as_one_outside_of_any_session() {
    let server = start(Speaks::Legacy).await;
    let mut client = Client::connect(server.port()).await;
    let answer = client.post_modern(&modern(1, "server/discover", json!({}))).await;
    assert_eq!(answer.status, 400);
    assert!(answer.json()["id"].is_null());
}

#[tokio::test]
async fn a_listener_hears_what_it_asked_for_until_it_hangs_up() {
    let server = start(Speaks::Modern).await;
    let mut listener = Client::connect(server.port()).await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    listener
        .post_modern(&modern(8, "subscriptions/listen", filter))
        .await;
    let acknowledged = listener.event_json().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    server.notify("notifications/prompts/list_changed", &json!({}));
    server.notify("notifications/tools/list_changed", &json!({}));
    let heard = listener.event_json().await;
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    drop(listener);
    assert!(
        server
            .wait_until(LIMIT, |traffic| traffic.noted("cancelled 8") == 1)
            .await
    );
}

#[tokio::test]
async fn hanging_up_cancels_a_call_and_no_later_one_of_the_same_id() {
    let server = start(Speaks::Modern).await;
    let mut client = Client::connect(server.port()).await;
    let nap = |ms| {
        modern(
            3,
            "tools/call",
            json!({ "name": "sleep_ms", "arguments": { "ms": ms } }),
        )
    };
    client.send_modern(&nap(60_000)).await;
    assert!(server.wait_for("tools/call", 1, LIMIT).await);
    drop(client);
    assert!(
        server
            .wait_until(LIMIT, |traffic| traffic.noted("cancelled 3") == 1)
            .await
    );
    let mut client = Client::connect(server.port()).await;
    assert_eq!(client.post_modern(&nap(1)).await.json()["id"], 3);
}
