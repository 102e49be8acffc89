//! A changed configuration touches only what it changes.

use std::time::Duration;

use mainstay::config::ToolView;
use mainstay::lifecycle::Cause;
use mainstay::{CallErrorKind, CallOptions, Policy, StateKind};
use mainstay_testkit::procfs::is_alive;
use mainstay_testkit::{Fault, FaultyServer, Ledger, Script, Step};
use serde_json::json;

use crate::lifecycle::support::{
    InMemory, LONG, SOON, built, connected, connected_pid, dropped_after, echo, fleet, keep, next_event,
    reaches, stdio,
};

#[tokio::test(start_paused = true)]
async fn applying_says_what_it_changed() {
    let memory = InMemory::playing(Script::new());
    let of = |name: &str| memory.config(name);
    let fleet = fleet([
        of("adjusted"),
        of("disabled"),
        of("enabled").enabled(false),
        of("removed"),
        of("replaced"),
        of("unchanged"),
    ]);
    let timeout = Duration::from_secs(7);
    let changes = fleet
        .apply(built([
            of("added"),
            of("adjusted").call_timeout(timeout),
            of("disabled").enabled(false),
            of("enabled"),
            memory.config_as("replaced", "another"),
            of("unchanged"),
        ]))
        .await;
    assert_eq!(changes.added, ["added"]);
    assert_eq!(changes.removed, ["removed"]);
    assert_eq!(changes.replaced, ["replaced"]);
    assert_eq!(changes.adjusted, ["adjusted"]);
    assert_eq!(changes.enabled, ["enabled"]);
    assert_eq!(changes.disabled, ["disabled"]);
    assert_eq!(changes.unchanged, ["unchanged"]);
    for name in ["added", "adjusted", "enabled", "replaced", "unchanged"] {
        connected(&fleet.server(name).expect(name)).await;
    }
    reaches(&fleet.server("disabled").unwrap(), StateKind::Disabled).await;
    assert!(fleet.server("removed").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_new_connector_of_the_same_identity_is_an_adjustment_and_opens_the_next_connection() {
    let (old, new) = (InMemory::playing(Script::new()), InMemory::playing(Script::new()));
    let (fleet, server) = keep(old.config("kept"));
    let generation = connected(&server).await;
    let changes = fleet.apply(built([new.config("kept")])).await;
    assert_eq!(changes.adjusted, ["kept"], "{changes:?}");
    let reply = echo(&server, CallOptions::default()).await.expect("answered");
    assert_eq!(reply.generation.0, generation, "its connection is not touched");
    server.restart().await.expect("restarted");
    let restarted = server.wait_until(LONG, |status| {
        status.state == StateKind::Connected && status.generation.is_some_and(|now| now.0 > generation)
    });
    restarted.await.expect("it comes back");
    assert_eq!((old.attempts(), new.attempts()), (1, 1));
}

#[tokio::test]
async fn a_change_of_view_timeout_or_policy_reconnects_nothing() {
    let ledger = Ledger::temporary();
    let config = || stdio("kept", &FaultyServer::new().ledger(&ledger));
    let (fleet, server) = keep(config());
    let generation = connected(&server).await;
    let mut events = fleet.events();

    let view = ToolView::default().rename("echo", "say").exclude("crash");
    let policy = Policy {
        probe: None,
        ..Policy::default()
    };
    let changed = config().tools(view).policy(policy).call_timeout(SOON).waiters(3);
    let changes = fleet.apply(built([changed])).await;

    assert_eq!(changes.adjusted, ["kept"]);
    assert!(fleet.catalog().tool("kept__say").is_some());
    assert!(fleet.catalog().tool("kept__crash").is_none());
    let reply = fleet.call("kept__say", &json!({})).await.expect("answered");
    assert_eq!(reply.generation.0, generation);
    assert_eq!(ledger.pids().len(), 1);
    fleet.close(SOON).await;
    let first = next_event(&mut events, |_| true).await;
    assert_eq!(first.cause, Cause::Disabled, "nothing happened before the close");
}

#[tokio::test]
async fn another_identity_replaces_the_process_and_touches_no_neighbour() {
    let (ledger, others) = (Ledger::temporary(), Ledger::temporary());
    let process = FaultyServer::new().ledger(&ledger);
    let neighbour = || stdio("neighbour", &FaultyServer::new().ledger(&others));
    let fleet = fleet([stdio("changed", &process), neighbour()]);
    let server = fleet.server("changed").unwrap();
    let (old, old_pid) = (connected(&server).await, connected_pid(&server).await);
    let neighbours = connected(&fleet.server("neighbour").unwrap()).await;

    let changed = stdio("changed", &process).env("FLAVOUR", "new");
    let changes = fleet.apply(built([changed, neighbour()])).await;
    assert_eq!(
        (&changes.replaced[..], &changes.unchanged[..]),
        (&["changed".to_owned()][..], &["neighbour".to_owned()][..])
    );
    let renewed = server
        .wait_until(SOON, |status| {
            status.state == StateKind::Connected && status.generation.unwrap().0 > old
        })
        .await;
    assert!(renewed.is_some());
    assert!(!is_alive(old_pid));
    assert_eq!(connected(&fleet.server("neighbour").unwrap()).await, neighbours);
    assert_eq!((ledger.pids().len(), others.pids().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn the_old_generation_finishes_its_calls_before_it_closes_and_its_late_news_changes_nothing() {
    let (old, new) = (InMemory::playing(Script::new()), InMemory::playing(Script::new()));
    let (fleet, server) = keep(old.config_as("moved", "old"));
    let generation = connected(&server).await;
    let caller = server.clone();
    let running = tokio::spawn(async move { caller.call("slow_then_answer", &json!({ "ms": 5000 })).await });
    old.last().wait_for("tools/call", 1).await;

    fleet.apply(built([new.config_as("moved", "new")])).await;
    assert_eq!(server.status().state, StateKind::Reconnecting);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (stale, listings) = (server.status().stale_reports, old.last().count("tools/list"));
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    old.last().inject_message(&changed).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.status().stale_reports, stale + 1);
    assert_eq!(old.last().count("tools/list"), listings);
    assert_eq!(new.attempts(), 0, "the new one waits for the end of the old one");

    let reply = running
        .await
        .expect("no panic")
        .expect("a running call may finish");
    assert_eq!(reply.generation.0, generation);
    assert!(connected(&server).await > generation);
    old.last().over().await;
    assert_eq!((old.attempts(), new.attempts()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_the_drain_is_cut() {
    let (old, new) = (InMemory::playing(Script::new()), InMemory::playing(Script::new()));
    let (fleet, server) = keep(old.config_as("moved", "old"));
    connected(&server).await;
    let caller = server.clone();
    let running = tokio::spawn(async move { caller.call("append", &json!({ "ms": 1 })).await });
    old.last()
        .edit(|script| *script = script.clone().on(Step::Call, Fault::NoAnswer));
    old.last().wait_for("tools/call", 1).await;
    let began = tokio::time::Instant::now();
    fleet.apply(built([new.config_as("moved", "new")])).await;
    assert!(running.await.expect("no panic").is_err());
    assert!(
        (29..35).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    connected(&server).await;
}

#[tokio::test]
async fn a_server_removed_and_added_again_never_overlaps_with_its_old_process_nor_repeats_a_generation() {
    let (ledger, others) = (Ledger::temporary(), Ledger::temporary());
    // It is killed four seconds after the end of its input: time for a neighbour to start.
    let slow_to_end = FaultyServer::new()
        .ledger(&ledger)
        .ignores_term()
        .on(Step::Eof, Fault::Hang);
    let config = || stdio("back", &slow_to_end);
    let (fleet, first) = keep(config());
    let mut seen = vec![connected(&first).await];
    for round in 2..=3 {
        let pid = ledger.pids()[round - 2];
        assert!(fleet.apply([]).await.removed.contains(&"back".to_owned()));
        assert!(fleet.server("back").is_none());
        let coming_back = async {
            let neighbour = stdio(&format!("z{round}"), &FaultyServer::new().ledger(&others));
            fleet.apply(built([config(), neighbour])).await
        };
        let watching = async {
            assert!(
                others
                    .wait_for_async(|ledger| ledger.pids().len() == round - 1, SOON)
                    .await
            );
            assert!(
                is_alive(pid),
                "a neighbour does not wait for the end of the old one"
            );
            assert!(
                ledger
                    .wait_for_async(|ledger| ledger.pids().len() == round, SOON)
                    .await
            );
            assert!(!is_alive(pid), "the new one does");
        };
        let (changes, ()) = tokio::join!(coming_back, watching);
        assert_eq!(changes.added, ["back".to_owned(), format!("z{round}")]);
        let generation = connected(&fleet.server("back").unwrap()).await;
        assert!(
            seen.iter().all(|old| *old < generation),
            "{generation} after {seen:?}"
        );
        seen.push(generation);
    }
    assert!(
        echo(&first, CallOptions::default()).await.is_err(),
        "a handle of the removed one is of no use"
    );
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_is_dropped_leaves_no_server_without_an_owner() {
    for turns in 0..12 {
        let (one, two) = (InMemory::playing(Script::new()), InMemory::playing(Script::new()));
        let fleet = fleet([one.config("changed"), one.config("gone")]);
        let wanted = || {
            [
                two.config("aaa"),
                one.config("changed").call_timeout(SOON),
                two.config("zzz"),
            ]
        };
        dropped_after(turns, fleet.apply(built(wanted()))).await;
        fleet.apply(built(wanted())).await;
        for server in fleet.servers() {
            connected(&server).await;
        }
        assert_eq!(fleet.servers().len(), 3);
        assert_eq!(two.attempts(), 2, "each was started once, after {turns} turns");
        fleet.close(LONG).await;
        for memory_server in one.memory_servers().into_iter().chain(two.memory_servers()) {
            memory_server.over().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_apply_loses_no_command() {
    for turns in 0..12 {
        let memory = InMemory::playing(Script::new());
        let (fleet, server) = keep(memory.config("wanted").enabled(false));
        dropped_after(turns, fleet.apply(built([memory.config("wanted")]))).await;
        fleet.apply(built([memory.config("wanted")])).await;
        assert!(server.wait_connected(LONG).await.is_ok(), "after {turns} turns");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_replaced_and_disabled_at_once_is_never_started() {
    let (old, new) = (InMemory::playing(Script::new()), InMemory::playing(Script::new()));
    let (fleet, server) = keep(old.config_as("off", "old"));
    connected(&server).await;
    let changes = fleet
        .apply(built([new.config_as("off", "new").enabled(false)]))
        .await;
    assert_eq!(
        (&changes.replaced[..], &changes.disabled[..]),
        (&["off".to_owned()][..], &["off".to_owned()][..])
    );
    reaches(&server, StateKind::Disabled).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(new.attempts(), 0);
    server.enable().await.expect("taken");
    connected(&server).await;
    assert_eq!((old.attempts(), new.attempts()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_a_person_disabled_stays_so_when_it_is_changed_and_the_report_says_so() {
    let memory = InMemory::playing(Script::new());
    let fleet = fleet([memory.config("by-hand"), memory.config("other")]);
    for server in fleet.servers() {
        connected(&server).await;
    }
    let server = fleet.server("by-hand").unwrap();
    server.disable().await.unwrap();
    reaches(&server, StateKind::Disabled).await;
    let changes = fleet
        .apply(built([
            memory.config_as("by-hand", "changed"),
            memory.config_as("other", "changed"),
        ]))
        .await;
    assert_eq!(changes.replaced, ["by-hand", "other"]);
    assert_eq!(changes.still_disabled, ["by-hand"]);
    assert_eq!(server.status().state, StateKind::Disabled);
    server.enable().await.unwrap();
    connected(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_handle_of_a_server_that_was_removed_says_so_though_another_has_its_name() {
    let memory = InMemory::playing(Script::new());
    let (fleet, old) = keep(memory.config("s"));
    connected(&old).await;
    assert!(!old.status().removed);
    fleet.apply([]).await;
    fleet.apply(built([memory.config("s")])).await;
    let new = fleet.server("s").unwrap();
    connected(&new).await;
    assert!(old != new && old.status().removed && !new.status().removed);
    for options in [CallOptions::default(), CallOptions::default().fail_fast()] {
        let call = echo(&old, options).await;
        assert!(
            matches!(&call, Err(error) if matches!(error.kind, CallErrorKind::Gone)),
            "{call:?}"
        );
    }
    echo(&new, CallOptions::default()).await.expect("answered");
}
