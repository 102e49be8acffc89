//! A caller may leave at any moment: whatever it had asked for is taken whole or not at all.

use std::time::Duration;

use mainstay::{CallOptions, Policy, StateKind};
use mainstay_testkit::Script;
use serde_json::json;

use crate::lifecycle::support::{InMemory, LONG, connected, dropped_after, echo, keep, reaches};

/// More turns than any of the futures below needs to its end.
const TURNS: usize = 24;

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_at_any_await_point_leaves_nothing_half_done() {
    let memory = InMemory::playing(Script::new());
    let (fleet, server) = keep(memory.config("left"));
    for turns in 0..TURNS {
        connected(&server).await;
        dropped_after(turns, echo(&server, CallOptions::default())).await;
        dropped_after(turns, server.wait_connected(LONG)).await;
        assert!(
            echo(&server, CallOptions::default()).await.is_ok(),
            "after {turns} turns of a call"
        );

        dropped_after(turns, server.restart()).await;
        connected(&server).await;
        assert!(
            echo(&server, CallOptions::default()).await.is_ok(),
            "after {turns} turns of a restart"
        );

        dropped_after(turns, server.disable()).await;
        server.enable().await.expect("taken");
        connected(&server).await;
        assert!(
            echo(&server, CallOptions::default()).await.is_ok(),
            "after {turns} turns of a disable"
        );

        server.disable().await.expect("taken");
        dropped_after(turns, server.enable()).await;
        dropped_after(turns, echo(&server, CallOptions::default())).await;
        server
            .restart()
            .await
            .expect("an enable that was asked for is taken, or has been");
    }
    fleet.close(LONG).await;
    for memory_server in memory.memory_servers() {
        tokio::time::timeout(LONG, memory_server.over())
            .await
            .expect("no connection is left open");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_caller_left_is_still_taken() {
    let memory = InMemory::playing(Script::new());
    let (_fleet, server) = keep(memory.config("commanded"));
    connected(&server).await;
    dropped_after(0, server.disable()).await;
    reaches(&server, StateKind::Disabled).await;
    dropped_after(0, server.enable()).await;
    reaches(&server, StateKind::Connected).await;
    let generation = connected(&server).await;
    dropped_after(0, server.restart()).await;
    let renewed = server
        .wait_until(LONG, |status| {
            status.generation.is_some_and(|now| now.0 > generation)
        })
        .await;
    assert!(renewed.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_gives_its_place_among_the_waiting_back() {
    let memory = InMemory::choosing(|_| None);
    let (_fleet, server) = keep(memory.config("queue").waiters(1));
    for turns in 0..TURNS {
        dropped_after(turns, echo(&server, CallOptions::default())).await;
    }
    let error = echo(&server, CallOptions::default().timeout(Duration::from_secs(1))).await;
    let waited = matches!(
        error,
        Err(mainstay::CallError {
            kind: mainstay::CallErrorKind::WaitTimedOut { .. },
            ..
        } | mainstay::CallError {
            kind: mainstay::CallErrorKind::NotConnected(_),
            ..
        })
    );
    assert!(waited, "no place was left: {error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_keeps_its_server_from_no_idle_stop() {
    let memory = InMemory::playing(Script::new());
    let policy = Policy {
        idle_stop: Some(Duration::from_secs(60)),
        ..Policy::default()
    };
    let (_fleet, server) = keep(memory.config("idle").policy(policy));
    connected(&server).await;
    let a_second = json!({ "ms": 1000 });
    for turns in 0..TURNS {
        dropped_after(turns, server.call("sleep_ms", &a_second).into_future()).await;
    }
    reaches(&server, StateKind::Disconnected).await;
}
