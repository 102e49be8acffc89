//! Tasks of the servers behind the union: each is found again at the server that has it.

use std::sync::Arc;

use mainstay_gateway::Scope;
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use serde_json::{Value, json};

use crate::router::client::{Client, modern};
use crate::router::{gateway, one};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

fn task(id: &str) -> Value {
    json!({ "taskId": id, "status": "working", "createdAt": "2026-01-01T00:00:00Z", "x-future": 1.0 })
}

fn answering(method: &str, result: Value) -> Rule {
    Rule::new(Step::of(method), Fault::Result(result)).method(method)
}

/// A server whose one task has this id.
fn legacy(id: &str, capability: &Value) -> Arc<Memory> {
    let related = json!({ RELATED: { "taskId": id } });
    Memory::new(Script {
        capabilities: Some(json!({ "tools": {}, "tasks": capability })),
        rules: vec![
            answering("tools/call", json!({ "task": task(id) })),
            answering("tasks/get", task(id)),
            answering("tasks/cancel", task(id)),
            answering("tasks/result", json!({ "content": [], "_meta": related })),
            answering("tasks/list", json!({ "tasks": [task(id), task("of-another")] })),
        ],
        ..Script::default()
    })
}

#[tokio::test]
async fn a_task_is_found_again_at_the_server_that_has_it() {
    let (a, b) = (
        legacy("same", &json!({ "cancel": {} })),
        legacy("same", &json!({ "list": {} })),
    );
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut client, hello) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    assert_eq!(
        hello["capabilities"]["tasks"],
        json!({ "cancel": {}, "list": {} }),
        "what any of them has"
    );
    let mut ids = Vec::new();
    for server in ["a", "b"] {
        let call = json!({ "name": format!("{server}__echo"), "arguments": {}, "task": { "ttl": 1 } });
        let made = client.ask("tools/call", call).await["result"]["task"].clone();
        assert_eq!(made["x-future"], 1.0);
        ids.push(made["taskId"].clone());
    }
    assert_ne!(ids[0], ids[1]);
    for (id, here, there) in [(&ids[0], &a, &b), (&ids[1], &b, &a)] {
        let (here, there) = (here.side(1).await, there.side(1).await);
        let before = there.total();
        for method in ["tasks/get", "tasks/cancel", "tasks/result"] {
            let done = client.ask(method, json!({ "taskId": id })).await["result"].clone();
            let received = match method {
                "tasks/result" => &done["_meta"][RELATED]["taskId"],
                _get_or_cancel => &done["taskId"],
            };
            assert_eq!(received, id, "{method}");
            assert_eq!(here.last_params(method).unwrap()["taskId"], "same", "{method}");
        }
        assert_eq!(there.total(), before);
    }
    for none in ["same", "c/same", "a", ""] {
        let refused = client.ask("tasks/get", json!({ "taskId": none })).await;
        assert_eq!(refused["error"]["code"], -32602, "{none}: {refused}");
    }
}

#[tokio::test]
async fn a_session_lists_and_is_notified_of_its_own_tasks_alone() {
    let (a, b) = (
        legacy("t", &json!({ "list": {} })),
        legacy("u", &json!({ "list": {} })),
    );
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut bystander, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut direct, _) = Client::initialized(&gateway, one("b"), json!({})).await;
    let call = |name: &str| json!({ "name": name, "arguments": {}, "task": {} });
    let first = client.ask("tools/call", call("a__echo")).await["result"]["task"]["taskId"].clone();
    let own = direct.ask("tools/call", call("echo")).await;
    let own = own["result"]["task"]["taskId"].clone();
    assert!(
        own.as_str().unwrap().starts_with("u~"),
        "under its own names: {own}"
    );

    let list = client.ask("tasks/list", json!({})).await["result"].clone();
    assert_eq!(list["tasks"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["tasks"][0]["taskId"], first);
    assert_eq!(
        bystander.ask("tasks/list", json!({})).await["result"]["tasks"],
        json!([])
    );

    for (memory, id) in [(&a, "t"), (&b, "u")] {
        let status = json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task(id) });
        memory.side(1).await.inject_message(&status).await;
    }
    let received = client.received("notifications/tasks/status").await;
    assert_eq!(received["params"]["taskId"], first);
    let received = direct.received("notifications/tasks/status").await;
    assert_eq!(received["params"]["taskId"], own);
    for client in [&mut bystander, &mut client] {
        let next = client.begin("ping", json!({})).await;
        assert_eq!(client.message().await["id"], next, "nothing of another's task");
    }
}

