//! Notifications of servers outside of calls, and which clients receive them.

use mainstay_gateway::Scope;
use mainstay_testkit::fleet::Memory;
use mainstay_testkit::memory::MemoryServer;
use mainstay_testkit::{Fault, Rule, Script, Speaks, Step};
use serde_json::{Value, json};

use crate::router::client::{Client, modern};
use crate::router::{gateway, gateway_for_one, one, speaking};

const LOG: &str = "notifications/message";
const UNKNOWN: &str = "notifications/x-vendor";
const ANSWERED: &str = "notifications/elicitation/complete";
const PROGRESS: &str = "notifications/progress";

/// The server tells something by itself.
async fn notify(side: &MemoryServer, method: &str, params: Value) {
    side.inject_message(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
        .await;
}

async fn log(side: &MemoryServer, level: &str) {
    notify(side, LOG, json!({ "level": level, "data": "x" })).await;
}

/// The notifications that this client receives before the answer to a ping.
async fn notifications(client: &mut Client) -> Vec<String> {
    let id = client.begin("ping", json!({})).await;
    let mut received = Vec::new();
    loop {
        let message = client.message().await;
        if message["id"] == id {
            return received;
        }
        if message["params"]["data"] == "level set" {
            // What this server says to every request for a level.
            continue;
        }
        received.push(message["method"].as_str().expect("a notification").to_owned());
    }
}

/// Returns when the gateway has read all that this server has sent.
async fn read(side: &MemoryServer) {
    // The last of it is a question that is declined.
    let answers = side.count("");
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": "last", "method": "x-vendor/question" }))
        .await;
    side.wait_for("", answers + 1).await;
}

#[tokio::test]
async fn notifications_outside_of_calls_reach_the_only_client_of_a_gateway_for_one() {
    for scope in [one("a"), Scope::Union] {
        let a = speaking(Speaks::Legacy);
        let gateway = gateway_for_one(&[("a", &a)]).await;
        let (mut client, _) = Client::initialized(&gateway, scope, json!({})).await;
        let side = a.side(1).await;
        log(&side, "debug").await;
        notify(&side, UNKNOWN, json!({ "n": 1 })).await;
        assert_eq!(client.received(LOG).await["params"]["data"], "x");
        assert_eq!(client.received(UNKNOWN).await["params"], json!({ "n": 1 }));
        client.ask("logging/setLevel", json!({ "level": "error" })).await;
        log(&side, "info").await;
        log(&side, "error").await;
        read(&side).await;
        assert_eq!(notifications(&mut client).await, [LOG], "the one that it wants");
    }
}

#[tokio::test]
async fn a_late_log_message_of_a_shared_server_reaches_no_other_client() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut caller, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut bystander, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut of_union, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    for client in [&mut caller, &mut bystander, &mut of_union] {
        client.ask("logging/setLevel", json!({ "level": "debug" })).await;
    }
    let echo = json!({ "name": "echo", "arguments": {} });
    let mut modern_echo = echo.clone();
    modern_echo["_meta"] = modern(&json!({}));
    for call in [echo, modern_echo] {
        caller.ask("tools/call", call).await;
        log(&side, "error").await;
        notify(&side, UNKNOWN, json!({})).await;
        read(&side).await;
        assert!(notifications(&mut bystander).await.is_empty());
        assert!(notifications(&mut of_union).await.is_empty());
    }
    // Nor do the clients that are left when the caller has gone.
    caller.leave().await;
    of_union.leave().await;
    log(&side, "error").await;
    read(&side).await;
    assert!(notifications(&mut bystander).await.is_empty());
}

#[tokio::test]
async fn only_the_client_that_was_sent_to_a_url_learns_that_it_was_answered() {
    let a = Memory::new(
        Script::new()
            .speaks(Speaks::Legacy)
            .on(Step::Call, Fault::NoAnswer),
    );
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let can = json!({ "elicitation": { "url": {} } });
    let (mut asked, _) = Client::initialized(&gateway, one("a"), can.clone()).await;
    let (mut other, _) = Client::initialized(&gateway, Scope::Union, can).await;

    asked.begin("tools/call", json!({ "name": "echo" })).await;
    side.wait_for("tools/call", 1).await;
    let elsewhere = json!({ "mode": "url", "url": "https://x", "message": "m", "elicitationId": "e1" });
    side.inject_message(
        &json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": elsewhere }),
    )
    .await;
    let question = asked.received("elicitation/create").await;
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } });
    asked.write(&answer.to_string()).await;
    side.wait_for("", 1).await;
    let received = side.received();
    let call = received
        .iter()
        .find(|message| message.method() == "tools/call")
        .expect("it came")
        .id();
    let first = json!({ "elicitations": [{ "mode": "url", "url": "https://y", "message": "m", "elicitationId": "e2" }] });
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": call,
        "error": { "code": -32042, "message": "first this", "data": first } }))
        .await;
    let refused = asked.message().await;
    assert_eq!(refused["error"]["code"], -32042, "{refused}");

    notify(&side, ANSWERED, json!({ "elicitationId": "e1" })).await;
    assert_eq!(asked.received(ANSWERED).await["params"]["elicitationId"], "e1");
    // Another's call does not make it another's.
    other.begin("tools/call", json!({ "name": "a__echo" })).await;
    side.wait_for("tools/call", 2).await;
    notify(&side, ANSWERED, json!({ "elicitationId": "e2" })).await;
    notify(&side, ANSWERED, json!({ "elicitationId": "e3" })).await;
    let received = other.received(ANSWERED).await;
    assert_eq!(
        received["params"]["elicitationId"], "e3",
        "no client was asked this"
    );
    assert_eq!(asked.received(ANSWERED).await["params"]["elicitationId"], "e2");
    assert!(notifications(&mut asked).await.is_empty());
}

