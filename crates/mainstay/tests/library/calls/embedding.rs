//! What an embedder works with: tools as live handles, servers that are added and removed, streams, JSON, typed handlers.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::Stream;
use mainstay::event::EventOrLag;
use mainstay::fleet::AddError;
use mainstay::handler::{
    Answer, ClientCapabilities, Elicitation, ElicitationAnswer, Root, Sampling, SamplingAnswer,
};
use mainstay::transport::{Limits, Lines, Transport};
use mainstay::{CallErrorKind, ClientHandler, Fleet, RpcError, ServerConfig, StateKind, TraceContext};
use mainstay_testkit::Script;
use mainstay_testkit::memory::MemoryServer;
use serde_json::{Value, json};

use mainstay_testkit::fleet::{LONG, Memory, connected, fleet_of, fleet_with, raw};

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    let next = std::future::poll_fn(|context| pin!(&mut *stream).poll_next(context));
    tokio::time::timeout(LONG, next).await.expect("in time")
}

fn with_tool(description: &str) -> Script {
    let tool = json!({
        "name": "echo",
        "description": description,
        "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true, "x-new": 1 },
    });
    Script::new().without_builtin_tools().tool_json(tool)
}

#[tokio::test(start_paused = true)]
async fn a_tool_handle_shows_the_tool_as_it_is_now_and_calls_it() {
    let memory = Memory::new(with_tool("first"));
    let (fleet, server) = fleet_of(memory.config("s"));
    assert!(fleet.tool("s__echo").is_none(), "nothing is listed yet");
    connected(&server).await;
    assert!(fleet.tool("s__unknown").is_none());
    let tool = fleet.tool("s__echo").expect("it is listed");
    assert_eq!((tool.name(), tool.server().as_str()), ("s__echo", "s"));
    assert_eq!(tool.description().as_deref(), Some("first"));
    assert_eq!(tool.input_schema(), raw(r#"{"type":"object"}"#));
    let annotations: Value = tool.annotations().expect("it has some").parse().unwrap();
    assert_eq!(annotations, json!({ "readOnlyHint": true, "x-new": 1 }));
    assert!(tool.hints().read_only);
    let reply = tool.call(&json!({ "a": 1 })).timeout(LONG).await;
    assert!(!reply.expect("answered").is_error());

    let mut changes = fleet.catalog_reader();
    let side = memory.side(1).await;
    side.edit(|script| *script = with_tool("second"));
    side.inject(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
        .await;
    let catalog = next(&mut changes).await.expect("the fleet is there");
    assert_eq!(
        catalog.tool("s__echo").unwrap().description().as_deref(),
        Some("second")
    );
    assert_eq!(tool.description().as_deref(), Some("second"));

    drop((fleet, server, catalog));
    let error = tool.call(&json!({})).await.expect_err("no fleet is left");
    assert!(matches!(error.kind(), CallErrorKind::Gone), "{error}");
    // The server withdraws its tools; then the stream ends.
    let empty = next(&mut changes).await.expect("one more change");
    assert!(empty.tools().is_empty());
    assert!(next(&mut changes).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_its_server_lists_no_longer_is_not_offered_and_keeps_its_description() {
    let memory = Memory::new(with_tool("the last"));
    let (fleet, server) = fleet_of(memory.config("s"));
    connected(&server).await;
    let tool = fleet.tool("s__echo").expect("it is listed");
    assert!(tool.is_offered());
    let mut changes = fleet.catalog_reader();
    let side = memory.side(1).await;
    side.edit(|script| *script = Script::new().without_builtin_tools().tool("other"));
    side.inject(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
        .await;
    next(&mut changes).await.expect("the fleet is there");
    assert!(!tool.is_offered());
    assert_eq!(tool.description().as_deref(), Some("the last"));
}

#[tokio::test(start_paused = true)]
async fn servers_see_the_name_and_version_of_the_embedder() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_with(Fleet::builder().client("editor", "4.2"), memory.config("s"));
    connected(&server).await;
    let introduction = memory.side(1).await.last_params("initialize").unwrap();
    assert_eq!(
        introduction["clientInfo"],
        json!({ "name": "editor", "version": "4.2" })
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_sees_the_trace_that_a_call_belongs_to() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let caller = TraceContext::root();
    let call = server.call("echo", &json!({})).trace(caller.clone());
    call.await.expect("answered");
    let params = memory.side(1).await.last_params("tools/call").unwrap();
    let sent = params["_meta"]["traceparent"].as_str().expect("a trace");
    let sent = TraceContext::parse(sent, None).expect("a valid one");
    assert_eq!(sent.trace_id(), caller.trace_id());
}

#[tokio::test(start_paused = true)]
async fn a_measured_fleet_counts_requests_by_tool_and_another_counts_none() {
    for is_measured in [true, false] {
        let memory = Memory::new(with_tool("t"));
        let builder = Fleet::builder();
        let builder = if is_measured { builder.measured() } else { builder };
        assert_eq!(builder.is_measured(), is_measured);
        let (_fleet, server) = fleet_with(builder, memory.config("s"));
        connected(&server).await;
        server.call("echo", &json!({})).await.expect("answered");
        let counted = server.operations();
        let has_tool = counted
            .iter()
            .any(|series| series.tool.as_deref() == Some("echo"));
        assert_eq!(has_tool, is_measured, "{counted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_forgets_a_server_that_was_removed() {
    let memory = Memory::new(Script::new());
    let fleet = Fleet::builder().start([]);
    let server = fleet.add(memory.config("s").build().unwrap()).await;
    let server = server.expect("the name is free");
    assert!(fleet.remove("s").await);
    server
        .wait_until(LONG, |status| status.removed)
        .await
        .expect("it ends");
    let released = Arc::downgrade(&memory);
    drop((server, memory));
    let other = Memory::new(Script::new());
    fleet.add(other.config("t").build().unwrap()).await.unwrap();
    assert_eq!(released.strong_count(), 0, "its connector is still held");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_added_works_and_one_that_is_removed_is_gone() {
    let memory = Memory::new(Script::new());
    let config = || memory.config("s").build().unwrap();
    let fleet = Fleet::builder().start([]);
    let server = fleet.add(config()).await.expect("the name is free");
    server.call("echo", &json!({})).await.expect("answered");
    let again = fleet.add(config()).await.expect_err("the name is taken");
    assert_eq!(again, AddError::NameTaken("s".to_owned()));

    assert!(fleet.remove("s").await);
    assert!(!fleet.remove("s").await, "it is gone already");
    assert!(fleet.server("s").is_none());
    let new = fleet.add(config()).await.expect("the name is free again");
    assert_ne!(new, server);
    assert!(
        server.status().removed,
        "the new one waited for the end of the old one"
    );
    let error = server.call("echo", &json!({})).await.expect_err("removed");
    assert!(matches!(error.kind(), CallErrorKind::Gone), "{error}");
    new.call("echo", &json!({})).await.expect("answered");

    fleet.close(LONG).await;
    let late = fleet.add(config()).await.expect_err("closed");
    assert_eq!(late, AddError::FleetClosed("s".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_settled_fleet_says_which_servers_are_up_and_why_the_others_are_not() {
    let [up, down, slow] = [(); 3].map(|()| Memory::new(Script::new()));
    down.set_down(true);
    let never = ServerConfig::custom(
        "slow",
        "slow",
        Arc::new(std::future::pending::<std::io::Result<_>>),
    );
    let fleet = Fleet::builder().start([
        up.config("up").build().unwrap(),
        down.config("down").build().unwrap(),
        slow.config("off").enabled(false).build().unwrap(),
        slow.config("lazy").lazy(true).build().unwrap(),
        never.build().unwrap(),
    ]);
    let settled = fleet.wait_settled(Duration::from_secs(5)).await;
    let names: Vec<_> = settled.up.iter().map(|server| server.name().to_owned()).collect();
    assert_eq!(names, ["lazy", "up"]);
    let [down, slow] = &settled.down[..] else {
        panic!("{settled:?}")
    };
    assert_eq!((&*down.server, down.state), ("down", StateKind::Reconnecting));
    assert!(down.last_error.is_some(), "{down}");
    assert_eq!((&*slow.server, slow.state), ("slow", StateKind::Connecting));
}

#[tokio::test(start_paused = true)]
async fn status_and_events_are_json_with_a_version_and_without_the_session() {
    let memory = Memory::new(Script::new());
    let mut builder = Fleet::builder();
    let mut events = builder.events();
    let (_fleet, server) = fleet_with(builder, memory.config("s"));
    let mut status = connected(&server).await;
    status.session = Some("secret".into());
    let status = serde_json::to_value(&status).unwrap();
    assert_eq!((&status["version"], &status["server"]), (&json!(1), &json!("s")));
    assert_eq!(
        (&status["state"], &status["enabled"]),
        (&json!("connected"), &json!(true))
    );
    assert_eq!(status["protocol"]["era"], "legacy");
    assert!(status["since_ms"].is_u64() && status["generation"].is_u64());
    assert!(!status.to_string().contains("secret"));

    let Some(EventOrLag::Event(event)) = next(&mut events).await else {
        panic!("the server has changed its state");
    };
    let event = serde_json::to_value(&event).unwrap();
    assert_eq!((&event["version"], &event["sequence"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&event["server"], &event["to"]),
        (&json!("s"), &json!("connecting"))
    );
    let Some(EventOrLag::Event(event)) = events.next().await else {
        panic!("both ways of reading continue each other");
    };
    assert_eq!((event.sequence, event.to), (2, StateKind::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_closure_opens_a_transport() {
    let connector = || async {
        let (near, remote) = tokio::io::duplex(64 * 1024);
        MemoryServer::spawn(remote, Script::new());
        let (reader, writer) = tokio::io::split(near);
        let lines: Box<dyn Transport> = Box::new(Lines::new(reader, writer, Limits::default()));
        Ok(lines)
    };
    let (_fleet, server) = fleet_of(ServerConfig::custom("s", "s", Arc::new(connector)));
    server.call("echo", &json!({})).await.expect("answered");
}

/// Answers each kind of question in its typed form.
struct Typed;

impl ClientHandler for Typed {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            sampling: true,
            elicitation: true,
            roots: true,
            raw: None,
        }
    }

    fn elicit(&self, question: Elicitation) -> Answer<'_, ElicitationAnswer> {
        let content = json!({ "asked": question.message });
        Box::pin(async move {
            let content = mainstay::RawJson::from_value(&content);
            content
                .map(ElicitationAnswer::Accept)
                .map_err(|error| RpcError::new(RpcError::INTERNAL_ERROR, error.to_string()))
        })
    }

    fn sample(&self, request: Sampling) -> Answer<'_, SamplingAnswer> {
        let last = request
            .messages
            .last()
            .and_then(mainstay::handler::SamplingMessage::text);
        Box::pin(async move { Ok(SamplingAnswer::text("m", &last.unwrap_or_default())) })
    }

    fn roots(&self, server: Arc<str>) -> Answer<'_, Vec<Root>> {
        Box::pin(async move { Ok(vec![Root::new(format!("file:///{server}"))]) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_answers_elicitation_sampling_and_roots_in_typed_form() {
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let ask = async |kind: &str| {
        let call = server.call("ask", &json!({ "kind": kind }));
        let reply = call.handler(Arc::new(Typed)).await.expect("answered");
        let answer: Value = reply.structured().expect("what it was answered").parse().unwrap();
        answer["result"].clone()
    };
    let elicited = ask("elicitation").await;
    assert_eq!(elicited["action"], "accept");
    assert!(elicited["content"]["asked"].is_string(), "{elicited}");
    let sampled = ask("sampling").await;
    assert_eq!(
        (&sampled["model"], &sampled["role"]),
        (&json!("m"), &json!("assistant"))
    );
    assert!(sampled["content"]["text"].is_string(), "{sampled}");
    assert_eq!(ask("roots").await, json!({ "roots": [{ "uri": "file:///s" }] }));
}

/// Collects the names of spans.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut spans = self.0.lock().unwrap();
        spans.push(span.metadata().name().to_owned());
        tracing::span::Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn each_dial_and_each_call_has_a_span() {
    let spans = Spans::default();
    let _collecting = tracing::subscriber::set_default(spans.clone());
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    server.call("echo", &json!({})).await.expect("answered");
    server.call("echo", &json!({})).await.expect("answered");
    let spans = spans.0.lock().unwrap().clone();
    let count = |name: &str| spans.iter().filter(|span| *span == name).count();
    assert_eq!((count("dial"), count("call")), (1, 2), "{spans:?}");
}

/// The future is allocated for each call and moved before it runs. What only few calls need must not be part of it.
#[tokio::test(start_paused = true)]
async fn the_future_of_a_call_stays_small() {
    const LIMIT: usize = 3 * 1024;
    let memory = Memory::new(Script::new());
    let (_fleet, server) = fleet_of(memory.config("s"));
    let call = server.call("echo", &json!({})).into_future();
    let size = size_of_val(&*call);
    assert!(size <= LIMIT, "{size} bytes");
}
