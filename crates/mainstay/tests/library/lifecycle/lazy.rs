//! Servers that run only while they are used.

use std::time::Duration;

use mainstay::lifecycle::Cause;
use mainstay::server::Reason;
use mainstay::{CallOptions, Fleet, Policy, StateKind};
use mainstay_testkit::Script;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::lifecycle::support::{InMemory, LONG, built, connected, echo, keep, next_event, reaches};

fn stopping_after(idle: Duration) -> Policy {
    Policy {
        idle_stop: Some(idle),
        ..Policy::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_lazy_server_offers_its_tools_from_disk_and_is_started_by_its_first_use() {
    let store = tempfile::tempdir().expect("a directory");
    let memory = InMemory::playing(Script::new());
    let start = || {
        Fleet::builder()
            .store(store.path())
            .start(built([memory.config("lazy").lazy(true)]))
    };

    let learning = start();
    connected(&learning.server("lazy").unwrap()).await;
    assert_eq!(
        memory.attempts(),
        1,
        "a server with an unknown catalog is started once to learn it"
    );
    learning.close(LONG).await;

    let fleet = start();
    let server = fleet.server("lazy").unwrap();
    let mut events = fleet.events();
    assert!(
        fleet.catalog().tool("lazy__echo").is_some(),
        "at once, before anything runs"
    );
    let status = server.status();
    assert_eq!(
        (status.state, status.reason),
        (StateKind::Disconnected, Some(Reason::Idle))
    );
    sleep(LONG).await;
    assert_eq!(memory.attempts(), 1);

    fleet.call("lazy__echo", &json!({})).await.expect("answered");
    assert_eq!(memory.attempts(), 2);
    let demanded = next_event(&mut events, |_| true).await;
    assert_eq!(
        (demanded.to, demanded.cause),
        (StateKind::Connecting, Cause::Demanded)
    );
    assert_eq!(server.status().state, StateKind::Connected);
}

#[tokio::test(start_paused = true)]
async fn several_waits_for_a_lazy_server_start_it_once() {
    let store = tempfile::tempdir().expect("a directory");
    let memory = InMemory::playing(Script::new());
    let start = || {
        Fleet::builder()
            .store(store.path())
            .start(built([memory.config("lazy").lazy(true)]))
    };
    let learning = start();
    connected(&learning.server("lazy").unwrap()).await;
    learning.close(LONG).await;

    let fleet = start();
    let server = fleet.server("lazy").unwrap();
    let (one, two, three) = tokio::join!(
        server.wait_connected(LONG),
        echo(&server, CallOptions::default()),
        echo(&server, CallOptions::default()),
    );
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(memory.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unused_server_is_stopped_and_the_next_call_starts_it_again() {
    let memory = InMemory::playing(Script::new());
    let idle = Duration::from_secs(60);
    let (fleet, server) = keep(memory.config("idle").policy(stopping_after(idle)));
    let first = connected(&server).await;
    sleep(Duration::from_secs(40)).await;
    echo(&server, CallOptions::default()).await.expect("answered");
    let used_at = Instant::now();
    let mut events = fleet.events();

    let stopped = next_event(&mut events, |_| true).await;
    assert_eq!(
        (stopped.to, stopped.cause),
        (StateKind::Disconnected, Cause::WentIdle)
    );
    assert!(
        used_at.elapsed() >= idle && used_at.elapsed() < idle + Duration::from_secs(2),
        "{:?}",
        used_at.elapsed()
    );
    memory.last().over().await;
    assert_eq!(server.status().reason, Some(Reason::Idle));
    assert!(server.status().stale_since.is_some());
    assert!(fleet.catalog().tool("idle__echo").is_some(), "its tools stay");
    sleep(LONG).await;
    assert_eq!(memory.attempts(), 1);

    let reply = echo(&server, CallOptions::default()).await.expect("answered");
    assert!(reply.generation.0 > first);
}

#[tokio::test(start_paused = true)]
async fn a_server_at_work_is_not_idle() {
    let memory = InMemory::playing(Script::new());
    let (_fleet, server) = keep(
        memory
            .config("working")
            .policy(stopping_after(Duration::from_secs(60))),
    );
    connected(&server).await;
    let options = CallOptions::default().idle_timeout(Duration::from_secs(3600));
    let reply = server
        .call("sleep_ms", &json!({ "ms": 1_200_000 }))
        .options(options)
        .await;
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(memory.attempts(), 1);
    reaches(&server, StateKind::Disconnected).await;
}

#[tokio::test(start_paused = true)]
async fn probes_and_listings_are_no_use_of_a_server() {
    let memory = InMemory::playing(Script::new());
    let (_fleet, server) = keep(
        memory
            .config("probed")
            .policy(stopping_after(Duration::from_secs(60))),
    );
    connected(&server).await;
    let began = Instant::now();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    sleep(Duration::from_secs(50)).await;
    memory.last().inject_message(&changed).await;
    reaches(&server, StateKind::Disconnected).await;
    assert!(began.elapsed() < Duration::from_secs(62), "{:?}", began.elapsed());
    assert!(memory.last().count("ping") > 0 && memory.last().count("tools/list") > 1);
}

/// The tool is hinted neither read-only nor idempotent: a call that may have run would fail and not be repeated.
#[tokio::test(start_paused = true)]
async fn a_call_at_the_moment_of_an_idle_stop_is_answered_by_this_connection_or_the_next() {
    let idle = Duration::from_secs(60);
    let mut answered_by = Vec::new();
    for turns in 0..32 {
        let memory = InMemory::playing(Script::new());
        let (_fleet, server) = keep(memory.config("idle").policy(stopping_after(idle)));
        let first = connected(&server).await;
        echo(&server, CallOptions::default()).await.expect("answered");
        sleep(idle).await;
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let reply = server.call("append", &json!({})).await;
        let reply = reply.unwrap_or_else(|error| panic!("after {turns} turns: {error:?}"));
        answered_by.push(reply.generation.0 > first);
    }
    assert!(answered_by.contains(&true), "no call came after the stop");
}
