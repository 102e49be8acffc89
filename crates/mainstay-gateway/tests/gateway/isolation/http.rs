//! Sessions over HTTP, and clients that have none.

use std::sync::Arc;
use std::time::Duration;

use mainstay::Fleet;
use mainstay::config::Isolation;
use mainstay_gateway::{Gateway, HttpDoor};
use mainstay_testkit::Script;
use mainstay_testkit::client::Ask;
use mainstay_testkit::fleet::Memory;
use serde_json::json;

use crate::http::support::{World, modern, text};
use crate::isolation::server;

/// A gateway on a port, in front of `own`, which each session has for itself, and of `all`.
async fn world(door: HttpDoor, own: &Arc<Memory>, all: &Arc<Memory>) -> World {
    World::serving(door, crate::isolation::gateway(own, all).await)
}

#[tokio::test(start_paused = true)]
async fn a_session_s_server_ends_when_the_session_is_deleted() {
    let (own, all) = (server(), server());
    let world = world(HttpDoor::new(), &own, &all).await;
    let (one, two) = (world.session("/mcp").await, world.session("/mcp/own").await);
    one.call(1, "own__echo", json!({})).await.json().await;
    two.call(1, "echo", json!({})).await.json().await;
    let (first, second) = (own.side(2).await, own.side(3).await);
    assert_eq!((first.count("tools/call"), second.count("tools/call")), (1, 1));
    assert_eq!(one.end().await.status, 204);
    first.over().await;
    let called = two.call(2, "echo", json!({ "a": 1 })).await.json().await;
    assert_eq!(text(&called), r#"{"a":1}"#);
    assert_eq!(second.count("tools/call"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_s_server_ends_when_the_session_is_idle_for_long() {
    let (own, all) = (server(), server());
    let door = HttpDoor::new().session_idle(Duration::from_secs(3));
    let world = world(door, &own, &all).await;
    let session = world.session("/mcp").await;
    session.call(1, "own__echo", json!({})).await.json().await;
    own.side(2).await.over().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_s_server_ends_with_the_stream_that_is_the_session() {
    let (own, all) = (server(), server());
    let world = world(HttpDoor::new(), &own, &all).await;
    let mut stream = world.send(Ask::new("GET", "/sse/own")).await;
    let endpoint = stream.event().await.unwrap().data;
    let call = json!({ "name": "echo", "arguments": {} });
    let request = crate::http::support::request(1, "tools/call", call);
    assert_eq!(world.send(Ask::post(&endpoint, &request)).await.status, 202);
    assert_eq!(stream.message().await["id"], 1);
    drop(stream);
    own.side(2).await.over().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_s_server_ends_when_the_door_is_closed() {
    let (own, all) = (server(), server());
    let mut world = world(HttpDoor::new(), &own, &all).await;
    let session = world.session("/mcp").await;
    session.call(1, "own__echo", json!({})).await.json().await;
    world.stop();
    own.side(2).await.over().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_while_nothing_runs_comes_on_the_standing_stream() {
    let (own, all) = (server(), server());
    let world = world(HttpDoor::new(), &own, &all).await;
    let session = world.session("/mcp").await;
    session.call(1, "own__echo", json!({})).await.json().await;
    let mut standing = session.listen(None).await;
    let side = own.side(2).await;
    let request = json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" });
    side.inject_message(&request).await;
    let asked = standing.message().await;
    assert_eq!(asked["method"], "roots/list");
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } });
    assert_eq!(session.post(&answer).await.status, 202);
    side.wait_for("", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_session_sees_the_shared_servers_and_learns_why_not_the_others() {
    let own = server();
    let all = Memory::new(Script {
        capabilities: Some(json!({ "tools": {} })),
        ..Script::default()
    });
    let world = world(HttpDoor::new(), &own, &all).await;
    let listed = world
        .send(modern("/mcp", 1, "tools/list", json!({})))
        .await
        .json()
        .await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let discovered = world.send(modern("/mcp", 0, "server/discover", json!({})));
    let discovered = discovered.await.json().await;
    let instructions = discovered["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("## all") && !instructions.contains("## own"));
    let capabilities = discovered["result"]["capabilities"].as_object().unwrap();
    assert_eq!(capabilities.keys().collect::<Vec<_>>(), ["tools"], "and no more");
    assert!(!tools.is_empty());
    for tool in tools {
        assert!(tool["name"].as_str().unwrap().starts_with("all__"), "{tool}");
    }
    let call = json!({ "name": "own__echo", "arguments": {} });
    let refused = world
        .send(modern("/mcp", 2, "tools/call", call))
        .await
        .json()
        .await;
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(
        refused["error"]["message"],
        "server own runs once for each session (its isolation is \"session\"), and a request of 2026-07-28 over HTTP \
         belongs to none: it did not run. Open a session with `initialize` (2025-11-25 or before), connect on stdin and \
         stdout, or set its isolation to \"shared\""
    );
    let call = json!({ "name": "all__echo", "arguments": { "a": 1 } });
    let called = world
        .send(modern("/mcp", 3, "tools/call", call))
        .await
        .json()
        .await;
    assert_eq!(text(&called), r#"{"a":1}"#);
    let session = world.session("/mcp").await;
    session.call(4, "own__echo", json!({})).await.json().await;
    let calls = own.side(2).await.count("tools/call");
    assert_eq!(
        calls, 1,
        "the first connection after the template server's is a session's"
    );
}

#[tokio::test(start_paused = true)]
async fn where_everything_needs_a_session_a_modern_client_is_sent_to_the_versions_that_have_one() {
    let own = server();
    let config = own.config("own").isolation(Isolation::Session).build().unwrap();
    let gateway = Gateway::start(Fleet::builder(), [config]);
    mainstay_testkit::fleet::connected(&gateway.fleet().server("own").unwrap()).await;
    let world = World::serving(HttpDoor::new(), gateway);
    for path in ["/mcp", "/mcp/own"] {
        for method in ["server/discover", "tools/list", "tools/call"] {
            let refused = world
                .send(modern(path, 1, method, json!({ "name": "echo" })))
                .await;
            assert_eq!(refused.status, 400, "{path} {method}");
            let refused = refused.json().await;
            let error = &refused["error"];
            assert_eq!((&error["code"], &refused["id"]), (&json!(-32022), &json!(1)));
            let supported = error["data"]["supported"].as_array().unwrap();
            assert_eq!(supported[0], "2025-11-25");
            assert!(!supported.contains(&json!("2026-07-28")));
            assert!(
                error["message"].as_str().unwrap().contains("isolation"),
                "{error}"
            );
        }
        // And they do have one.
        let session = world.session(path).await;
        let listed = session.ask(1, "tools/list", json!({})).await.json().await;
        assert!(listed["result"]["tools"].as_array().unwrap().len() > 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_client_cannot_take_the_room_of_all() {
    let (own, all) = (server(), server());
    let door = HttpDoor::new().token("one").token("other");
    let gateway = crate::isolation::gateway_of(&own, &all, 8).await;
    let world = World::serving(door, gateway);
    let call =
        |n| crate::http::support::request(n, "tools/call", json!({ "name": "own__echo", "arguments": {} }));
    let mut answers = Vec::new();
    for token in ["one", "one", "one", "other"] {
        let bearing = |ask: Ask| ask.header("authorization", &format!("Bearer {token}"));
        let hello = bearing(Ask::post("/mcp", &crate::http::support::initialize(json!({}))));
        let opened = world.send(hello).await;
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        let ask = bearing(Ask::post("/mcp", &call(1))).header("mcp-session-id", &session);
        answers.push(world.send(ask).await.json().await);
    }
    let errors: Vec<_> = answers
        .iter()
        .map(|answer| answer["error"]["code"].clone())
        .collect();
    assert_eq!(
        json!(errors),
        json!([null, null, -32000, null]),
        "a quarter of eight for each"
    );
    let refused = &answers[2]["error"];
    let words = refused["message"].as_str().unwrap();
    assert!(
        words.contains("this client has 2 such servers already"),
        "{words}"
    );
    assert_eq!(refused["data"]["mainstay"]["limit"], 2);
}

#[tokio::test(start_paused = true)]
async fn sessions_of_one_address_are_clients_of_their_own_where_no_token_is_asked_for() {
    let (own, all) = (server(), server());
    let gateway = crate::isolation::gateway_of(&own, &all, 8).await;
    let world = World::serving(HttpDoor::new(), gateway);
    for n in 0..8 {
        let session = world.session("/mcp").await;
        let called = session.call(1, "own__echo", json!({ "n": n })).await.json().await;
        assert_eq!(called["error"], json!(null), "of session {n}");
    }
    let session = world.session("/mcp").await;
    let refused = session.call(1, "own__echo", json!({})).await.json().await;
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("8 such servers run already"), "{words}");
}
