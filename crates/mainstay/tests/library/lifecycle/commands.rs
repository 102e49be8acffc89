//! Enable and disable: the latest command wins, whatever is under way.

use std::time::Duration;

use mainstay::lifecycle::Cause;
use mainstay::server::CommandError;
use mainstay::{Policy, StateKind};
use mainstay_lifecycle::Backoff;
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Script, Step};

use crate::lifecycle::support::{
    InMemory, LONG, SOON, all_gone, connected, connected_pid, keep, next_event, reaches, stdio,
};

#[tokio::test]
async fn a_burst_of_commands_ends_as_the_last_one_says_with_nothing_running() {
    let ledger = Ledger::temporary();
    let (_fleet, server) = keep(stdio("burst", &FaultyServer::new().ledger(&ledger)));
    connected(&server).await;
    for _ in 0..5 {
        server.disable().await.expect("taken");
        server.enable().await.expect("taken");
        server.disable().await.expect("taken");
    }
    reaches(&server, StateKind::Disabled).await;
    assert!(all_gone(&ledger).await);
    let starts = ledger.pids().len();
    assert!(
        !ledger
            .wait_for_async(|ledger| ledger.pids().len() > starts, Duration::from_secs(1))
            .await
    );
    assert_eq!(server.status().state, StateKind::Disabled);
}

#[tokio::test(start_paused = true)]
async fn a_disable_during_backoff_means_that_nothing_is_ever_started() {
    let memory = InMemory::choosing(|_| None);
    let policy = Policy {
        backoff: Backoff::new(Duration::from_secs(600), Duration::from_secs(600)),
        ..Policy::default()
    };
    let (_fleet, server) = keep(memory.config("paused").policy(policy));
    let waiting = reaches(&server, StateKind::Reconnecting).await;
    assert!(waiting.next_retry.is_some());
    server.disable().await.expect("taken");
    assert_eq!(
        server.status().state,
        StateKind::Disabled,
        "there is nothing to close"
    );
    assert_eq!(server.status().next_retry, None);
    tokio::time::sleep(LONG).await;
    assert_eq!(memory.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_disable_while_it_starts_cuts_the_start_short() {
    let memory = InMemory::playing(Script::new().on(Step::Initialize, Fault::NoAnswer));
    let (_fleet, server) = keep(memory.config("starting"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.disable().await.expect("taken");
    reaches(&server, StateKind::Disabled).await;
    memory.last().over().await;
    tokio::time::sleep(LONG).await;
    assert_eq!(memory.attempts(), 1);
}

#[tokio::test]
async fn an_enable_during_disabling_ends_connected_once_the_old_process_is_gone() {
    let ledger = Ledger::temporary();
    // It is killed in the end, which comes later than the next steps of this test.
    let slow_to_end = FaultyServer::new()
        .ledger(&ledger)
        .ignores_term()
        .on(Step::Eof, Fault::Hang);
    let (fleet, server) = keep(stdio("slow", &slow_to_end));
    let old = connected_pid(&server).await;
    let mut events = fleet.events();

    server.disable().await.expect("taken");
    assert_eq!(server.status().state, StateKind::Disabling);
    server.enable().await.expect("taken");
    let waiting = next_event(&mut events, |event| event.to == StateKind::Connecting).await;
    assert_eq!(
        (waiting.from, waiting.cause),
        (StateKind::Disabling, Cause::Enabled)
    );
    assert!(is_alive(old), "the old one is still closing");
    assert!(
        ledger
            .wait_for_async(|ledger| ledger.pids().len() == 2, SOON)
            .await
    );
    assert!(!is_alive(old), "the new one waits for its end");
    connected(&server).await;
}

#[tokio::test]
async fn no_command_brings_a_server_back_that_is_leaving_the_fleet() {
    let ledger = Ledger::temporary();
    let slow_to_end = FaultyServer::new()
        .ledger(&ledger)
        .on(Step::Eof, Fault::Delay { ms: 500 });
    let (fleet, server) = keep(stdio("leaving", &slow_to_end));
    connected(&server).await;
    let commands = async {
        reaches(&server, StateKind::Disabling).await;
        (server.enable().await, server.restart().await)
    };
    let (report, (enabled, restarted)) = tokio::join!(fleet.close(SOON), commands);
    assert!(matches!(enabled, Err(CommandError::Gone(_))), "{enabled:?}");
    assert!(matches!(restarted, Err(CommandError::Gone(_))), "{restarted:?}");
    assert!(matches!(server.disable().await, Err(CommandError::Gone(_))));
    assert_eq!(
        report.killed().count(),
        0,
        "it ended by itself, and was not overdue"
    );
    assert_eq!(ledger.pids().len(), 1);
}
