//! What a server lists, good and bad: all of it is listed, what cannot be published is set aside, and its neighbours stay.

use std::time::Duration;

use mainstay::catalog::{CatalogFault, Diagnostic, Kind};
use mainstay::server::StartStage;
use mainstay::{Catalog, Fleet, Policy, StateKind};
use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of};
use mainstay_testkit::{Cursors, Fault as Failing, Rule, Script, Step};
use serde_json::json;
use tokio::time::Instant;

use crate::catalog::names;

fn of(catalog: &Catalog, fault: CatalogFault) -> Vec<&Diagnostic> {
    let all = catalog.diagnostics().iter();
    all.filter(|diagnostic| diagnostic.fault == fault).collect()
}

#[tokio::test(start_paused = true)]
async fn all_pages_are_listed() {
    let script = (0..10).fold(Script::new().without_builtin_tools(), |script, n| {
        script.tool(&format!("t{n}"))
    });
    let memory = Memory::new(script.page_size(3));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    assert_eq!(fleet.catalog().tools().len(), 10);
    assert_eq!(memory.side(1).await.count("tools/list"), 4);
    assert!(fleet.catalog().diagnostics().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_repeats_a_cursor_is_cut_off_and_says_so() {
    let memory = Memory::new(Script::new().page_size(3).cursors(Cursors::Repeating));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let catalog = fleet.catalog();
    assert_eq!(catalog.tools().len(), 3, "what was listed is published");
    assert_eq!(of(&catalog, CatalogFault::CutOff).len(), Kind::ALL.len());
    assert_eq!(memory.side(1).await.count("tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_pages_never_end_is_cut_off_and_says_so() {
    let memory = Memory::new(Script::new().cursors(Cursors::Endless));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let catalog = fleet.catalog();
    assert!(catalog.tool("s__echo").is_some() && catalog.tool("s__endless_1").is_some());
    assert_eq!(of(&catalog, CatalogFault::CutOff).len(), Kind::ALL.len());
    assert_eq!(memory.side(1).await.count("tools/list"), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_or_colliding_tool_is_set_aside_and_every_other_stays() {
    let script = Script::new()
        .without_builtin_tools()
        .tool("good")
        .tool_json(json!({ "name": 7, "inputSchema": { "type": "object" } }))
        .tool_json(json!({ "description": "nameless", "inputSchema": { "type": "object" } }))
        .tool_json(json!({ "name": "formless" }))
        .tool_json(json!("no object"))
        .tool("a.b")
        .tool("a_b")
        .tool("better");
    let memory = Memory::new(script);
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let catalog = fleet.catalog();
    assert_eq!(names(&catalog), ["s__a_b", "s__better", "s__good"]);
    let [set_aside] = of(&catalog, CatalogFault::Collision)[..] else {
        panic!("{:?}", catalog.diagnostics());
    };
    assert_eq!(
        (&*set_aside.server, set_aside.item.as_deref()),
        ("s", Some("a.b"))
    );
    let malformed: Vec<_> = of(&catalog, CatalogFault::Malformed);
    assert_eq!(malformed.len(), 4, "{malformed:?}");
    assert!(
        malformed
            .iter()
            .any(|one| one.item.as_deref() == Some("formless"))
    );
    let reply = fleet.call("s__better", &json!({ "n": 1 })).await.unwrap();
    assert_eq!(
        reply.tool_result().unwrap().structured_content,
        Some(json!({ "n": 1 }))
    );
}

#[tokio::test(start_paused = true)]
async fn tools_of_two_servers_that_fall_together_leave_one_and_both_servers_healthy() {
    let one = Memory::new(Script::new().without_builtin_tools().tool("same").tool("first"));
    let other = Memory::new(Script::new().without_builtin_tools().tool("same").tool("second"));
    let servers = [one.config("a.b"), other.config("a_b")].map(|server| server.build().unwrap());
    let fleet = Fleet::builder().start(servers);
    for server in fleet.servers() {
        connected(&server).await;
    }
    let catalog = fleet.catalog();
    assert_eq!(names(&catalog), ["a_b__first", "a_b__same", "a_b__second"]);
    assert_eq!(catalog.tool("a_b__same").unwrap().server(), "a_b");
    let mut collisions = of(&catalog, CatalogFault::Collision);
    collisions.retain(|collision| collision.kind == Kind::Tool);
    assert_eq!(collisions.len(), 1);
    assert_eq!(&*collisions[0].server, "a.b");
}

#[tokio::test(start_paused = true)]
async fn a_tool_with_an_overlong_name_is_published_under_a_short_one_and_can_be_called() {
    let long = "x".repeat(200);
    let memory = Memory::new(Script::new().without_builtin_tools().tool(&long).tool("short"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let catalog = fleet.catalog();
    let [tool, _] = catalog.tools() else {
        panic!("{:?}", names(&catalog))
    };
    let short = |tool: &mainstay::catalog::PublicTool| tool.original() == "short";
    let tool = if short(tool) { &catalog.tools()[1] } else { tool };
    assert_eq!(tool.name().len(), 64);
    assert_eq!(tool.original(), long);
    let name = tool.name().to_owned();
    fleet.call(&name, &json!({})).await.unwrap();
    let params = memory.side(1).await.last_params("tools/call").unwrap();
    assert_eq!(params["name"], json!(long));
}

#[tokio::test(start_paused = true)]
async fn a_server_with_nothing_to_offer_is_healthy() {
    let memory = Memory::new(Script::new().bare());
    let (fleet, server) = fleet_of(memory.config("s"));
    let status = connected(&server).await;
    assert!(fleet.catalog().tools().is_empty());
    assert_eq!(fleet.catalog().servers().collect::<Vec<_>>(), ["s"]);
    assert!(status.listed_at.is_some() && status.stale_since.is_none());
    tokio::time::sleep(LONG * 10).await;
    let later = server.status();
    assert_eq!(
        (later.state, later.generation, later.starts),
        (StateKind::Connected, status.generation, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_with_only_prompts_or_only_resources_is_healthy_and_published() {
    let only = |capability: &str| Script {
        capabilities: Some(json!({ capability: {} })),
        ..Script::new()
    };
    for (capability, asked, offers) in [
        ("prompts", "prompts/list", [1, 0, 0]),
        ("resources", "resources/templates/list", [0, 1, 1]),
    ] {
        let memory = Memory::new(only(capability));
        let (fleet, server) = fleet_of(memory.config("s"));
        connected(&server).await;
        let catalog = fleet.catalog();
        let published = [
            catalog.prompts().len(),
            catalog.resources().len(),
            catalog.templates().len(),
        ];
        assert_eq!((catalog.tools().len(), published), (0, offers), "{capability}");
        let side = memory.side(1).await;
        assert_eq!(
            (side.count("tools/list"), side.count(asked)),
            (0, 1),
            "{capability}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_the_server_does_not_know_after_all_is_an_empty_one() {
    let rule = Rule::new(Step::List, Failing::method_not_found()).method("tools/list");
    let memory = Memory::new(Script::new().rule(rule));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let catalog = fleet.catalog();
    assert_eq!((catalog.tools().len(), catalog.prompts().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_answered_and_does_not_list_says_so_while_it_starts() {
    let slow = Rule::new(Step::List, Failing::Delay { ms: 1000 }).method("tools/list");
    let memory = Memory::new(Script::new().rule(slow));
    let (_fleet, server) = fleet_of(memory.config("s"));
    memory.side(1).await.wait_for("tools/list", 1).await;
    let status = server.status();
    assert_eq!(status.state, StateKind::Connecting);
    let start = status.start.as_ref().expect("a start");
    assert_eq!(start.stage, StartStage::Listing);
    assert_eq!(start.to_string(), "listing what it offers: no answer yet");
    connected(&server).await;
    assert_eq!(server.status().start, None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_lists_shows_since_when_its_list_is_awaited_also_when_it_is_asked_again() {
    let mute = Rule::new(Step::List, Failing::NoAnswer).method("tools/list");
    let memory = Memory::new(Script::new().rule(mute));
    let (_fleet, server) = fleet_of(memory.config("s"));
    let side = memory.side(1).await;
    side.wait_for("tools/list", 1).await;
    let first = server.status().start.expect("a start");
    side.wait_for("tools/list", 2).await;
    let again = server.status().start.expect("it still starts");
    assert_eq!(again, first);
    assert_eq!(again.stage, StartStage::Listing);
}

#[tokio::test(start_paused = true)]
async fn one_page_may_not_take_the_time_of_the_whole_listing() {
    let mute = Rule::new(Step::List, Failing::NoAnswer).method("tools/list");
    let memory = Memory::new(Script::new().rule(mute));
    let (_fleet, server) = fleet_of(memory.config("s"));
    memory.side(1).await.wait_for("tools/list", 1).await;
    let asked = Instant::now();
    let failed = server
        .wait_until(LONG, |status| status.last_error.is_some())
        .await;
    let message = failed.unwrap().last_error.unwrap().message.clone();
    assert!(message.contains("tools/list"), "{message}");
    let limit = Policy::default().limits.list;
    assert!(
        asked.elapsed() < limit - Duration::from_secs(10),
        "{:?}",
        asked.elapsed()
    );
}
