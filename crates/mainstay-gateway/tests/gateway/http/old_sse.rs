//! Clients of HTTP+SSE.

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::Ask;
use serde_json::json;

use crate::http::support::{World, initialize, request, text};

#[tokio::test(start_paused = true)]
async fn one_stream_carries_everything_to_the_client() {
    let world = World::open(HttpDoor::new()).await;
    for (path, prefix) in [("/sse", "one__"), ("/sse/one", "")] {
        let mut stream = world.send(Ask::new("GET", path)).await;
        assert!(stream.is_events());
        let endpoint = stream.event().await.unwrap();
        assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
        let post = |message| Ask::post(&endpoint.data, &message);
        assert_eq!(
            world
                .send(post(initialize(json!({ "elicitation": {} }))))
                .await
                .status,
            202
        );
        let initialized = stream.message().await;
        assert_eq!(
            (&initialized["id"], initialized["result"].is_object()),
            (&json!(0), true)
        );
        let call = json!({ "name": format!("{prefix}progress"), "arguments": { "steps": 2 }, "_meta": { "progressToken": 1 } });
        assert_eq!(world.send(post(request(1, "tools/call", call))).await.status, 202);
        for step in 1..=2 {
            assert_eq!(stream.message().await["params"]["progress"], step);
        }
        assert_eq!(stream.message().await["id"], 1);
        let call = json!({ "name": format!("{prefix}ask"), "arguments": { "kind": "elicitation" } });
        assert_eq!(world.send(post(request(2, "tools/call", call))).await.status, 202);
        let asked = stream.message().await;
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept", "content": { "name": "Ada" } } });
        assert_eq!(world.send(post(answer)).await.status, 202);
        assert!(text(&stream.message().await).contains("Ada"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_stream_and_what_ran_for_it_is_cancelled() {
    let world = World::open(HttpDoor::new()).await;
    let mut stream = world.send(Ask::new("GET", "/sse/one")).await;
    let endpoint = stream.event().await.unwrap().data;
    let call = json!({ "name": "sleep_ms", "arguments": { "ms": 60_000 } });
    assert_eq!(
        world
            .send(Ask::post(&endpoint, &request(1, "tools/call", call)))
            .await
            .status,
        202
    );
    world.server.side().wait_for("tools/call", 1).await;
    drop(stream);
    world.server.side().wait_for("notifications/cancelled", 1).await;
    let late = world
        .send(Ask::post(&endpoint, &request(2, "ping", json!({}))))
        .await;
    assert_eq!(late.refusal().await, (404, -32001));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_id_is_refused_and_reaches_no_server() {
    let world = World::open(HttpDoor::new()).await;
    let mut stream = world.send(Ask::new("GET", "/sse/one")).await;
    let endpoint = stream.event().await.unwrap().data;
    let params = json!({ "name": "echo", "arguments": {} });
    let without = json!({ "jsonrpc": "2.0", "method": "tools/call", "params": params });
    let refused = world.send(Ask::post(&endpoint, &without)).await;
    assert_eq!(refused.refusal().await, (400, -32600));
    let call = Ask::post(&endpoint, &request(1, "tools/call", params));
    assert_eq!(world.send(call).await.status, 202);
    assert_eq!(stream.message().await["id"], 1);
    assert_eq!(world.server.side().count("tools/call"), 1, "the one with an id");
}

#[tokio::test(start_paused = true)]
async fn the_two_kinds_of_sessions_are_not_mistaken_for_each_other() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp").await;
    let ping = request(1, "ping", json!({}));
    let ask = Ask::post(&format!("/messages?session={}", session.id), &ping);
    assert_eq!(world.send(ask).await.status, 404);
    let mut stream = world.send(Ask::new("GET", "/sse")).await;
    let endpoint = stream.event().await.unwrap().data;
    let (_, id) = endpoint.split_once("session=").unwrap();
    let ask = Ask::post("/mcp", &ping).header("mcp-session-id", id);
    assert_eq!(world.send(ask).await.status, 404);
    let ask = Ask::post_text(&endpoint, "{");
    assert_eq!(world.send(ask).await.refusal().await, (400, -32700));
}
