//! Legacy clients: sessions over Streamable HTTP.

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::Ask;
use serde_json::json;

use crate::http::support::{World, initialize, text};

#[tokio::test(start_paused = true)]
async fn a_session_lists_and_calls_under_the_names_of_all_servers_and_of_one() {
    let world = World::open(HttpDoor::new()).await;
    for (path, tool) in [("/mcp", "one__echo"), ("/mcp/one", "echo")] {
        let session = world.session(path).await;
        let listed = session.ask(1, "tools/list", json!({})).await.json().await;
        let names: Vec<_> = listed["result"]["tools"].as_array().unwrap().iter().collect();
        assert!(names.iter().any(|listed| listed["name"] == tool), "{path}");
        let called = session.call(2, tool, json!({ "a": 1 })).await.json().await;
        assert_eq!((&called["id"], text(&called)), (&json!(2), r#"{"a":1}"#));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_with_nothing_before_it_is_one_json_body_on_a_connection_that_stays() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp").await;
    let first = session.ask(1, "tools/list", json!({})).await;
    assert!(first.header("content-length").is_some());
    let (_, connection) = first.body().await;
    let ask = session.sign(Ask::post(
        "/mcp",
        &crate::http::support::request(2, "ping", json!({})),
    ));
    let second = ask.send_on(connection, &world.door).await;
    assert_eq!(
        second.json().await,
        json!({ "jsonrpc": "2.0", "id": 2, "result": {} })
    );
}

#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_answer_on_the_stream_of_its_request() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let mut reply = session
        .call_with_progress(7, "progress", json!({ "steps": 3 }))
        .await;
    assert!(reply.is_events());
    for step in 1..=3 {
        let received = reply.message().await;
        assert_eq!(received["method"], "notifications/progress");
        assert_eq!(
            received["params"],
            json!({ "progressToken": "p", "progress": step, "total": 3 })
        );
    }
    assert_eq!(reply.message().await["id"], 7);
    assert_eq!(reply.event().await, None, "the answer ends the stream");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_comes_on_the_stream_of_the_call_and_is_answered_by_another_post() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let mut reply = session.call(3, "ask", json!({ "kind": "elicitation" })).await;
    let asked = reply.message().await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": { "name": "Ada" } } });
    assert_eq!(session.post(&answer).await.status, 202);
    let done = reply.message().await;
    assert_eq!(done["id"], 3);
    assert!(text(&done).contains("Ada"), "{done}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_cancelled_at_the_server_and_not_answered() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let calling = session.call(4, "sleep_ms", json!({ "ms": 60_000 }));
    let cancel = async {
        world.server.side().wait_for("tools/call", 1).await;
        let params = json!({ "requestId": 4 });
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        assert_eq!(session.post(&cancel).await.status, 202);
    };
    let (reply, ()) = tokio::join!(calling, cancel);
    assert_eq!(reply.status, 204);
    world.server.side().wait_for("notifications/cancelled", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_deleted_is_gone_and_what_ran_for_it_is_cancelled() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let calling = session.call(1, "sleep_ms", json!({ "ms": 60_000 }));
    let ending = async {
        world.server.side().wait_for("tools/call", 1).await;
        assert_eq!(session.end().await.status, 204);
    };
    let (reply, ()) = tokio::join!(calling, ending);
    assert_eq!(reply.status, 204);
    world.server.side().wait_for("notifications/cancelled", 1).await;
    assert_eq!(
        session.ask(2, "ping", json!({})).await.refusal().await,
        (404, -32001)
    );
    assert_eq!(session.end().await.status, 404);
    assert_eq!(session.listen(None).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_session_belongs_to_the_path_it_was_opened_at() {
    let world = World::open(HttpDoor::new()).await;
    let mut session = world.session("/mcp").await;
    session.path = "/mcp/one";
    assert_eq!(
        session.ask(1, "ping", json!({})).await.refusal().await,
        (404, -32001)
    );
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_is_refused_leaves_no_session() {
    let world = World::open(HttpDoor::new().max_sessions(1, 1)).await;
    let bad = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    for _ in 0..3 {
        let reply = world.send(Ask::post("/mcp", &bad)).await;
        assert_eq!(reply.header("mcp-session-id"), None);
        assert_eq!(reply.refusal().await, (400, -32602));
    }
    let reply = world.send(Ask::post("/mcp", &initialize(json!({})))).await;
    assert_eq!(reply.status, 200, "there is room still");
}
