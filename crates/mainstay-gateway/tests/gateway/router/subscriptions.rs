//! What clients subscribe to: changes of resources and lists.

use mainstay_gateway::Scope;
use mainstay_testkit::fleet::{Memory, connected};
use mainstay_testkit::{Fault, Occurrence, Rule, Script, Speaks, Step};
use serde_json::json;

use crate::router::client::{Client, modern};
use crate::router::{gateway, one, speaking};

#[tokio::test]
async fn only_subscribers_of_a_resource_get_its_updates() {
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
        let acknowledged = listener
            .received("notifications/subscriptions/acknowledged")
            .await;
        assert_eq!(
            acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            listen
        );

        let touch = json!({ "name": "a__touch", "arguments": { "uri": "mem://one" } });
        bystander.ask("tools/call", touch).await;
        let received = subscriber.received("notifications/resources/updated").await;
        assert_eq!(received["params"]["uri"], "mem://one");
        let received = listener.received("notifications/resources/updated").await;
        assert_eq!(
            received["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            listen
        );
        let next = bystander.begin("ping", json!({})).await;
        assert_eq!(bystander.message().await["id"], next, "it did not subscribe");
        subscriber.leave().await;
        listener.leave().await;
    }
}

#[tokio::test]
async fn the_gateway_subscribes_for_the_first_client_and_unsubscribes_after_the_last() {
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
    // A call that is given up is remembered for a while, and its client with it.
    second
        .begin(
            "tools/call",
            json!({ "name": "a__sleep_ms", "arguments": { "ms": 600_000 } }),
        )
        .await;
    side.wait_for("tools/call", 1).await;
    second.leave().await;
    side.wait_for("resources/unsubscribe", 1).await;
    assert_eq!(side.count("resources/unsubscribe"), 1);
}

#[tokio::test]
async fn a_subscription_that_failed_for_one_client_is_tried_again_for_another() {
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
    assert_eq!(
        side.count("resources/subscribe"),
        0,
        "no client wants it any more"
    );
}

#[tokio::test]
async fn a_changed_list_is_notified_to_clients_that_have_seen_it_or_listen() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut seen, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    seen.ask("tools/list", json!({})).await;
    let mut listener = Client::connect(&gateway, one("a"));
    let filter = json!({ "_meta": modern(&json!({})), "notifications": { "toolsListChanged": true } });
    listener.begin("subscriptions/listen", filter).await;
    listener
        .received("notifications/subscriptions/acknowledged")
        .await;
    let (mut unseen, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;

    side.edit(|script| {
        script
            .tools
            .push(json!({ "name": "new", "inputSchema": { "type": "object" } }));
    });
    side.inject(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)
        .await;
    seen.received("notifications/tools/list_changed").await;
    listener.received("notifications/tools/list_changed").await;
    let tools = seen.ask("tools/list", json!({})).await;
    assert!(tools.to_string().contains("a__new"), "{tools}");
    let next = unseen.begin("ping", json!({})).await;
    assert_eq!(
        unseen.message().await["id"],
        next,
        "it has no list that could be old"
    );
}

#[tokio::test]
async fn a_second_subscriber_waits_for_the_first_attempt_and_retries_if_it_failed() {
    let refused_later = |ms| {
        let slow = Rule::new(Step::Other, Fault::Delay { ms }).method("resources/subscribe");
        let refused = Rule::new(
            Step::Other,
            Fault::Error {
                code: -32603,
                message: "not now".into(),
            },
        )
        .method("resources/subscribe")
        .occurrence(Occurrence::Nth(1));
        Memory::new(Script::default().rule(slow).rule(refused))
    };
    let a = refused_later(100);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut first, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut second, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let uri = json!({ "uri": "mem://one" });
    let one = first.begin("resources/subscribe", uri.clone()).await;
    side.wait_for("resources/subscribe", 1).await;
    let two = second.begin("resources/subscribe", uri.clone()).await;
    assert_eq!(first.answer(one).await["error"]["message"], "not now");
    assert_eq!(second.answer(two).await["result"], json!({}));
    assert_eq!(side.count("resources/subscribe"), 2, "it asked for itself");

    let touch = json!({ "name": "a__touch", "arguments": { "uri": "mem://one" } });
    first.ask("tools/call", touch).await;
    second.received("notifications/resources/updated").await;
    let next = first.begin("ping", json!({})).await;
    assert_eq!(first.message().await["id"], next, "its subscription failed");
    second.leave().await;
    side.wait_for("resources/unsubscribe", 1).await;
}