#[tokio::test]
async fn notifications_during_a_call_reach_no_other_client() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut caller, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    for client in [&mut caller, &mut other] {
        client.ask("logging/setLevel", json!({ "level": "debug" })).await;
    }
    let slow = json!({ "name": "sleep_ms", "arguments": { "ms": 86_400_000 } });
    let first = caller.begin("tools/call", slow.clone()).await;
    side.wait_for("tools/call", 1).await;
    log(&side, "error").await;
    notify(&side, UNKNOWN, json!({})).await;
    caller.received(UNKNOWN).await;
    assert_eq!(notifications(&mut caller).await, [LOG]);
    assert!(notifications(&mut other).await.is_empty(), "it is the caller's");

    other.begin("tools/call", slow).await;
    side.wait_for("tools/call", 2).await;
    log(&side, "error").await;
    read(&side).await;
    assert!(
        notifications(&mut caller).await.is_empty(),
        "nothing says whose it is"
    );
    assert!(notifications(&mut other).await.is_empty());

    caller
        .notify("notifications/cancelled", json!({ "requestId": first }))
        .await;
    side.wait_for("notifications/cancelled", 1).await;
    log(&side, "error").await;
    read(&side).await;
    assert!(
        notifications(&mut other).await.is_empty(),
        "the cancelled call may still run"
    );
}

#[tokio::test]
async fn the_status_of_a_task_goes_to_the_client_that_began_it_alone() {
    const STATUS: &str = "notifications/tasks/status";
    let task = json!({ "taskId": "t", "status": "working" });
    let begins = Rule::new(Step::Call, Fault::Result(json!({ "task": task }))).named("echo");
    let a = Memory::new(Script {
        rules: vec![begins],
        ..Script::default()
    });
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut owner, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let can = json!({ "sampling": {} });
    let (mut other, _) = Client::initialized(&gateway, Scope::Union, can).await;
    let call = json!({ "name": "echo", "arguments": {}, "task": { "ttl": 1 } });
    let begun = owner.ask("tools/call", call).await;
    let slow = json!({ "name": "a__sleep_ms", "arguments": { "ms": 86_400_000 } });
    other.begin("tools/call", slow).await;
    side.wait_for("tools/call", 2).await;
    let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": "t" } });
    let log_of_task = json!({ "level": "error", "data": "secret", "_meta": related });
    notify(&side, STATUS, json!({ "taskId": "t", "status": "completed" })).await;
    let received = owner.received(STATUS).await;
    assert_eq!(received["params"]["taskId"], begun["result"]["task"]["taskId"]);
    notify(&side, LOG, log_of_task.clone()).await;
    notify(
        &side,
        STATUS,
        json!({ "taskId": "of-nobody", "status": "working" }),
    )
    .await;
    notify(&side, UNKNOWN, json!({})).await;
    other.received(UNKNOWN).await;
    assert!(notifications(&mut other).await.is_empty());
    let question = json!({ "message": "?", "_meta": related });
    let answers = side.count("");
    side.inject_message(
        &json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": question }),
    )
    .await;
    side.wait_for("", answers + 1).await;
    assert!(notifications(&mut other).await.is_empty(), "it is declined");
    owner.leave().await;
    notify(&side, STATUS, json!({ "taskId": "t", "status": "completed" })).await;
    notify(&side, LOG, log_of_task).await;
    notify(&side, UNKNOWN, json!({})).await;
    other.received(UNKNOWN).await;
    assert!(
        notifications(&mut other).await.is_empty(),
        "though the owner has gone"
    );
}

#[tokio::test]
async fn the_status_of_a_task_that_comes_before_its_result_is_delivered() {
    const STATUS: &str = "notifications/tasks/status";
    let a = Memory::new(
        Script::new()
            .speaks(Speaks::Legacy)
            .on(Step::Call, Fault::NoAnswer),
    );
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let call = json!({ "name": "echo", "arguments": {}, "task": {} });
    let asked = client.begin("tools/call", call).await;
    side.wait_for("tools/call", 1).await;
    let task = json!({ "taskId": "t", "status": "working" });
    notify(&side, STATUS, task.clone()).await;
    let received = side.received();
    let call = received.iter().find(|message| message.method() == "tools/call");
    let id = call.expect("it came").id();
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": id, "result": { "task": task } }))
        .await;
    let begun = client.answer(asked).await;
    let received = client.received(STATUS).await;
    assert_eq!(received["params"]["taskId"], begun["result"]["task"]["taskId"]);
}

