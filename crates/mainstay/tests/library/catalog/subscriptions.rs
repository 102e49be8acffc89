//! What was asked of a server for good: subscriptions, log level and roots hold on every connection after the first.

use std::sync::Arc;
use std::time::Duration;

use mainstay::{CallError, CallErrorKind, CallOptions, ClientHandler, Fleet, Server, StateKind, Status};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Occurrence, Rule, Script, Speaks, Step};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use mainstay_testkit::fleet::{LONG, Memory, Notes, connected, fleet_with, raw};

const UPDATED: &str = "notifications/resources/updated";
const LOGGED: &str = "notifications/message";
const URI: &str = "mem://one";

fn heard_by(notes: &Arc<Notes>, memory: &Arc<Memory>) -> (Fleet, Server) {
    fleet_with(Fleet::builder().handler(notes.clone()), memory.config("s"))
}

async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    let reply = server.call(tool, &arguments).await;
    let result = reply.expect(tool).tool_result().unwrap();
    result.structured_content.unwrap_or_default()
}

async fn next_connection(server: &Server, last: &Status) -> Status {
    let came = server.wait_until(LONG, |status| {
        status.state == StateKind::Connected && status.generation > last.generation
    });
    came.await.expect("it comes back")
}

fn listened_for(side: &MemoryServer) -> Value {
    let params = side
        .last_params("subscriptions/listen")
        .expect("it is listened to");
    params["notifications"]["resourceSubscriptions"].clone()
}

