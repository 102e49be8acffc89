//! A close that hangs is cut short at its deadline, and meanwhile holds up no other task.

use std::time::Duration;

use mainstay::{CallOptions, Fleet, Policy, StateKind};
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Script, Step};

use crate::lifecycle::support::{
    InMemory, SOON, all_gone, built, connected, connected_pid, echo, keep, reaches, stdio,
};

/// Ends neither with its input nor by SIGTERM, which its ledger notes.
fn stubborn(ledger: &Ledger) -> FaultyServer {
    FaultyServer::new()
        .ledger(ledger)
        .notes_term()
        .on(Step::Eof, Fault::Hang)
}

fn closing_within(limit: Duration) -> Policy {
    let mut policy = Policy::default();
    policy.limits.close = limit;
    policy
}

#[tokio::test]
async fn a_server_that_will_not_end_blocks_no_restart_no_caller_and_no_other_server() {
    let ledger = Ledger::temporary();
    // Restarted in no time: what it takes, it takes because of the close.
    let memory = InMemory::playing(Script::new());
    let mut servers = built([
        stdio("stubborn", &stubborn(&ledger)),
        stdio("other", &FaultyServer::new()),
    ]);
    servers.extend(built([memory.config("restarted")]));
    let fleet = Fleet::builder().start(servers);
    let (server, other) = (fleet.server("stubborn").unwrap(), fleet.server("other").unwrap());
    let restarted = fleet.server("restarted").unwrap();
    let old = connected_pid(&server).await;
    connected(&other).await;
    connected(&restarted).await;

    server.restart().await.expect("taken");
    echo(&other, CallOptions::default()).await.expect("answered");
    restarted.restart().await.expect("taken");
    connected(&restarted).await;
    assert!(
        is_alive(old),
        "nothing waited for the close, which is still under way"
    );
    assert!(
        ledger
            .wait_for_async(|ledger| ledger.pids().len() == 2, SOON)
            .await
    );
    assert!(!is_alive(old), "the next one starts when the old one is gone");
    connected(&server).await;
    fleet.close(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_close_ends_at_its_deadline_and_the_next_start_costs_no_attempt() {
    let ledger = Ledger::temporary();
    let policy = closing_within(Duration::from_secs(1));
    let (fleet, server) = keep(stdio("stubborn", &stubborn(&ledger)).policy(policy));
    let old = connected_pid(&server).await;
    server.restart().await.expect("taken");
    let started_again = |ledger: &Ledger| ledger.pids().len() == 2;
    assert!(ledger.wait_for_async(started_again, SOON).await);
    assert!(!is_alive(old), "the next one starts when the old one is gone");
    connected(&server).await;
    let status = server.status();
    assert_eq!(
        (status.attempt, status.starts),
        (0, 2),
        "the close cost no attempt"
    );
    assert_eq!(
        ledger.count("term"),
        0,
        "the deadline ended the close before the ladder came to SIGTERM"
    );
    fleet.close(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_server_that_will_not_end_is_disabled_at_once_and_gone_by_the_deadline() {
    let ledger = Ledger::temporary();
    let policy = closing_within(Duration::from_millis(500));
    let (fleet, server) = keep(stdio("stubborn", &stubborn(&ledger)).policy(policy));
    connected(&server).await;

    server.disable().await.expect("taken");
    assert_eq!(server.status().state, StateKind::Disabling);
    let refused = echo(&server, CallOptions::default())
        .await
        .expect_err("no caller waits for a close");
    assert!(
        matches!(refused.kind, mainstay::CallErrorKind::NotConnected(_)),
        "{refused}"
    );
    reaches(&server, StateKind::Disabled).await;
    assert!(all_gone(&ledger).await);
    drop(fleet);
}

#[tokio::test]
async fn the_whole_ladder_ends_what_ignores_its_first_rungs_before_the_next_start() {
    let ledger = Ledger::temporary();
    let (fleet, server) = keep(stdio("stubborn", &stubborn(&ledger)));
    let old = connected_pid(&server).await;
    server.restart().await.expect("taken");
    assert!(
        ledger
            .wait_for_async(|ledger| ledger.pids().len() == 2, SOON)
            .await
    );
    assert!(!is_alive(old));
    connected(&server).await;
    assert_eq!(server.status().attempt, 0);
    fleet.close(Duration::from_millis(100)).await;
}
