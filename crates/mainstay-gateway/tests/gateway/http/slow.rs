//! Clients that are slow or half gone: each has a time limit, after which its connection is closed.
//!
//! Time stands still until nothing else can happen, so that the bounds are waited for in no time.

use std::time::Duration;

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::{Ask, Connection};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

use crate::http::support::{World, modern, request};

/// Longer than any client is waited for.
const LONG: Duration = Duration::from_secs(600);

/// A door that has room for one connection.
fn narrow() -> HttpDoor {
    HttpDoor::new().max_connections(1, 1)
}

/// Reads to the end of a connection, and says how long that took.
async fn end_of(stream: &mut Connection) -> (String, Duration) {
    let began = Instant::now();
    let mut answer = Vec::new();
    // One that ends with a reset has ended, too.
    let _ = timeout(LONG, stream.read_to_end(&mut answer))
        .await
        .expect("it ends");
    (String::from_utf8(answer).unwrap(), began.elapsed())
}

/// Whether the one place at the door is free.
async fn is_free(world: &World) -> bool {
    let ask = modern("/mcp", 1, "server/discover", json!({})).header("connection", "close");
    world.send(ask).await.status == 200
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_refused_in_time_and_frees_its_connection() {
    let world = World::open(narrow()).await;
    let mut stream = world.connect().await;
    let ask = Ask::post("/mcp", &request(1, "ping", json!({}))).header("expect", "100-continue");
    let text = ask.text(&world.door);
    stream
        .write_all(&text.as_bytes()[..text.len() - 5])
        .await
        .unwrap();
    let mut received = [0; 25];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"HTTP/1.1 100 Continue\r\n\r\n", "the body is awaited");
    assert!(!is_free(&world).await);
    let began = Instant::now();
    let (answer, _) = end_of(&mut stream).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 408 "), "{answer}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["code"], -32600);
    assert!(
        began.elapsed() <= Duration::from_secs(31),
        "{:?}",
        began.elapsed()
    );
    assert!(is_free(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_refused_in_time() {
    let world = World::open(narrow()).await;
    let mut stream = world.connect().await;
    let head = Ask::new("POST", "/mcp")
        .header("content-type", "application/json")
        .header("transfer-encoding", "chunked");
    stream.write_all(head.text(&world.door).as_bytes()).await.unwrap();
    let began = Instant::now();
    let trickling = async {
        loop {
            sleep(Duration::from_secs(5)).await;
            if stream.write_all(b"1\r\n \r\n").await.is_err() {
                return;
            }
        }
    };
    timeout(LONG, trickling).await.expect("it is cut");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(is_free(&world).await);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_ended() {
    let world = World::open(HttpDoor::new()).await;
    let mut silent = world.connect().await;
    let (answer, took) = end_of(&mut silent).await;
    assert_eq!(answer, "");
    assert!(took <= Duration::from_secs(61), "{took:?}");
    // And so is one that had a request, and has no other.
    let reply = world.send(modern("/mcp", 1, "server/discover", json!({}))).await;
    let (_, stream) = reply.body().await;
    let (answer, took) = end_of(&mut stream.into_inner()).await;
    assert_eq!(answer, "");
    assert!(took >= Duration::from_secs(30), "a client may keep it: {took:?}");
    assert!(took <= Duration::from_secs(61), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_head_trickles_is_closed() {
    let world = World::open(HttpDoor::new()).await;
    let mut stream = world.connect().await;
    let text = modern("/mcp", 1, "server/discover", json!({})).text(&world.door);
    let began = Instant::now();
    let trickling = async {
        for byte in text.as_bytes() {
            sleep(Duration::from_secs(1)).await;
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
        panic!("all of it was read");
    };
    timeout(10 * LONG, trickling).await.expect("it is cut");
    assert!(
        began.elapsed() <= Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_disconnected() {
    let world = World::open(HttpDoor::new()).await;
    let call = json!({ "name": "big", "arguments": { "bytes": 12_000_000 } });
    let mut stream = world
        .send_unread(&modern("/mcp/one", 1, "tools/call", call))
        .await;
    world.server.side().wait_for("tools/call", 1).await;
    sleep(Duration::from_secs(40)).await;
    let (answer, _) = end_of(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "what was sent is there");
    assert!(answer.len() < 12_000_000, "{}", answer.len());
}
