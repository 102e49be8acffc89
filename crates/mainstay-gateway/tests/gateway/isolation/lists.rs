//! What a session is shown of its own servers: the template server's lists first, and then their own.

use mainstay::Fleet;
use mainstay::config::Isolation;
use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::fleet::connected;
use mainstay_testkit::store::catalogs_are_stored;
use serde_json::{Value, json};

use crate::isolation::{call, gateway, server};
use crate::router::client::{Client, LONG};

fn names(listed: &Value) -> Vec<String> {
    let tools = listed["result"]["tools"].as_array().expect("a list").iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

#[tokio::test]
async fn a_list_that_changes_at_one_session_s_server_changes_for_that_session_alone() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let scopes = [(Scope::Union, "own__"), (Scope::Server("own".into()), "")];
    for ((scope, prefix), first) in scopes.into_iter().zip([2, 4]) {
        let (mut one, _) = Client::initialized(&gateway, scope.clone(), json!({})).await;
        let (mut two, _) = Client::initialized(&gateway, scope, json!({})).await;
        let before = names(&one.ask("tools/list", json!({})).await);
        assert_eq!(names(&two.ask("tools/list", json!({})).await), before);
        for client in [&mut one, &mut two] {
            let echo = call(&format!("{prefix}echo"), json!({}));
            client.ask("tools/call", echo).await;
        }
        let side = own.side(first).await;
        side.edit(|script| script.tools.push(tool("unlocked")));
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        side.inject_message(&changed).await;
        one.received("notifications/tools/list_changed").await;
        let unlocked = format!("{prefix}unlocked");
        assert!(names(&one.ask("tools/list", json!({})).await).contains(&unlocked));
        let called = one.ask("tools/call", call(&unlocked, json!({ "n": 1 }))).await;
        assert_eq!(called["result"]["structuredContent"]["n"], 1, "{called}");

        let next = two.begin("tools/list", json!({})).await;
        let listed = two.message().await;
        assert_eq!(listed["id"], next, "it gets no notification of another's list");
        assert_eq!(names(&listed), before);
        let (mut later, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
        let listed = names(&later.ask("tools/list", json!({})).await);
        assert!(
            !listed.iter().any(|name| name.ends_with("unlocked")),
            "nor who comes later"
        );
        for client in [one, two, later] {
            client.leave().await;
        }
    }
}

#[tokio::test]
async fn a_server_that_lists_something_else_than_the_template_is_notified() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    own.script.lock().unwrap().tools.push(tool("newer"));
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let listed = names(&client.ask("tools/list", json!({})).await);
    assert!(
        !listed.contains(&"own__newer".to_owned()),
        "the template server's"
    );
    client.ask("tools/call", call("own__echo", json!({}))).await;
    client.received("notifications/tools/list_changed").await;
    let listed = names(&client.ask("tools/list", json!({})).await);
    assert!(listed.contains(&"own__newer".to_owned()), "its own");
    assert!(listed.contains(&"all__echo".to_owned()), "beside what all share");
    client.leave().await;
}

#[tokio::test]
async fn a_session_with_its_own_server_ignores_the_template_server_s_lists() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut has, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut has_not, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for client in [&mut has, &mut has_not] {
        client.ask("tools/list", json!({})).await;
    }
    has.ask("tools/call", call("own__echo", json!({}))).await;
    let template = own.side(1).await;
    template.edit(|script| script.tools.push(tool("newer")));
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    template.inject_message(&changed).await;
    has_not.received("notifications/tools/list_changed").await;
    let next = has.begin("ping", json!({})).await;
    assert_eq!(has.message().await["id"], next);

    // A change of a shared server reaches all sessions.
    let side = all.side(1).await;
    side.edit(|script| script.tools.push(tool("newer")));
    side.inject_message(&changed).await;
    for mut client in [has, has_not] {
        client.received("notifications/tools/list_changed").await;
        client.leave().await;
    }
}

#[tokio::test]
async fn what_a_session_s_server_lists_is_not_remembered_for_others() {
    let own = server();
    let disk = tempfile::tempdir().unwrap();
    let open = || {
        let config = own.config("own").isolation(Isolation::Session).build().unwrap();
        Gateway::start(Fleet::builder().store(disk.path()), [config])
    };
    let gateway = open();
    connected(&gateway.fleet().server("own").unwrap()).await;
    catalogs_are_stored(disk.path(), 1).await;
    own.script.lock().unwrap().tools.push(tool("mine"));
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    client.ask("tools/list", json!({})).await;
    client.ask("tools/call", call("own__echo", json!({}))).await;
    client.received("notifications/tools/list_changed").await;
    client.leave().await;
    gateway.close(LONG).await;

    own.set_down(true);
    let gateway = open();
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let listed = names(&client.ask("tools/list", json!({})).await);
    assert!(
        listed.contains(&"own__echo".to_owned()),
        "what the template server listed"
    );
    assert!(!listed.contains(&"own__mine".to_owned()));
    client.leave().await;
}