#[tokio::test]
async fn the_pages_of_several_servers_tasks_are_turned_and_a_server_that_is_away_is_named() {
    let (a, b) = (
        legacy("t", &json!({ "list": {} })),
        legacy("u", &json!({ "list": {} })),
    );
    let silent = legacy("v", &json!({ "cancel": {} }));
    a.script.lock().unwrap().rules.insert(
        0,
        answering("tasks/list", json!({ "tasks": [task("t")], "nextCursor": "p/2" })),
    );
    let gateway = gateway(&[("a", &a), ("b", &b), ("silent", &silent)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let mut begun = Vec::new();
    for tool in ["a__echo", "b__echo"] {
        let made = client.ask("tools/call", json!({ "name": tool, "task": {} }));
        begun.push(made.await["result"]["task"]["taskId"].clone());
    }
    let first = client.ask("tasks/list", json!({})).await["result"].clone();
    assert_eq!(first["tasks"][0]["taskId"], begun[0]);
    a.side(1).await.edit(|script| drop(script.rules.remove(0)));
    let second = client
        .ask("tasks/list", json!({ "cursor": first["nextCursor"] }))
        .await["result"]
        .clone();
    assert_eq!(
        a.side(1).await.last_params("tasks/list").unwrap()["cursor"],
        "p/2"
    );
    assert_eq!(
        b.side(1).await.last_params("tasks/list").unwrap().get("cursor"),
        None
    );
    let ids: Vec<_> = second["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["taskId"].clone())
        .collect();
    assert_eq!(ids, begun);
    assert!(
        second.get("nextCursor").is_none() && second.get("_meta").is_none(),
        "{second}"
    );
    assert_eq!(silent.side(1).await.count("tasks/list"), 0, "it does not list");

    b.set_down(true);
    let lost = gateway.fleet().server("b").unwrap();
    b.side(1).await.cut();
    lost.wait_until(crate::router::client::LONG, |status| {
        status.state != mainstay::StateKind::Connected
    })
    .await
    .unwrap();
    let list = client.ask("tasks/list", json!({})).await["result"].clone();
    assert_eq!(list["_meta"]["mainstay"]["unavailable"], json!(["b"]), "{list}");
    let refused = client.ask("tasks/list", json!({ "cursor": "nonsense" })).await;
    assert_eq!(refused["error"]["code"], -32602);
}

#[tokio::test]
async fn a_task_that_a_modern_server_begins_is_found_again_too() {
    let flat = |id: &str, kind: &str| {
        let mut task = task(id);
        task["resultType"] = json!(kind);
        task
    };
    let of = |id: &str| {
        Memory::new(Script {
            speaks: Speaks::Modern,
            capabilities: Some(
                json!({ "tools": {}, "extensions": { EXTENSION: {}, "example.org/other": {} } }),
            ),
            rules: vec![
                answering("tools/call", flat(id, "task")),
                answering("tasks/get", flat(id, "complete")),
                answering("tasks/update", json!({ "resultType": "complete" })),
            ],
            ..Script::default()
        })
    };
    let (a, b) = (of("t"), of("t"));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    let meta = modern(&json!({ "extensions": { EXTENSION: {} } }));
    let hello = client.ask("server/discover", json!({ "_meta": meta })).await["result"].clone();
    assert_eq!(
        hello["capabilities"]["extensions"],
        json!({ EXTENSION: {}, "example.org/other": {} }),
        "all that any server has"
    );
    let made = client
        .ask("tools/call", json!({ "name": "b__echo", "_meta": meta }))
        .await["result"]
        .clone();
    assert_eq!(made["resultType"], "task");
    let id = &made["taskId"];
    let got = client
        .ask("tasks/get", json!({ "taskId": id, "_meta": meta }))
        .await;
    assert_eq!(got["result"]["taskId"], *id);
    client
        .ask(
            "tasks/update",
            json!({ "taskId": id, "inputResponses": {}, "_meta": meta }),
        )
        .await;
    let side = b.side(1).await;
    for method in ["tasks/get", "tasks/update"] {
        assert_eq!(side.last_params(method).unwrap()["taskId"], "t", "{method}");
    }
    assert_eq!(a.side(1).await.count("tasks/get"), 0);
    let (_, hello) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let declared = &hello["capabilities"];
    assert!(declared.get("tasks").is_none() && declared["extensions"].get(EXTENSION).is_none());
}

#[tokio::test]
async fn a_union_without_tasks_offers_none() {
    let a = Memory::new(Script::default());
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, hello) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    assert!(hello["capabilities"].get("tasks").is_none());
    assert_eq!(
        client.ask("tasks/list", json!({})).await["result"]["tasks"],
        json!([])
    );
}

/// A server whose tool `echo` begins the task `t`.
fn asking_for_tasks() -> Arc<Memory> {
    let begins = Fault::Result(json!({ "task": task("t") }));
    Memory::new(Script {
        capabilities: Some(json!({ "tools": {}, "logging": {}, "tasks": {} })),
        rules: vec![Rule::new(Step::Call, begins).named("echo")],
        ..Script::default()
    })
}

/// The parameters of a message that belongs to the task `t`.
fn for_task(mut params: Value) -> Value {
    params["_meta"] = json!({ RELATED: { "taskId": "t" } });
    params
}

/// Asks the client for something that belongs to the task, and returns the answer once there is one.
async fn ask_for_task(side: &MemoryServer, id: &str) -> impl Future<Output = Value> + use<> {
    let answers = side.count("");
    let question = for_task(json!({ "message": "?", "requestedSchema": { "type": "object" } }));
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": question });
    side.inject_message(&request).await;
    let side = side.clone();
    async move {
        side.wait_for("", answers + 1).await;
        let received = side.received();
        let answer = received.iter().rev().find(|message| message.method().is_empty());
        answer.expect("an answer").outcome().clone()
    }
}

#[tokio::test]
async fn what_a_server_sends_for_a_task_is_for_the_client_that_began_it_whichever_calls_run() {
    let a = asking_for_tasks();
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let can = json!({ "elicitation": {} });
    let (mut owner, _) = Client::initialized(&gateway, one("a"), can.clone()).await;
    let begins = json!({ "name": "echo", "arguments": {}, "task": {} });
    let begun = owner.ask("tools/call", begins).await["result"]["task"]["taskId"].clone();
    let mut others = Vec::new();
    for running in 1..=2 {
        let (mut other, _) = Client::initialized(&gateway, one("a"), can.clone()).await;
        let slow = json!({ "name": "sleep_ms", "arguments": { "ms": 600_000 } });
        other.begin("tools/call", slow).await;
        side.wait_for("tools/call", 1 + running).await;
        others.push(other);

        let answered = ask_for_task(&side, &format!("q{running}")).await;
        let asked = owner.received("elicitation/create").await;
        assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], begun, "{asked}");
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
        owner.write(&answer.to_string()).await;
        assert_eq!(answered.await["result"]["action"], "decline");

        let log = for_task(json!({ "level": "info", "data": running }));
        side.inject_message(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": log }))
            .await;
        let logged = owner.received("notifications/message").await;
        assert_eq!(logged["params"]["data"], running, "{logged}");
    }
    owner.leave().await;
    let refused = ask_for_task(&side, "q3").await.await;
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(
        words.contains("the client that began the task is gone"),
        "{refused}"
    );
    for other in &mut others {
        let next = other.begin("ping", json!({})).await;
        assert_eq!(other.message().await["id"], next, "nothing of it reached another");
    }
}

#[tokio::test]
async fn no_method_reaches_the_task_of_another_client() {
    let a = legacy("t", &json!({ "list": {} }));
    a.script
        .lock()
        .unwrap()
        .rules
        .insert(0, answering("tasks/delete", task("t")));
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut owner, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let call = json!({ "name": "echo", "arguments": {}, "task": {} });
    let begun = owner.ask("tools/call", call).await;
    let id = begun["result"]["task"]["taskId"].clone();
    for foreign in [&id, &json!("t"), &json!(7)] {
        let refused = other.ask("tasks/delete", json!({ "taskId": foreign })).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert_eq!(side.count("tasks/delete"), 0);
    let done = owner.ask("tasks/delete", json!({ "taskId": id })).await;
    assert_eq!(done["result"]["taskId"], id, "{done}");
    assert_eq!(side.last_params("tasks/delete").unwrap()["taskId"], "t");
}

#[tokio::test]
async fn what_a_client_says_belongs_to_a_task_belongs_to_its_own() {
    const VENDOR: &str = "notifications/x-vendor";
    let a = legacy("t", &json!({ "list": {} }));
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut owner, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let call = json!({ "name": "echo", "arguments": {}, "task": {} });
    let begun = owner.ask("tools/call", call).await;
    let id = begun["result"]["task"]["taskId"].clone();
    let related = |id: &Value| json!({ "name": "echo", "_meta": { RELATED: { "taskId": id } } });
    let calls = side.count("tools/call");
    for foreign in [&id, &json!("t"), &json!(7)] {
        other.notify(VENDOR, related(foreign)).await;
        let refused = other.ask("tools/call", related(foreign)).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert_eq!((side.count("tools/call"), side.count(VENDOR)), (calls, 0));
    owner.notify(VENDOR, related(&id)).await;
    owner.ask("tools/call", related(&id)).await;
    for method in [VENDOR, "tools/call"] {
        let received = side.last_params(method).unwrap();
        assert_eq!(received["_meta"][RELATED]["taskId"], "t", "{method}");
    }
}

#[tokio::test]
async fn parameters_that_a_server_could_read_in_another_way_are_refused() {
    let a = legacy("t", &json!({ "list": {} }));
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let foreign = format!(r#"{{"{RELATED}":{{"taskId":"t"}}}}"#);
    for (id, twice) in [
        format!(r#""name":"echo","_meta":{foreign},"_meta":{{}}"#),
        format!(r#""name":"echo","_meta":{foreign},"\u005fmeta":{{}}"#),
        format!(r#""name":"echo","_meta":{{"{RELATED}":{{"taskId":"t"}},"{RELATED}":{{}}}}"#),
        format!(r#""name":"echo","_meta":{{"{RELATED}":{{"taskId":"t~x","TaskId":"t"}}}}"#),
        r#""name":"pid","_meta":{},"name":"echo""#.to_owned(),
        r#""name":"pid","Name":"echo""#.to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":"r{id}","method":"tools/call","params":{{{twice}}}}}"#);
        other.write(&request).await;
        let refused = other.message().await;
        assert_eq!(refused["id"], format!("r{id}"), "{refused}");
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("twice, or in another case"), "{message}");
    }
    let list = r#"{"jsonrpc":"2.0","id":"list","method":"tools/call","params":["echo"]}"#;
    other.write(list).await;
    assert_eq!(other.message().await["error"]["code"], -32602);
    assert_eq!(side.count("tools/call"), 0);
}

#[tokio::test]
async fn the_status_of_a_task_that_a_client_reports_reaches_no_shared_server() {
    let a = legacy("t", &json!({ "list": {} }));
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let status = json!({ "taskId": "t", "status": "failed" });
    client.notify("notifications/tasks/status", status).await;
    client.notify("notifications/x", json!({})).await;
    side.wait_for("notifications/x", 1).await;
    assert_eq!(side.count("notifications/tasks/status"), 0);
}
