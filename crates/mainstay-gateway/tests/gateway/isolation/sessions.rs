//! A session's own server is that session's, from its first need to its end.

use mainstay_gateway::Scope;
use serde_json::{Value, json};

use crate::isolation::{call, gateway, server};
use crate::router::client::{Client, LONG, modern};

#[tokio::test]
async fn two_sessions_call_two_servers_and_none_calls_the_template_server() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut one, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    one.ask("tools/call", call("own__echo", json!({ "n": 1 }))).await;
    two.ask("tools/call", call("echo", json!({ "n": 2 }))).await;
    one.ask("tools/call", call("own__echo", json!({ "n": 3 }))).await;
    let (template, first, second) = (own.side(1).await, own.side(2).await, own.side(3).await);
    let calls = |side: &mainstay_testkit::memory::MemoryServer| side.count("tools/call");
    assert_eq!(
        (calls(&template), calls(&first), calls(&second)),
        (0, 2, 1),
        "each session its own"
    );
    assert_eq!(
        first.count("server/discover"),
        0,
        "the era is known from the template server"
    );

    // The one that all share is the same for both.
    one.ask("tools/call", call("all__echo", json!({}))).await;
    assert_eq!(all.side(1).await.count("tools/call"), 1);
    one.leave().await;
    first.over().await;
    let still = two.ask("tools/call", call("echo", json!({ "n": 4 }))).await;
    assert_eq!(still["result"]["structuredContent"]["n"], 4);
    assert_eq!(calls(&second), 2, "the same as before");
    two.leave().await;
    second.over().await;
}

#[tokio::test]
async fn a_session_that_only_looks_starts_no_server() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut looks, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut calls, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for method in ["tools/list", "prompts/list", "resources/list", "logging/setLevel"] {
        looks.ask(method, json!({ "level": "debug" })).await;
    }
    looks.leave().await;
    calls.ask("tools/call", call("own__echo", json!({}))).await;
    let second = own.side(2).await;
    assert_eq!(
        second.count("tools/call"),
        1,
        "the first connection after the template server's"
    );
    assert_eq!(own.side(1).await.count("logging/setLevel"), 0);
    calls.leave().await;
}

#[tokio::test]
async fn how_much_is_logged_is_each_session_s_own_affair_and_holds_for_what_starts_later() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut loud, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut quiet, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    loud.ask("logging/setLevel", json!({ "level": "debug" })).await;
    loud.ask("tools/call", call("own__echo", json!({}))).await;
    let its = own.side(2).await;
    its.wait_for("logging/setLevel", 1).await;
    quiet.ask("tools/call", call("own__echo", json!({}))).await;
    let other = own.side(3).await;
    loud.ask("logging/setLevel", json!({ "level": "error" })).await;
    its.wait_for("logging/setLevel", 2).await;
    assert_eq!(its.last_params("logging/setLevel").unwrap()["level"], "error");
    assert_eq!(other.count("logging/setLevel"), 0);
    loud.leave().await;
    quiet.leave().await;
}

#[tokio::test]
async fn an_update_of_a_session_s_own_server_goes_to_that_session() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut one, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    let uri = json!({ "uri": "mem://one" });
    one.ask("resources/subscribe", uri.clone()).await;
    let first = own.side(2).await;
    first.wait_for("resources/subscribe", 1).await;
    two.ask("resources/subscribe", uri.clone()).await;
    let second = own.side(3).await;
    second.wait_for("resources/subscribe", 1).await;

    one.ask("tools/call", call("touch", uri.clone())).await;
    let received = one.received("notifications/resources/updated").await;
    assert_eq!(received["params"]["uri"], "mem://one");
    let next = two.begin("ping", json!({})).await;
    assert_eq!(two.message().await["id"], next, "nothing of another's server");

    two.ask("resources/unsubscribe", uri).await;
    second.wait_for("resources/unsubscribe", 1).await;
    assert_eq!(first.count("resources/unsubscribe"), 0);
    one.leave().await;
    two.leave().await;
}

