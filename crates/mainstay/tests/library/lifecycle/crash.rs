//! A server that dies is noticed at once, and comes back by itself, once.

use std::time::Duration;

use mainstay::config::Replay;
use mainstay::lifecycle::Cause;
use mainstay::{CallError, CallErrorKind, CallOptions, Policy, StateKind};
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Flood, Ledger, Script, Step, clock};
use rustix::process::Signal;
use serde_json::json;
use tokio::task::JoinSet;

use crate::lifecycle::support::{
    InMemory, LONG, SOON, connected, connected_pid, echo, keep, next_event, signal, stdio,
};

/// No timer that is due later is waited for.
const AT_ONCE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_killed_idle_server_is_noticed_without_a_call_and_the_event_tells_how_it_ended() {
    let ledger = Ledger::temporary();
    let chatty = FaultyServer::new()
        .ledger(&ledger)
        .on(Step::Start, Fault::FillStderr(300));
    let (fleet, server) = keep(stdio("idle", &chatty));
    let pid = connected_pid(&server).await;
    let mut events = fleet.events();

    signal(pid, Signal::KILL);
    let lost = clock::within(AT_ONCE, next_event(&mut events, |_| true)).await;
    assert_eq!(
        (lost.from, lost.to),
        (StateKind::Connected, StateKind::Reconnecting)
    );
    assert_eq!(lost.cause, Cause::Lost);
    let error = lost.error.expect("a loss says what went wrong");
    assert_eq!(error.exit.and_then(|exit| exit.signal), Some(9));
    assert!(error.message.contains("SIGKILL"), "{error}");
    assert!(
        error
            .stderr
            .iter()
            .any(|line| line.contains("all work and no play"))
    );
    assert_eq!(ledger.count("call"), 0, "no call was needed");
    assert_eq!(ledger.count("ping"), 0, "no probe was needed");
}

#[tokio::test]
async fn a_killed_server_is_connected_again_unaided_as_another_process_with_a_higher_generation() {
    let ledger = Ledger::temporary();
    let (fleet, server) = keep(stdio("phoenix", &FaultyServer::new().ledger(&ledger)));
    let (first, first_pid) = (connected(&server).await, connected_pid(&server).await);
    let mut events = fleet.events();

    signal(first_pid, Signal::KILL);
    let lost = next_event(&mut events, |event| event.to == StateKind::Reconnecting).await;
    assert_eq!(lost.attempt, 1, "a connect alone proves nothing");
    let back = next_event(&mut events, |event| event.to == StateKind::Connected).await;

    assert!(back.generation.expect("a generation").0 > first);
    assert_eq!(connected(&server).await, back.generation.expect("a generation").0);
    assert_ne!(connected_pid(&server).await, first_pid);
    assert!(!is_alive(first_pid));
    assert_eq!(ledger.pids().len(), 2);
    assert!(echo(&server, CallOptions::default()).await.is_ok());
}

#[tokio::test]
async fn a_server_that_had_answered_a_call_is_started_again_without_a_pause() {
    let (fleet, server) = keep(stdio("proven", &FaultyServer::new()));
    let pid = connected_pid(&server).await;
    echo(&server, CallOptions::default()).await.expect("answered");
    let mut events = fleet.events();

    signal(pid, Signal::KILL);
    let lost = next_event(&mut events, |event| event.to == StateKind::Reconnecting).await;

    assert_eq!(
        lost.attempt, 0,
        "the loss of a proven connection is no failure in a row"
    );
    connected(&server).await;
}

#[tokio::test]
async fn ten_calls_that_see_the_same_crash_cause_one_process_start() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = keep(stdio("shared", &FaultyServer::new().ledger(&ledger)));
    connected(&server).await;
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let server = server.clone();
        calls.spawn(async move {
            let options = CallOptions::default().replay(Replay::Never);
            server
                .call("sleep_ms", &json!({ "ms": 60_000 }))
                .options(options)
                .await
        });
    }
    assert!(
        ledger
            .wait_for_async(|ledger| ledger.count("call sleep_ms") == 10, SOON)
            .await
    );

    let crash = server.call("crash", &json!({ "kill": true })).await;
    assert!(matches!(&crash, Err(error) if matches!(error.kind, CallErrorKind::Lost { .. })));
    while let Some(call) = calls.join_next().await {
        assert!(matches!(
            call.expect("no panic"),
            Err(CallError {
                kind: CallErrorKind::Lost { .. },
                ..
            })
        ));
    }

    connected(&server).await;
    echo(&server, CallOptions::default()).await.expect("answered");
    assert_eq!(ledger.pids().len(), 2);
    assert_eq!(server.status().starts, 2);
}

#[tokio::test(start_paused = true)]
async fn ten_calls_that_time_out_together_cause_one_reconnect() {
    let memory = InMemory::choosing(|attempt| {
        let script = Script::new();
        Some(if attempt == 1 {
            script.on(Step::Call, Fault::NoAnswer)
        } else {
            script
        })
    });
    let policy = Policy {
        probe: None,
        ..Policy::default()
    };
    let (_fleet, server) = keep(memory.config("mute").policy(policy));
    let first = connected(&server).await;
    let mut calls = JoinSet::new();
    for _ in 0..10 {
        let server = server.clone();
        calls.spawn(
            async move { echo(&server, CallOptions::default().timeout(Duration::from_secs(1))).await },
        );
    }
    while let Some(call) = calls.join_next().await {
        assert!(call.expect("no panic").is_err());
    }

    let status = server
        .wait_until(LONG, |status| {
            status.state == StateKind::Connected
                && status.generation.is_some_and(|generation| generation.0 > first)
        })
        .await;
    assert!(status.is_some(), "three of them condemned the connection");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(memory.attempts(), 2);
    assert_eq!(
        server.status().stale_reports,
        7,
        "the others spoke of a generation that was gone"
    );
}

#[tokio::test]
async fn a_program_that_was_closed_for_writing_no_messages_is_not_said_to_have_exited() {
    // More lines in a row than are put up with.
    let text = Fault::Flood {
        of: Flood::Text,
        count: 1_100_000,
    };
    let (fleet, server) = keep(stdio("text", &FaultyServer::new().on(Step::Call, text)));
    connected(&server).await;
    let mut events = fleet.events();
    let options = CallOptions::default().replay(Replay::Never);
    echo(&server, options).await.expect_err("it is closed");
    let lost = next_event(&mut events, |event| event.from == StateKind::Connected).await;
    let error = lost.error.expect("a loss says what went wrong");
    assert!(error.message.contains("something other than messages"), "{error}");
    assert_eq!(error.exit, None);
}
