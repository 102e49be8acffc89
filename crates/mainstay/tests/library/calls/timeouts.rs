//! The time of a call: what ends it, what extends it, and what its server hears of it.

use std::time::Duration;

use mainstay::server::TimeoutKind;
use mainstay::{CallErrorKind, CallOptions, Outcome, RawJson, Server, StateKind};
use mainstay_testkit::Script;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use mainstay_testkit::fleet::{Memory, connected, fleet_of, raw};

const SECOND: Duration = Duration::from_secs(1);

async fn stage() -> (mainstay::Fleet, Server, MemoryServer) {
    let memory = Memory::new(Script::new());
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    (fleet, server, memory.side(1).await)
}

/// The id of the last call, as the server saw it.
fn last_call(side: &MemoryServer) -> Value {
    let received = side.received();
    let call = received
        .iter()
        .rev()
        .find(|message| message.method() == "tools/call");
    call.expect("a call").id().clone()
}

async fn assert_cancelled(side: &MemoryServer, call: &Value) {
    side.wait_for("notifications/cancelled", 1).await;
    let params = side.last_params("notifications/cancelled").expect("cancelled");
    assert_eq!(params["requestId"], *call);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_at_the_server_keeps_the_connection_and_drops_the_late_answer() {
    let (_fleet, server, side) = stage().await;
    let before = server.status();
    let options = CallOptions::default().idle_timeout(SECOND);
    let error = server
        .call("slow_then_answer", &json!({ "ms": 10_000 }))
        .options(options)
        .await;
    let error = error.expect_err("too slow");
    assert!(
        matches!(
            error.kind,
            CallErrorKind::TimedOut {
                timeout: TimeoutKind::Idle,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_cancelled(&side, &last_call(&side)).await;

    // The late answer comes while another call waits, and is not taken for its answer.
    let arguments = json!({ "ms": 20_000, "key": "other" });
    let reply = server.call("sleep_ms", &arguments).await;
    let text = reply.expect("its own answer").result;
    assert!(text.as_str().contains("slept"), "{text}");
    let after = server.status();
    assert_eq!(
        (after.state, after.generation, after.starts),
        (StateKind::Connected, before.generation, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_idle_timeout() {
    let (_fleet, server, _) = stage().await;
    let arguments = json!({ "steps": 20, "interval_ms": 900 });
    let options = CallOptions::default().idle_timeout(SECOND).timeout(60 * SECOND);
    let reply = server.call("progress", &arguments).options(options).await;
    assert!(
        reply
            .expect("it worked all along")
            .result
            .as_str()
            .contains("finished")
    );
}

#[tokio::test(start_paused = true)]
async fn progress_never_extends_the_total_timeout() {
    let (_fleet, server, side) = stage().await;
    let began = tokio::time::Instant::now();
    let arguments = json!({ "steps": 100, "interval_ms": 900 });
    let options = CallOptions::default().idle_timeout(SECOND).timeout(5 * SECOND);
    let error = server.call("progress", &arguments).options(options).await;
    let error = error.expect_err("it takes too long");
    assert!(
        matches!(
            error.kind,
            CallErrorKind::TimedOut {
                timeout: TimeoutKind::Total,
                ..
            }
        ),
        "{error}"
    );
    let took = began.elapsed();
    assert!(took >= 5 * SECOND && took < 6 * SECOND, "{took:?}");
    assert_cancelled(&side, &last_call(&side)).await;
}

#[tokio::test(start_paused = true)]
async fn progress_reaches_the_caller_under_the_callers_own_token() {
    let (_fleet, server, side) = stage().await;
    for token in [r#""mine""#, "7000"] {
        let (sender, mut receiver) = mpsc::channel::<RawJson>(16);
        let options = CallOptions::default()
            .progress(sender)
            .meta("progressToken", raw(token));
        let arguments = json!({ "steps": 3, "interval_ms": 10 });
        server
            .call("progress", &arguments)
            .options(options)
            .await
            .unwrap();
        let mut heard = Vec::new();
        while let Some(progress) = receiver.recv().await {
            heard.push(progress.parse::<Value>().unwrap());
        }
        let token: Value = serde_json::from_str(token).unwrap();
        let steps: Vec<_> = heard.iter().map(|progress| &progress["progress"]).collect();
        assert_eq!(steps, [1, 2, 3]);
        assert!(heard.iter().all(|progress| progress["progressToken"] == token));
    }
    let sent = &side.last_params("tools/call").unwrap()["_meta"]["progressToken"];
    assert_ne!(*sent, json!(7000), "two callers with one token stay apart");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_it_at_the_server() {
    let (_fleet, server, side) = stage().await;
    let call = tokio::spawn({
        let server = server.clone();
        async move {
            let arguments = json!({ "ms": 60_000 });
            server.call("sleep_ms", &arguments).await
        }
    });
    side.wait_for("tools/call", 1).await;
    call.abort();
    assert_cancelled(&side, &last_call(&side)).await;
    let reply = server.call("echo", &json!({})).await;
    reply.expect("the connection is as good as ever");
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_it_waits_for_its_server_is_never_sent() {
    let memory = Memory::new(Script::new());
    memory.set_down(true);
    let (_fleet, server) = fleet_of(memory.config("s"));
    let arguments = json!({});
    let waiting = server.call("echo", &arguments);
    assert!(tokio::time::timeout(SECOND, waiting).await.is_err());
    memory.set_down(false);
    connected(&server).await;
    let side = memory.side(1).await;
    server.call("pid", &json!({})).await.unwrap();
    assert_eq!(side.count("tools/call"), 1);
}