#[tokio::test]
async fn progress_after_the_answer_comes_under_the_token_that_the_client_gave() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let (mut client, _) = Client::initialized(&gateway, Scope::Union, json!({})).await;
    let (mut other, _) = Client::initialized(&gateway, one("a"), json!({})).await;
    let call = json!({ "name": "a__echo", "arguments": {}, "_meta": { "progressToken": "mine" } });
    client.ask("tools/call", call).await;
    let token = side.last_params("tools/call").unwrap()["_meta"]["progressToken"].clone();
    notify(
        &side,
        PROGRESS,
        json!({ "progressToken": token, "progress": 0.5 }),
    )
    .await;
    let late = client.received(PROGRESS).await;
    assert_eq!(
        late["params"],
        json!({ "progressToken": "mine", "progress": 0.5 })
    );
    assert!(notifications(&mut other).await.is_empty());
}

#[tokio::test]
async fn a_modern_client_on_a_pipe_gets_unknown_notifications_and_no_log_outside_of_its_calls() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway_for_one(&[("a", &a)]).await;
    let side = a.side(1).await;
    let mut client = Client::connect(&gateway, one("a"));
    let mut params = json!({ "name": "echo", "arguments": {} });
    params["_meta"] = modern(&json!({}));
    params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    notify(&side, UNKNOWN, json!({ "n": 1 })).await;
    read(&side).await;
    client.ask("tools/call", params).await;
    log(&side, "error").await;
    notify(&side, UNKNOWN, json!({ "n": 2 })).await;
    let next = client.message().await;
    assert_eq!(next["method"], UNKNOWN, "a log belongs to a request");
    assert_eq!(
        next["params"]["n"], 2,
        "a client that has sent nothing yet receives nothing"
    );
}

#[tokio::test]
async fn notifications_during_several_calls_of_one_modern_client_reach_it() {
    let a = speaking(Speaks::Legacy);
    let gateway = gateway(&[("a", &a)]).await;
    let side = a.side(1).await;
    let [mut client, mut other] = [(); 2].map(|()| Client::connect(&gateway, one("a")));
    let mut slow = json!({ "name": "sleep_ms", "arguments": { "ms": 86_400_000 } });
    slow["_meta"] = modern(&json!({}));
    slow["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    for n in 1..=2 {
        client.begin("tools/call", slow.clone()).await;
        side.wait_for("tools/call", n).await;
    }
    log(&side, "error").await;
    notify(&side, UNKNOWN, json!({ "n": 1 })).await;
    assert_eq!(client.message().await["method"], LOG);
    assert_eq!(client.message().await["params"]["n"], 1);

    other.begin("tools/call", slow).await;
    side.wait_for("tools/call", 3).await;
    log(&side, "error").await;
    notify(&side, UNKNOWN, json!({ "n": 2 })).await;
    read(&side).await;
    for client in [&mut client, &mut other] {
        client.write("no message").await;
        let next = client.message().await;
        assert_eq!(next["error"]["code"], -32700, "nothing says whose it is: {next}");
    }
}

#[tokio::test]
async fn a_flood_of_log_lines_drives_out_neither_questions_nor_answers() {
    const LINES: usize = 20_000;
    let a = speaking(Speaks::Legacy);
    let gateway = gateway_for_one(&[("a", &a)]).await;
    let side = a.side(1).await;
    let can = json!({ "roots": {} });
    let (mut client, _) = Client::initialized(&gateway, one("a"), can).await;
    client.ask("ping", json!({})).await;
    // More than fits on the way to the client, which does not read.
    let line =
        json!({ "jsonrpc": "2.0", "method": LOG, "params": { "level": "info", "data": "x".repeat(400) } });
    let line = format!("{line}\n");
    for _ in 0..LINES / 100 {
        side.inject_bytes(line.repeat(100).into_bytes()).await;
    }
    read(&side).await;
    side.inject_message(&json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" }))
        .await;
    read(&side).await;
    let id = client
        .begin("tools/call", json!({ "name": "echo", "arguments": {} }))
        .await;
    side.wait_for("tools/call", 1).await;
    let (mut logged, mut asked) = (0, false);
    loop {
        let message = client.message().await;
        match message["method"].as_str() {
            Some(LOG) => logged += 1,
            Some("roots/list") => {
                asked = true;
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "roots": [] } });
                client.write(&answer.to_string()).await;
            }
            _answer => {
                assert_eq!(message["id"], id);
                break;
            }
        }
    }
    assert!(asked, "the server's question came through");
    assert!((1..LINES).contains(&logged), "{logged}");
    side.wait_for("", 3).await;
}
