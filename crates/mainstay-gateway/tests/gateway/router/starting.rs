//! Servers that a client meets for the first time: how long it waits for them, and which error it gets when they do not start.

use std::sync::Arc;
use std::time::Duration;

use mainstay::lifecycle::WhenSpent;
use mainstay::{Fleet, FleetBuilder, Policy};
use mainstay_gateway::{Gateway, Scope};
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::{Fault, Script, Speaks, Step};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::router::client::{Client, LONG, modern};
use crate::router::{one, speaking};

const NOTHING: Duration = Duration::ZERO;

/// After so long many hosts give up.
const HOST_TIMEOUT: Duration = Duration::from_secs(60);

/// A gateway in front of these servers, of which nothing is known yet.
fn fresh(builder: FleetBuilder, servers: &[(&str, &Arc<Memory>)]) -> Gateway {
    let configs = servers
        .iter()
        .map(|(name, memory)| memory.config(name).build().unwrap());
    Gateway::start(builder, configs.collect::<Vec<_>>())
}

/// A server that is called `itself`, has nothing but tools, and takes so long to introduce itself.
fn slow(speaks: Speaks, ms: u64) -> Arc<Memory> {
    let step = match speaks {
        Speaks::Modern => Step::Discover,
        Speaks::Legacy | Speaks::Both => Step::Initialize,
    };
    let script = Script {
        name: "itself".to_owned(),
        speaks,
        capabilities: Some(json!({ "tools": {} })),
        ..Script::default()
    };
    Memory::new(script.on(step, Fault::Delay { ms }))
}

/// A server that takes its connections and never says a word.
fn hung() -> Arc<Memory> {
    let script = Script::default().on(Step::Discover, Fault::Hang);
    Memory::new(script.on(Step::Initialize, Fault::Hang))
}

/// A server that refuses connections.
fn down() -> Arc<Memory> {
    let memory = speaking(Speaks::Legacy);
    memory.set_down(true);
    memory
}

fn initialize() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    })
}

fn discover() -> Value {
    json!({ "_meta": modern(&json!({})) })
}

#[track_caller]
fn says_why(answer: &Value, server: &str) {
    let error = &answer["error"];
    let message = error["message"].as_str().unwrap_or_default();
    assert_eq!(error["code"], -32000, "{answer}");
    assert!(
        message.starts_with(&format!(
            "Server {server} did not start (reconnecting, 1 failure)"
        )),
        "{message}"
    );
    assert!(message.contains("connection refused"), "{message}");
    assert!(message.contains("It is tried again in"), "{message}");
    assert_eq!(error["data"]["mainstay"]["server"], server, "{answer}");
    assert_eq!(error["data"]["mainstay"]["state"], "reconnecting", "{answer}");
    assert!(error["data"]["mainstay"]["retryAfterMs"].is_number(), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_one_server_waits_for_its_handshake_and_can_cancel_meanwhile() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let server = slow(speaks, 1500);
        let gateway = fresh(Fleet::builder(), &[("a", &server)]);
        let began = Instant::now();
        let mut client = Client::connect(&gateway, one("a"));
        let greeting = client.begin("initialize", initialize()).await;
        let discovery = client.begin("server/discover", discover()).await;
        client.ask("ping", json!({})).await;
        assert_eq!(began.elapsed(), NOTHING, "a ping waits for no server");
        let answer = client.answer(greeting).await;
        assert!(began.elapsed() >= Duration::from_millis(1500));
        let tools = json!({ "tools": { "listChanged": true } });
        assert_eq!(answer["result"]["serverInfo"]["name"], "itself", "{answer}");
        assert_eq!(answer["result"]["capabilities"], tools, "{answer}");
        let answer = client.answer(discovery).await;
        let info = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "itself", "{answer}");
        assert_eq!(answer["result"]["capabilities"], tools, "{answer}");
        client.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_starting_server_ends_when_the_client_cancels() {
    let gateway = fresh(Fleet::builder(), &[("a", &hung())]);
    let began = Instant::now();
    let mut client = Client::connect(&gateway, one("a"));
    let discovery = client.begin("server/discover", discover()).await;
    client.ask("ping", json!({})).await;
    client
        .notify("notifications/cancelled", json!({ "requestId": discovery }))
        .await;
    client.ask("ping", json!({})).await;
    client.leave().await;
    assert_eq!(began.elapsed(), NOTHING, "nothing was left to wait for");
}

#[tokio::test]
async fn a_server_that_did_not_start_fails_introductions_and_lists_with_the_reason() {
    let gateway = fresh(Fleet::builder(), &[("a", &down())]);
    let mut client = Client::connect(&gateway, one("a"));
    let first = client.ask("tools/list", json!({})).await;
    says_why(&first, "a");
    for (method, params) in [
        ("initialize", initialize()),
        ("server/discover", discover()),
        ("tools/list", discover()),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
    ] {
        let answer = client.ask(method, params).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with("Server a did not start"),
            "{method}: {answer}"
        );
    }
    client.leave().await;
}

