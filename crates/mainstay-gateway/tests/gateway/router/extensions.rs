//! Extensions of the protocol that nothing here knows, between clients and servers that do.

use std::sync::Arc;

use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::fleet::{Memory, connected};
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use serde_json::{Value, json};

use crate::router::client::{Client, LONG, modern};
use crate::router::{gateway, one};

const LIST: &str = "skills/list";
const CHANGED: &str = "notifications/skills/list_changed";
const UI: &str = r#"{"mimeTypes":["text/html"]}"#;

/// A server that declares skills, and has these.
fn skilled(skills: &[&str]) -> Arc<Memory> {
    let introduction = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {}, "extensions": { "io.x/skills": { "listChanged": true } } },
        "serverInfo": { "name": "skilled", "version": "1" },
    });
    let skills: Vec<_> = skills.iter().map(|name| json!({ "name": name })).collect();
    Memory::new(
        Script::new()
            .rule(Rule::new(Step::Initialize, Fault::Result(introduction)))
            .rule(Rule::new(Step::Other, Fault::Result(json!({ "skills": skills })))),
    )
}

fn plain() -> Arc<Memory> {
    Memory::new(Script::new().speaks(Speaks::Legacy))
}

fn ui() -> Value {
    json!({ "extensions": { "x/ui": serde_json::from_str::<Value>(UI).unwrap(), "io.x/skills": {} } })
}

#[tokio::test]
async fn a_server_receives_the_extensions_of_its_clients_and_clients_those_of_the_servers() {
    let (a, b) = (skilled(&["sing"]), plain());
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let declared = async |connection: usize| {
        let side = a.side(connection).await;
        side.last_params("initialize").unwrap()["capabilities"]["extensions"].clone()
    };
    assert_eq!(declared(1).await, Value::Null, "no client has declared any");

    let (of_one, about_one) = Client::initialized(&gateway, one("a"), ui()).await;
    let (of_all, about_all) =
        Client::initialized(&gateway, Scope::Union, json!({ "extensions": { "y": {} } })).await;
    let mut of_request = Client::connect(&gateway, Scope::Union);
    let meta = modern(&json!({ "extensions": { "z": {} } }));
    let discovered = of_request.ask("server/discover", json!({ "_meta": meta })).await;
    for about in [&about_one, &about_all, &discovered["result"]] {
        let extensions = &about["capabilities"]["extensions"];
        assert_eq!(
            *extensions,
            json!({ "io.x/skills": { "listChanged": true } }),
            "{about}"
        );
    }

    let server = gateway.fleet().server("a").unwrap();
    server.restart().await.unwrap();
    connected(&server).await;
    let all = declared(2).await;
    let ui: Value = serde_json::from_str(UI).unwrap();
    assert_eq!(all, json!({ "io.x/skills": {}, "x/ui": ui, "y": {}, "z": {} }));
    of_one.leave().await;
    of_all.leave().await;
}

/// The extensions that a server receives with its second connection.
async fn declared_second(gateway: &Gateway, name: &str, memory: &Memory) -> Value {
    let server = gateway.fleet().server(name).unwrap();
    server.restart().await.unwrap();
    connected(&server).await;
    let side = memory.side(2).await;
    side.last_params("initialize").unwrap()["capabilities"]["extensions"].clone()
}

