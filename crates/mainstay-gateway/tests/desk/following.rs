//! Listens of modern clients that follow tasks: each hears of its own, under its own id, until the task has ended.

use std::sync::Arc;

use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::memory::FarSide;
use mainstay_testkit::{Script, Speaks};
use serde_json::{Value, json};

use crate::client::{Client, modern};
use crate::memory::Memory;
use crate::{gateway, one};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TOLD: &str = "notifications/tasks";
const LISTEN: &str = "subscriptions/listen";

/// A modern server that tells of these tasks.
fn telling_of(tasks: &[&str]) -> Arc<Memory> {
    Memory::new(Script {
        speaks: Speaks::Modern,
        capabilities: Some(json!({ "tools": {}, "resources": {}, "extensions": { EXTENSION: {} } })),
        tasks: tasks.iter().map(|id| (*id).to_owned()).collect(),
        ..Script::default()
    })
}

fn declaring() -> Value {
    modern(&json!({ "extensions": { EXTENSION: {} } }))
}

/// A client whose listen follows these tasks; with the id of the listen, and what it was promised.
async fn following(gateway: &Gateway, scope: Scope, tasks: &[&str]) -> (Client, u64, Value) {
    let mut client = Client::connect(gateway, scope);
    let filter = json!({ "_meta": declaring(), "notifications": { "taskIds": tasks } });
    let listen = client.begin(LISTEN, filter).await;
    let acknowledged = client.message().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], listen);
    let promised = acknowledged["params"]["notifications"]["taskIds"].clone();
    (client, listen, promised)
}

async fn say(side: &FarSide, id: &str, status: &str) {
    let params = json!({ "taskId": id, "status": status, "x-future": 1.0 });
    side.inject_message(&json!({ "jsonrpc": "2.0", "method": TOLD, "params": params }))
        .await;
}

/// The tasks that a server was last asked to tell of.
fn listened_for(side: &FarSide) -> Value {
    side.last_params(LISTEN).expect("it is listened to")["notifications"]["taskIds"].clone()
}

async fn hears_nothing(client: &mut Client) {
    let next = client.begin("tools/list", json!({ "_meta": declaring() })).await;
    let message = client.message().await;
    assert_eq!(message["id"], next, "{message}");
}

#[tokio::test]
async fn whoever_follows_a_task_is_told_of_it_under_the_id_of_its_own_listen_and_nobody_else() {
    let (a, b) = (telling_of(&["t"]), telling_of(&["t"]));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut of_union, first, promised) = following(&gateway, Scope::Union, &["a/t"]).await;
    assert_eq!(promised, json!(["a/t"]));
    let (mut direct, second, promised) = following(&gateway, one("b"), &["t"]).await;
    assert_eq!(promised, json!(["t"]));
    let (mut both, third, _) = following(&gateway, Scope::Union, &["b/t", "a/t", "b/t"]).await;
    let mut bystander = Client::connect(&gateway, Scope::Union);
    let filter = json!({ "_meta": declaring(), "notifications": { "toolsListChanged": true } });
    bystander.begin(LISTEN, filter).await;
    let promised = bystander.message().await["params"]["notifications"].clone();
    assert!(promised.get("taskIds").is_none(), "it asked for none: {promised}");

    say(&a.side(1).await, "t", "working").await;
    for (client, listen) in [(&mut of_union, first), (&mut both, third)] {
        let told = client.heard(TOLD).await["params"].clone();
        assert_eq!(told["taskId"], "a/t");
        assert_eq!(told["_meta"][SUBSCRIPTION], listen);
        assert_eq!(
            (&told["status"], &told["x-future"]),
            (&json!("working"), &json!(1.0))
        );
    }
    say(&b.side(1).await, "t", "input_required").await;
    let told = direct.heard(TOLD).await["params"].clone();
    assert_eq!(
        (&told["taskId"], &told["_meta"][SUBSCRIPTION]),
        (&json!("t"), &json!(second))
    );
    assert_eq!(both.heard(TOLD).await["params"]["taskId"], "b/t");
    for client in [&mut bystander, &mut of_union, &mut direct, &mut both] {
        hears_nothing(client).await;
    }
}

#[tokio::test]
async fn a_listen_is_promised_the_tasks_that_their_servers_agreed_to_tell_of() {
    let (a, legacy) = (telling_of(&["t"]), Memory::new(Script::default()));
    let gateway = gateway(&[("a", &a), ("legacy", &legacy)]).await;
    let asked = ["a/t", "a/unknown", "legacy/t", "nobody/t", "nonsense"];
    let (_client, _, promised) = following(&gateway, Scope::Union, &asked).await;
    assert_eq!(promised, json!(["a/t"]));
    let (_other, ..) = following(&gateway, one("a"), &["t"]).await;
    let side = a.side(1).await;
    assert_eq!(
        listened_for(&side),
        json!(["t"]),
        "the other is not asked for again"
    );
}

#[tokio::test]
async fn a_client_that_does_not_know_tasks_cannot_follow_any() {
    let a = telling_of(&["t"]);
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
    let a = telling_of(&["t", "u"]);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, ..) = following(&gateway, Scope::Union, &["a/t", "a/u"]).await;
    a.side(1).await.cut();
    let side = a.side(2).await;
    side.wait_for(LISTEN, 1).await;
    assert_eq!(listened_for(&side), json!(["t", "u"]));
    for status in ["working", "completed"] {
        say(&side, "t", status).await;
        assert_eq!(client.heard(TOLD).await["params"]["status"], status);
    }
    say(&side, "t", "completed").await;
    say(&side, "u", "working").await;
    assert_eq!(
        client.heard(TOLD).await["params"]["taskId"],
        "a/u",
        "nothing more of the one that has ended"
    );
    let (_other, ..) = following(&gateway, one("a"), &["u"]).await;
    assert_eq!(listened_for(&side), json!(["u"]), "only what is not over");
}

#[tokio::test]
async fn the_last_who_leaves_ends_the_following_at_the_server() {
    let a = telling_of(&["t"]);
    let gateway = gateway(&[("a", &a)]).await;
    let (first, ..) = following(&gateway, Scope::Union, &["a/t"]).await;
    let (mut second, ..) = following(&gateway, one("a"), &["t"]).await;
    let side = a.side(1).await;
    first.leave().await;
    say(&side, "t", "working").await;
    second.heard(TOLD).await;
    let listens = side.count(LISTEN);
    assert_eq!(listened_for(&side), json!(["t"]));
    second.leave().await;
    side.wait_for(LISTEN, listens + 1).await;
    assert_eq!(listened_for(&side), Value::Null);
}