#[tokio::test]
async fn a_subscription_ends_at_the_server_where_it_was_made_though_the_catalog_has_changed_since() {
    let (a, b) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    let gateway = gateway(&[("a", &a), ("b", &b)]).await;
    let (at_a, at_b) = (a.side(1).await, b.side(1).await);
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut leaving, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for client in [&mut client, &mut leaving] {
        client.ask("resources/list", json!({})).await;
        client
            .ask("resources/subscribe", json!({ "uri": "mem://one" }))
            .await;
    }
    assert_eq!(
        (
            at_a.count("resources/subscribe"),
            at_b.count("resources/subscribe")
        ),
        (1, 0)
    );
    // The resource is b's from now on, as far as the catalog can tell.
    at_a.edit(|script| {
        script.resources.clear();
        script
            .resources
            .push(json!({ "uri": "mem://other", "name": "other" }));
        script.templates.clear();
        script
            .templates
            .push(json!({ "uriTemplate": "else://{x}", "name": "else" }));
    });
    at_a.inject(r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#)
        .await;
    client.received("notifications/resources/list_changed").await;

    at_b.inject(
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"mem://one"}}"#,
    )
    .await;
    let touch = json!({ "name": "a__touch", "arguments": { "uri": "mem://one" } });
    let done = client.begin("tools/call", touch).await;
    assert_eq!(
        client.message().await["method"],
        "notifications/resources/updated",
        "a's"
    );
    assert_eq!(
        client.message().await["id"],
        done,
        "b was not asked for a subscription"
    );

    client
        .ask("resources/unsubscribe", json!({ "uri": "mem://one" }))
        .await;
    assert_eq!(at_a.count("resources/unsubscribe"), 0, "somebody still wants it");
    leaving.leave().await;
    at_a.wait_for("resources/unsubscribe", 1).await;
    assert_eq!(at_b.count("resources/unsubscribe"), 0);
}

#[tokio::test]
async fn a_subscription_whose_client_left_before_it_was_made_is_given_up() {
    for era in [mainstay::Era::Legacy, mainstay::Era::Modern] {
        let slow = Rule::new(Step::Other, Fault::Delay { ms: 200 }).method("resources/subscribe");
        let a = Memory::new(Script::default().rule(slow));
        let gateway = gateway(&[("a", &a)]).await;
        let side = a.side(1).await;
        match era {
            mainstay::Era::Legacy => {
                let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
                let id = client
                    .begin("resources/subscribe", json!({ "uri": "mem://one" }))
                    .await;
                side.wait_for("resources/subscribe", 1).await;
                client
                    .notify("notifications/cancelled", json!({ "requestId": id }))
                    .await;
                side.wait_for("resources/unsubscribe", 1).await;
            }
            mainstay::Era::Modern => {
                let mut client = Client::connect(&gateway, one("a"));
                let filter = json!({ "_meta": modern(&json!({})), "notifications": { "resourceSubscriptions": ["mem://one"] } });
                client.begin("subscriptions/listen", filter).await;
                side.wait_for("resources/subscribe", 1).await;
                client.leave().await;
                side.wait_for("resources/unsubscribe", 1).await;
            }
        }
    }
}

#[tokio::test]
async fn a_listen_is_acknowledged_only_for_resources_that_a_server_has() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let mut client = Client::connect(&gateway, Scope::Union);
    let uris = json!(["mem://one", "nobody://has-it"]);
    let filter = json!({ "_meta": modern(&json!({})), "notifications": { "resourceSubscriptions": uris } });
    client.begin("subscriptions/listen", filter).await;
    let promised = client.received("notifications/subscriptions/acknowledged").await;
    let promised = &promised["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*promised, json!(["mem://one"]));
    a.side(1).await.wait_for("resources/subscribe", 1).await;
}

#[tokio::test]
async fn subscriptions_are_made_again_at_a_server_that_is_removed_and_added_again() {
    for through_gateway in [true, false] {
        for speaks in [Speaks::Legacy, Speaks::Modern] {
            let a = speaking(speaks);
            let gateway = gateway(&[("a", &a)]).await;
            let (mut session, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
            for uri in ["mem://one", "mem://two"] {
                session.ask("resources/subscribe", json!({ "uri": uri })).await;
            }
            let mut listener = Client::connect(&gateway, one("a"));
            let filter = json!({ "_meta": modern(&json!({})), "notifications": { "resourceSubscriptions": ["mem://one"] } });
            listener.begin("subscriptions/listen", filter).await;
            listener
                .received("notifications/subscriptions/acknowledged")
                .await;

            for configured in [None, Some(a.config("a").build().unwrap())] {
                match through_gateway {
                    true => gateway.apply(configured).await,
                    false => gateway.fleet().apply(configured).await,
                };
                // Given up while there is no such server.
                session
                    .ask("resources/unsubscribe", json!({ "uri": "mem://two" }))
                    .await;
            }
            connected(&gateway.fleet().server("a").unwrap()).await;
            let side = a.side(2).await;
            match speaks {
                Speaks::Legacy => {
                    side.wait_for("resources/subscribe", 1).await;
                    assert_eq!(side.noted("subscribe mem://two"), 0, "no client wants it");
                }
                Speaks::Modern | Speaks::Both => loop {
                    let seen = side.count("subscriptions/listen");
                    let listen = side.last_params("subscriptions/listen").unwrap_or_default();
                    if listen["notifications"]["resourceSubscriptions"] == json!(["mem://one"]) {
                        break;
                    }
                    side.wait_for("subscriptions/listen", seen + 1).await;
                },
            }
            let touch = json!({ "name": "a__touch", "arguments": { "uri": "mem://one" } });
            session.ask("tools/call", touch).await;
            session.received("notifications/resources/updated").await;
            listener.received("notifications/resources/updated").await;

            listener.leave().await;
            let listens = side.count("subscriptions/listen");
            session
                .ask("resources/unsubscribe", json!({ "uri": "mem://one" }))
                .await;
            match speaks {
                Speaks::Legacy => side.wait_for("resources/unsubscribe", 1).await,
                Speaks::Modern | Speaks::Both => side.wait_for("subscriptions/listen", listens + 1).await,
            }
        }
    }
}
