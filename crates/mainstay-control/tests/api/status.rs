//! Servers with their status and catalogs.

use mainstay::ServerConfig;
use mainstay_control::api::{DesiredState, ServerOrigin, StateName};
use mainstay_control::{Control, Role, ServerGroup};
use mainstay_gateway::Gateway;
use mainstay_testkit::fleet::{LONG, Memory, connected};
use mainstay_testkit::{Fault, FaultyServer, Rule, Script, Step, poll};
use serde_json::json;
use tokio::time::timeout;

use crate::support::World;

#[tokio::test]
async fn the_status_of_a_server_says_what_its_calls_did() {
    let world = World::one().await;
    let server = world.gateway.fleet().server("one").expect("configured");
    for _ in 0..3 {
        server.call("echo", &json!({})).await.expect("answered");
    }
    server
        .call("refuse", &json!({ "code": -5 }))
        .await
        .expect_err("refused");
    let slow = server.call("sleep_ms", &json!({ "ms": 600_000 }));
    let slow = tokio::spawn(async move { slow.await });
    let in_flight = async {
        loop {
            let status = world.client.server("one").await.expect("a status");
            if status.calls.in_flight == 1 {
                return status;
            }
            tokio::task::yield_now().await;
        }
    };
    let status = timeout(LONG, in_flight).await.expect("a call in flight");
    assert_eq!(status.state, StateName::Connected);
    assert_eq!(
        (status.desired, status.origin),
        (DesiredState::Enabled, ServerOrigin::Configured)
    );
    assert!(status.up && status.generation.is_some() && status.since_ms > 0);
    let calls = status.calls;
    assert_eq!(
        (calls.total, calls.answered, calls.errors),
        (5, 3, 1),
        "{calls:?}"
    );
    assert!(calls.p50_us <= calls.p95_us && calls.p50_us.is_some());
    assert!(calls.last_success_ms.is_some());
    assert!(
        status
            .catalog
            .is_some_and(|catalog| catalog.tools > 5 && catalog.stale_since_ms.is_none())
    );
    assert_eq!(status.era.as_deref(), Some("legacy"));
    assert_eq!((status.process, status.node), (None, None));
    slow.abort();
    let cancelled = async {
        while world
            .client
            .server("one")
            .await
            .expect("a status")
            .calls
            .cancelled
            != 1
        {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, cancelled)
        .await
        .expect("the dropped call counts as cancelled");
}

#[tokio::test]
async fn a_call_that_waits_for_a_server_that_is_down_is_seen_waiting_and_the_failure_is_told() {
    let memory = Memory::new(Script::new());
    memory.set_down(true);
    let config = memory.config("down").build().expect("valid");
    let world = World::with(Control::builder(Role::Serve), [config]);
    let server = world.gateway.fleet().server("down").expect("configured");
    let call = server.call("echo", &json!({})).wait_timeout(LONG * 10);
    let waits = tokio::spawn(async move { call.await });
    let seen = poll::ask_for(LONG, async || {
        let status = world.client.server("down").await.expect("a status");
        (status.calls.waiting == 1 && status.last_failure.is_some()).then_some(status)
    });
    let status = seen.await.expect("a waiting call");
    assert!(!status.up && status.catalog.is_none() && status.attempt > 0);
    let failure = status.last_failure.expect("seen above");
    assert!(failure.message.contains("refused"), "{failure:?}");
    waits.abort();
}

#[tokio::test]
async fn the_processes_of_a_server_are_seen_with_their_memory_only_if_that_is_asked() {
    let faulty = FaultyServer::new();
    let mut config = ServerConfig::stdio("real", faulty.command()).args(faulty.args());
    for (name, value) in faulty.env() {
        config = config.env(name, value);
    }
    let config = config.build().expect("valid");
    let world = World::with(Control::builder(Role::Serve), [config]);
    connected(&world.gateway.fleet().server("real").expect("configured")).await;
    let all = world.client.servers(true).await.expect("a list");
    let process = all.servers[0].process.expect("a process");
    assert!(process.processes.is_some_and(|count| count >= 1), "{process:?}");
    assert!(
        process.resident_bytes.is_some_and(|bytes| bytes > 100_000),
        "{process:?}"
    );
    assert!(process.cpu_ms.is_some());
    let without = world.client.servers(false).await.expect("a list");
    let process = without.servers[0].process.expect("the pid costs nothing");
    assert_eq!(
        (process.processes, process.resident_bytes, process.cpu_ms),
        (None, None, None)
    );
    assert!(all.servers[0].target.is_some());
    world.gateway.close(LONG).await;
}

#[tokio::test]
async fn the_catalog_of_a_server_has_the_definitions_as_sent_and_the_names_of_the_union() {
    let world = World::one().await;
    let catalog = world.client.catalog("one").await.expect("a catalog");
    let echo = catalog
        .tools
        .iter()
        .find(|tool| tool.name == "echo")
        .expect("a tool");
    assert_eq!(echo.public_name, "one__echo");
    assert_eq!(echo.definition["name"], "echo");
    assert_eq!(echo.definition["annotations"]["readOnlyHint"], true);
    assert!(catalog.server_info.is_some() && !catalog.hash.is_empty() && catalog.listed_ms.is_some());
}

#[tokio::test]
async fn an_ad_hoc_server_is_found_under_the_name_that_it_is_shown_as_until_it_is_detached() {
    let world = World::one().await;
    let memory = Memory::new(Script::new());
    let gateway = Gateway::start(
        mainstay::Fleet::builder(),
        [memory.config("one").build().expect("valid")],
    );
    connected(&gateway.fleet().server("one").expect("configured")).await;
    let attached = world
        .control
        .attach(ServerGroup::ad_hoc("npx one (2)", gateway.clone()));
    let names = |list: mainstay_control::api::ServerList| -> Vec<String> {
        list.servers.into_iter().map(|server| server.name).collect()
    };
    assert_eq!(
        names(world.client.servers(true).await.expect("a list")),
        ["npx one (2)", "one"]
    );
    let status = world.client.server("npx one (2)").await.expect("found");
    assert_eq!(status.origin, ServerOrigin::AdHoc);
    world.client.restart("npx one (2)").await.expect("restarted");
    let other = world.client.server("one").await.expect("found");
    assert_eq!(
        other.starts, 1,
        "the server of the same inner name is not touched"
    );
    drop(attached);
    assert_eq!(names(world.client.servers(true).await.expect("a list")), ["one"]);
    let program = world.client.program().await.expect("a program");
    assert_eq!(
        (program.servers, program.connected, program.role.as_str()),
        (1, 1, "serve")
    );
}

#[tokio::test]
async fn the_status_says_which_tools_give_way_to_those_of_another_server_and_how_calls_failed() {
    let refusal = Fault::Error {
        code: -32602,
        message: "no such arguments".to_owned(),
    };
    let refusing = Script::new().rule(Rule::new(Step::Call, refusal));
    let offering = |tool: &str| Memory::new(refusing.clone().without_builtin_tools().tool(tool));
    // Both are `a___c` for those who use all servers together.
    let (first, second) = (offering("_c"), offering("c"));
    let world = World::of(&[("a", &first), ("a_", &second)]).await;
    let fleet = world.gateway.fleet();
    let owner = fleet
        .catalog()
        .tool("a___c")
        .expect("published")
        .server()
        .to_owned();
    let (owner, other) = match owner.as_str() {
        "a" => ("a", "a_"),
        _ => ("a_", "a"),
    };
    let of_tools = |said: &&String| said.starts_with("tool `");
    let owned = world.client.server(owner).await.expect("a status");
    assert_eq!(owned.set_aside.iter().find(of_tools), None);
    let status = world.client.server(other).await.expect("a status");
    let said = status.set_aside.iter().find(of_tools).expect("it is said");
    assert!(
        said.contains("is set aside: `a___c` is already") && said.contains(owner),
        "{said}"
    );
    let catalog = world.client.catalog(other).await.expect("a catalog");
    let mut messages = catalog.set_aside.iter().map(|found| &found.message);
    assert!(messages.any(|message| *message == format!("{other}: {said}")));

    let server = fleet.server(owner).expect("configured");
    assert_eq!(status.call_failures, []);
    for _ in 0..2 {
        server.call("any", &json!({})).await.expect_err("refused");
    }
    server.disable().await.expect("disabled");
    server.call("c", &json!({})).await.expect_err("disabled");
    let failures = world.client.server(owner).await.expect("a status").call_failures;
    let failures: Vec<_> = failures
        .iter()
        .map(|failed| (failed.error.as_str(), failed.calls))
        .collect();
    assert_eq!(failures, [("not_sent", 1), ("-32602", 2)]);
}
