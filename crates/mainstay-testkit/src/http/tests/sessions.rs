//! The legacy transports when nothing goes wrong but a session.

use serde_json::json;

use super::client::{Client, LIMIT, call, request};
use crate::http::{FaultyHttpServer, HttpScript, Serves};
use crate::script::Script;

async fn start(http: HttpScript) -> FaultyHttpServer {
    FaultyHttpServer::start(Script::new(), http).await.unwrap()
}

#[tokio::test]
async fn one_kept_connection_carries_a_session_from_its_opening_to_its_end() {
    let server = start(HttpScript::new()).await;
    let mut client = Client::connect(server.port()).await;
    let opened = client.initialize().await;
    assert_eq!(opened.status, 200);
    assert_eq!(opened.header("content-type"), "application/json");
    let session = opened.session();
    assert!(!session.is_empty());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(client.post(&session, &initialized).await.status, 202);
    let answer = client
        .post(&session, &call(1, "echo", &json!({ "key": "k1" })))
        .await;
    assert_eq!(answer.json()["id"], 1);
    assert_eq!(answer.json()["result"]["structuredContent"]["key"], "k1");
    let headers = [("Mcp-Session-Id", &session[..])];
    assert_eq!(client.ask("DELETE /mcp", &headers, "").await.status, 200);
    assert_eq!(
        client
            .post(&session, &request(2, "ping", &json!({})))
            .await
            .status,
        404
    );
    server.traffic(|traffic| {
        assert_eq!(traffic.connections(), 1);
        assert_eq!(traffic.requests("POST"), 4);
        assert_eq!(traffic.count("tools/call"), 1);
        assert_eq!(traffic.noted("call echo k1"), 1);
        assert_eq!((traffic.sessions_opened(), traffic.sessions_deleted()), (1, 1));
        assert_eq!(traffic.last_header("ping", "mcp-session-id"), Some(&session[..]));
    });
}

#[tokio::test]
async fn a_streamed_answer_comes_after_what_belongs_to_it() {
    let server = start(HttpScript::new().streams()).await;
    let mut client = Client::connect(server.port()).await;
    let session = client.initialize().await.session();
    client.rest().await;
    let mut body = call(1, "progress", &json!({ "steps": 2 }));
    body["params"]["_meta"] = json!({ "progressToken": 7 });
    let head = client.post(&session, &body).await;
    assert_eq!(head.header("content-type"), "text/event-stream");
    assert_eq!(client.event_json().await["params"]["progress"], 1);
    assert_eq!(client.event_json().await["params"]["progress"], 2);
    assert_eq!(client.event_json().await["id"], 1);
    assert_eq!(client.event().await, None);
}

#[tokio::test]
async fn a_notification_of_the_whole_server_goes_to_the_standalone_stream() {
    let server = start(HttpScript::new()).await;
    let mut client = Client::connect(server.port()).await;
    let session = client.initialize().await.session();
    let mut listener = Client::connect(server.port()).await;
    let head = listener
        .ask("GET /mcp", &[("Mcp-Session-Id", &session)], "")
        .await;
    assert_eq!(head.status, 200);
    client.post(&session, &call(1, "emit", &json!({}))).await;
    let event = listener.event().await.unwrap();
    assert!(event.contains("id: 0-1\n"), "{event}");
    assert!(event.contains("notifications/tools/list_changed"), "{event}");
    server.notify("notifications/prompts/list_changed", &json!({}));
    let event = listener.event_json().await;
    assert_eq!(event["method"], "notifications/prompts/list_changed");
    drop(listener);
    assert!(
        server
            .wait_until(LIMIT, |traffic| traffic.live_streams() == 0)
            .await
    );
}

#[tokio::test]
async fn a_question_is_asked_on_the_stream_of_its_call_and_its_answer_ends_it() {
    let server = start(HttpScript::new().streams()).await;
    let mut client = Client::connect(server.port()).await;
    let session = client.initialize().await.session();
    client.rest().await;
    client
        .post(&session, &call(1, "ask", &json!({ "kind": "roots" })))
        .await;
    let question = client.event_json().await;
    assert_eq!(question["method"], "roots/list");
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "roots": [] } });
    let mut other = Client::connect(server.port()).await;
    assert_eq!(other.post(&session, &answer).await.status, 202);
    assert_eq!(client.event_json().await["id"], 1);
    assert_eq!(client.event().await, None);
}

#[tokio::test]
async fn a_lost_stream_is_resumed_after_the_last_event_that_arrived() {
    let server = start(HttpScript::new().streams().priming(25)).await;
    let mut client = Client::connect(server.port()).await;
    let session = client.initialize().await.session();
    client.rest().await;
    let mut body = call(1, "progress", &json!({ "steps": 2, "interval_ms": 20 }));
    body["params"]["_meta"] = json!({ "progressToken": 7 });
    client.post(&session, &body).await;
    assert_eq!(client.event().await.unwrap(), "id: 2-0\nretry: 25\ndata: \n\n");
    assert!(client.event().await.unwrap().contains("id: 2-1\n"));
    drop(client);
    let mut client = Client::connect(server.port()).await;
    let headers = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", "2-1")];
    assert_eq!(client.ask("GET /mcp", &headers, "").await.status, 200);
    client.event().await;
    assert_eq!(client.event_json().await["params"]["progress"], 2);
    assert_eq!(client.event_json().await["id"], 1);
    assert_eq!(client.event().await, None);
}

