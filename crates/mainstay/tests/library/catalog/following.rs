//! Tasks that are followed: a modern server tells of those it agreed to, on every connection, until they have ended.

use std::sync::Arc;
use std::time::Duration;

use mainstay::gateway::ServerExt;
use mainstay::{CallOptions, Fleet, Server, StateKind, Status};
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use serde_json::{Value, json};

use mainstay_testkit::fleet::{LONG, Memory, Notes, connected, fleet_with};

const TOLD: &str = "notifications/tasks";
const LISTEN: &str = "subscriptions/listen";

fn telling_of(tasks: &[&str]) -> Arc<Memory> {
    Memory::new(Script {
        speaks: Speaks::Modern,
        tasks: tasks.iter().map(|id| (*id).to_owned()).collect(),
        ..Script::default()
    })
}

fn heard_by(notes: &Arc<Notes>, memory: &Arc<Memory>) -> (Fleet, Server) {
    fleet_with(Fleet::builder().handler(notes.clone()), memory.config("s"))
}

/// The tasks that the server was last asked to tell of.
fn listened_for(side: &MemoryServer) -> Value {
    let params = side.last_params(LISTEN).expect("it is listened to");
    params["notifications"]["taskIds"].clone()
}

async fn say(side: &MemoryServer, id: &str, status: &str) {
    let params = json!({ "taskId": id, "status": status });
    side.inject_message(&json!({ "jsonrpc": "2.0", "method": TOLD, "params": params }))
        .await;
}

async fn reconnected(server: &Server, memory: &Arc<Memory>, last: &Status, number: usize) -> MemoryServer {
    memory.side(number - 1).await.cut();
    let came = server.wait_until(LONG, |status| {
        status.state == StateKind::Connected && status.generation > last.generation
    });
    came.await.expect("it comes back");
    let side = memory.side(number).await;
    side.wait_for(LISTEN, 1).await;
    side
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_on_every_connection_until_it_has_ended() {
    let memory = telling_of(&["one", "two"]);
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    let first = connected(&server).await;
    assert!(server.follow_task("one").await.unwrap());
    assert!(server.follow_task("two").await.unwrap());
    let side = memory.side(1).await;
    assert_eq!(listened_for(&side), json!(["one", "two"]));
    let meta = &side.last_params(LISTEN).unwrap()["_meta"];
    let declared = &meta["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(
        declared["extensions"],
        json!({ "io.modelcontextprotocol/tasks": {} })
    );
    assert_eq!(declared["sampling"], json!({}), "beside what the client can");

    let side = reconnected(&server, &memory, &first, 2).await;
    assert_eq!(listened_for(&side), json!(["one", "two"]));
    say(&side, "one", "working").await;
    say(&side, "one", "completed").await;
    let told = notes.told(TOLD, 2).await;
    assert!(told[1].params.as_ref().unwrap().as_str().contains("completed"));
    let listens = side.count(LISTEN);
    server.unfollow_task("one");
    server.ping(LONG).await.unwrap();
    assert_eq!(side.count(LISTEN), listens, "it had been let go already");

    let second = connected(&server).await;
    let side = reconnected(&server, &memory, &second, 3).await;
    assert_eq!(listened_for(&side), json!(["two"]), "one has ended");
    server.unfollow_task("two");
    side.wait_for(LISTEN, 2).await;
    assert_eq!(listened_for(&side), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_server_does_not_agree_to_tell_of_is_not_asked_for_again() {
    let memory = telling_of(&["known"]);
    let (_fleet, server) = heard_by(&Notes::answering("{}"), &memory);
    let first = connected(&server).await;
    assert!(!server.follow_task("unknown").await.unwrap());
    assert!(server.follow_task("known").await.unwrap());
    assert_eq!(listened_for(&memory.side(1).await), json!(["known"]));

    memory.script.lock().unwrap().tasks.clear();
    let side = reconnected(&server, &memory, &first, 2).await;
    side.wait_for(LISTEN, 2).await;
    let received = side.received().into_iter();
    let mut listens = received.filter(|message| message.method() == LISTEN);
    let first = listens.next().unwrap();
    assert_eq!(first.params()["notifications"]["taskIds"], json!(["known"]));
    assert_eq!(listened_for(&side), Value::Null, "it has forgotten the task");

    let legacy = Memory::new(Script::default());
    let (_fleet, server) = heard_by(&Notes::answering("{}"), &legacy);
    connected(&server).await;
    assert!(!server.follow_task("known").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_acknowledges_nothing_is_taken_not_to_agree() {
    use mainstay_testkit::{Fault, Rule, Step};
    let mute = Rule::new(Step::Other, Fault::NoAnswer).method(LISTEN);
    let memory = Memory::new(Script::new().speaks(Speaks::Modern).rule(mute));
    let (_fleet, server) = heard_by(&Notes::answering("{}"), &memory);
    connected(&server).await;
    assert!(!server.follow_task("one").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_task_wished_for_while_the_server_is_away_is_followed_when_it_is_there() {
    let memory = telling_of(&["one"]);
    memory.set_down(true);
    let notes = Notes::answering("{}");
    let (_fleet, server) = heard_by(&notes, &memory);
    assert!(
        !server.follow_task("one").await.unwrap(),
        "nobody can have agreed"
    );
    memory.set_down(false);
    connected(&server).await;
    let side = memory.side(1).await;
    side.wait_for(LISTEN, 1).await;
    assert_eq!(listened_for(&side), json!(["one"]));
    say(&side, "one", "working").await;
    notes.told(TOLD, 1).await;
}

#[tokio::test]
async fn news_of_a_task_goes_to_the_fleet_s_handler_whoever_calls_meanwhile() {
    let memory = telling_of(&["one"]);
    let (notes, caller) = (Notes::answering("{}"), Notes::answering("{}"));
    let (_fleet, server) = heard_by(&notes, &memory);
    connected(&server).await;
    assert!(server.follow_task("one").await.unwrap());
    let side = memory.side(1).await;
    let options = CallOptions::default().handler(caller.clone());
    let (calling, arguments) = (server.clone(), json!({ "ms": 600_000 }));
    let call = tokio::spawn(async move { calling.call("sleep_ms", &arguments).options(options).await });
    side.wait_for("tools/call", 1).await;
    say(&side, "one", "working").await;
    notes.told(TOLD, 1).await;
    call.abort();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_listen_at_once_is_asked_less_and_less_often() {
    let ends = Rule::new(Step::Other, Fault::Result(json!({}))).method(LISTEN);
    let memory = Memory::new(Script::new().speaks(Speaks::Modern).rule(ends));
    let (_fleet, server) = heard_by(&Notes::answering("{}"), &memory);
    connected(&server).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let listens = memory.side(1).await.count(LISTEN);
    // Ten in the first half minute, and then two to four in each minute.
    assert!((20..60).contains(&listens), "{listens}");
}