#[tokio::test]
async fn a_list_waits_for_a_server_whose_first_attempt_was_in_the_wrong_era() {
    let script = Script {
        name: "itself".to_owned(),
        ..Script::default()
    };
    let server = Memory::new(script.on(Step::Discover, Fault::Exit(1)));
    let gateway = fresh(Fleet::builder(), &[("a", &server)]);
    let (mut client, about) = Client::initialized(&gateway, one("a"), json!({})).await;
    assert_eq!(about["serverInfo"]["name"], "itself");
    let tools = client.ask("tools/list", json!({})).await;
    assert!(tools.to_string().contains("echo"), "{tools}");
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_server_that_is_still_starting_fails_after_15_s_and_says_so() {
    let gateway = fresh(Fleet::builder(), &[("a", &hung())]);
    let mut client = Client::connect(&gateway, one("a"));
    let began = Instant::now();
    let answer = client.ask("tools/list", json!({})).await;
    assert_eq!(began.elapsed().as_secs(), 15);
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Server a is starting ("), "{message}");
    assert!(
        message.ends_with(". The request waited 15.0 s for it. Ask again in a moment."),
        "{message}"
    );
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_in_no_way_is_reported_before_hosts_give_up() {
    let gateway = fresh(Fleet::builder(), &[("a", &hung())]);
    let mut client = Client::connect(&gateway, one("a"));
    let began = Instant::now();
    let answer = client.ask("initialize", initialize()).await;
    assert!(began.elapsed() < HOST_TIMEOUT, "{:?}", began.elapsed());
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("did not answer initialize"), "{message}");
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn the_union_names_a_server_that_has_failed_also_while_its_next_attempt_runs() {
    let (well, hung) = (speaking(Speaks::Legacy), hung());
    let gateway = fresh(Fleet::builder(), &[("well", &well), ("hung", &hung)]);
    let mut client = Client::connect(&gateway, Scope::Union);
    client.ask("initialize", initialize()).await;
    client.leave().await;
    // Past the attempt in the old way, into the one that follows it, and into the one after that.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(75)).await;
        let mut late = Client::connect(&gateway, Scope::Union);
        let about = late.ask("initialize", initialize()).await;
        let instructions = about["result"]["instructions"].as_str().unwrap_or_default();
        assert!(instructions.contains("## hung"), "{about}");
        late.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_nothing_known_of_any_server_the_union_waits_3_s_in_all() {
    let gateway = fresh(Fleet::builder(), &[("a", &hung()), ("b", &hung())]);
    let began = Instant::now();
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    client.ask("server/discover", discover()).await;
    for kind in ["tools", "prompts", "resources", "resources/templates"] {
        let listed = client.ask(&format!("{kind}/list"), json!({})).await;
        assert!(listed["result"].is_object(), "{listed}");
    }
    assert_eq!(began.elapsed().as_secs(), 3);
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn the_union_waits_until_one_server_is_known_and_for_no_other() {
    let (soon, later) = (slow(Speaks::Legacy, 500), hung());
    let gateway = fresh(Fleet::builder(), &[("later", &later), ("soon", &soon)]);
    let began = Instant::now();
    let (mut client, about) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    assert_eq!(about["capabilities"]["tools"]["listChanged"], true);
    for kind in ["tools", "prompts", "resources", "resources/templates"] {
        let listed = client.ask(&format!("{kind}/list"), json!({})).await;
        let is_shown = listed.to_string().contains("soon__echo");
        assert_eq!(is_shown, kind == "tools", "{listed}");
    }
    assert_eq!(began.elapsed().as_millis(), 500);
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn the_union_waits_for_no_server_that_has_failed() {
    let gateway = fresh(Fleet::builder(), &[("a", &down()), ("b", &down())]);
    let began = Instant::now();
    let (mut client, about) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let tools = client.ask("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"], json!([]));
    let instructions = about["instructions"].as_str().unwrap_or_default();
    for server in ["a", "b"] {
        let why = format!("## {server}\n\nServer {server} did not start");
        assert!(instructions.contains(&why), "{about}");
    }
    assert!(began.elapsed() < Duration::from_secs(1));
    client.leave().await;
}

#[tokio::test]
async fn the_union_says_why_a_server_did_not_start_and_shows_the_others() {
    let (good, bad) = (speaking(Speaks::Legacy), down());
    let gateway = fresh(Fleet::builder(), &[("good", &good), ("bad", &bad)]);
    let (mut client, about) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let instructions = about["instructions"].as_str().unwrap_or_default();
    assert!(
        instructions.starts_with("## bad\n\nServer bad did not start (reconnecting, 1 failure)"),
        "{about}"
    );
    assert!(instructions.contains("connection refused"), "{about}");
    assert!(about["capabilities"]["prompts"].is_object(), "{about}");
    let tools = client.ask("tools/list", json!({})).await;
    assert!(tools.to_string().contains("good__echo"), "{tools}");
    client.leave().await;
}

/// A directory that remembers a server `a` which offered the tool `old`, and that server, which offers `new` now.
async fn upgraded() -> (TempDir, Arc<Memory>) {
    let store = TempDir::new().unwrap();
    let script = Script {
        name: "itself".to_owned(),
        ..Script::default().without_builtin_tools()
    };
    let server = Memory::new(script.clone().tool("old"));
    let gateway = fresh(Fleet::builder().store(store.path()), &[("a", &server)]);
    mainstay_testkit::fleet::connected(&gateway.fleet().server("a").unwrap()).await;
    gateway.close(Duration::from_secs(10)).await;
    *server.script.lock().unwrap() = script.tool("new");
    (store, server)
}

async fn tools(client: &mut Client) -> Vec<String> {
    let answer = client.ask("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().expect("tools").iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn with_something_remembered_a_client_is_answered_at_once_as_the_server_would_answer_it() {
    let (store, server) = upgraded().await;
    let script = server.script.lock().unwrap().clone();
    *server.script.lock().unwrap() = script.on(Step::Initialize, Fault::Hang);
    let gateway = fresh(Fleet::builder().store(store.path()), &[("a", &server)]);
    let began = Instant::now();
    let (client, about) = Client::initialized(&gateway, one("a"), json!({})).await;
    assert_eq!(about["serverInfo"]["name"], "itself");
    assert_eq!(began.elapsed(), NOTHING);
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_list_of_a_session_is_what_a_starting_server_offers_now_if_it_says_so_within_a_second() {
    for (ms, expected) in [(800, "new"), (5000, "old")] {
        let (store, server) = upgraded().await;
        let script = server.script.lock().unwrap().clone();
        *server.script.lock().unwrap() = script.on(Step::Initialize, Fault::Delay { ms });
        let gateway = fresh(Fleet::builder().store(store.path()), &[("a", &server)]);
        let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(tools(&mut client).await, [expected], "{ms} ms");
        }
        assert_eq!(began.elapsed().as_millis(), u128::from(ms.min(1000)));
        client.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_remembered_list_of_a_server_that_is_known_to_be_down_is_shown_at_once() {
    let (store, server) = upgraded().await;
    server.set_down(true);
    let gateway = fresh(Fleet::builder().store(store.path()), &[("a", &server)]);
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let began = Instant::now();
    assert_eq!(tools(&mut client).await, ["old"]);
    assert_eq!(began.elapsed(), NOTHING);
    client.leave().await;
}

#[tokio::test]
async fn the_lists_of_a_server_that_has_failed_for_good_are_an_error_though_something_is_remembered() {
    let (store, server) = upgraded().await;
    server.set_down(true);
    let policy = Policy {
        budget: 1.try_into().unwrap(),
        when_spent: WhenSpent::GiveUp,
        ..Policy::default()
    };
    let config = server.config("a").policy(policy).build().unwrap();
    let gateway = Gateway::start(Fleet::builder().store(store.path()), [config]);
    let failed = |status: &mainstay::Status| status.state == mainstay::StateKind::PermanentlyFailed;
    let handle = gateway.fleet().server("a").unwrap();
    handle.wait_until(LONG, failed).await.expect("given up");
    let (mut client, about) = Client::initialized(&gateway, one("a"), json!({})).await;
    assert_eq!(about["serverInfo"]["name"], "itself");
    let answer = client.ask("tools/list", json!({})).await;
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("Server a cannot be started (permanently_failed): "),
        "{answer}"
    );
    assert!(message.contains("connection refused"), "{answer}");
    assert!(message.contains("It is not tried again"), "{answer}");
    client.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_never_listed_takes_calls_by_exact_name_and_a_list_says_why_there_is_none() {
    let away = Fault::Error {
        code: -32603,
        message: "the database is away".to_owned(),
    };
    let server = Memory::new(Script::default().on(Step::List, away));
    let gateway = fresh(Fleet::builder(), &[("a", &server)]);
    for (scope, name) in [(Scope::Union, "a__echo"), (one("a"), "echo")] {
        let mut client = Client::connect(&gateway, scope);
        let called = client
            .ask("tools/call", json!({ "name": name, "arguments": { "key": "k" } }))
            .await;
        assert_eq!(called["result"]["structuredContent"]["key"], "k", "{called}");
        client.leave().await;
    }
    let mut client = Client::connect(&gateway, one("a"));
    let listed = client.ask("tools/list", json!({})).await;
    let message = listed["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("Server a is connected, and was never listed: "),
        "{listed}"
    );
    assert!(message.contains("the database is away"), "{message}");
    assert!(message.contains("by their exact names"), "{message}");

    let side = server.side(1).await;
    side.edit(|script| script.rules.clear());
    let kept = gateway.fleet().server("a").unwrap();
    let listed = kept.wait_until(LONG, |status| status.listed_at.is_some()).await;
    assert_eq!(listed.expect("it is listed again").starts, 1);
    let listed = client.ask("tools/list", json!({})).await;
    assert!(
        listed["result"]["tools"]
            .as_array()
            .is_some_and(|tools| !tools.is_empty())
    );
    client.leave().await;
}
