//! Modern clients: requests that stand alone.

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::Ask;
use serde_json::json;

use crate::http::support::{World, modern, text};

#[tokio::test(start_paused = true)]
async fn a_request_that_stands_alone_is_answered_and_opens_no_session() {
    let world = World::open(HttpDoor::new()).await;
    let discovered = world.send(modern("/mcp", 1, "server/discover", json!({}))).await;
    assert_eq!(discovered.header("mcp-session-id"), None);
    let discovered = discovered.json().await;
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28");
    let listed = world
        .send(modern("/mcp", 2, "tools/list", json!({})))
        .await
        .json()
        .await;
    assert_eq!(listed["result"]["resultType"], "complete");
    let call = json!({ "name": "one__echo", "arguments": { "a": 1 } });
    let called = world
        .send(modern("/mcp", 3, "tools/call", call))
        .await
        .json()
        .await;
    assert_eq!((&called["id"], text(&called)), (&json!(3), r#"{"a":1}"#));
}

#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_answer_and_nothing_can_be_resumed() {
    let world = World::open(HttpDoor::new()).await;
    let call = json!({ "name": "progress", "arguments": { "steps": 2 }, "_meta": { "progressToken": 5 } });
    let mut reply = world.send(modern("/mcp/one", 1, "tools/call", call)).await;
    assert!(reply.is_events());
    for step in 1..=2 {
        let event = reply.event().await.unwrap();
        assert_eq!(event.id, None);
        assert_eq!(event.json()["params"]["progress"], step);
    }
    assert_eq!(reply.message().await["id"], 1);
    assert_eq!(reply.event().await, None);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_comes_as_a_result_and_the_retry_brings_the_answer() {
    let world = World::open(HttpDoor::new()).await;
    let call = json!({ "name": "ask", "arguments": { "kind": "elicitation" } });
    let input_required = world
        .send(modern("/mcp/one", 1, "tools/call", call.clone()))
        .await
        .json()
        .await;
    assert_eq!(input_required["result"]["resultType"], "input_required");
    let (question, _) = input_required["result"]["inputRequests"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    let mut retry = call;
    retry["requestState"] = input_required["result"]["requestState"].clone();
    retry["inputResponses"] = json!({ question: { "action": "accept", "content": { "name": "Ada" } } });
    let done = world
        .send(modern("/mcp/one", 2, "tools/call", retry))
        .await
        .json()
        .await;
    assert_eq!(done["id"], 2);
    assert!(text(&done).contains("Ada"), "{done}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_cancels_its_request() {
    let world = World::open(HttpDoor::new()).await;
    let call = json!({ "name": "sleep_ms", "arguments": { "ms": 60_000 } });
    let calling = world.send(modern("/mcp/one", 1, "tools/call", call));
    tokio::select! {
        _ = calling => panic!("answered"),
        () = async { world.server.side().wait_for("tools/call", 1).await } => {}
    }
    world.server.side().wait_for("notifications/cancelled", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_from_a_stream_cancels_its_request() {
    let world = World::open(HttpDoor::new()).await;
    let arguments = json!({ "steps": 1000, "interval_ms": 20 });
    let call = json!({ "name": "progress", "arguments": arguments, "_meta": { "progressToken": 5 } });
    let mut reply = world.send(modern("/mcp/one", 1, "tools/call", call)).await;
    assert_eq!(reply.message().await["method"], "notifications/progress");
    drop(reply);
    world.server.side().wait_for("notifications/cancelled", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_listen_gets_the_notifications_it_asked_for_and_no_others() {
    let world = World::open(HttpDoor::new()).await;
    let wanted = json!({ "resourceSubscriptions": ["mem://one"], "toolsListChanged": true });
    let ask = modern(
        "/mcp/one",
        9,
        "subscriptions/listen",
        json!({ "notifications": wanted }),
    );
    let mut listen = world.send(ask).await;
    let first = listen.message().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    let side = world.server.side();
    side.wait_for("resources/subscribe", 1).await;
    let touch = json!({ "name": "touch", "arguments": { "uri": "mem://one" } });
    world
        .send(modern("/mcp/one", 10, "tools/call", touch))
        .await
        .json()
        .await;
    let updated = listen.message().await;
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(
        updated["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        9
    );
    side.edit(|script| script.prompts.push(json!({ "name": "new" })));
    side.edit(|script| {
        script
            .tools
            .push(json!({ "name": "new", "inputSchema": { "type": "object" } }));
    });
    for kind in ["prompts", "tools"] {
        let method = format!("notifications/{kind}/list_changed");
        side.inject_message(&json!({ "jsonrpc": "2.0", "method": method }))
            .await;
    }
    assert_eq!(
        listen.message().await["method"],
        "notifications/tools/list_changed"
    );
    drop(listen);
    side.wait_for("resources/unsubscribe", 1).await;
}

#[tokio::test(start_paused = true)]
async fn methods_that_the_era_does_not_have_are_not_found() {
    let world = World::open(HttpDoor::new()).await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "no/such",
    ] {
        for path in ["/mcp", "/mcp/one"] {
            let reply = world.send(modern(path, 6, method, json!({}))).await;
            assert_eq!(reply.status, 404, "{path} {method}");
            let body = reply.json().await;
            assert_eq!(
                (&body["error"]["code"], &body["id"]),
                (&json!(-32601), &json!(6)),
                "{path} {method}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_and_sessions_are_not_for_modern_clients() {
    let world = World::open(HttpDoor::new()).await;
    for method in ["GET", "DELETE"] {
        let ask = Ask::new(method, "/mcp").header("mcp-protocol-version", "2026-07-28");
        let reply = world.send(ask).await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("POST")),
            "{method}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_message_reaches_only_the_client_that_asked_for_it() {
    let world = World::open(HttpDoor::new()).await;
    let mut call = json!({ "name": "log", "arguments": { "level": "error", "text": "hot" } });
    let quiet = world
        .send(modern("/mcp/one", 1, "tools/call", call.clone()))
        .await;
    assert_eq!(quiet.json().await["id"], 1);
    call["_meta"]["io.modelcontextprotocol/logLevel"] = json!("warning");
    let mut received = world.send(modern("/mcp/one", 2, "tools/call", call)).await;
    assert_eq!(received.message().await["params"]["data"], "hot");
    assert_eq!(received.message().await["id"], 2);
}
