//! Servers that answer a listing with an error, or not at all: what that costs, and what goes on.

use std::time::Duration;

use mainstay::event::EventOrLag;
use mainstay::lifecycle::Cause;
use mainstay::{Fleet, StateKind};
use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};
use mainstay_testkit::{Fault, Rule, Script, Step};
use serde_json::json;
use tokio::time::sleep;

use crate::catalog::{CHANGED, names};

fn broken(script: Script) -> Script {
    script.rule(list_rule(Fault::Error {
        code: -32603,
        message: "the database is away".to_owned(),
    }))
}

fn list_rule(fault: Fault) -> Rule {
    Rule::new(Step::List, fault).method("tools/list")
}

fn is_stale(fleet: &Fleet) -> bool {
    fleet
        .catalog()
        .freshness("s")
        .is_some_and(|freshness| freshness.stale_since.is_some())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_its_listings_keeps_its_connection_its_calls_and_its_last_good_catalog() {
    let memory = Memory::new(Script::new());
    let (fleet, server) = fleet_of(memory.config("s"));
    let first = connected(&server).await;
    let offered = fleet.catalog().tools().len();
    let side = memory.side(1).await;
    let caller = server.clone();
    let minute = json!({ "ms": 60_000 });
    let running = tokio::spawn(async move { caller.call("slow_then_answer", &minute).await });

    side.edit(|script| *script = broken(Script::new()));
    side.inject(CHANGED).await;
    let listings = side.count("tools/list");
    while side.count("tools/list") < listings + 6 {
        sleep(Duration::from_secs(1)).await;
        server
            .call("echo", &json!({}))
            .await
            .expect("a new call is served");
    }
    running.await.unwrap().expect("the running call ends well");
    let stale = server
        .wait_until(LONG, |status| status.next_listing.is_some())
        .await
        .expect("the next listing is planned");
    assert_eq!(
        (stale.state, stale.generation, stale.attempt, stale.starts),
        (StateKind::Connected, first.generation, 0, 1)
    );
    let why = stale.listing_failure.expect("it says why");
    assert!(why.message.contains("the database is away"), "{}", why.message);
    assert!(is_stale(&fleet));
    assert_eq!(fleet.catalog().tools().len(), offered);

    side.edit(|script| script.rules.clear());
    let fresh = server
        .wait_until(LONG, |status| status.stale_since.is_none())
        .await
        .expect("it is listed again without being told");
    assert!(fresh.listing_failure.is_none() && fresh.next_listing.is_none());
    assert_eq!(fresh.generation, first.generation);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_its_first_listing_is_connected_takes_calls_by_name_and_is_listed_later() {
    let memory = Memory::new(broken(Script::new()));
    let (fleet, server) = fleet_of(memory.config("s"));
    let mut events = fleet.events();
    let status = connected(&server).await;
    assert_eq!((status.starts, status.attempt, status.listed_at), (1, 0, None));
    assert!(server.catalog().is_none(), "it was never listed");
    let why = status.listing_failure.expect("it says why");
    assert!(why.message.contains("the database is away"), "{}", why.message);
    server.call("echo", &json!({})).await.expect("served");

    memory.side(1).await.edit(|script| script.rules.clear());
    let listed = server.wait_until(LONG, |status| status.listed_at.is_some()).await;
    let listed = listed.expect("it is listed again without being told");
    assert_eq!(listed.generation, status.generation);
    assert!(names(&fleet.catalog()).contains(&"s__echo"));
    let up = loop {
        match events.next().await.expect("the fleet is there") {
            EventOrLag::Event(event) if event.to == StateKind::Connected => break event,
            EventOrLag::Event(_) => {}
            EventOrLag::Lagged(missed) => panic!("{missed} events were missed"),
        }
    };
    assert_eq!(up.cause, Cause::ListingRefused);
    assert!(up.error.is_some(), "the event says why");
}

#[tokio::test(start_paused = true)]
async fn a_listing_without_an_answer_counts_only_while_no_call_is_answered() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let first = connected(&server).await;
    let side = memory.side(1).await;
    side.edit(|script| *script = Script::new().rule(list_rule(Fault::NoAnswer)));
    side.inject(CHANGED).await;
    let listings = side.count("tools/list");
    while side.count("tools/list") < listings + 6 {
        server.call("echo", &json!({})).await.expect("served");
        sleep(Duration::from_secs(5)).await;
    }
    let status = server.status();
    assert_eq!((status.generation, status.starts), (first.generation, 1));

    // Three listings, each of which waits for half a minute.
    let lost = server
        .wait_until(5 * LONG, |status| status.generation != first.generation)
        .await
        .unwrap_or_else(|| {
            panic!(
                "without calls, its silence ends the connection: {:?}",
                server.status()
            )
        });
    assert!(
        lost.starts == 2 || lost.state == StateKind::Reconnecting,
        "{lost:?}"
    );
}
