//! The budget of bytes: one for all clients, and a share for each. A client that has spent its share affects no other.

use mainstay::{Fleet, ServerConfig};
use mainstay_gateway::{Gateway, HttpDoor};
use mainstay_testkit::Script;
use mainstay_testkit::client::{Ask, Connection, LONG, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};

use crate::http::support::{Memory, Session, World, initialize, modern, request, text};

const MIB: usize = 1024 * 1024;

/// A gateway that holds so many bytes for all, and for each client.
async fn world(all: usize, share: usize) -> World {
    let server = Memory::new(Script::new());
    let config = ServerConfig::custom("one", "one", server.clone())
        .build()
        .unwrap();
    let gateway = Gateway::builder(Fleet::builder())
        .max_held(all)
        .max_held_per_client(share)
        .start([config]);
    let handle = gateway.fleet().server("one").unwrap();
    handle.wait_connected(LONG).await.expect("connected");
    let mut world = World::serving(HttpDoor::new(), gateway);
    world.server = server;
    world
}

/// A call that runs for long, with an argument of this length.
fn long_call(padding: usize) -> Value {
    let padding = "x".repeat(padding);
    json!({ "name": "sleep_ms", "arguments": { "ms": 600_000, "padding": padding } })
}

async fn is_answered(session: &Session) -> bool {
    let answer = session.call(1, "echo", json!({ "a": 1 })).await;
    answer.status == 200 && text(&answer.json().await) == r#"{"a":1}"#
}

#[tokio::test(start_paused = true)]
async fn running_requests_take_a_client_s_share_and_no_other_s_until_they_end() {
    let world = world(8 * MIB, 3 * MIB).await;
    let (greedy, other) = (world.session("/mcp/one").await, world.session("/mcp/one").await);
    let mut running = Vec::new();
    for id in 10..12 {
        let call = request(id, "tools/call", long_call(7 * MIB / 8));
        let call = greedy.sign(Ask::post("/mcp/one", &call));
        let mut stream = world.connect().await;
        stream.write_all(call.text(&world.door).as_bytes()).await.unwrap();
        running.push(stream);
        // Until its server has it, a request counts twice.
        let sent = running.len();
        world.server.side().wait_for("tools/call", sent).await;
    }
    let refused = greedy.ask(12, "tools/call", long_call(3 * MIB / 2)).await;
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.status, 429);
    let refused = refused.json().await;
    assert_eq!(refused["error"]["code"], -32000);
    assert_eq!(refused["error"]["data"]["mainstay"]["outcome"], "not_sent");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("for this client as it may (3 MiB)"), "{words}");
    assert!(is_answered(&greedy).await, "a small one still fits");
    assert!(is_answered(&other).await);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 10 } });
    assert_eq!(greedy.post(&cancel).await.status, 202);
    let fits = async {
        loop {
            let answer = greedy.call(13, "echo", json!({ "a": "x".repeat(MIB / 2) })).await;
            if answer.status == 200 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, fits)
        .await
        .expect("what ended is free");
}

#[tokio::test(start_paused = true)]
async fn a_large_request_takes_the_share_twice_as_it_came_and_as_its_server_is_sent_it() {
    let world = world(8 * MIB, 3 * MIB).await;
    let session = world.session("/mcp/one").await;
    let echo = |padding| json!({ "a": "x".repeat(padding) });
    let refused = session.call(1, "echo", echo(2 * MIB)).await.json().await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    assert_eq!(refused["error"]["data"]["mainstay"]["outcome"], "not_sent");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("for this client as it may (3 MiB)"), "{words}");
    assert_eq!(session.call(2, "echo", echo(MIB)).await.status, 200);
}

/// Sends a request on a connection of its own, and leaves its answer unread.
async fn start(world: &World, ask: &Ask) -> Connection {
    let mut stream = world.connect().await;
    stream.write_all(ask.text(&world.door).as_bytes()).await.unwrap();
    stream
}

/// Together the clients of one address may hold 6 of the 8 MiB, and each of them no more than it leaves to the others.
#[tokio::test(start_paused = true)]
async fn one_client_with_many_sessions_leaves_room_for_the_others_of_its_address() {
    let world = world(8 * MIB, 3 * MIB).await;
    let mut running = Vec::new();
    for n in 0..3 {
        let session = world.session("/mcp/one").await;
        let call = request(1, "tools/call", long_call(15 * MIB / 16));
        running.push(start(&world, &session.sign(Ask::post("/mcp/one", &call))).await);
        world.server.side().wait_for("tools/call", n + 1).await;
    }
    let third = world.session("/mcp/one").await;
    let refused = third.ask(1, "tools/call", long_call(7 * MIB / 4)).await;
    let (status, words) = (refused.status, refused.json().await.to_string());
    assert_eq!(status, 503, "{words}");
    assert!(words.contains("the clients of this address"), "{words}");
    let neighbour = world.session("/mcp/one").await;
    let answer = neighbour
        .call(1, "echo", json!({ "a": "x".repeat(MIB / 2) }))
        .await;
    assert_eq!(answer.status, 200, "a neighbour finds room");
    assert!(is_answered(&third).await, "a small request still fits");
}

