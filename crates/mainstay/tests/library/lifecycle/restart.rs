//! A manual restart is taken in every state but disabled, at once, and with a renewed budget.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay::server::{CommandError, Reason};
use mainstay::{Fleet, Policy, Server, StateKind};
use mainstay_lifecycle::{Backoff, WhenSpent};
use mainstay_testkit::{Fault, Script, Step};
use tokio::time::Instant;

use crate::lifecycle::support::{InMemory, LONG, SOON, connected, keep, reaches};

/// A server that can be reached or not, as the test pleases, with pauses longer than any test waits.
struct Fickle {
    memory: Arc<InMemory>,
    reachable: Arc<AtomicBool>,
}

impl Fickle {
    fn new(reachable: bool, script: Script) -> Self {
        let reachable = Arc::new(AtomicBool::new(reachable));
        let asked = reachable.clone();
        let memory = InMemory::choosing(move |_| asked.load(Ordering::Relaxed).then(|| script.clone()));
        Self { memory, reachable }
    }

    fn keep(&self, budget: u32, when_spent: WhenSpent) -> (Fleet, Server) {
        let policy = Policy {
            backoff: Backoff::new(Duration::from_secs(86_400), Duration::from_secs(86_400)),
            budget: NonZeroU32::new(budget).unwrap(),
            when_spent,
            idle_stop: Some(Duration::from_secs(60)),
            ..Policy::default()
        };
        keep(self.memory.config("fickle").policy(policy))
    }

    /// Restarts the server, now reachable: it must be connected before any pause could have passed.
    async fn restart(&self, server: &Server) {
        self.reachable.store(true, Ordering::Relaxed);
        let (asked_at, attempts) = (Instant::now(), self.memory.attempts());
        server.restart().await.expect("taken");
        connected(server).await;
        assert_eq!(server.status().attempt, 0, "the budget is renewed");
        assert!(
            asked_at.elapsed() < Duration::from_millis(100),
            "after {:?}",
            asked_at.elapsed()
        );
        assert_eq!(self.memory.attempts(), attempts + 1);
    }
}

const SLOWLY: WhenSpent = WhenSpent::ProbeEvery(Duration::from_secs(86_400));

#[tokio::test(start_paused = true)]
async fn a_restart_while_connected_opens_another_connection() {
    let fickle = Fickle::new(true, Script::new());
    let (_fleet, server) = fickle.keep(10, SLOWLY);
    let old = connected(&server).await;
    fickle.restart(&server).await;
    assert!(connected(&server).await > old);
    fickle.memory.memory_servers()[0].over().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_while_connecting_begins_again() {
    let hangs_once = InMemory::choosing(|attempt| {
        let script = Script::new();
        Some(if attempt == 1 {
            script.on(Step::Initialize, Fault::NoAnswer)
        } else {
            script
        })
    });
    let (_fleet, server) = keep(hangs_once.config("hangs"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hangs_once.last().count("initialize"), 1);
    assert_eq!(server.status().state, StateKind::Connecting);
    let asked_at = Instant::now();
    server.restart().await.expect("taken");
    connected(&server).await;
    assert!(asked_at.elapsed() < Duration::from_secs(1));
    assert_eq!(hangs_once.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restart_while_reconnecting_skips_the_backoff() {
    let fickle = Fickle::new(false, Script::new());
    let (_fleet, server) = fickle.keep(10, SLOWLY);
    let waiting = reaches(&server, StateKind::Reconnecting).await;
    assert_eq!(waiting.attempt, 1);
    fickle.restart(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_server_whose_budget_is_spent_waits_for_no_probe() {
    let fickle = Fickle::new(false, Script::new());
    let (_fleet, server) = fickle.keep(1, SLOWLY);
    let spent = reaches(&server, StateKind::Disconnected).await;
    assert_eq!((spent.reason, spent.attempt), (Some(Reason::BudgetSpent), 1));
    fickle.restart(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_an_idle_server_starts_it() {
    let fickle = Fickle::new(true, Script::new());
    let (_fleet, server) = fickle.keep(10, SLOWLY);
    connected(&server).await;
    let idle = reaches(&server, StateKind::Disconnected).await;
    assert_eq!(idle.reason, Some(Reason::Idle));
    fickle.restart(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_brings_back_a_server_that_was_given_up() {
    let fickle = Fickle::new(false, Script::new());
    let (_fleet, server) = fickle.keep(1, WhenSpent::GiveUp);
    reaches(&server, StateKind::PermanentlyFailed).await;
    fickle.restart(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_renews_the_tokens_of_a_server_that_was_started_too_often() {
    let fickle = Fickle::new(true, Script::new());
    let (_fleet, server) = fickle.keep(10, SLOWLY);
    connected(&server).await;
    for _ in 0..30 {
        fickle.restart(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_disabled_server_is_refused() {
    let fickle = Fickle::new(true, Script::new());
    let (_fleet, server) = fickle.keep(10, SLOWLY);
    connected(&server).await;
    server.disable().await.expect("taken");
    assert!(matches!(server.restart().await, Err(CommandError::Disabled(_))));
    reaches(&server, StateKind::Disabled).await;
    assert!(matches!(server.restart().await, Err(CommandError::Disabled(_))));
    tokio::time::sleep(LONG).await;
    assert_eq!(fickle.memory.attempts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_after_a_restart_never_ends_with_the_old_connection() {
    let memory = InMemory::playing(Script::new());
    let (_fleet, server) = keep(memory.config("raced"));
    let mut last = connected(&server).await;
    for _ in 0..100 {
        server.restart().await.expect("taken");
        let status = server.wait_connected(SOON).await.expect("connected");
        let now = status.generation.unwrap().0;
        assert!(now > last, "{now} after {last}");
        last = now;
    }
}
