//! Lists that a server changes without a word: they are made again when their time is over, and when somebody asks.

use std::time::Duration;

use mainstay::server::{NotConnected, Reason, RefreshError};
use mainstay::{Policy, StateKind};
use mainstay_lifecycle::Expiry;
use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use tokio::time::{sleep, timeout};

use crate::catalog::names;

fn offering(tool: &str) -> Script {
    Script::new().without_builtin_tools().tool(tool)
}

/// A modern server that says how long its lists are current.
fn living(ttl_ms: u64, tool: &str) -> Script {
    Script {
        ttl_ms,
        ..offering(tool).speaks(Speaks::Modern)
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_time_to_live_is_over_is_made_again_and_what_is_new_is_published() {
    let memory = Memory::new(living(1000, "old"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let side = memory.side(1).await;
    let mut reader = fleet.catalog_reader();
    side.edit(|script| *script = living(1000, "new"));
    let changed = timeout(LONG, reader.changed()).await.expect("it is seen");
    assert_eq!(names(&changed.unwrap()), ["s__new"]);

    let before = side.count("tools/list");
    sleep(Duration::from_secs(40)).await;
    let listings = side.count("tools/list") - before;
    assert!((30..=40).contains(&listings), "{listings} in 40 s");
    let listed = server.status().listed_at.expect("listed");
    assert!(listed.elapsed().unwrap_or_default() < LONG);
    assert_eq!(server.status().starts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_listed_again_as_often_as_the_configuration_says() {
    let memory = Memory::new(offering("old"));
    let policy = Policy {
        expiry: Expiry {
            every: Some(Duration::from_secs(30)),
            ..Expiry::default()
        },
        ..Policy::default()
    };
    let (fleet, server) = fleet_of(memory.config("s").policy(policy));
    connected(&server).await;
    let side = memory.side(1).await;
    let mut reader = fleet.catalog_reader();
    side.edit(|script| *script = offering("new"));
    let changed = timeout(LONG, reader.changed()).await.expect("it is seen");
    assert_eq!(names(&changed.unwrap()), ["s__new"]);
    assert_eq!(side.count("tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_time_to_live_neither_keeps_an_unused_server_nor_wakes_it() {
    let memory = Memory::new(living(1000, "t"));
    let policy = Policy {
        idle_stop: Some(Duration::from_secs(20)),
        ..Policy::default()
    };
    let (_fleet, server) = fleet_of(memory.config("s").policy(policy));
    connected(&server).await;
    let stopped = server.wait_until(LONG, |status| status.reason == Some(Reason::Idle));
    stopped.await.expect("stopped though it was listed every second");
    let side = memory.side(1).await;
    let listings = side.count("tools/list");
    assert!(listings > 10, "{listings}");
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(side.count("tools/list"), listings);
    assert_eq!(server.status().starts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_ends_once_a_listing_is_published_that_began_after_it() {
    let memory = Memory::new(offering("first"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    sleep(Duration::from_secs(10)).await;
    let side = memory.side(1).await;
    side.edit(|script| *script = offering("second"));
    server.refresh().await.expect("listed");
    assert_eq!(names(&fleet.catalog()), ["s__second"]);

    // What a listing answers is decided when its request arrives; this one takes a second.
    let slow = || Rule::new(Step::List, Fault::Delay { ms: 1000 }).method("tools/list");
    side.edit(|script| *script = offering("third").rule(slow()));
    let running = tokio::spawn({
        let server = server.clone();
        async move { server.refresh().await }
    });
    side.wait_for("tools/list", 3).await;
    side.edit(|script| *script = offering("fourth").rule(slow()));
    server.refresh().await.expect("listed");
    assert_eq!(
        names(&fleet.catalog()),
        ["s__fourth"],
        "not the list that was under way"
    );
    running.await.unwrap().expect("listed too");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_meets_an_empty_list_ends_when_a_second_listing_confirms_it() {
    let memory = Memory::new(offering("first"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    sleep(Duration::from_secs(10)).await;
    let side = memory.side(1).await;
    side.edit(|script| *script = Script::new().without_builtin_tools());
    server.refresh().await.expect("listed");
    assert_eq!(names(&fleet.catalog()), [] as [&str; 0]);
    assert_eq!(side.count("tools/list"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_refreshes_at_once_share_a_listing() {
    let memory = Memory::new(offering("t"));
    let (_fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    sleep(Duration::from_secs(10)).await;
    let refreshes: Vec<_> = (0..100)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move { server.refresh().await })
        })
        .collect();
    for refresh in refreshes {
        refresh.await.unwrap().expect("listed");
    }
    let listings = memory.side(1).await.count("tools/list") - 1;
    assert!(listings <= 2, "{listings} listings");
}

#[tokio::test(start_paused = true)]
async fn a_refresh_whose_listing_fails_says_why_and_leaves_what_was_listed() {
    let memory = Memory::new(offering("t"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    sleep(Duration::from_secs(10)).await;
    let side = memory.side(1).await;
    let broken = Fault::Error {
        code: -32603,
        message: "the database is away".to_owned(),
    };
    side.edit(|script| *script = offering("t").rule(Rule::new(Step::List, broken)));
    let error = server.refresh().await.expect_err("it fails");
    let RefreshError::ListingFailed { .. } = &error else {
        panic!("{error}")
    };
    assert!(error.to_string().contains("the database is away"), "{error}");
    assert_eq!(names(&fleet.catalog()), ["s__t"]);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_starts_a_server_that_rests_and_fails_at_once_where_none_is_coming() {
    let memory = Memory::new(offering("t"));
    let policy = Policy {
        idle_stop: Some(Duration::from_secs(20)),
        ..Policy::default()
    };
    let (fleet, server) = fleet_of(memory.config("s").policy(policy));
    connected(&server).await;
    let stopped = server.wait_until(LONG, |status| status.reason == Some(Reason::Idle));
    stopped.await.expect("stopped");
    memory.script.lock().unwrap().clone_from(&offering("new"));
    let status = server.refresh().await.expect("started and listed");
    assert_eq!(status.state, StateKind::Connected);
    assert_eq!(names(&fleet.catalog()), ["s__new"]);

    server.disable().await.unwrap();
    let error = server.refresh().await.expect_err("disabled");
    assert!(
        matches!(&error, RefreshError::NotConnected(now) if is_disabled(now)),
        "{error}"
    );
    fleet.close(LONG).await;
    let error = server.refresh().await.expect_err("gone");
    assert!(matches!(error, RefreshError::Gone { .. }), "{error}");
}

fn is_disabled(now: &NotConnected) -> bool {
    matches!(now.state, StateKind::Disabled | StateKind::Disabling)
}
