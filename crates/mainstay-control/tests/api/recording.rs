//! The recorder, calls of others that are cancelled, and what a catalog changed.

use mainstay_control::api::{ActorKind, EventDetail};
use mainstay_gateway::Scope;
use mainstay_testkit::fleet::{LONG, Memory};
use mainstay_testkit::{Script, poll};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::support::{World, record_with};

#[tokio::test]
async fn the_recorder_shows_heads_and_what_a_lost_connection_said_last() {
    let memory = Memory::new(Script::new());
    let world = World::of(&[("one", &memory)]).await;
    let server = world.gateway.fleet().server("one").expect("configured");
    server
        .call("echo", &json!({ "text": "secret" }))
        .await
        .expect("answered");
    let mut events = world.client.events(Some("one"), 0).await.expect("a stream");
    memory.side(1).await.cut();
    record_with(&mut events, |detail| {
        matches!(detail, EventDetail::Transition { failure: Some(_), .. })
    })
    .await;
    let recording = world.client.recording("one", true).await.expect("a recording");
    assert!(!recording.has_payloads);
    let text = serde_json::to_string(&recording).expect("JSON");
    assert!(!text.contains("secret"), "heads hold no payload");
    let call = recording
        .messages
        .iter()
        .find(|message| message.name.as_deref() == Some("echo"));
    let call = call.expect("the call is there");
    assert_eq!(
        (call.direction.as_str(), call.kind.as_str()),
        ("to_server", "request")
    );
    assert!(call.bytes > 20 && call.payload.is_none());
    let answer = recording
        .messages
        .iter()
        .find(|message| message.id == call.id && message.kind == "result");
    assert!(answer.is_some_and(|answer| answer.at_us >= call.at_us));
    let [loss] = &recording.losses[..] else {
        panic!("one loss: {:?}", recording.losses)
    };
    assert_eq!(loss.generation, call.generation);
    assert!(
        loss.messages
            .iter()
            .any(|message| message.name.as_deref() == Some("echo"))
    );
    world.client.recording("two", false).await.expect_err("unknown");
}

#[tokio::test]
async fn a_persons_cancellation_ends_the_call_of_a_client_and_is_on_record() {
    let world = World::one().await;
    let (near, remote) = tokio::io::duplex(64 * 1024);
    let gateway = world.gateway.clone();
    tokio::spawn(async move {
        let (input, output) = tokio::io::split(remote);
        gateway.serve_stdio(Scope::Union, input, output).await;
    });
    let (reader, mut writer) = tokio::io::split(near);
    let mut lines = BufReader::new(reader).lines();
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "host", "version": "1" } },
    });
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "one__sleep_ms", "arguments": { "ms": 600_000 } },
    });
    for message in [initialize, call] {
        writer
            .write_all(format!("{message}\n").as_bytes())
            .await
            .expect("written");
    }
    let mut next = async || -> Value {
        let line = timeout(LONG, lines.next_line()).await.expect("an answer in time");
        serde_json::from_str(&line.expect("readable").expect("open")).expect("JSON")
    };
    assert_eq!(next().await["id"], 1);
    let pending = poll::ask_for(LONG, async || {
        let status = world.client.server("one").await.expect("a status");
        status.pending.into_iter().next()
    });
    let pending = pending.await.expect("the call is shown");
    assert_eq!(
        (pending.method.as_str(), pending.name.as_deref()),
        ("tools/call", Some("sleep_ms"))
    );
    let sessions = world.client.sessions().await.expect("a list").sessions;
    assert_eq!(pending.session, Some(sessions[0].id));

    let client = world.client.clone().via(ActorKind::Dashboard);
    let mut events = client.events(Some("one"), 0).await.expect("a stream");
    client.cancel_call("one", &pending.id).await.expect("cancelled");
    let answer = next().await;
    assert_eq!(answer["id"], 2);
    assert!(answer.to_string().contains("operator cancelled"), "{answer}");
    let is_command = |detail: &EventDetail| matches!(detail, EventDetail::Command { .. });
    let first = record_with(&mut events, is_command).await.detail;
    let EventDetail::Command {
        command, by, refused, ..
    } = first
    else {
        panic!("{first:?}")
    };
    assert_eq!(command, format!("cancel {} (tools/call sleep_ms)", pending.id));
    assert_eq!((by.via, refused), (ActorKind::Dashboard, None));

    for id in [pending.id.as_str(), "nonsense", "1.2/../..", "\u{1b}[2J"] {
        client.cancel_call("one", id).await.expect_err("no such call");
        let refusal = record_with(&mut events, is_command).await.detail;
        let EventDetail::Command { command, refused, .. } = refusal else {
            panic!("{refusal:?}")
        };
        assert!(refused.is_some() && !command.contains('\u{1b}'), "{command:?}");
    }
}

#[tokio::test]
async fn a_changed_catalog_is_an_event_that_says_what_changed() {
    let old = json!({ "name": "both", "description": "before", "inputSchema": { "type": "object" } });
    let gone = json!({ "name": "gone", "inputSchema": { "type": "object" } });
    let script = Script::new()
        .without_builtin_tools()
        .tool_json(old)
        .tool_json(gone);
    let memory = Memory::new(script);
    let world = World::of(&[("one", &memory)]).await;
    let mut events = world.client.events(Some("one"), 0).await.expect("a stream");
    let now = json!({ "name": "both", "description": "<script>after</script>", "inputSchema": { "type": "object" } });
    let new = json!({ "name": "new", "inputSchema": { "type": "object" } });
    let side = memory.side(1).await;
    side.edit(|script| {
        *script = Script::new()
            .without_builtin_tools()
            .tool_json(now.clone())
            .tool_json(new.clone());
    });
    side.inject_message(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
        .await;
    let event = record_with(&mut events, |detail| {
        matches!(detail, EventDetail::CatalogChanged { .. })
    })
    .await;
    let EventDetail::CatalogChanged { change } = event.detail else {
        panic!("just seen")
    };
    let name = |entries: &[mainstay_control::api::CatalogEntry]| -> Vec<String> {
        entries
            .iter()
            .map(|entry| format!("{} {}", entry.kind, entry.name))
            .collect()
    };
    assert_eq!(
        (name(&change.added), name(&change.removed)),
        (vec!["tool new".to_owned()], vec!["tool gone".to_owned()])
    );
    let [changed] = &change.changed[..] else {
        panic!("{:?}", change.changed)
    };
    assert_eq!(changed.name, "both");
    let [member] = &changed.members[..] else {
        panic!("{:?}", changed.members)
    };
    assert_eq!(member.member, "description");
    assert_eq!(member.before.as_deref(), Some("\"before\""));
    assert_eq!(member.after.as_deref(), Some("\"<script>after</script>\""));
}
