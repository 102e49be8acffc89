//! What was asked of a server for longer than one connection, and the long answer that carries its notifications.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay::gateway::ServerExt;
use mainstay::{Fleet, Server};
use mainstay_testkit::http::{FaultyHttpServer, HttpFault, HttpRule, HttpScript, HttpStep};
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Speaks, Step, clock};
use serde_json::{Value, json};

use crate::http::support::{
    ERAS, Notes, SOON, beyond, call, connected, echo, keep, keep_with, seen, sent, serve, web_at, well,
};

const URI: &str = "mem://one";
const UPDATED: &str = "notifications/resources/updated";
const LISTEN: &str = "subscriptions/listen";

fn heard_by(notes: &Arc<Notes>, remote: &FaultyHttpServer) -> (Fleet, Server) {
    keep_with(Fleet::builder().handler(notes.clone()), web_at(remote))
}

/// The resources that a modern server was last asked to tell of.
fn listened_for(remote: &FaultyHttpServer) -> Value {
    let params = remote
        .traffic(|traffic| traffic.last_params(LISTEN))
        .expect("a listen");
    params["notifications"]["resourceSubscriptions"].clone()
}

#[tokio::test]
async fn subscriptions_and_log_level_live_on_after_a_reconnect() {
    for speaks in ERAS {
        let mut remote = well(speaks).await;
        let notes = Notes::new();
        let (_fleet, server) = heard_by(&notes, &remote);
        let first = connected(&server).await;
        server.subscribe(URI).await.unwrap();
        server.set_log_level("warning").await.unwrap();
        if speaks == Speaks::Modern {
            seen(&remote, |traffic| traffic.count(LISTEN) == 2).await;
        }
        remote.stop().await;
        crate::http::support::reaches(&server, mainstay::StateKind::Reconnecting).await;
        remote.restart().await.unwrap();
        let second = beyond(&server, first).await;
        match speaks {
            Speaks::Legacy => {
                seen(&remote, |traffic| traffic.noted(&format!("subscribe {URI}")) == 2).await;
                seen(&remote, |traffic| traffic.noted("setLevel warning") == 2).await;
            }
            Speaks::Modern | Speaks::Both => {
                seen(&remote, |traffic| traffic.count(LISTEN) == 3).await;
                assert_eq!(listened_for(&remote), json!([URI]));
                assert!(echo(&server).await.is_ok());
                let params = remote
                    .traffic(|traffic| traffic.last_params("tools/call"))
                    .unwrap();
                assert_eq!(params["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
            }
        }
        seen(&remote, |traffic| traffic.live_streams() > 0).await;
        call(&server, "touch", json!({ "uri": URI })).await.unwrap();
        let told = notes.told(UPDATED, 1).await;
        assert_eq!(told[0].generation.0, second);
    }
}

#[tokio::test]
async fn a_change_of_tools_is_heard_and_listed() {
    for speaks in ERAS {
        let remote = well(speaks).await;
        let (fleet, server) = keep(web_at(&remote));
        connected(&server).await;
        seen(&remote, |traffic| traffic.live_streams() > 0).await;
        remote.edit(|script| *script = script.clone().tool("added"));
        remote.notify("notifications/tools/list_changed", &json!({}));
        shows(&fleet, "web__added").await;
    }
}

/// Waits until this tool is published.
async fn shows(fleet: &Fleet, tool: &str) {
    let mut catalog = fleet.catalog_reader();
    while fleet.catalog().tool(tool).is_none() {
        let changed = tokio::time::timeout(SOON, catalog.changed()).await;
        changed.expect("a change");
    }
}

/// What ends the long answer with this id from the server's side.
fn endings(id: &Value) -> [Value; 2] {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    [
        json!({ "jsonrpc": "2.0", "id": id, "result": { "resultType": "complete", "_meta": meta } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": { "requestId": id, "_meta": meta } }),
    ]
}

#[tokio::test]
async fn a_long_answer_that_the_server_ends_is_asked_for_again_and_everything_is_listed_again() {
    for ending in 0..2 {
        let remote = well(Speaks::Modern).await;
        let notes = Notes::new();
        let (fleet, server) = heard_by(&notes, &remote);
        let generation = connected(&server).await;
        server.subscribe(URI).await.unwrap();
        // The one that it replaced is over.
        seen(&remote, |traffic| {
            traffic.count(LISTEN) == 2 && traffic.live_streams() == 1
        })
        .await;
        let listed = sent(&remote, "tools/list");
        let id = remote.traffic(|traffic| traffic.last_id(LISTEN)).unwrap();
        remote.edit(|script| *script = script.clone().tool("unheard"));

        remote.say(&endings(&id)[ending]);
        seen(&remote, |traffic| traffic.count(LISTEN) == 3).await;
        assert_eq!(listened_for(&remote), json!([URI]));
        seen(&remote, |traffic| traffic.count("tools/list") > listed).await;
        seen(&remote, |traffic| traffic.live_streams() == 1).await;
        call(&server, "touch", json!({ "uri": URI })).await.unwrap();
        notes.told(UPDATED, 1).await;
        shows(&fleet, "web__unheard").await;
        assert_eq!(connected(&server).await, generation);
    }
}

#[tokio::test]
async fn a_long_answer_that_breaks_is_asked_for_again_and_everything_is_listed_again() {
    let breaks = HttpRule::on(LISTEN, HttpFault::DropAfterEvents(1)).occurrence(Occurrence::Nth(1));
    let remote = serve(
        Script::new().speaks(Speaks::Modern),
        HttpScript::new().rule(breaks),
    )
    .await;
    let (_fleet, server) = keep(web_at(&remote));
    let generation = connected(&server).await;
    seen(&remote, |traffic| {
        traffic.count(LISTEN) == 2 && traffic.count("tools/list") >= 2
    })
    .await;
    assert_eq!(connected(&server).await, generation);
}

/// No second request to listen is sent, however long the first one is over: it would be on its way before so many calls.
async fn assert_asked_once(server: &Server, remote: &FaultyHttpServer) {
    clock::leap(Duration::from_secs(60)).await;
    for _ in 0..10 {
        assert!(echo(server).await.is_ok());
    }
    assert_eq!(sent(remote, LISTEN), 1);
}

#[tokio::test]
async fn a_server_that_refuses_to_tell_of_changes_is_not_asked_for_ever() {
    let unknown = Rule::new(Step::Other, Fault::method_not_found()).method(LISTEN);
    let mut stages = vec![(Script::new().rule(unknown), HttpScript::new())];
    for refusal in [
        HttpFault::status(400),
        HttpFault::status(404),
        HttpFault::status(405),
        HttpFault::insufficient_scope("listen"),
        HttpFault::ContentType("text/html".to_owned()),
        HttpFault::moved_to("http://127.0.0.1:1/mcp"),
    ] {
        stages.push((Script::new(), HttpScript::new().on(LISTEN, refusal)));
    }
    for (script, http) in stages {
        let remote = serve(script.speaks(Speaks::Modern), http.clone()).await;
        let (_fleet, server) = keep(web_at(&remote));
        let generation = connected(&server).await;
        seen(&remote, |traffic| traffic.sent(LISTEN) > 0).await;
        assert_asked_once(&server, &remote).await;
        assert_eq!(connected(&server).await, generation);
    }
}

#[tokio::test]
async fn a_server_that_cannot_tell_of_changes_now_is_asked_again() {
    for ill in [HttpFault::status(502), HttpFault::status(429), HttpFault::Close] {
        let twice = HttpRule::on(LISTEN, ill).occurrence(Occurrence::Until(2));
        let remote = serve(
            Script::new().speaks(Speaks::Modern),
            HttpScript::new().rule(twice),
        )
        .await;
        let (_fleet, server) = keep(web_at(&remote));
        let generation = connected(&server).await;
        seen(&remote, |traffic| traffic.sent(LISTEN) == 3).await;
        assert_eq!(connected(&server).await, generation);
    }
}

#[tokio::test]
async fn a_server_that_has_too_much_to_tell_is_left_alone_for_as_long_as_it_asks() {
    let once = HttpRule::on(LISTEN, HttpFault::retry_after(429, "1")).occurrence(Occurrence::Nth(1));
    let remote = serve(Script::new().speaks(Speaks::Modern), HttpScript::new().rule(once)).await;
    let began = Instant::now();
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    seen(&remote, |traffic| traffic.sent(LISTEN) == 2).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn everything_is_listed_by_a_server_that_listens_however_late_it_takes_the_listen() {
    let late = HttpRule::on(LISTEN, HttpFault::Delay { ms: 200 });
    let remote = serve(Script::new().speaks(Speaks::Modern), HttpScript::new().rule(late)).await;
    let began = Instant::now();
    let (_fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    assert!(
        began.elapsed() >= Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(sent(&remote, LISTEN), 1);
}

#[tokio::test]
async fn a_stream_that_cannot_go_on_where_it_ended_costs_a_listing() {
    let breaks = HttpRule::new(HttpStep::Get, HttpFault::DropAfterEvents(1)).occurrence(Occurrence::Nth(1));
    let remote = serve(
        Script::new().speaks(Speaks::Legacy),
        HttpScript::new().without_event_ids().rule(breaks),
    )
    .await;
    let (fleet, server) = keep(web_at(&remote));
    let generation = connected(&server).await;
    seen(&remote, |traffic| traffic.live_streams() == 1).await;
    remote.edit(|script| *script = script.clone().tool("unheard"));
    remote.notify("notifications/message", &json!({ "level": "info", "data": "x" }));
    shows(&fleet, "web__unheard").await;
    assert_eq!(connected(&server).await, generation);
}

#[tokio::test]
async fn a_cancellation_of_something_else_ends_no_long_answer() {
    let remote = well(Speaks::Modern).await;
    let (fleet, server) = keep(web_at(&remote));
    connected(&server).await;
    seen(&remote, |traffic| traffic.live_streams() == 1).await;
    let id = remote.traffic(|traffic| traffic.last_id(LISTEN)).unwrap();
    let mut other = endings(&id)[1].clone();
    other["params"]["requestId"] = json!(987_654);
    remote.say(&other);
    // What comes after it on the same stream is heard.
    remote.edit(|script| *script = script.clone().tool("later"));
    remote.notify("notifications/tools/list_changed", &json!({}));
    shows(&fleet, "web__later").await;
    assert_asked_once(&server, &remote).await;
}

#[tokio::test]
async fn a_task_is_followed_over_http_and_again_after_a_restart_of_its_server() {
    let script = Script {
        speaks: Speaks::Modern,
        tasks: vec!["one".to_owned()],
        ..Script::default()
    };
    let mut remote = serve(script, HttpScript::new()).await;
    let notes = Notes::new();
    let (_fleet, server) = heard_by(&notes, &remote);
    let first = connected(&server).await;
    assert!(server.follow_task("one").await.unwrap());
    assert!(!server.follow_task("other").await.unwrap());
    let news = json!({ "taskId": "one", "status": "working" });
    seen(&remote, |traffic| traffic.live_streams() == 1).await;
    remote.notify("notifications/tasks", &news);
    notes.told("notifications/tasks", 1).await;

    remote.stop().await;
    crate::http::support::reaches(&server, mainstay::StateKind::Reconnecting).await;
    remote.restart().await.unwrap();
    let second = beyond(&server, first).await;
    seen(&remote, |traffic| traffic.live_streams() == 1).await;
    let params = remote.traffic(|traffic| traffic.last_params(LISTEN)).unwrap();
    assert_eq!(params["notifications"]["taskIds"], json!(["one"]));
    remote.notify("notifications/tasks", &news);
    let told = notes.told("notifications/tasks", 2).await;
    assert_eq!(told[1].generation.0, second);
}