#[tokio::test]
async fn a_restart_keeps_the_port_and_forgets_the_sessions() {
    let mut server = start(HttpScript::new()).await;
    let port = server.port();
    let mut client = Client::connect(port).await;
    let old = client.initialize().await.session();
    client
        .send(
            "POST /mcp",
            &[("Mcp-Session-Id", &old)],
            &call(1, "sleep_ms", &json!({ "ms": 60_000 })).to_string(),
        )
        .await;
    assert!(server.wait_for("tools/call", 1, LIMIT).await);
    server.restart().await.unwrap();
    assert!(client.answer().await.is_none(), "the call was cut");
    assert_eq!(server.port(), port);
    let mut client = Client::connect(port).await;
    assert_eq!(client.post(&old, &call(2, "echo", &json!({}))).await.status, 404);
    let new = client.initialize().await.session();
    assert_ne!(new, old);
    assert_eq!(client.post(&new, &call(3, "echo", &json!({}))).await.status, 200);
}

#[tokio::test]
async fn some_servers_say_that_a_session_is_lost_with_400_and_no_id() {
    let mut server = start(HttpScript::new().loses_sessions_as_400()).await;
    let mut client = Client::connect(server.port()).await;
    let session = client.initialize().await.session();
    server.restart().await.unwrap();
    let mut client = Client::connect(server.port()).await;
    let answer = client.post(&session, &call(1, "echo", &json!({}))).await;
    let none = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}"#;
    assert_eq!((answer.status, &answer.body[..]), (400, none.as_bytes()));
    assert_eq!(server.traffic(|traffic| traffic.count("tools/call")), 0);
}

#[tokio::test]
async fn requests_are_refused_in_the_words_of_the_typescript_sdk() {
    let server = start(HttpScript::new()).await;
    let mut client = Client::connect(server.port()).await;
    let session = client.initialize().await.session();
    let none = [];
    let json_alone = [("Accept", "application/json")];
    let unknown = [("Mcp-Session-Id", "s0")];
    let version = [("Mcp-Session-Id", &session[..]), ("MCP-Protocol-Version", "1")];
    let event = [("Mcp-Session-Id", &session[..]), ("Last-Event-ID", "9-9")];
    let ping = request(1, "ping", &json!({})).to_string();
    let cases: [(&str, &[_], u16, i64, &str); 6] = [
        (
            "POST /mcp",
            &none,
            400,
            -32000,
            "Bad Request: Mcp-Session-Id header is required",
        ),
        ("POST /mcp", &unknown, 404, -32001, "Session not found"),
        (
            "POST /mcp",
            &version,
            400,
            -32000,
            "Bad Request: Unsupported protocol version: 1 \
             (supported versions: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05)",
        ),
        ("GET /mcp", &event, 400, -32000, "Invalid event ID format"),
        (
            "GET /mcp",
            &json_alone,
            406,
            -32000,
            "Not Acceptable: Client must accept text/event-stream",
        ),
        (
            "POST /mcp",
            &json_alone,
            406,
            -32000,
            "Not Acceptable: Client must accept both application/json and text/event-stream",
        ),
    ];
    for (line, headers, status, code, message) in cases {
        let answer = client.ask(line, headers, &ping).await;
        let expected = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": message }, "id": null });
        assert_eq!((answer.status, answer.json()), (status, expected));
    }
}

#[tokio::test]
async fn http_with_sse_answers_on_its_stream() {
    let server = start(HttpScript::new().serves(Serves::Sse)).await;
    let mut client = Client::connect(server.port()).await;
    assert_eq!(client.initialize().await.status, 404);
    assert_eq!(client.ask("POST /sse", &[], "{}").await.status, 405);
    let mut stream = Client::connect(server.port()).await;
    assert_eq!(stream.ask("GET /sse", &[], "").await.status, 200);
    let endpoint = stream.event().await.unwrap();
    let path = endpoint
        .strip_prefix("event: endpoint\ndata: ")
        .unwrap()
        .trim_end();
    let body = call(5, "echo", &json!({ "key": "k" })).to_string();
    assert_eq!(client.ask(&format!("POST {path}"), &[], &body).await.status, 202);
    assert_eq!(stream.event_json().await["id"], 5);
    drop(stream);
    assert!(
        server
            .wait_until(LIMIT, |traffic| traffic.live_streams() == 0)
            .await
    );
    assert_eq!(client.ask(&format!("POST {path}"), &[], &body).await.status, 404);
}

#[tokio::test]
async fn without_the_bearer_token_every_request_is_challenged() {
    let server = start(HttpScript::new().bearer("t1")).await;
    let mut client = Client::connect(server.port()).await;
    let refused = client.initialize().await;
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").contains("resource_metadata="));
    server.edit_http(|http| http.bearer = None);
    assert_eq!(client.initialize().await.status, 200);
}
