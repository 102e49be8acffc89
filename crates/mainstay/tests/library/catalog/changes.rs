//! Changes of what a server offers: each is seen, a burst costs little, and what is the same is no change.

use std::time::Duration;

use mainstay::{Catalog, StateKind};
use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};
use mainstay_testkit::{Fault, Rule, Script, Step};

use crate::catalog::{CHANGED, names, rewrite};

#[tokio::test(start_paused = true)]
async fn a_hundred_changes_in_a_second_cost_at_most_two_listings_and_the_last_content_wins() {
    let memory = Memory::new(Script::new().without_builtin_tools().tool("t"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let side = memory.side(1).await;
    assert_eq!(side.count("tools/list"), 1);
    for change in 1..=100 {
        side.edit(|script| {
            *script = Script::new().without_builtin_tools().tool(&format!("t{change}"));
        });
        side.inject(CHANGED).await;
        tokio::time::sleep(Duration::from_millis(9)).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(names(&fleet.catalog()), ["s__t100"]);
    let listings = side.count("tools/list") - 1;
    assert!(listings <= 2, "{listings} listings");
    assert_eq!(server.status().starts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_told_while_a_new_connection_is_being_listed_is_not_lost() {
    let memory = Memory::new(Script::new().without_builtin_tools().tool("old"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    // The answer is decided when the request arrives, and comes a second later.
    let slow = Rule::new(Step::List, Fault::Delay { ms: 1000 }).method("tools/list");
    rewrite(&memory, |script| script.rule(slow));
    memory.side(1).await.cut();
    let side = memory.side(2).await;
    side.wait_for("tools/list", 1).await;
    assert_ne!(server.status().state, StateKind::Connected);
    side.edit(|script| *script = Script::new().without_builtin_tools().tool("new"));
    side.inject(CHANGED).await;
    let mut reader = fleet.catalog_reader();
    let changed = tokio::time::timeout(LONG, reader.changed())
        .await
        .expect("the change is seen");
    assert_eq!(names(&changed.unwrap()), ["s__new"]);
    assert_eq!(side.count("tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_that_changed_nothing_tells_no_change_whatever_the_order_of_the_listing() {
    let order = |tools: [&str; 3]| {
        tools
            .into_iter()
            .fold(Script::new().without_builtin_tools(), |script, tool| {
                script.tool(tool)
            })
    };
    let memory = Memory::new(order(["a", "b", "c"]));
    let (fleet, server) = fleet_of(memory.config("s"));
    let first = connected(&server).await;
    let before = fleet.catalog();
    let mut reader = fleet.catalog_reader();
    rewrite(&memory, |_| order(["c", "a", "b"]));
    memory.side(1).await.cut();
    server
        .wait_until(LONG, |status| {
            status.state == StateKind::Connected && status.generation > first.generation
        })
        .await
        .expect("it comes back");
    let after = fleet.catalog();
    assert!(
        tokio::time::timeout(LONG, reader.changed()).await.is_err(),
        "no change is told"
    );
    assert_eq!(
        (before.revision(), before.hash()),
        (after.revision(), after.hash())
    );
    let bytes = |catalog: &Catalog| -> Vec<_> {
        catalog
            .tools()
            .iter()
            .map(|tool| tool.published().to_string())
            .collect()
    };
    assert_eq!(bytes(&before), bytes(&after));

    let twin = Memory::new(order(["b", "c", "a"]));
    let (other, server) = fleet_of(twin.config("s"));
    connected(&server).await;
    assert_eq!(
        other.catalog().hash(),
        before.hash(),
        "equal content has an equal hash in every fleet"
    );
}
