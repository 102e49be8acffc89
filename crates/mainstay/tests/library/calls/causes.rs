//! The cause that a lost call is given: what ended its connection, as soon as that is known, and nothing else.

use std::time::Duration;

use mainstay::config::Replay;
use mainstay::{CallError, CallErrorKind, CallOptions, Fleet, Outcome, Server, StateKind};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Step};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// A server with a pending call, whose lists fail from the second time on.
async fn stage() -> (Fleet, Server, MemoryServer, JoinHandle<CallError>) {
    let unlisted = Fault::Error {
        code: -32603,
        message: "the shelf is locked".to_owned(),
    };
    let rule = Rule::new(Step::List, unlisted)
        .method("tools/list")
        .occurrence(Occurrence::Nth(2));
    let memory = Memory::new(Script::new().rule(rule));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let side = memory.side(1).await;
    let caller = server.clone();
    let pending = tokio::spawn(async move {
        let options = CallOptions::default().replay(Replay::Never);
        let lost = caller
            .call("sleep_ms", &json!({ "ms": 86_400_000 }))
            .options(options)
            .await;
        lost.expect_err("its connection ends")
    });
    side.wait_for("tools/call", 1).await;
    (fleet, server, side, pending)
}

async fn listing_fails(server: &Server, side: &MemoryServer) {
    side.inject(CHANGED).await;
    let failed = server.wait_until(LONG, |status| status.last_error.is_some());
    let failed = failed.await.expect("the listing fails");
    assert_eq!(failed.state, StateKind::Connected);
}

fn cause(error: &CallError) -> Option<String> {
    match error {
        CallError {
            kind: CallErrorKind::Lost { failure, .. },
            ..
        } => failure.as_ref().map(|failure| failure.message.clone()),
        other => panic!("not lost: {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_on_purpose_fails_at_once_and_blames_nothing() {
    for disables in [false, true] {
        let (_fleet, server, _side, pending) = stage().await;
        let began = Instant::now();
        if disables {
            server.disable().await.expect("disabled");
        } else {
            server.restart().await.expect("restarted");
        }
        let error = pending.await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "disabled: {disables}");
        match disables {
            true => assert!(matches!(error.kind, CallErrorKind::Disabled), "{error}"),
            false => assert_eq!(cause(&error), None, "{error}"),
        }
        assert_eq!(error.outcome(), Outcome::Unknown, "disabled: {disables}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pending_call_whose_server_is_removed_says_so_and_one_whose_fleet_is_closed_does_not() {
    let (fleet, _server, _side, pending) = stage().await;
    assert!(fleet.remove("s").await);
    let error = pending.await.unwrap();
    assert!(matches!(error.kind, CallErrorKind::Gone), "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(error.to_string().contains("may have run"), "{error}");

    let (fleet, _server, _side, pending) = stage().await;
    fleet.close(LONG).await;
    let error = pending.await.unwrap();
    assert!(!matches!(error.kind, CallErrorKind::Gone), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_failed_before_is_not_the_cause_of_a_loss() {
    let (_fleet, server, side, pending) = stage().await;
    listing_fails(&server, &side).await;
    side.cut();
    let error = pending.await.unwrap();
    assert_eq!(
        cause(&error).as_deref(),
        Some("the remote peer closed the connection"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_failed_before_is_not_the_cause_of_a_restart() {
    let (_fleet, server, side, pending) = stage().await;
    listing_fails(&server, &side).await;
    server.restart().await.expect("restarted");
    let error = pending.await.unwrap();
    assert_eq!(cause(&error), None, "{error}");
}
