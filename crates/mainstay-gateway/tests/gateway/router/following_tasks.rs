//! Listens of modern clients that follow tasks: each is notified of its own, under its own id, until the task has ended.

use std::sync::Arc;

use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use serde_json::{Value, json};

use crate::router::client::{Client, modern};
use crate::router::{gateway, one};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TASK_STATUS: &str = "notifications/tasks";
const LISTEN: &str = "subscriptions/listen";

/// The tools whose calls begin the tasks of a server, in their order.
const TOOLS: [&str; 2] = ["echo", "log"];

/// A modern server that begins these tasks, and notifies of them.
fn with_tasks(tasks: &[&str]) -> Arc<Memory> {
    let begins = |(tool, id): (&&str, &&str)| {
        let task = json!({ "resultType": "task", "taskId": id, "status": "working" });
        Rule::new(Step::Call, Fault::Result(task)).named(tool)
    };
    Memory::new(Script {
        rules: TOOLS.iter().zip(tasks).map(begins).collect(),
        speaks: Speaks::Modern,
        capabilities: Some(json!({ "tools": {}, "resources": {}, "extensions": { EXTENSION: {} } })),
        tasks: tasks.iter().map(|id| (*id).to_owned()).collect(),
        ..Script::default()
    })
}

fn declaring() -> Value {
    modern(&json!({ "extensions": { EXTENSION: {} } }))
}

/// The id of the task that a call of this tool begins.
async fn begun(client: &mut Client, tool: &str) -> String {
    let call = json!({ "name": tool, "arguments": {}, "_meta": declaring() });
    let begun = client.ask("tools/call", call).await;
    begun["result"]["taskId"].as_str().expect("a task").to_owned()
}

/// A client whose listen follows the tasks that it begins by calls of these tools, and perhaps others; with the id of the
/// listen, and the ids of its tasks.
async fn following(
    gateway: &Gateway,
    scope: Scope,
    tools: &[&str],
    others: &[&str],
) -> (Client, u64, Vec<String>) {
    let mut client = Client::connect(gateway, scope);
    let mut own = Vec::new();
    for tool in tools {
        own.push(begun(&mut client, tool).await);
    }
    own.sort();
    let tasks: Vec<&str> = own
        .iter()
        .map(String::as_str)
        .chain(others.iter().copied())
        .collect();
    let filter = json!({ "_meta": declaring(), "notifications": { "taskIds": tasks } });
    let listen = client.begin(LISTEN, filter).await;
    let acknowledged = client.message().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], listen);
    let promised = acknowledged["params"]["notifications"]["taskIds"].clone();
    assert_eq!(promised, json!(own), "its own, and no other");
    (client, listen, own)
}

async fn say(side: &MemoryServer, id: &str, status: &str) {
    let params = json!({ "taskId": id, "status": status, "x-future": 1.0 });
    side.inject_message(&json!({ "jsonrpc": "2.0", "method": TASK_STATUS, "params": params }))
        .await;
}

/// The tasks that a server was last asked to follow.
fn listened_for(side: &MemoryServer) -> Value {
    side.last_params(LISTEN).expect("it is listened to")["notifications"]["taskIds"].clone()
}

async fn gets_nothing(client: &mut Client) {
    let next = client.begin("tools/list", json!({ "_meta": declaring() })).await;
    let message = client.message().await;
    assert_eq!(message["id"], next, "{message}");
}

#[tokio::test]
async fn each_listen_gets_the_status_of_its_own_tasks_under_its_own_id() {
    let (a, b) = (with_tasks(&["t"]), with_tasks(&["t"]));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut of_union, first, ids) = following(&gateway, Scope::Union, &["a__echo"], &[]).await;
    let others: Vec<_> = ids.iter().map(String::as_str).chain(["t", "b/t"]).collect();
    let (mut direct, second, ids_at_b) = following(&gateway, one("b"), &["echo"], &others).await;
    let (mut both, third, ids_of_both) =
        following(&gateway, Scope::Union, &["a__echo", "b__echo"], &others).await;
    assert_ne!(ids_of_both[0], ids[0], "each has its own");
    let mut bystander = Client::connect(&gateway, Scope::Union);
    let filter = json!({ "_meta": declaring(), "notifications": { "toolsListChanged": true } });
    bystander.begin(LISTEN, filter).await;
    let promised = bystander.message().await["params"]["notifications"].clone();
    assert!(promised.get("taskIds").is_none(), "it asked for none: {promised}");

    say(&a.side(1).await, "t", "working").await;
    for (client, listen, id) in [
        (&mut of_union, first, &ids[0]),
        (&mut both, third, &ids_of_both[0]),
    ] {
        let received = client.received(TASK_STATUS).await["params"].clone();
        assert_eq!(received["taskId"], json!(id));
        assert_eq!(received["_meta"][SUBSCRIPTION], listen);
        assert_eq!(
            (&received["status"], &received["x-future"]),
            (&json!("working"), &json!(1.0))
        );
    }
    say(&b.side(1).await, "t", "input_required").await;
    let received = direct.received(TASK_STATUS).await["params"].clone();
    assert_eq!(
        (&received["taskId"], &received["_meta"][SUBSCRIPTION]),
        (&json!(ids_at_b[0]), &json!(second))
    );
    assert_eq!(
        both.received(TASK_STATUS).await["params"]["taskId"],
        json!(ids_of_both[1])
    );
    for client in [&mut bystander, &mut of_union, &mut direct, &mut both] {
        gets_nothing(client).await;
    }
}