#[tokio::test]
async fn the_crash_of_one_session_s_server_is_not_noticed_by_another() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut one, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    one.ask("tools/call", call("echo", json!({}))).await;
    two.ask("tools/call", call("echo", json!({}))).await;
    let running = two
        .begin("tools/call", call("sleep_ms", json!({ "ms": 200 })))
        .await;
    own.side(2).await.cut();
    let again = one.ask("tools/call", call("echo", json!({ "n": 1 }))).await;
    assert_eq!(again["result"]["structuredContent"]["n"], 1, "it came back");
    let (template, second) = (own.side(1).await, own.side(3).await);
    assert_eq!(own.side(4).await.count("tools/call"), 1);
    let slept = two.answer(running).await;
    assert_eq!(slept["result"]["content"][0]["text"], "slept");
    two.ask("tools/call", call("echo", json!({}))).await;
    assert_eq!(second.count("tools/call"), 3);
    assert_eq!(template.count("tools/call"), 0);
    one.leave().await;
    two.leave().await;
}

#[tokio::test]
async fn a_modern_client_on_stdio_has_its_own_for_as_long_as_it_is_connected() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let mut client = Client::connect(&gateway, Scope::Server("own".into()));
    let meta = modern(&json!({ "elicitation": {} }));
    for n in 1..=2 {
        let mut params = call("echo", json!({ "n": n }));
        params["_meta"] = meta.clone();
        let done = client.ask("tools/call", params).await;
        assert_eq!(done["result"]["structuredContent"]["n"], n);
    }
    let its = own.side(2).await;
    assert_eq!(its.count("tools/call"), 2, "one server for all its requests");
    let mut params = call("ask", json!({ "kind": "elicitation" }));
    params["_meta"] = meta;
    let input_required = client.ask("tools/call", params).await;
    assert_eq!(input_required["result"]["resultType"], "input_required");
    client.leave().await;
    its.over().await;
}

#[tokio::test(start_paused = true)]
async fn the_template_server_is_stopped_after_its_listing_and_stays_stopped() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let template = gateway.fleet().server("own").unwrap();
    let is_idle = |status: &mainstay::Status| status.reason == Some(mainstay::server::Reason::Idle);
    assert!(template.wait_until(LONG, is_idle).await.is_some());
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let listed = client.ask("tools/list", json!({})).await;
    assert!(listed.to_string().contains("own__echo"), "it is still known");
    client.ask("tools/call", call("own__echo", json!({}))).await;
    assert!(is_idle(&template.status()), "a session wakes its own");
    assert_eq!(own.side(2).await.count("tools/call"), 1);
    client.leave().await;
}

