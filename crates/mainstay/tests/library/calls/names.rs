//! By which names things are called: those of the server, those of the configuration, those of the fleet.

use mainstay::config::ToolView;
use mainstay::{CallError, CallErrorKind, Fleet, Outcome, Server};
use mainstay_testkit::Script;
use serde_json::{Value, json};

use mainstay_testkit::fleet::{Memory, connected, fleet_of};

/// A server with the tools `a`, `b` and `c`, shown through a view, connected.
async fn stage(view: ToolView) -> (Fleet, Server, std::sync::Arc<Memory>) {
    let script = ["a", "b", "c"].into_iter().fold(Script::new(), Script::tool);
    let memory = Memory::new(script);
    let (fleet, server) = fleet_of(memory.config("s").tools(view));
    connected(&server).await;
    (fleet, server, memory)
}

async fn last_called(memory: &Memory) -> Value {
    let params = memory.side(1).await.last_params("tools/call");
    params.expect("a call")["name"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_by_its_public_name_through_the_fleet() {
    let (fleet, _, memory) = stage(ToolView::default()).await;
    fleet.call("s__a", &json!({})).await.unwrap();
    assert_eq!(last_called(&memory).await, "a");
    let error = fleet.call("s__nothing", &json!({})).await;
    let error = error.expect_err("no such tool");
    assert!(matches!(error.kind, CallErrorKind::NotFound { .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotSent);
}

#[tokio::test(start_paused = true)]
async fn a_hidden_tool_is_neither_published_nor_called() {
    let (fleet, server, memory) = stage(ToolView::default().exclude("b")).await;
    assert!(fleet.catalog().tool("s__b").is_none());
    let through_fleet = fleet.call("s__b", &json!({})).await;
    assert!(matches!(&through_fleet, Err(error) if matches!(error.kind, CallErrorKind::NotFound { .. })));
    let error = server.call("b", &json!({})).await;
    let error = error.expect_err("hidden");
    assert!(
        matches!(&error.kind, CallErrorKind::Hidden { tool, .. } if tool == "b"),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(memory.side(1).await.count("tools/call"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_renamed_tool_is_called_by_its_new_name_and_by_its_own() {
    let (fleet, server, memory) = stage(ToolView::default().rename("a", "first")).await;
    assert!(fleet.catalog().tool("s__a").is_none());
    fleet.call("s__first", &json!({})).await.unwrap();
    assert_eq!(last_called(&memory).await, "a");
    for name in ["first", "a"] {
        server.call(name, &json!({})).await.unwrap();
        assert_eq!(last_called(&memory).await, "a");
    }
}

#[tokio::test(start_paused = true)]
async fn tools_that_swap_names_are_each_called_by_the_other() {
    let view = ToolView::default().rename("a", "b").rename("b", "a");
    let (fleet, server, memory) = stage(view).await;
    for (public, own) in [("a", "b"), ("b", "a"), ("c", "c")] {
        fleet.call(&format!("s__{public}"), &json!({})).await.unwrap();
        assert_eq!(last_called(&memory).await, own, "s__{public}");
        server.call(public, &json!({})).await.unwrap();
        assert_eq!(last_called(&memory).await, own, "{public}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_view_is_in_force_for_the_next_call_and_reconnects_nothing() {
    let (fleet, server, memory) = stage(ToolView::default()).await;
    let before = server.status();
    let view = ToolView::default().exclude("b").rename("a", "first");
    let changed = memory.config("s").tools(view).build().unwrap();
    let changes = fleet.apply([changed]).await;
    assert_eq!(changes.adjusted, ["s"]);
    let hidden = server.call("b", &json!({})).await;
    assert!(matches!(&hidden, Err(error) if matches!(error.kind, CallErrorKind::Hidden { .. })));
    fleet.call("s__first", &json!({})).await.unwrap();
    assert_eq!(server.status().generation, before.generation);
}

#[tokio::test(start_paused = true)]
async fn prompts_resources_templates_and_completions_are_listed_and_asked_for() {
    let (fleet, server, memory) = stage(ToolView::default()).await;
    let catalog = fleet.catalog();
    let prompt = catalog.prompt("s__greet").expect("a prompt");
    let arguments = json!({ "who": "Ada" });
    let reply = server.prompt(prompt.original(), &arguments).await;
    assert!(reply.unwrap().result.as_str().contains("Greet Ada."));
    let resource = catalog.resource("mem://one").expect("a resource");
    let reply = server.read_resource(resource.original()).await;
    assert!(reply.unwrap().result.as_str().contains("contents of mem://one"));
    let template = catalog.template("mem://{name}").expect("a template");
    let reference = json!({ "type": "ref/resource", "uri": template.original() });
    let argument = json!({ "name": "name", "value": "o" });
    let reply = server.complete(&reference, &argument).await;
    assert!(reply.unwrap().result.as_str().contains("o-one"));
    let reply = server.read_resource("mem://o-one").await;
    assert!(reply.is_ok(), "what a template leads to can be read");
    let side = memory.side(1).await;
    assert_eq!(side.last_params("completion/complete").unwrap()["ref"], reference);
    let unknown = server.request("x/unknown", None).await;
    assert!(
        matches!(unknown, Err(CallError { kind: CallErrorKind::Rpc(error), .. }) if error.code() == -32601)
    );
}