#[tokio::test]
async fn a_listen_is_acknowledged_the_tasks_whose_servers_agreed() {
    let a = with_tasks(&["t", "unknown"]);
    a.script.lock().unwrap().tasks.pop();
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    let known = begun(&mut client, "a__echo").await;
    let unknown = begun(&mut client, "a__log").await;
    let asked = [&known, &unknown, "a/t", "nobody/t", "nonsense"];
    let filter = json!({ "_meta": declaring(), "notifications": { "taskIds": asked } });
    client.begin(LISTEN, filter).await;
    let promised = client.message().await["params"]["notifications"]["taskIds"].clone();
    assert_eq!(promised, json!([known]));
    let (_other, ..) = following(&gateway, one("a"), &["echo"], &[]).await;
    let side = a.side(1).await;
    assert_eq!(
        listened_for(&side),
        json!(["t"]),
        "the other is not asked for again"
    );
}

#[tokio::test]
async fn a_client_that_does_not_know_tasks_cannot_follow_any() {
    let a = with_tasks(&["t"]);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, one("a"));
    let filter = json!({ "_meta": modern(&json!({})), "notifications": { "taskIds": ["t"] } });
    let refused = client.ask(LISTEN, filter).await["error"].clone();
    assert_eq!(refused["code"], -32021);
    assert_eq!(
        refused["data"]["requiredCapabilities"],
        json!({ "extensions": { EXTENSION: {} } })
    );
    let ids: Vec<_> = (0..257).map(|n| n.to_string()).collect();
    let filter = json!({ "_meta": declaring(), "notifications": { "taskIds": ids } });
    assert_eq!(client.ask(LISTEN, filter).await["error"]["code"], -32602);
    assert_eq!(a.side(1).await.count(LISTEN), 1, "the gateway's own");
}

#[tokio::test]
async fn a_task_is_followed_again_after_a_reconnect_and_let_go_when_it_has_ended() {
    let a = with_tasks(&["t", "u"]);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _, ids) = following(&gateway, Scope::Union, &["a__echo", "a__log"], &[]).await;
    a.side(1).await.cut();
    let side = a.side(2).await;
    side.wait_for(LISTEN, 1).await;
    assert_eq!(listened_for(&side), json!(["t", "u"]));
    for status in ["working", "completed"] {
        say(&side, "t", status).await;
        assert_eq!(client.received(TASK_STATUS).await["params"]["status"], status);
    }
    say(&side, "t", "completed").await;
    say(&side, "u", "working").await;
    assert_eq!(
        client.received(TASK_STATUS).await["params"]["taskId"],
        json!(ids[1]),
        "nothing more of the one that has ended"
    );
    let (_other, ..) = following(&gateway, one("a"), &["log"], &[]).await;
    assert_eq!(listened_for(&side), json!(["u"]), "only what is not over");
}

#[tokio::test]
async fn the_last_listen_that_ends_stops_following_at_the_server() {
    let a = with_tasks(&["t"]);
    let gateway = gateway(&[("a", &a)]).await;
    let (first, ..) = following(&gateway, Scope::Union, &["a__echo"], &[]).await;
    let (mut second, ..) = following(&gateway, one("a"), &["echo"], &[]).await;
    let side = a.side(1).await;
    first.leave().await;
    say(&side, "t", "working").await;
    second.received(TASK_STATUS).await;
    let listens = side.count(LISTEN);
    assert_eq!(listened_for(&side), json!(["t"]));
    second.leave().await;
    side.wait_for(LISTEN, listens + 1).await;
    assert_eq!(listened_for(&side), Value::Null);
}
