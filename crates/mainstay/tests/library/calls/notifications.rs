//! What is told without being asked for: to a server, on its live connection and in order; by a server, to the handler of the
//! call that caused it, or to the fleet's.

use std::sync::Arc;
use std::time::Duration;

use mainstay::gateway::{NotifyError, ServerExt};
use mainstay::{CallOptions, Fleet, Server, StateKind};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Script, Step};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use mainstay_testkit::fleet::{LONG, Memory, Notes, connected, fleet_of, fleet_with, raw};

const ODD: &str = r#"{"z":1.0,"a":[ ],"twice":1,"twice":2,"\u006bey":123456789012345678901234567890}"#;

fn own(handler: &Arc<Notes>) -> CallOptions {
    CallOptions::default().handler(handler.clone())
}

/// The server tells something by itself.
async fn tell(side: &MemoryServer, method: &str, params: Value) {
    side.inject_message(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
        .await;
}

/// A call that goes on until it is dropped.
async fn busy(server: &Server, side: &MemoryServer, options: CallOptions) -> tokio::task::JoinHandle<()> {
    let calls = side.count("tools/call");
    let server = server.clone();
    let call = tokio::spawn(async move {
        let arguments = json!({ "ms": 86_400_000 });
        let _dropped = server.call("sleep_ms", &arguments).options(options).await;
    });
    side.wait_for("tools/call", calls + 1).await;
    call
}

#[tokio::test(start_paused = true)]
async fn what_a_server_is_told_reaches_it_as_it_is_and_before_the_call_that_follows() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let generation = connected(&server).await.generation;
    let side = memory.side(1).await;
    for n in 0..200 {
        let told = server.notify("x-vendor/thing", Some(&raw(ODD)), LONG).await;
        assert_eq!(told.ok(), generation);
        let arguments = json!({ "n": n });
        let called = server.call("echo", &arguments).await;
        called.expect("an answer");
    }
    let received = side.received();
    let last: Vec<_> = received.iter().rev().take(20).rev().collect();
    for pair in last.chunks(2) {
        assert_eq!(pair[0].method(), "x-vendor/thing");
        assert_eq!(pair[0].raw_params(), ODD);
        assert_eq!(pair[1].method(), "tools/call");
    }
    assert_eq!(side.count("x-vendor/thing"), 200);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_while_there_is_no_connection_is_not_kept_for_the_next() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    memory.set_down(true);
    memory.side(1).await.cut();
    let left = |status: &mainstay::Status| status.state != StateKind::Connected;
    server.wait_until(LONG, left).await.expect("it is seen");
    let told = server.notify("x-vendor/lost", None, LONG).await;
    let Err(NotifyError::NotConnected(now)) = told else {
        panic!("{told:?}");
    };
    assert_eq!(now.state, StateKind::Reconnecting);
    memory.set_down(false);
    connected(&server).await;
    server.notify("x-vendor/told", None, LONG).await.expect("told");
    let side = memory.side(2).await;
    side.wait_for("x-vendor/told", 1).await;
    assert_eq!(side.count("x-vendor/lost"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_told_so_much_and_then_nothing() {
    let unresponsive = Script::new().on(Step::of("ping"), Fault::StopReading);
    let memory = Memory::new(unresponsive);
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let asked = server.request("ping", None);
    let asked = tokio::time::timeout(Duration::from_millis(100), asked).await;
    assert!(asked.is_err(), "it does not answer any more");
    let large = raw(&format!(r#"{{"pad":"{}"}}"#, "x".repeat(100_000)));
    let mut told = 0;
    let error = loop {
        match server
            .notify("x-vendor/thing", Some(&large), Duration::ZERO)
            .await
        {
            Ok(_) => told += 1,
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(error, NotifyError::Full { .. }), "{error}");
    assert!((1..=64).contains(&told), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_call_s_handler_hears_what_only_its_caller_can_have_caused_and_the_fleet_s_the_rest() {
    const TOLD: &str = "notifications/x-vendor";
    let fleets = Notes::answering("{}");
    let [one, other] = [Notes::answering("{}"), Notes::answering("{}")];
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_with(Fleet::builder().handler(fleets.clone()), memory.config("s"));
    connected(&server).await;
    let side = memory.side(1).await;
    let mut told = 0;
    let mut hears = async |handler: &Notes, count| {
        told += 1;
        tell(&side, TOLD, json!({ "n": told })).await;
        let heard = handler.told(TOLD, count).await;
        assert_eq!(heard.len(), count);
        let params = heard[count - 1].params.as_ref().unwrap();
        assert_eq!(params.as_str(), format!(r#"{{"n":{told}}}"#));
    };
    hears(&fleets, 1).await;
    let first = busy(&server, &side, own(&one)).await;
    hears(&one, 1).await;
    let second = busy(&server, &side, own(&other)).await;
    hears(&fleets, 2).await;
    second.abort();
    side.wait_for("notifications/cancelled", 1).await;
    // It may still run.
    hears(&fleets, 3).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    hears(&one, 2).await;
    first.abort();
    side.wait_for("notifications/cancelled", 2).await;
    // No other call can have caused it.
    hears(&one, 3).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    hears(&fleets, 4).await;
    assert_eq!(other.told(TOLD, 0).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn progress_after_the_answer_reaches_its_caller_alone_under_its_own_token() {
    const PROGRESS: &str = "notifications/progress";
    let fleets = Notes::answering("{}");
    let [caller, bystander] = [Notes::answering("{}"), Notes::answering("{}")];
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_with(Fleet::builder().handler(fleets.clone()), memory.config("s"));
    connected(&server).await;
    let side = memory.side(1).await;
    let (sender, mut progress) = mpsc::channel(8);
    let params = raw(r#"{"name":"echo","arguments":{},"_meta":{"progressToken":"t\u006fken"}}"#);
    let called = server.forward("tools/call", Some(params), own(&caller).progress(sender));
    called.await.expect("an answer");
    assert_eq!(
        progress.recv().await,
        None,
        "who listened to the call is done with it"
    );
    let number = side.last_params("tools/call").unwrap()["_meta"]["progressToken"].clone();
    let _busy = busy(&server, &side, own(&bystander)).await;
    tell(&side, PROGRESS, json!({ "progressToken": number, "progress": 1 })).await;
    let told = caller.told(PROGRESS, 1).await;
    assert_eq!(
        told[0].params.as_ref().unwrap().as_str(),
        r#"{"progress":1,"progressToken":"t\u006fken"}"#
    );
    // One that nobody asked for, and one of a caller who left, are nobody's.
    drop((caller, told));
    for number in [json!("other"), number] {
        tell(&side, PROGRESS, json!({ "progressToken": number, "progress": 2 })).await;
    }
    tell(&side, "notifications/last", json!({})).await;
    bystander.told("notifications/last", 1).await;
    assert!(bystander.told(PROGRESS, 0).await.is_empty() && fleets.told(PROGRESS, 0).await.is_empty());
}
