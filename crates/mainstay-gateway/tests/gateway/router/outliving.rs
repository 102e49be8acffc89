//! The session outlives the server.

use std::time::Duration;

use mainstay::Policy;
use mainstay::lifecycle::WhenSpent;
use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::{Fault, Script, Speaks, Step};
use serde_json::json;
use tokio::time::Instant;

use crate::router::client::{Client, LONG};
use crate::router::{gateway, one, speaking};

#[tokio::test]
async fn a_session_calls_again_when_its_server_is_back_and_lists_all_the_while() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let before = client.ask("tools/list", json!({})).await["result"].clone();
    a.set_down(true);
    a.side(1).await.cut();
    let server = gateway.fleet().server("a").unwrap();
    server
        .wait_until(LONG, |status| status.state == mainstay::StateKind::Reconnecting)
        .await
        .expect("lost");
    assert_eq!(
        client.ask("tools/list", json!({})).await["result"],
        before,
        "the last good list"
    );
    let id = client
        .begin(
            "tools/call",
            json!({ "name": "a__echo", "arguments": { "x": 1 } }),
        )
        .await;
    a.set_down(false);
    assert_eq!(
        client.answer(id).await["result"]["structuredContent"]["x"],
        1,
        "it waited"
    );
    client.leave().await;
}

#[tokio::test]
async fn a_call_that_cannot_wait_says_what_a_model_can_act_on() {
    let a = Memory::new(Script::default());
    a.set_down(true);
    let policy = Policy {
        budget: 1.try_into().unwrap(),
        when_spent: WhenSpent::ProbeEvery(Duration::from_secs(300)),
        ..Policy::default()
    };
    let config = a.config("a").policy(policy).build().unwrap();
    let gateway = Gateway::start(mainstay::Fleet::builder(), [config]);
    let server = gateway.fleet().server("a").unwrap();
    server
        .wait_until(LONG, |status| status.state == mainstay::StateKind::Disconnected)
        .await
        .expect("out of budget");
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let answer = client
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    let text = result["content"][0]["text"].as_str().unwrap();
    for word in ["Server a", "disconnected", "did not run", "in "] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let facts = &result["_meta"]["mainstay"];
    assert_eq!(facts["outcome"], "not_sent");
    assert_eq!(facts["state"], "disconnected");
    assert!(facts["retryAfterMs"].as_u64().unwrap() > 1000);
    let prompt = client.ask("prompts/get", json!({ "name": "greet" })).await;
    assert_eq!(prompt["error"]["code"], -32000);
    client.leave().await;
}

#[tokio::test]
async fn a_call_that_may_have_run_says_so_and_is_made_once() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let call = json!({ "name": "commit_then_die", "arguments": { "key": "k" } });
    let answer = client.ask("tools/call", call).await;
    assert_eq!(
        answer["result"]["_meta"]["mainstay"]["outcome"], "unknown",
        "{answer}"
    );
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("may have run"), "{text}");
    assert_eq!(a.side(1).await.noted("call commit_then_die k"), 1);
    let again = client
        .ask("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    assert!(
        again["result"]["content"].is_array(),
        "the same session goes on: {again}"
    );
    client.leave().await;
}

#[tokio::test]
async fn a_server_that_never_comes_up_delays_no_other() {
    let (good, bad) = (speaking(Speaks::Legacy), speaking(Speaks::Legacy));
    bad.set_down(true);
    let configs = [
        good.config("good").build().unwrap(),
        bad.config("bad").build().unwrap(),
    ];
    let gateway = Gateway::start(mainstay::Fleet::builder(), configs);
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let tools = client.ask("tools/list", json!({})).await;
    assert!(tools.to_string().contains("good__echo"), "{tools}");
    let answer = client
        .ask("tools/call", json!({ "name": "good__echo", "arguments": {} }))
        .await;
    assert!(answer["result"]["content"].is_array());
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn once_one_server_is_known_lists_wait_for_no_other() {
    let (good, silent) = (
        speaking(Speaks::Legacy),
        Memory::new(Script::default().on(Step::Discover, Fault::Hang)),
    );
    let configs = [
        good.config("good").build().unwrap(),
        silent.config("silent").build().unwrap(),
    ];
    let gateway = Gateway::start(mainstay::Fleet::builder(), configs);
    let server = gateway.fleet().server("good").unwrap();
    server.wait_connected(LONG).await.expect("connected");
    let began = Instant::now();
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for kind in ["tools", "prompts", "resources", "resources/templates"] {
        let listed = client.ask(&format!("{kind}/list"), json!({})).await;
        assert!(listed["result"].is_object(), "{listed}");
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    client.leave().await;
}

#[tokio::test]
async fn a_server_that_was_disabled_offers_nothing_any_more() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let tools = client.ask("tools/list", json!({})).await;
    assert!(tools.to_string().contains("echo"), "{tools}");
    let server = gateway.fleet().server("a").unwrap();
    server.disable().await.unwrap();
    server
        .wait_until(LONG, |status| status.state == mainstay::StateKind::Disabled)
        .await
        .expect("disabled");
    let tools = client.ask("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"], json!([]));
    client.leave().await;
}

/// The clock stands still unless every task waits.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_after_the_end_of_input_is_answered_with_its_outcome() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    for (tool, answer) in [("sleep_ms", "unknown"), ("echo", "not_sent")] {
        let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
        if answer == "not_sent" {
            a.set_down(true);
            a.side(1).await.cut();
            let server = gateway.fleet().server("a").unwrap();
            let is_down = server.wait_until(LONG, |status| status.state != mainstay::StateKind::Connected);
            is_down.await.unwrap();
        }
        let call = json!({ "name": tool, "arguments": { "ms": 600_000 } });
        let id = client.begin("tools/call", call).await;
        client.close_input().await;
        let began = Instant::now();
        let cut = client.answer(id).await;
        assert_eq!(cut["result"]["_meta"]["mainstay"]["outcome"], answer, "{cut}");
        assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
        client.leave().await;
    }
}
