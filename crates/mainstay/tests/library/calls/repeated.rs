//! A server that repeats an id, or takes requests back as fast as it makes them: the number of handlers stays bounded, and
//! each of them ends with its request.

use std::sync::Arc;

use mainstay::handler::{Answer, ClientCapabilities, ServerRequest};
use mainstay::{ClientHandler, Fleet};
use mainstay_testkit::Script;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_with, raw};

/// More than may be answered at one time.
const FLOOD: usize = 200;

/// How often one handler may run at the same time.
const ANSWERING_LIMIT_OF_HANDLER: usize = 64;

/// A handler whose requests wait until they are let go, and which counts how many run.
struct Waits {
    running: watch::Sender<Count>,
    released: Semaphore,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    now: usize,
    ever: usize,
    highest: usize,
}

/// One request that runs.
struct Runs<'a>(&'a Waits);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| count.now -= 1);
    }
}

impl Waits {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            running: watch::Sender::default(),
            released: Semaphore::new(0),
        })
    }

    fn count(&self) -> Count {
        *self.running.borrow()
    }

    async fn until(&self, reached: impl FnMut(&Count) -> bool) {
        let mut running = self.running.subscribe();
        let waited = timeout(LONG, running.wait_for(reached)).await;
        waited.expect("so many run").expect("it is counted");
    }
}

impl ClientHandler for Waits {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            roots: true,
            ..ClientCapabilities::default()
        }
    }

    fn request(&self, _: ServerRequest) -> Answer<'_> {
        Box::pin(async {
            self.running.send_modify(|count| {
                count.now += 1;
                count.ever += 1;
                count.highest = count.highest.max(count.now);
            });
            let _runs = Runs(self);
            self.released.acquire().await.expect("never closed").forget();
            Ok(raw(r#"{"roots":[]}"#))
        })
    }
}

async fn stage(handler: &Arc<Waits>) -> (Fleet, MemoryServer) {
    let memory = Memory::new(Script::new());
    let (fleet, server) = fleet_with(Fleet::builder().handler(handler.clone()), memory.config("s"));
    connected(&server).await;
    (fleet, memory.side(1).await)
}

fn request(id: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "roots/list" })
}

fn cancelled(id: &str) -> Value {
    let params = json!({ "requestId": id });
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
}

async fn ask(side: &MemoryServer, id: &str) {
    side.inject_message(&request(id)).await;
}

/// Comes back when everything that was sent so far has been read and acted upon: what came before it was.
async fn all_read(side: &MemoryServer, id: &str) {
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }))
        .await;
    answers(side, id).await;
}

/// What this id was answered, once it was.
async fn answers(side: &MemoryServer, id: &str) -> Vec<Value> {
    let of_id = || -> Vec<Value> {
        let received = side.received();
        let of_id = received.iter().filter(|message| *message.id() == id);
        of_id.map(|message| message.outcome().clone()).collect()
    };
    let answered = async {
        while of_id().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, answered).await.expect("an answer");
    of_id()
}

#[tokio::test]
async fn a_server_that_repeats_one_id_starts_one_handler_and_gets_one_answer() {
    let handler = Waits::new();
    let (_fleet, side) = stage(&handler).await;
    for _ in 0..FLOOD {
        ask(&side, "same").await;
    }
    all_read(&side, "read").await;
    handler.until(|count| count.ever > 0).await;
    assert_eq!(handler.count().ever, 1);
    handler.released.add_permits(FLOOD);
    assert_eq!(
        answers(&side, "same").await,
        [json!({ "result": { "roots": [] } })]
    );
    all_read(&side, "read again").await;
    assert_eq!(answers(&side, "same").await.len(), 1);

    ask(&side, "same").await;
    handler.until(|count| count.ever == 2).await;
}

#[tokio::test]
async fn a_server_that_takes_back_and_repeats_one_id_leaves_no_handler_behind() {
    let handler = Waits::new();
    let (_fleet, side) = stage(&handler).await;
    for _ in 0..FLOOD {
        side.inject_message(&request("same")).await;
        side.inject_message(&cancelled("same")).await;
    }
    all_read(&side, "read").await;
    handler.until(|count| count.now == 0).await;
    assert!(
        handler.count().highest <= ANSWERING_LIMIT_OF_HANDLER,
        "{:?}",
        handler.count()
    );
}

#[tokio::test]
async fn the_end_of_requests_that_were_taken_back_ends_no_later_one_with_the_same_id() {
    let handler = Waits::new();
    let (_fleet, side) = stage(&handler).await;
    // Read in one go: all of them are taken back before the first of their handlers has run, or ended.
    let pair = format!("{}\n{}\n", request("same"), cancelled("same"));
    let lines = format!(
        "{}{}\n",
        pair.repeat(ANSWERING_LIMIT_OF_HANDLER / 2),
        request("same")
    );
    side.inject_bytes(lines.into_bytes()).await;
    all_read(&side, "read").await;
    handler.until(|count| count.now == 1).await;
    handler.released.add_permits(1);
    let answer = answers(&side, "same").await;
    assert_eq!(answer, [json!({ "result": { "roots": [] } })]);
}

#[tokio::test]
async fn a_server_that_asks_with_many_ids_is_refused_beyond_the_bound_and_leaves_no_handler_behind() {
    let handler = Waits::new();
    let (fleet, side) = stage(&handler).await;
    for n in 0..FLOOD {
        ask(&side, &n.to_string()).await;
    }
    all_read(&side, "read").await;
    handler
        .until(|count| count.now == ANSWERING_LIMIT_OF_HANDLER)
        .await;
    let refused = answers(&side, &(FLOOD - 1).to_string()).await;
    assert_eq!(refused[0]["error"]["code"], -32600, "{refused:?}");
    drop(fleet);
    handler.until(|count| count.now == 0).await;
    assert_eq!(handler.count().highest, ANSWERING_LIMIT_OF_HANDLER);
}
