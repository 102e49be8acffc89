//! Who is connected, what they use and what they wait for.

use mainstay_control::api::SessionDoor;
use mainstay_gateway::Scope;
use mainstay_testkit::fleet::LONG;
use mainstay_testkit::poll;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::support::World;

#[tokio::test]
async fn a_session_shows_its_client_the_servers_it_uses_and_the_call_it_waits_for() {
    let world = World::one().await;
    assert!(world.client.sessions().await.expect("a list").sessions.is_empty());
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
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "a\u{1b}[31m host", "version": "1.2" },
        },
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
    timeout(LONG, lines.next_line())
        .await
        .expect("an answer")
        .expect("readable");
    let waiting = poll::ask_for(LONG, async || {
        let list = world.client.sessions().await.expect("a list");
        let session = list.sessions.into_iter().next().expect("a session");
        let waits = session.running.iter().any(|call| call.server.is_some());
        waits.then_some(session)
    });
    let session = waiting.await.expect("a running call");
    assert_eq!(session.client.as_deref(), Some("a host"), "no control characters");
    assert_eq!(session.client_version.as_deref(), Some("1.2"));
    assert_eq!(
        (session.door, session.era.as_str()),
        (SessionDoor::Stdio, "legacy")
    );
    assert_eq!(session.protocol_version.as_deref(), Some("2025-11-25"));
    assert_eq!(session.servers, ["one"]);
    assert_eq!(session.scope, None);
    let running = &session.running[0];
    assert_eq!(
        (running.method.as_str(), running.server.as_deref()),
        ("tools/call", Some("one"))
    );
    assert_eq!(running.name.as_deref(), Some("one__sleep_ms"));
    let status = world.client.server("one").await.expect("a status");
    assert_eq!(status.sessions, [session.id]);
    drop((writer, lines));
    let gone = poll::ask_for(LONG, async || {
        let list = world.client.sessions().await.expect("a list");
        list.sessions.is_empty().then_some(())
    });
    gone.await.expect("the session ends with its client");
}
