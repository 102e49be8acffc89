//! What can be seen of a server, without touching it.

use std::time::{Duration, SystemTime};

use mainstay::lifecycle::Desired;
use mainstay::server::Reason;
use mainstay::{CallErrorKind, CallOptions, Era, Fleet, Policy, StateKind};
use mainstay_lifecycle::Backoff;
use mainstay_testkit::{Fault, FaultyServer, Rule, Script, Step};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::lifecycle::support::{InMemory, LONG, SOON, built, connected, echo, keep, signal, stdio};

#[tokio::test(start_paused = true)]
async fn reading_the_status_starts_nothing() {
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
    for _ in 0..100 {
        assert_eq!(server.status().reason, Some(Reason::Idle));
        assert!(server.catalog().is_some() && server.stderr_tail(5).is_empty());
        let waited = server.wait_until(Duration::from_secs(1), |status| {
            status.state == StateKind::Connected
        });
        assert!(waited.await.is_none());
        assert!(!format!("{fleet:?} {:?}", fleet.catalog()).is_empty());
    }
    assert_eq!(memory.attempts(), 1, "the one that learnt");
}

#[tokio::test]
async fn the_status_shows_all_that_is_known_of_a_live_server() {
    let before = SystemTime::now();
    let chatty = FaultyServer::new().on(Step::Start, Fault::FillStderr(300));
    let (_fleet, server) = keep(stdio("live", &chatty));
    let generation = connected(&server).await;
    let status = server.status();
    assert_eq!(&*status.server, "live");
    assert_eq!(
        (status.state, status.desired, status.reason),
        (StateKind::Connected, Desired::Enabled, None)
    );
    assert!(status.since >= before && status.since <= SystemTime::now());
    assert_eq!(status.generation.map(|of| of.0), Some(generation));
    assert_eq!((status.attempt, status.budget, status.next_retry), (0, 10, None));
    assert!(status.last_error.is_none());
    assert!(status.pid.is_some());
    assert_eq!(
        status.protocol.map(|(era, version)| (era, version.to_string())),
        Some((Era::Legacy, "2025-11-25".to_owned()))
    );
    assert!(status.listed_at.is_some_and(|at| at >= before));
    assert_eq!((status.stale_since, status.stale_reports), (None, 0));
    assert_eq!((status.starts, status.keeper_failures), (1, 0));
    let tail = server.stderr_tail(2);
    assert_eq!(tail.len(), 2);
    assert!(tail.iter().all(|line| line.generation == generation));
}

#[tokio::test]
async fn the_status_of_a_lost_server_shows_why_and_when_it_is_tried_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let broken = directory.path().join("broken");
    let server = FaultyServer::new()
        .rule(Rule::new(Step::Start, Fault::FillStderr(100)).when_file(&broken))
        .rule(Rule::new(Step::Start, Fault::Exit(3)).when_file(&broken));
    let policy = Policy {
        backoff: Backoff::new(Duration::from_secs(3600), Duration::from_secs(3600)),
        ..Policy::default()
    };
    let (_fleet, server) = keep(stdio("lost", &server).policy(policy));
    connected(&server).await;
    let listed_at = server.status().listed_at;
    std::fs::write(&broken, "").expect("the switch is thrown");
    // The call proves the connection, so that the next start is tried at once, and fails.
    server
        .call("echo", &serde_json::json!({}))
        .await
        .expect("answered");
    signal(server.status().pid.expect("a process"), Signal::KILL);
    let lost = server
        .wait_until(SOON, |status| status.attempt == 1)
        .await
        .expect("the next start failed");

    assert_eq!(
        (lost.state, lost.generation, lost.pid),
        (StateKind::Reconnecting, None, None)
    );
    let next = lost.next_retry.expect("planned");
    assert!(next > SystemTime::now() && next < SystemTime::now() + Duration::from_secs(3600));
    let error = lost.last_error.expect("it says why");
    let exit = error.exit.expect("it ended");
    assert_eq!(exit.code, Some(3), "{error}");
    assert_eq!(
        error.message,
        format!("the server's process ended while starting: {exit}")
    );
    assert!(
        error.stderr.iter().any(|line| line.contains("all work")),
        "{error:?}"
    );
    assert_eq!(lost.listed_at, listed_at);
    assert!(
        lost.stale_since > listed_at,
        "the catalog is stale since the loss"
    );
    assert!(!server.stderr_tail(5).is_empty());
    assert!(server.catalog().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_last_error_is_that_of_the_last_attempt_even_if_all_of_them_only_hang() {
    let memory = InMemory::playing(Script::new().on(Step::Initialize, Fault::NoAnswer));
    let mut policy = Policy::default();
    policy.limits.open = Duration::from_secs(10);
    let hangs = memory
        .config("hangs")
        .policy(policy)
        .startup_timeout(Duration::from_secs(10));
    let (_fleet, server) = keep(hangs);
    let mut blamed = None;
    for attempt in 1..=3 {
        let failed = server
            .wait_until(LONG, |status| status.attempt == attempt)
            .await
            .expect("it hangs");
        let error = failed.last_error.expect("it says why");
        assert!(error.generation > blamed, "attempt {attempt}: {error:?}");
        blamed = error.generation;
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_last_success_and_the_calls_that_failed_since() {
    let memory = InMemory::playing(Script::new().rule(Rule::new(Step::Call, Fault::NoAnswer).named("slow")));
    let (fleet, server) = keep(memory.config("s"));
    let generation = connected(&server).await;
    assert_eq!(
        (server.status().last_success, server.status().call_failures),
        (None, 0)
    );
    let freshness = fleet.catalog().freshness("s").expect("published");
    assert_eq!(
        freshness.generation.map(|listed_by| listed_by.0),
        Some(generation)
    );

    let before = SystemTime::now() - Duration::from_secs(1);
    echo(&server, CallOptions::default()).await.expect("answered");
    let success = server.status().last_success.expect("just now");
    assert!(success > before);

    for failures in 1..=2 {
        let short = CallOptions::default().timeout(Duration::from_secs(1));
        let call = server.call("slow", &serde_json::json!({})).options(short).await;
        assert!(
            matches!(&call, Err(error) if matches!(error.kind, CallErrorKind::TimedOut { .. })),
            "{call:?}"
        );
        let counted = server.wait_until(LONG, |status| status.call_failures == failures);
        counted.await.expect("it is counted");
    }
    assert_eq!(server.status().last_success, Some(success));
    echo(&server, CallOptions::default()).await.expect("answered");
    let recovered = server.wait_until(LONG, |status| status.call_failures == 0);
    recovered.await.expect("an answer ends the row");
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_a_server_is_shown_to_those_who_watch_it() {
    let memory = InMemory::playing(Script::new());
    let (fleet, server) = keep(memory.config("removed"));
    connected(&server).await;
    let mut watched = server.watch();
    assert!(!watched.borrow().removed);
    assert!(fleet.remove("removed").await);
    let shown = watched.wait_for(|status| status.removed);
    let status = timeout(LONG, shown)
        .await
        .expect("shown")
        .expect("the handle is there");
    assert_eq!(status.state, StateKind::Disabled);
}
