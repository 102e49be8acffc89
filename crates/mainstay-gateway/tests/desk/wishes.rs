//! What clients want for longer than a request.

use mainstay_gateway::Scope;
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Speaks, Step};
use serde_json::json;

use crate::client::{Client, modern};
use crate::memory::{Memory, connected};
use crate::{gateway, one, speaking};

#[tokio::test]
async fn whoever_subscribes_is_told_and_nobody_else() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let a = speaking(speaks);
        let gateway = gateway(&[("a", &a)]).await;
        let (mut subscriber, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
        let (mut bystander, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
        let done = subscriber
            .ask("resources/subscribe", json!({ "uri": "mem://one" }))
            .await;
        assert_eq!(done["result"], json!({}), "{speaks:?}");
        let mut listener = Client::connect(&gateway, one("a"));
        let filter = json!({ "_meta": modern(&json!({})), "notifications": { "resourceSubscriptions": ["mem://one"] } });
        let listen = listener.begin("subscriptions/listen", filter).await;
        let acknowledged = listener.heard("notifications/subscriptions/acknowledged").await;
        assert_eq!(
            acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            listen
        );

        let touch = json!({ "name": "a__touch", "arguments": { "uri": "mem://one" } });
        bystander.ask("tools/call", touch).await;
        let told = subscriber.heard("notifications/resources/updated").await;
        assert_eq!(told["params"]["uri"], "mem://one");
        let told = listener.heard("notifications/resources/updated").await;
        assert_eq!(
            told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            listen
        );
        let next = bystander.begin("ping", json!({})).await;
        assert_eq!(bystander.message().await["id"], next, "it did not ask to be told");
        subscriber.leave().await;
        listener.leave().await;
    }
}

#[tokio::test]
async fn the_server_is_told_of_the_first_who_subscribes_and_of_the_last_who_leaves() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut first, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut second, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let uri = json!({ "uri": "mem://one" });
    first.ask("resources/subscribe", uri.clone()).await;
    second.ask("resources/subscribe", uri.clone()).await;
    assert_eq!(side.count("resources/subscribe"), 1);
    first.ask("resources/unsubscribe", uri).await;
    assert_eq!(side.count("resources/unsubscribe"), 0, "somebody still wants it");
    second.leave().await;
    side.wait_for("resources/unsubscribe", 1).await;
    assert_eq!(side.count("resources/unsubscribe"), 1);
}

#[tokio::test]
async fn what_one_client_is_refused_another_is_not_taken_to_have() {
    let silent_once = Rule::new(Step::Other, Fault::NoAnswer)
        .method("resources/subscribe")
        .occurrence(Occurrence::Nth(1));
    let a = Memory::new(Script::new().rule(silent_once));
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut first, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut second, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let uri = json!({ "uri": "mem://one" });
    let refused = first.begin("resources/subscribe", uri.clone()).await;
    side.wait_for("resources/subscribe", 1).await;
    let taken = second.begin("resources/subscribe", uri).await;
    second.ask("ping", json!({})).await;
    let received = side.received();
    let asked = received
        .iter()
        .find(|message| message.method() == "resources/subscribe");
    let error = json!({ "code": -32602, "message": "not now" });
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": asked.unwrap().id(), "error": error }))
        .await;
    assert_eq!(first.answer(refused).await["error"]["message"], "not now");
    assert_eq!(second.answer(taken).await["result"], json!({}));
    assert_eq!(
        side.count("resources/subscribe"),
        2,
        "the server was asked for the second"
    );
}

#[tokio::test]
async fn a_subscription_ends_with_its_client_also_when_its_server_shows_nothing_any_more() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let server = gateway.fleet().server("a").unwrap();
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    client
        .ask("resources/subscribe", json!({ "uri": "mem://one" }))
        .await;
    server.disable().await.unwrap();
    client.leave().await;
    server.enable().await.unwrap();
    connected(&server).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let call = json!({ "name": "a__echo", "arguments": {} });
    client.ask("tools/call", call).await;
    let side = a.side(2).await;
    assert_eq!(side.count("resources/subscribe"), 0, "nobody wants it any more");
}

#[tokio::test]
async fn a_list_that_changed_is_told_to_whoever_has_seen_it_or_listens() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut seen, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    seen.ask("tools/list", json!({})).await;
    let mut listener = Client::connect(&gateway, one("a"));
    let filter = json!({ "_meta": modern(&json!({})), "notifications": { "toolsListChanged": true } });
    listener.begin("subscriptions/listen", filter).await;
    listener.heard("notifications/subscriptions/acknowledged").await;
    let (mut unseen, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;

    side.edit(|script| {
        script
            .tools
            .push(json!({ "name": "new", "inputSchema": { "type": "object" } }));
    });
    side.inject(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
        .await;
    seen.heard("notifications/tools/list_changed").await;
    listener.heard("notifications/tools/list_changed").await;
    let tools = seen.ask("tools/list", json!({})).await;
    assert!(tools.to_string().contains("a__new"), "{tools}");
    let next = unseen.begin("ping", json!({})).await;
    assert_eq!(
        unseen.message().await["id"],
        next,
        "it has no list that could be old"
    );
}
