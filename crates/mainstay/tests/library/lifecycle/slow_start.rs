//! Patience with a server that starts: as long as it gives signs of life, up to the hard limit.

use std::time::Duration;

use mainstay::config::{ServerBuilder, StdioTarget};
use mainstay::lifecycle::Cause;
use mainstay::{Policy, StateKind};
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Rule, Step};

use crate::lifecycle::support::{SOON, connected, keep, next_event, stdio};

/// One that is patient for two seconds of silence, and for `hard_limit` in all.
fn patient(server: &FaultyServer, hard_limit: Duration) -> ServerBuilder<StdioTarget> {
    let mut policy = Policy::default();
    policy.limits.open = hard_limit;
    stdio("slow", server)
        .startup_timeout(Duration::from_secs(2))
        .policy(policy)
}

#[tokio::test]
async fn a_slow_starter_that_writes_to_stderr_is_left_alone() {
    let ledger = Ledger::temporary();
    let chatter = Fault::Chatter {
        ms: 5000,
        every_ms: 50,
    };
    let installing = FaultyServer::new().ledger(&ledger).on(Step::Start, chatter);
    let (fleet, server) = keep(patient(&installing, SOON));
    let mut events = fleet.events();
    connected(&server).await;
    let first = next_event(&mut events, |_| true).await;
    assert_eq!(
        (first.from, first.to),
        (StateKind::Connecting, StateKind::Connected)
    );
    assert_eq!(ledger.pids().len(), 1, "no second one ran beside it");
}

#[tokio::test]
async fn a_starter_that_is_silent_is_given_up_and_tried_again() {
    let ledger = Ledger::temporary();
    let silent = FaultyServer::new()
        .ledger(&ledger)
        .rule(Rule::new(Step::Start, Fault::Delay { ms: 60_000 }).first_starts(1));
    let (fleet, server) = keep(patient(&silent, SOON));
    let mut events = fleet.events();
    let failed = next_event(&mut events, |_| true).await;
    assert_eq!(
        (failed.to, failed.cause),
        (StateKind::Reconnecting, Cause::OpenFailed)
    );
    let message = &failed.error.expect("it says why").message;
    assert!(message.contains("no sign of life"), "{message}");
    connected(&server).await;
    let pids = ledger.pids();
    assert_eq!(pids.len(), 2);
    assert!(!is_alive(pids[0]));
}

#[tokio::test]
async fn the_hard_limit_ends_a_start_that_only_ever_talks() {
    let ledger = Ledger::temporary();
    let chatter = Fault::Chatter {
        ms: 60_000,
        every_ms: 50,
    };
    let talks = FaultyServer::new()
        .ledger(&ledger)
        .rule(Rule::new(Step::Start, chatter).first_starts(1));
    let (fleet, server) = keep(patient(&talks, Duration::from_secs(4)));
    let mut events = fleet.events();
    let failed = next_event(&mut events, |_| true).await;
    assert_eq!(failed.to, StateKind::Reconnecting);
    let error = failed.error.expect("it says why");
    assert!(error.message.contains("not ready 4s after its start"), "{error}");
    assert!(
        error.stderr.iter().any(|line| line.starts_with("starting")),
        "{error:?}"
    );

    assert!(
        ledger
            .wait_for_async(|ledger| ledger.pids().len() == 2, SOON)
            .await
    );
    assert!(
        !is_alive(ledger.pids()[0]),
        "the second one waits for the end of the first"
    );
    connected(&server).await;
    assert_eq!(
        ledger.count("discover"),
        0,
        "its era is unknown, so the second attempt begins with initialize"
    );
}