#[tokio::test]
async fn a_modern_client_is_declared_whatever_it_begins_with_and_to_servers_that_come_later() {
    let (a, b) = (plain(), plain());
    let gateway = gateway(&[("a", &a)]).await;
    let (mut session, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    session.ask("tools/list", json!({})).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    let meta = modern(&json!({ "extensions": { "z": {} } }));
    client.ask("tools/list", json!({ "_meta": meta })).await;
    assert_eq!(declared_second(&gateway, "a", &a).await, json!({ "z": {} }));

    let added = gateway.fleet().add(b.config("b").build().unwrap()).await;
    connected(&added.expect("the name is free")).await;
    session.received("notifications/tools/list_changed").await;
    client.ask("tools/list", json!({ "_meta": meta })).await;
    assert_eq!(declared_second(&gateway, "b", &b).await, json!({ "z": {} }));
    session.leave().await;
}

#[tokio::test]
async fn a_list_of_an_extension_joins_what_the_servers_have_and_names_lead_back_to_them() {
    let (a, b, c) = (skilled(&["sing", "dance"]), skilled(&["swim"]), plain());
    let gateway = gateway(&[("a", &a), ("b", &b), ("c", &c)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, ui()).await;
    let listed = client.ask(LIST, json!({})).await;
    let names: Vec<_> = listed["result"]["skills"].as_array().unwrap().iter().collect();
    assert_eq!(
        names,
        [
            &json!({ "name": "a__sing" }),
            &json!({ "name": "a__dance" }),
            &json!({ "name": "b__swim" })
        ]
    );

    client
        .ask("skills/get", json!({ "name": "b__swim", "x": 1.0 }))
        .await;
    let asked = b.side(1).await.last_params("skills/get").unwrap();
    assert_eq!((&asked["name"], &asked["x"]), (&json!("swim"), &json!(1.0)));
    assert_eq!(a.side(1).await.count("skills/get"), 0);
    assert_eq!(c.side(1).await.count(LIST), 0, "it declares no skills");

    let unclear = client.ask("skills/reset", json!({})).await["error"].clone();
    assert_eq!(unclear["code"], -32602);
    let message = unclear["message"].as_str().unwrap();
    assert!(message.contains("a and b have skills/reset"), "{message}");
    let unknown = client.ask("songs/list", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601);
    client.leave().await;
}

#[tokio::test]
async fn the_only_server_with_an_extension_gets_its_requests() {
    let (a, b) = (skilled(&[]), plain());
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let answer = client.ask("skills/reset", json!({ "all": true })).await;
    assert_eq!(answer["result"], json!({ "skills": [] }), "{answer}");
    let asked = a.side(1).await.last_params("skills/reset").unwrap();
    assert_eq!(asked["all"], true);
    client.ask("io.x/skills/reset", json!({ "n": 1 })).await;
    let asked = a.side(1).await.last_params("io.x/skills/reset").unwrap();
    assert_eq!(asked["n"], 1, "a method may have the whole name");
    client.leave().await;
}

#[tokio::test]
async fn notifications_of_an_extension_pass_in_both_directions() {
    let (a, b) = (skilled(&[]), plain());
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, ui()).await;
    let (mut of_one, _) = Client::initialized(&gateway, one("a"), ui()).await;
    let (mut other, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;

    client
        .notify("notifications/skills/used", json!({ "n": 1 }))
        .await;
    tokio::time::timeout(LONG, side.wait_for("notifications/skills/used", 1))
        .await
        .expect("it reaches the server");
    assert_eq!(b.side(1).await.count("notifications/skills/used"), 0);

    let changed = json!({ "jsonrpc": "2.0", "method": CHANGED });
    let private =
        json!({ "jsonrpc": "2.0", "method": "notifications/skills/done", "params": { "secret": 1 } });
    for message in [&private, &changed] {
        side.inject_message(message).await;
    }
    for client in [&mut client, &mut of_one] {
        client.received(CHANGED).await;
    }
    // Who declares no skills gets nothing, and what may be one client's own reaches no other.
    let answers = side.count("");
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": "last", "method": "x/question" }))
        .await;
    side.wait_for("", answers + 1).await;
    for client in [&mut client, &mut of_one, &mut other] {
        let id = client.begin("ping", json!({})).await;
        assert_eq!(client.message().await["id"], id, "and no notification");
    }

    other.leave().await;
    of_one.leave().await;
    side.inject_message(&private).await;
    assert_eq!(
        client.received("notifications/skills/done").await["params"]["secret"],
        1
    );
    client.leave().await;
}
