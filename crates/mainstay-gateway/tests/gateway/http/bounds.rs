//! What one client may take, and what is left for the others.

use std::time::Duration;

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::{Ask, LONG, Reply};
use mainstay_testkit::poll;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::http::support::{World, initialize, request};

fn hello() -> Ask {
    Ask::post("/mcp", &initialize(json!({})))
}

#[tokio::test(start_paused = true)]
async fn there_are_so_many_sessions_in_use_and_one_that_ends_makes_room() {
    let world = World::open(HttpDoor::new().max_sessions(2, 10)).await;
    let (first, other) = (world.session("/mcp").await, world.session("/mcp").await);
    let open = [first.listen(None).await, other.listen(None).await];
    assert!(open.iter().all(|stream| stream.status == 200));
    let refused = world.send(hello()).await;
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.refusal().await, (503, -32000));
    assert_eq!(first.end().await.status, 204);
    assert_eq!(world.send(hello()).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_are_evicted_and_those_with_a_running_call_or_an_open_stream_are_not() {
    let world = World::open(HttpDoor::new().max_sessions(100, 3)).await;
    let (calling, listening) = (world.session("/mcp/one").await, world.session("/mcp/one").await);
    let mut stream = listening.listen(None).await;
    assert_eq!(stream.status, 200);
    let mut call = calling.call(1, "ask", json!({ "kind": "elicitation" })).await;
    let asked = call.message().await;
    let mut abandoned = Vec::new();
    for _ in 0..20 {
        abandoned.push(world.session("/mcp/one").await);
    }
    let last = abandoned.pop().unwrap();
    assert_eq!(last.ask(1, "ping", json!({})).await.status, 200);
    for gone in abandoned {
        assert_eq!(
            gone.ask(1, "ping", json!({})).await.refusal().await,
            (404, -32001)
        );
    }
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    assert_eq!(calling.post(&answer).await.status, 202);
    assert_eq!(call.message().await["id"], 1);
    assert_eq!(listening.end().await.status, 204);
    assert_eq!(stream.event().await, None);
}

#[tokio::test(start_paused = true)]
async fn one_client_cannot_take_the_sessions_of_the_others() {
    let door = HttpDoor::new().max_sessions(10, 1).token("alpha").token("beta");
    let world = World::open(door).await;
    let of = |ask: Ask, token: &str| ask.header("authorization", &format!("Bearer {token}"));
    let opened = |reply: &Reply| reply.header("mcp-session-id").unwrap().to_owned();
    let beta = opened(&world.send(of(hello(), "beta")).await);
    let mut alpha = None;
    for _ in 0..3 {
        alpha = Some(opened(&world.send(of(hello(), "alpha")).await));
    }
    let ping = |id: &str| Ask::post("/mcp", &request(1, "ping", json!({}))).header("mcp-session-id", id);
    assert_eq!(world.send(of(ping(&beta), "beta")).await.status, 200);
    let listen = Ask::new("GET", "/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &alpha.unwrap());
    let open = world.send(of(listen, "alpha")).await;
    assert_eq!(open.status, 200);
    assert_eq!(
        world.send(of(hello(), "alpha")).await.refusal().await,
        (429, -32000)
    );
    assert_eq!(world.send(of(ping(&beta), "beta")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_client_is_slowed_and_others_go_on() {
    let door = HttpDoor::new().rate(1, 3).token("alpha").token("beta");
    let world = World::open(door).await;
    let of = |token: &str| Ask::new("GET", "/mcp").header("authorization", &format!("Bearer {token}"));
    for _ in 0..3 {
        assert_eq!(world.send(of("alpha")).await.status, 400);
    }
    // Far faster than one a second, however busy the machine is: one of them comes too soon.
    let mut slowed = None;
    for _ in 0..100 {
        let next = world.send(of("alpha")).await;
        if next.status != 400 {
            slowed = Some(next);
            break;
        }
    }
    let slowed = slowed.expect("a bound");
    assert_eq!(slowed.header("retry-after"), Some("1"));
    assert_eq!(slowed.status, 429);
    let refused = slowed.json().await;
    assert_eq!(refused["error"]["code"], -32000);
    assert_eq!(refused["error"]["data"]["mainstay"]["outcome"], "not_sent");
    assert_eq!(world.send(of("beta")).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_ends_and_one_with_an_open_stream_does_not() {
    let idle = Duration::from_secs(3);
    let world = World::open(HttpDoor::new().session_idle(idle)).await;
    let (forgotten, open) = (world.session("/mcp").await, world.session("/mcp").await);
    let mut standing = open.listen(None).await;
    assert_eq!(standing.status, 200);
    tokio::time::sleep(3 * idle).await;
    assert_eq!(
        forgotten.ask(1, "ping", json!({})).await.refusal().await,
        (404, -32001)
    );
    assert_eq!(open.ask(1, "ping", json!({})).await.status, 200);
    assert_eq!(open.end().await.status, 204);
    assert_eq!(standing.event().await, None, "its stream ends with it");
}

#[tokio::test(start_paused = true)]
async fn a_connection_above_the_limit_is_refused_while_all_others_are_in_use() {
    for (of_all, of_one) in [(2, 10), (10, 2)] {
        let world = World::open(HttpDoor::new().max_connections(of_all, of_one)).await;
        refuses_a_third(&world).await;
    }
}

async fn refuses_a_third(world: &World) {
    let (one, other) = (world.session("/mcp").await, world.session("/mcp").await);
    let held = [one.listen(None).await, other.listen(None).await];
    assert!(held.iter().all(|stream| stream.status == 200));
    let third = world.connect().await;
    let refused = Reply::read(tokio::io::BufReader::new(third)).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")));
    let refusal = refused.json().await;
    assert_eq!(
        refusal["error"]["data"]["mainstay"]["outcome"], "not_sent",
        "{refusal}"
    );
    drop(held);
    let ping = || Ask::post("/mcp", &request(1, "ping", json!({})));
    // The gateway sees the end of the others in its own time.
    let let_in = poll::ask_for(poll::LIMIT, async || {
        (world.send(ping()).await.status != 503).then_some(())
    });
    let_in.await.expect("room again");
}

#[tokio::test(start_paused = true)]
async fn connections_that_are_idle_or_trickle_are_evicted_and_those_in_use_are_not() {
    let world = World::open(HttpDoor::new().max_connections(100, 8)).await;
    let (calling, listening) = (world.session("/mcp/one").await, world.session("/mcp/one").await);
    let mut stream = listening.listen(None).await;
    let mut call = calling.call(1, "ask", json!({ "kind": "elicitation" })).await;
    let asked = call.message().await;
    let mut held = Vec::new();
    for n in 0..50 {
        let mut connection = world.connect().await;
        if n % 2 == 0 {
            connection
                .write_all(b"POST /mcp HTTP/1.1\r\nhost: loc")
                .await
                .unwrap();
        }
        held.push(connection);
        // On a connection of its own, while all the others wait.
        assert_eq!(calling.ask(2, "ping", json!({})).await.status, 200, "{n}");
    }
    for connection in &mut held[..40] {
        let mut piece = [0; 16];
        let read = connection.read(&mut piece);
        // Closed, or reset since what it sent was not read.
        let read = tokio::time::timeout(LONG, read).await.expect("its end");
        assert_eq!(read.unwrap_or(0), 0);
    }
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    assert_eq!(calling.post(&answer).await.status, 202);
    assert_eq!(call.message().await["id"], 1);
    assert_eq!(listening.end().await.status, 204);
    assert_eq!(stream.event().await, None);
}