#[tokio::test(start_paused = true)]
async fn one_modern_client_with_many_connections_leaves_room_for_the_others_of_its_address() {
    let world = world(8 * MIB, 3 * MIB).await;
    let call = |padding| modern("/mcp/one", 1, "tools/call", long_call(padding));
    let mut running = Vec::new();
    for n in 0..3 {
        running.push(start(&world, &call(15 * MIB / 16)).await);
        world.server.side().wait_for("tools/call", n + 1).await;
    }
    let refused = world.send(call(7 * MIB / 4)).await;
    assert_eq!(refused.refusal().await, (503, -32000));
    let params = json!({ "name": "echo", "arguments": { "a": "x".repeat(MIB / 2) } });
    let answer = world.send(modern("/mcp/one", 2, "tools/call", params)).await;
    assert_eq!(answer.status, 200, "a neighbour finds room");
}

#[tokio::test(start_paused = true)]
async fn unread_answers_take_the_client_s_share_and_the_refusal_says_so() {
    let world = world(64 * MIB, 20 * MIB).await;
    let (lazy, other) = (world.session("/mcp/one").await, world.session("/mcp/one").await);
    let call = |id| {
        let params = json!({ "name": "big", "arguments": { "bytes": 12 * MIB } });
        let post = Ask::post("/mcp/one", &request(id, "tools/call", params));
        // Without events the status tells the outcome, however busy the machine is.
        lazy.sign(post).header("accept", "application/json")
    };
    let waiting = Reply::read(BufReader::new(world.send_unread(&call(1)).await)).await;
    assert_eq!(waiting.status, 200);
    let dropped = async {
        // Each with an id of its own: on a busy machine the one before may still run.
        for id in 2.. {
            let answer = world.send(call(id)).await;
            assert_eq!(
                answer.status, 200,
                "the call has run: no status may ask for another try"
            );
            let result = answer.json().await["result"].clone();
            if result["isError"] == true {
                return result;
            }
        }
        unreachable!("ids do not run out");
    };
    let dropped = tokio::time::timeout(LONG, dropped).await.expect("a bound");
    assert_eq!(dropped["_meta"]["mainstay"]["outcome"], "answered", "{dropped}");
    let words = dropped["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("The call has run") && words.contains("(20 MiB)"),
        "{words}"
    );
    assert!(is_answered(&lazy).await && is_answered(&other).await);
    let (body, _) = waiting.body().await;
    assert!(body.len() > 12 * MIB, "what waits is there");
    let fits = async {
        for id in 1_000_000.. {
            let answer = world.send(call(id)).await.json().await;
            if answer["result"]["isError"] != true {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, fits)
        .await
        .expect("what was read is free");
}

#[tokio::test(start_paused = true)]
async fn subscriptions_take_the_client_s_share_until_they_end() {
    let world = world(8 * MIB, MIB).await;
    let (greedy, other) = (world.session("/mcp/one").await, world.session("/mcp/one").await);
    let uri = |n: u64| json!({ "uri": format!("mem://{n}/{}", "x".repeat(8000)) });
    let subscribe = async |session: &Session, n: u64| {
        let answer = session.ask(n, "resources/subscribe", uri(n)).await.json().await;
        answer["error"]["code"].as_i64()
    };
    let mut made = 0;
    let refused = loop {
        made += 1;
        if let Some(refused) = subscribe(&greedy, made).await {
            break refused;
        }
        assert!(made < 100, "a bound");
    };
    assert_eq!(refused, -32000);
    assert!(made > 10, "{made}");
    assert_eq!(subscribe(&other, 1).await, None, "it is the other's own share");
    greedy.ask(1000, "resources/unsubscribe", uri(1)).await;
    let fits = async { while subscribe(&greedy, made).await.is_some() {} };
    tokio::time::timeout(LONG, fits)
        .await
        .expect("what ended is free");
    // One that is longer than any real one is refused, in both eras.
    let long = format!("mem://{}", "x".repeat(9000));
    let refused = other.ask(2, "resources/subscribe", json!({ "uri": long })).await;
    assert_eq!(refused.json().await["error"]["code"], -32602);
    let filter = json!({ "notifications": { "resourceSubscriptions": [long] } });
    let refused = world
        .send(modern("/mcp/one", 3, "subscriptions/listen", filter))
        .await;
    assert_eq!(refused.refusal().await.1, -32602);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_too_long_introduction_gets_no_session() {
    let world = world(8 * MIB, 3 * MIB).await;
    let capabilities = json!({ "experimental": { "padding": "x".repeat(MIB) } });
    let refused = world.send(Ask::post("/mcp", &initialize(capabilities))).await;
    assert_eq!(refused.header("mcp-session-id"), None);
    assert_eq!(refused.refusal().await, (400, -32602));
    assert_eq!(
        world.send(Ask::post("/mcp", &initialize(json!({})))).await.status,
        200
    );
}