#[tokio::test]
async fn a_crashed_legacy_server_is_subscribed_to_again_and_keeps_its_log_level() {
    let ledger = Ledger::temporary();
    let faulty = FaultyServer::new().ledger(&ledger);
    let config = mainstay::ServerConfig::stdio("s", faulty.command()).args(faulty.args());
    let notes = Notes::answering("{}");
    let (_fleet, server) = fleet_with(Fleet::builder().handler(notes.clone()), config);
    let first = connected(&server).await;
    server.subscribe(URI).await.unwrap();
    server.subscribe("mem://two").await.unwrap();
    server.unsubscribe("mem://two").await.unwrap();
    server.set_log_level("warning").await.unwrap();
    call(&server, "touch", json!({ "uri": URI })).await;
    notes.told(UPDATED, 1).await;

    let crash = server.call("crash", &json!({})).await;
    assert!(matches!(&crash, Err(error) if matches!(error.kind, CallErrorKind::Lost { .. })));
    let second = next_connection(&server, &first).await;
    assert_eq!(ledger.count(&format!("subscribe {URI}")), 2);
    assert_eq!(
        ledger.count("subscribe mem://two"),
        1,
        "given up before the crash"
    );
    assert_eq!(ledger.count("setLevel warning"), 2);
    call(&server, "touch", json!({ "uri": URI })).await;
    let updates = notes.told(UPDATED, 2).await;
    assert_eq!(Some(updates[0].generation), first.generation);
    assert_eq!(Some(updates[1].generation), second.generation);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_listened_to_again_and_every_request_says_the_log_level() {
    let memory = Memory::new(Script::new().speaks(Speaks::Modern));
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    let first = connected(&server).await;
    server.subscribe(URI).await.unwrap();
    server.set_log_level("warning").await.unwrap();
    memory.side(1).await.cut();
    let second = next_connection(&server, &first).await;
    let side = memory.side(2).await;
    side.wait_for("subscriptions/listen", 1).await;
    assert_eq!(listened_for(&side), json!([URI]));

    call(&server, "touch", json!({ "uri": URI })).await;
    let update = notes.told(UPDATED, 1).await;
    assert_eq!(Some(update[0].generation), second.generation);
    call(&server, "log", json!({ "text": "hear" })).await;
    notes.told(LOGGED, 1).await;
    let meta = &side.last_params("tools/call").unwrap()["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "warning");

    let own = CallOptions::default().meta("io.modelcontextprotocol/logLevel", raw(r#""debug""#));
    server.call("echo", &json!({})).options(own).await.unwrap();
    let meta = &side.last_params("tools/call").unwrap()["_meta"];
    assert_eq!(
        meta["io.modelcontextprotocol/logLevel"], "debug",
        "the caller's own"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wish_made_while_a_new_connection_is_being_listed_is_not_lost() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let slow = Rule::new(Step::List, Fault::Delay { ms: 1000 }).method("tools/list");
        let memory = Memory::new(Script::new().speaks(speaks).rule(slow));
        let notes = Notes::answering("{}");
        let (_fleet, server) = heard_by(&notes, &memory);
        let side = memory.side(1).await;
        side.wait_for("tools/list", 1).await;
        assert_eq!(server.status().state, StateKind::Connecting);
        server.subscribe(URI).await.unwrap();
        server.set_log_level("error").await.unwrap();
        connected(&server).await;
        match speaks {
            Speaks::Legacy => {
                side.wait_for("resources/subscribe", 1).await;
                side.wait_for("logging/setLevel", 1).await;
            }
            Speaks::Modern | Speaks::Both => {
                side.wait_for("subscriptions/listen", 2).await;
                assert_eq!(listened_for(&side), json!([URI]));
            }
        }
        call(&server, "touch", json!({ "uri": URI })).await;
        notes.told(UPDATED, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_who_subscribe_at_the_same_time_are_listened_for() {
    for _ in 0..50 {
        let memory = Memory::new(Script::new().speaks(Speaks::Modern));
        let (_fleet, server) = heard_by(&Notes::answering("{}"), &memory);
        connected(&server).await;
        let uris: Vec<_> = (0..8).map(|n| format!("mem://{n}")).collect();
        let subscribing = uris.iter().map(|uri| {
            let (server, uri) = (server.clone(), uri.clone());
            tokio::spawn(async move { server.subscribe(&uri).await })
        });
        for subscribed in subscribing.collect::<Vec<_>>() {
            subscribed.await.unwrap().unwrap();
        }
        // Whatever was to be asked has been asked before it.
        server.ping(LONG).await.unwrap();
        assert_eq!(listened_for(&memory.side(1).await), json!(uris));
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_never_without_a_listener_while_subscriptions_change() {
    let late = Rule::new(Step::Other, Fault::Delay { ms: 1000 })
        .method("subscriptions/listen")
        .occurrence(Occurrence::Nth(2));
    let memory = Memory::new(Script::new().speaks(Speaks::Modern).rule(late));
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    connected(&server).await;
    let side = memory.side(1).await;
    side.wait_for("subscriptions/listen", 1).await;
    server.subscribe(URI).await.unwrap();
    side.wait_for("subscriptions/listen", 2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        side.count("notifications/cancelled"),
        0,
        "the new one is not acknowledged yet"
    );
    side.wait_for("notifications/cancelled", 1).await;
    let received = side.received();
    let listens: Vec<_> = received
        .iter()
        .enumerate()
        .filter(|(_, message)| message.method() == "subscriptions/listen")
        .collect();
    let (ended, message) = received
        .iter()
        .enumerate()
        .find(|(_, message)| message.method() == "notifications/cancelled")
        .expect("the old one is ended");
    let [(_, old), (renewed, _)] = listens[..] else {
        panic!("two listens, not {}", listens.len())
    };
    assert_eq!(message.params()["requestId"], *old.id());
    assert!(renewed < ended, "the new one came first");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_given_up_while_its_wishes_are_restored_listens_no_more() {
    let unheard = Rule::new(Step::Other, Fault::NoAnswer).method("subscriptions/listen");
    let memory = Memory::new(Script::new().speaks(Speaks::Modern).rule(unheard));
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    let side = memory.side(1).await;
    side.wait_for("subscriptions/listen", 1).await;
    server.disable().await.unwrap();
    let over = tokio::time::timeout(LONG, side.over()).await;
    assert!(over.is_ok(), "somebody still holds the connection");
}

/// A handler that says when the last one who holds it lets go.
struct HeldHandler(Option<oneshot::Sender<()>>);

impl ClientHandler for HeldHandler {}

impl Drop for HeldHandler {
    fn drop(&mut self) {
        let released = self.0.take().expect("it is dropped once");
        let _ = released.send(());
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_connection_does_not_wait_to_listen_again() {
    let ends = Rule::new(Step::Other, Fault::Result(json!({}))).method("subscriptions/listen");
    let memory = Memory::new(Script::new().speaks(Speaks::Modern).rule(ends));
    let (released, is_released) = oneshot::channel();
    let handler = Arc::new(HeldHandler(Some(released)));
    let (fleet, server) = fleet_with(Fleet::builder().handler(handler), memory.config("s"));
    connected(&server).await;
    // After so many listens, the pause before the next one is 15 s or longer.
    memory.side(1).await.wait_for("subscriptions/listen", 15).await;
    let closed = Instant::now();
    fleet.close(LONG).await;
    drop((fleet, server));
    is_released.await.expect("the handler is dropped");
    let held = closed.elapsed();
    assert!(
        held < Duration::from_secs(5),
        "the connection was held for {held:?}"
    );
}

/// On a runtime whose newest task runs first, which would let the listing overtake.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_listing_follows_the_listen_that_would_tell_of_its_changes() {
    let memory = Memory::new(Script::new().speaks(Speaks::Modern));
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    connected(&server).await;
    let methods: Vec<_> = memory
        .side(1)
        .await
        .received()
        .iter()
        .map(|message| message.method().to_owned())
        .collect();
    let place = |method: &str| methods.iter().position(|other| other == method);
    assert!(place("subscriptions/listen").is_some(), "{methods:?}");
    assert!(place("subscriptions/listen") < place("tools/list"), "{methods:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_is_told_and_not_asked_for_again() {
    let refused = Rule::new(
        Step::Other,
        Fault::Error {
            code: -32602,
            message: "not this one".to_owned(),
        },
    );
    let memory = Memory::new(Script::new().rule(refused.method("resources/subscribe")));
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    let first = connected(&server).await;
    let refusal = server.subscribe(URI).await;
    assert!(
        matches!(&refusal, Err(CallError { kind: CallErrorKind::Rpc(error), .. }) if error.code() == -32602),
        "{refusal:?}"
    );
    memory.side(1).await.cut();
    next_connection(&server, &first).await;
    assert_eq!(memory.side(2).await.count("resources/subscribe"), 0);
}

#[tokio::test(start_paused = true)]
async fn roots_are_offered_and_answered_on_every_connection_and_their_changes_are_told() {
    let memory = Memory::new(Script::new());
    let notes = Notes::answering(r#"{"roots":[{"uri":"file:///srv"}]}"#);
    let (fleet, server) = heard_by(&notes, &memory);
    let mut last = connected(&server).await;
    for connection in 1..=3 {
        let side = memory.side(connection).await;
        let offered = &side.last_params("initialize").unwrap()["capabilities"];
        assert_eq!(offered["roots"], json!({ "listChanged": true }));
        let answer = call(&server, "ask", json!({ "kind": "roots" })).await;
        assert_eq!(answer["result"]["roots"][0]["uri"], "file:///srv");
        fleet.roots_changed();
        side.wait_for("notifications/roots/list_changed", 1).await;
        side.cut();
        last = next_connection(&server, &last).await;
    }
    assert_eq!(notes.asked(), ["roots/list"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_listen_that_the_server_ends_is_opened_again_and_everything_is_listed_again() {
    for cancels in [false, true] {
        let memory = Memory::new(Script::new().speaks(Speaks::Modern));
        let notes = Notes::answering("{}");
        let (_fleet, server) = heard_by(&notes, &memory);
        let first = connected(&server).await;
        let side = memory.side(1).await;
        side.wait_for("subscriptions/listen", 1).await;
        let listed = side.count("tools/list");
        let received = side.received();
        let listen = received
            .iter()
            .find(|message| message.method() == "subscriptions/listen");
        let id = listen.expect("a listen").id();
        let ending = if cancels {
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
        } else {
            json!({ "jsonrpc": "2.0", "id": id, "result": { "resultType": "complete" } })
        };
        side.inject_message(&ending).await;
        side.wait_for("subscriptions/listen", 2).await;
        side.wait_for("tools/list", listed + 1).await;
        server.subscribe(URI).await.unwrap();
        call(&server, "touch", json!({ "uri": URI })).await;
        notes.told(UPDATED, 1).await;
        assert_eq!(server.status().generation, first.generation);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_be_listened_to_is_not_asked_again() {
    let refuses = Rule::new(Step::Other, Fault::method_not_found()).method("subscriptions/listen");
    let memory = Memory::new(Script::new().speaks(Speaks::Modern).rule(refuses));
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    connected(&server).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(memory.side(1).await.count("subscriptions/listen"), 1);
}
