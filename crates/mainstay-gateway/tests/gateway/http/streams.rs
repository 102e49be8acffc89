//! Streams that break, are taken up again, or are not read.

use mainstay_gateway::HttpDoor;
use mainstay_testkit::client::Reply;
use mainstay_testkit::poll;
use serde_json::{Value, json};

use crate::http::support::{Session, World, modern, text};

/// Makes the server say that its tools have changed, as they have.
async fn change_tools(world: &World, name: &str) {
    let side = world.server.side();
    side.edit(|script| {
        script
            .tools
            .push(json!({ "name": name, "inputSchema": { "type": "object" } }));
    });
    side.inject_message(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))
        .await;
}

/// A session whose client has listed the tools, and is notified of their changes.
async fn with_tools(world: &World) -> Session {
    let session = world.session("/mcp/one").await;
    assert_eq!(session.ask(1, "tools/list", json!({})).await.status, 200);
    session
}

async fn list_changed(stream: &mut Reply) -> Option<String> {
    let event = stream.event().await?;
    assert_eq!(event.json()["method"], "notifications/tools/list_changed");
    event.id
}

#[tokio::test(start_paused = true)]
async fn a_client_resumes_the_stream_of_its_call_where_it_broke() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let arguments = json!({ "steps": 5, "interval_ms": 50 });
    let mut reply = session.call_with_progress(1, "progress", arguments).await;
    let first = reply.event().await.unwrap();
    assert_eq!(first.json()["params"]["progress"], 1);
    drop(reply);
    let mut rest = session.listen(first.id.as_deref()).await;
    assert!(rest.is_events());
    for step in 2..=5 {
        assert_eq!(rest.message().await["params"]["progress"], step);
    }
    assert_eq!(text(&rest.message().await), "finished");
    assert_eq!(rest.event().await, None);
    assert_eq!(world.server.side().count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_a_client_that_reconnects_more_than_once() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let mut reply = session
        .call_with_progress(1, "progress", json!({ "steps": 1 }))
        .await;
    let first = reply.event().await.unwrap().id;
    assert_eq!(reply.message().await["id"], 1);
    assert_eq!(reply.event().await, None);
    for _ in 0..2 {
        let mut again = session.listen(first.as_deref()).await;
        assert_eq!(again.message().await["id"], 1);
        assert_eq!(again.event().await, None);
    }
    let other = world.session("/mcp/one").await;
    assert_eq!(other.listen(first.as_deref()).await.status, 400, "not another's");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_went_away_before_its_answer_runs_to_its_end() {
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    tokio::select! {
        _ = session.call(1, "sleep_ms", json!({ "ms": 300 })) => panic!("answered"),
        () = async { world.server.side().wait_for("tools/call", 1).await } => {}
    }
    // Its id is free again once it has been answered.
    let free = poll::ask_for(poll::LIMIT, async || {
        (session.call(1, "echo", json!({})).await.status == 200).then_some(())
    });
    free.await.expect("answered");
    assert_eq!(world.server.side().count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_standing_stream_carries_changes_and_those_that_were_missed() {
    let world = World::open(HttpDoor::new()).await;
    let session = with_tools(&world).await;
    let mut standing = session.listen(None).await;
    change_tools(&world, "first").await;
    let seen = list_changed(&mut standing).await;
    drop(standing);
    let watcher = with_tools(&world).await;
    let mut watching = watcher.listen(None).await;
    change_tools(&world, "second").await;
    list_changed(&mut watching).await;
    let mut again = session.listen(seen.as_deref()).await;
    assert!(list_changed(&mut again).await > seen);
}

#[tokio::test(start_paused = true)]
async fn only_the_latest_standing_stream_gets_messages() {
    let world = World::open(HttpDoor::new()).await;
    let session = with_tools(&world).await;
    let mut first = session.listen(None).await;
    let mut second = session.listen(None).await;
    assert_eq!(first.event().await, None, "it was taken over");
    change_tools(&world, "new").await;
    assert!(list_changed(&mut second).await.is_some());
}

/// A listen of this client for the one resource.
async fn listening(world: &World, id: u64) -> Reply {
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["mem://one"] } });
    let mut listen = world
        .send(modern("/mcp/one", id, "subscriptions/listen", wanted))
        .await;
    let first = listen.message().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    listen
}

async fn emit(session: &Session, times: u64, params: Value) {
    let arguments = json!({ "method": "notifications/resources/updated", "times": times, "params": params });
    let mut reply = session.call(1, "emit", arguments).await;
    let answer = match reply.is_events() {
        true => reply.message().await,
        false => reply.json().await,
    };
    assert_eq!(text(&answer), "sent");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_loses_its_stream_and_others_lose_nothing() {
    const ROUNDS: u64 = 30;
    const TIMES: u64 = 100;
    let world = World::open(HttpDoor::new()).await;
    let session = world.session("/mcp/one").await;
    let mut sleeping = listening(&world, 1).await;
    let mut reading = listening(&world, 2).await;
    world.server.side().wait_for("resources/subscribe", 1).await;
    let update = json!({ "uri": "mem://one", "pad": "x".repeat(4000) });
    for _ in 0..ROUNDS {
        emit(&session, TIMES, update.clone()).await;
        for _ in 0..TIMES {
            let event = reading.event().await.expect("an event");
            assert!(event.data.contains("notifications/resources/updated"));
        }
    }
    let mut seen = 0;
    while sleeping.event().await.is_some() {
        seen += 1;
    }
    assert!(seen < ROUNDS * TIMES, "it was cut");
}