#[tokio::test]
async fn a_server_that_is_isolated_by_a_later_configuration_is_isolated_for_sessions_that_were_there() {
    let (own, all) = (server(), server());
    let gateway =
        mainstay_gateway::Gateway::start(mainstay::Fleet::builder(), [all.config("all").build().unwrap()]);
    let (mut one, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut two, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let added = own.config("own").isolation(mainstay::config::Isolation::Session);
    let changes = gateway
        .apply([added.build().unwrap(), all.config("all").build().unwrap()])
        .await;
    assert_eq!(changes.added, ["own"]);
    mainstay_testkit::fleet::connected(&gateway.fleet().server("own").unwrap()).await;
    for client in [&mut one, &mut two] {
        client.ask("tools/call", call("own__echo", json!({}))).await;
    }
    for side in [2, 3] {
        assert_eq!(own.side(side).await.count("tools/call"), 1);
    }
    gateway.apply([all.config("all").build().unwrap()]).await;
    let gone = one.ask("tools/call", call("own__echo", json!({}))).await;
    assert!(gone.get("error").is_some(), "{gone}");
    one.leave().await;
    two.leave().await;
}

#[tokio::test]
async fn a_server_that_is_disabled_is_disabled_for_every_session() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let (mut has, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    let (mut has_not, _) = Client::initialized(&gateway, Scope::Server("own".into()), json!({})).await;
    has.ask("tools/call", call("echo", json!({}))).await;
    gateway.fleet().server("own").unwrap().disable().await.unwrap();
    for client in [&mut has, &mut has_not] {
        let refused = client.ask("tools/call", call("echo", json!({}))).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(refused.to_string().contains("disabled"), "{refused}");
    }
    own.side(2).await.over().await;
    gateway.fleet().server("own").unwrap().enable().await.unwrap();
    let back = has.ask("tools/call", call("echo", json!({ "n": 1 }))).await;
    assert_eq!(back["result"]["structuredContent"]["n"], 1);
    has.leave().await;
    has_not.leave().await;
}

#[tokio::test]
async fn a_resource_is_subscribed_to_until_the_last_of_the_session_unsubscribes() {
    let (own, all) = (server(), server());
    let gateway = gateway(&own, &all).await;
    let mut client = Client::connect(&gateway, Scope::Server("own".into()));
    let filter = json!({
        "_meta": modern(&json!({})),
        "notifications": { "resourceSubscriptions": ["mem://one"] },
    });
    let first = client.begin("subscriptions/listen", filter.clone()).await;
    let side = own.side(2).await;
    side.wait_for("resources/subscribe", 1).await;
    let second = client.begin("subscriptions/listen", filter).await;
    received_by(&mut client, second).await;

    client
        .notify("notifications/cancelled", json!({ "requestId": first }))
        .await;
    let received = received_by(&mut client, second).await;
    assert_eq!(
        side.count("resources/subscribe"),
        1,
        "the server gets the first one"
    );
    assert_eq!(received["params"]["uri"], "mem://one");
    assert_eq!(side.count("resources/unsubscribe"), 0, "the other still listens");
    client
        .notify("notifications/cancelled", json!({ "requestId": second }))
        .await;
    side.wait_for("resources/unsubscribe", 1).await;
    client.leave().await;
}

/// What a listen receives when its resource is touched.
async fn received_by(client: &mut Client, listen: u64) -> Value {
    let mut touch = call("touch", json!({ "uri": "mem://one" }));
    touch["_meta"] = modern(&json!({}));
    client.ask("tools/call", touch).await;
    loop {
        let received = client.received("notifications/resources/updated").await;
        if received["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen {
            return received;
        }
    }
}

#[tokio::test]
async fn a_task_of_an_own_server_is_followed_by_its_session_alone() {
    const EXTENSION: &str = "io.modelcontextprotocol/tasks";
    let own = mainstay_testkit::fleet::Memory::new(mainstay_testkit::Script {
        speaks: mainstay_testkit::Speaks::Modern,
        tasks: vec!["t".to_owned()],
        rules: vec![mainstay_testkit::Rule::new(
            mainstay_testkit::Step::Call,
            mainstay_testkit::Fault::Result(
                json!({ "resultType": "task", "taskId": "t", "status": "working" }),
            ),
        )],
        ..mainstay_testkit::Script::default()
    });
    let gateway = gateway(&own, &server()).await;
    let meta = modern(&json!({ "extensions": { EXTENSION: {} } }));
    let (mut one, mut other) = (
        Client::connect(&gateway, Scope::Union),
        Client::connect(&gateway, Scope::Union),
    );
    let mut ids = Vec::new();
    for client in [&mut one, &mut other] {
        let call = json!({ "name": "own__echo", "arguments": {}, "_meta": meta });
        let begun = client.ask("tools/call", call).await;
        let mut followed = ids.clone();
        ids.push(begun["result"]["taskId"].clone());
        followed.push(begun["result"]["taskId"].clone());
        let filter = json!({ "_meta": meta, "notifications": { "taskIds": followed } });
        client.begin("subscriptions/listen", filter).await;
        let promised = client.received("notifications/subscriptions/acknowledged").await;
        let promised = &promised["params"]["notifications"]["taskIds"];
        assert_eq!(*promised, json!([begun["result"]["taskId"]]), "and no other's");
    }
    let news = json!({ "jsonrpc": "2.0", "method": "notifications/tasks",
        "params": { "taskId": "t", "status": "working" } });
    own.side(2).await.inject_message(&news).await;
    let received = one.received("notifications/tasks").await;
    assert_eq!(received["params"]["taskId"], ids[0]);
    let next = other.begin("tools/list", json!({ "_meta": meta })).await;
    assert_eq!(other.message().await["id"], next, "its own server said nothing");
}
