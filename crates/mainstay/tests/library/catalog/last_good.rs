//! What was listed with success stays published until a listing with success replaces it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use mainstay::{Fleet, Policy, StateKind};
use mainstay_lifecycle::Backoff;
use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Step};
use serde_json::{Value, json};

use crate::catalog::{CHANGED, names, rewrite};

fn tools(names: &[&str]) -> Script {
    names
        .iter()
        .fold(Script::new().without_builtin_tools(), |script, name| {
            script.tool(name)
        })
}

fn list_rule(fault: Fault) -> Rule {
    Rule::new(Step::List, fault).method("tools/list")
}

/// The fleet's only server is `s`.
fn stale_since(fleet: &Fleet) -> Option<SystemTime> {
    fleet.catalog().freshness("s").expect("published").stale_since
}

#[tokio::test(start_paused = true)]
async fn while_a_server_is_down_its_last_good_catalog_stays_and_is_marked_stale() {
    let memory = Memory::new(tools(&["one", "two"]));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let before = fleet.catalog();
    assert_eq!(names(&before), ["s__one", "s__two"]);
    assert_eq!(stale_since(&fleet), None);

    memory.set_down(true);
    memory.side(1).await.cut();
    let down = server
        .wait_until(LONG, |status| status.state == StateKind::Reconnecting)
        .await
        .expect("it is noticed");
    assert!(down.stale_since.is_some() && down.listed_at.is_some());
    assert_eq!(stale_since(&fleet), down.stale_since);
    // Through the whole budget and into the slow probes.
    server
        .wait_until(Duration::from_secs(3600), |status| {
            status.state == StateKind::Disconnected
        })
        .await
        .expect("the budget is spent");
    assert_eq!(names(&fleet.catalog()), ["s__one", "s__two"]);
    assert_eq!(fleet.catalog().hash(), before.hash());
    assert_eq!(
        stale_since(&fleet),
        down.stale_since,
        "stale since the first moment of it"
    );

    memory.set_down(false);
    server.restart().await.unwrap();
    let back = connected(&server).await;
    assert_eq!((back.stale_since, stale_since(&fleet)), (None, None));
    assert!(back.listed_at > down.listed_at);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_a_gap_while_a_server_crashes_and_comes_back_with_other_tools() {
    let policy = Policy {
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(1)),
        budget: NonZeroU32::MAX,
        bucket: mainstay_lifecycle::Bucket {
            size: NonZeroU32::MAX,
            ..Policy::default().bucket
        },
        ..Policy::default()
    };
    let memory = Memory::new(tools(&["a1", "a2"]));
    let (fleet, server) = fleet_of(memory.config("s").policy(policy));
    let mut last = connected(&server).await;
    let done = Arc::new(AtomicBool::new(false));
    let (reading, begun) = tokio::sync::oneshot::channel();
    let reader = {
        let (reader, done) = (fleet.catalog_reader(), done.clone());
        tokio::task::spawn_blocking(move || {
            let mut reading = Some(reading);
            while !done.load(Ordering::Relaxed) {
                let catalog = reader.load();
                let names = names(&catalog);
                assert!(
                    names == ["s__a1", "s__a2"] || names == ["s__b1", "s__b2"],
                    "{names:?}"
                );
                if let Some(reading) = reading.take() {
                    let _told = reading.send(());
                }
            }
        })
    };
    begun.await.expect("it reads");
    for round in 1..=20 {
        let next = if round % 2 == 0 {
            ["a1", "a2"]
        } else {
            ["b1", "b2"]
        };
        rewrite(&memory, |_| tools(&next));
        memory.side(round).await.cut();
        last = server
            .wait_until(LONG, |status| {
                status.state == StateKind::Connected && status.generation > last.generation
            })
            .await
            .expect("it comes back");
        assert_eq!(names(&fleet.catalog())[0], format!("s__{}", next[0]));
    }
    done.store(true, Ordering::Relaxed);
    reader.await.expect("no reader saw a gap");
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_replaces_nothing_and_leaves_the_catalog_stale_until_one_succeeds() {
    let memory = Memory::new(tools(&["old"]));
    let (fleet, server) = fleet_of(memory.config("s"));
    let first = connected(&server).await;
    let side = memory.side(1).await;
    let broken = list_rule(Fault::Error {
        code: -32603,
        message: "out of order".to_owned(),
    });
    side.edit(|script| *script = tools(&["new"]).rule(broken));
    side.inject(CHANGED).await;
    let failed = server
        .wait_until(LONG, |status| status.stale_since.is_some())
        .await
        .expect("marked stale");
    assert_eq!(
        (failed.state, failed.generation),
        (StateKind::Connected, first.generation)
    );
    assert_eq!(names(&fleet.catalog()), ["s__old"]);

    side.edit(|script| script.rules.clear());
    server
        .wait_until(LONG, |status| status.stale_since.is_none())
        .await
        .expect("it is listed again without being told");
    assert_eq!(names(&fleet.catalog()), ["s__new"]);
    assert_eq!(
        server.status().generation,
        first.generation,
        "one failed listing costs no connection"
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_replaces_a_full_one_only_when_a_second_listing_confirms_it() {
    let memory = Memory::new(tools(&["one"]));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let mut reader = fleet.catalog_reader();
    let side = memory.side(1).await;
    let slow = list_rule(Fault::Delay { ms: 1000 }).occurrence(Occurrence::Nth(2));
    side.edit(|script| *script = tools(&[]).rule(slow));
    side.inject(CHANGED).await;
    side.wait_for("tools/list", 3).await;
    assert_eq!(
        names(&fleet.catalog()),
        ["s__one"],
        "one empty listing is not believed"
    );
    let changed = tokio::time::timeout(LONG, reader.changed())
        .await
        .expect("the second one is");
    assert_eq!(names(&changed.unwrap()), Vec::<&str>::new());
    assert_eq!(side.count("tools/list"), 3);
    assert_eq!(server.status().state, StateKind::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_empty_once_and_full_again_changes_nothing() {
    let empty: Value = json!({ "tools": [] });
    let rule = list_rule(Fault::Result(empty)).occurrence(Occurrence::Nth(2));
    let memory = Memory::new(Script::new().rule(rule));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let before = fleet.catalog();
    let mut reader = fleet.catalog_reader();
    let side = memory.side(1).await;
    side.inject(CHANGED).await;
    let changed = tokio::time::timeout(LONG, reader.changed()).await;
    assert!(changed.is_err(), "no change is told");
    assert_eq!(side.count("tools/list"), 3);
    assert_eq!(
        (fleet.catalog().revision(), fleet.catalog().hash()),
        (before.revision(), before.hash())
    );
}
