use serde_json::{Value, json};

use super::Responder;
use crate::action::{Action, Signal};
use crate::fault::{AnswerFault, Fault, Garbage};
use crate::rule::{Occurrence, Rule, Step};
use crate::script::{Cursors, MODERN_VERSION, Script, Speaks};

fn responder(script: Script) -> Responder {
    Responder::new(script, 1)
}

fn request(method: &str, params: &Value) -> Vec<u8> {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
        .to_string()
        .into_bytes()
}

fn modern(method: &str, mut params: Value) -> Vec<u8> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    request(method, &params)
}

/// Everything written, message by message.
fn messages(actions: &[Action]) -> Vec<Value> {
    let written = actions.iter().filter_map(|action| match action {
        Action::Write(bytes) => Some(bytes),
        _ => None,
    });
    written
        .map(|bytes| serde_json::from_slice(bytes).expect("a JSON message"))
        .collect()
}

fn only(actions: &[Action]) -> Value {
    let [message] = &messages(actions)[..] else {
        panic!("one message expected: {actions:?}")
    };
    message.clone()
}

#[test]
fn initialize_echoes_a_known_version_and_answers_the_latest_to_an_unknown_one() {
    let mut server = responder(Script::new());
    let known = only(&server.line(&request(
        "initialize",
        &json!({ "protocolVersion": "2024-11-05" }),
    )));
    assert_eq!(known["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(known["id"], 7);
    let unknown = only(&server.line(&request(
        "initialize",
        &json!({ "protocolVersion": "1999-01-01" }),
    )));
    assert_eq!(unknown["result"]["protocolVersion"], "2025-11-25");
    let mut wrong = responder(Script::new().version("1999-01-01"));
    let fixed = only(&wrong.line(&request(
        "initialize",
        &json!({ "protocolVersion": "2024-11-05" }),
    )));
    assert_eq!(fixed["result"]["protocolVersion"], "1999-01-01");
}

#[test]
fn each_era_refuses_the_handshake_of_the_other() {
    let mut old = responder(Script::new());
    assert_eq!(
        only(&old.line(&modern("server/discover", json!({}))))["error"]["code"],
        -32601
    );
    let mut new = responder(Script::new().speaks(Speaks::Modern));
    let refused = only(&new.line(&request(
        "initialize",
        &json!({ "protocolVersion": "2025-11-25" }),
    )));
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["supported"], json!([MODERN_VERSION]));
    assert_eq!(
        only(&new.line(&request("tools/list", &json!({}))))["error"]["code"],
        -32602
    );
    assert_eq!(
        only(&new.line(&modern("ping", json!({}))))["error"]["code"],
        -32601
    );

    let mut both = responder(Script::new().speaks(Speaks::Both));
    let found = only(&both.line(&modern("server/discover", json!({}))));
    assert_eq!(found["result"]["supportedVersions"][0], MODERN_VERSION);
    assert_eq!(found["result"]["resultType"], "complete");
    assert!(only(&both.line(&request("initialize", &json!({}))))["result"]["serverInfo"].is_object());
}

#[test]
fn a_modern_list_is_cacheable_and_a_legacy_one_has_no_such_fields() {
    let mut both = responder(Script::new().speaks(Speaks::Both));
    let new = only(&both.line(&modern("tools/list", json!({}))));
    assert_eq!(
        (&new["result"]["cacheScope"], &new["result"]["ttlMs"]),
        (&json!("public"), &json!(0))
    );
    let old = only(&both.line(&request("tools/list", &json!({}))));
    assert!(old["result"].get("resultType").is_none());
}

#[test]
fn honest_pages_end_and_hold_every_item_once() {
    let script = Script::new()
        .without_builtin_tools()
        .tool("a")
        .tool("b")
        .tool("c")
        .page_size(2);
    let mut server = responder(script);
    let first = only(&server.line(&request("tools/list", &json!({}))));
    assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 2);
    let cursor = &first["result"]["nextCursor"];
    let last = only(&server.line(&request("tools/list", &json!({ "cursor": cursor }))));
    assert_eq!(last["result"]["tools"][0]["name"], "c");
    assert!(last["result"].get("nextCursor").is_none());
    let wrong = only(&server.line(&request("tools/list", &json!({ "cursor": "other" }))));
    assert_eq!(wrong["error"]["code"], -32602);
}

#[test]
fn dishonest_cursors_never_end() {
    let mut repeating = responder(Script::new().cursors(Cursors::Repeating));
    let mut endless = responder(Script::new().cursors(Cursors::Endless));
    let mut cursor = Value::Null;
    for _ in 0..5 {
        let page = only(&repeating.line(&request("tools/list", &json!({ "cursor": "again" }))));
        assert_eq!(page["result"]["nextCursor"], "again");
        let params = if cursor.is_null() {
            json!({})
        } else {
            json!({ "cursor": cursor })
        };
        let page = only(&endless.line(&request("tools/list", &params)));
        assert_ne!(page["result"]["nextCursor"], cursor);
        cursor = page["result"]["nextCursor"].clone();
    }
}

#[test]
fn a_server_that_warms_up_lists_nothing_first_and_everything_then() {
    let mut server = responder(Script::new().warm_up(1));
    assert_eq!(
        only(&server.line(&request("tools/list", &json!({}))))["result"]["tools"],
        json!([])
    );
    assert_ne!(
        only(&server.line(&request("tools/list", &json!({}))))["result"]["tools"],
        json!([])
    );
}

#[test]
fn echo_returns_its_arguments_byte_for_byte() {
    let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"b":1.0, "a":123456789012345678901234567890}}}"#;
    let actions = responder(Script::new()).line(line);
    let Some(Action::Write(bytes)) = actions.last() else {
        panic!("an answer expected: {actions:?}")
    };
    let text = String::from_utf8_lossy(bytes);
    assert!(
        text.contains(r#""structuredContent":{"b":1.0, "a":123456789012345678901234567890}"#),
        "{text}"
    );
}

#[test]
fn fidelity_puts_unknown_fields_on_tools_contents_and_results() {
    let mut server = responder(Script::new().fidelity());
    let tool = only(&server.line(&request("tools/list", &json!({}))))["result"]["tools"][0].clone();
    assert!(tool["x-item"].is_object() && tool["annotations"]["x-annotation"].is_string());
    let actions = server.line(&request("tools/call", &json!({ "name": "echo" })));
    let Some(Action::Write(bytes)) = actions.last() else {
        panic!("an answer expected")
    };
    let text = String::from_utf8_lossy(bytes);
    assert!(
        text.contains(r#""big":123456789012345678901234567890,"escaped":"\u00e9""#),
        "{text}"
    );
    assert!(only(&actions)["result"]["content"][0]["x-content"].is_object());
}

#[test]
fn a_question_in_the_legacy_era_is_a_request_and_the_call_is_answered_after_it() {
    let mut server = responder(Script::new());
    let call = json!({ "name": "ask", "arguments": { "kind": "sampling" } });
    let asked = only(&server.line(&request("tools/call", &call)));
    assert_eq!(asked["method"], "sampling/createMessage");
    let reply = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "model": "m" } });
    let answer = only(&server.line(reply.to_string().as_bytes()));
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["structuredContent"]["result"]["model"], "m");
}

#[test]
fn a_declined_question_ends_the_call_as_it_asked_for() {
    let mut server = responder(Script::new());
    let mut declined = |if_declined: Value| {
        let call = json!({ "name": "ask", "arguments": { "kind": "roots", "if_declined": if_declined } });
        let asked = only(&server.line(&request("tools/call", &call)));
        let reply = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -1, "message": "no" } });
        only(&server.line(reply.to_string().as_bytes()))
    };
    assert_eq!(declined(json!("fail"))["result"]["isError"], true);
    assert_eq!(declined(json!("refuse"))["error"]["code"], -32603);
    assert!(declined(json!(null))["result"].to_string().contains("no"));
}

#[test]
fn a_question_in_the_modern_era_is_a_result_and_the_call_is_made_again() {
    let mut server = responder(Script::new().speaks(Speaks::Modern));
    let call = json!({ "name": "ask", "arguments": { "kind": "elicitation" } });
    let asked = only(&server.line(&modern("tools/call", call.clone())))["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["question"]["method"], "elicitation/create");
    let mut again = call;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({ "question": { "action": "decline" } });
    let answer = only(&server.line(&modern("tools/call", again)))["result"].clone();
    assert_eq!(answer["resultType"], "complete");
    assert_eq!(
        answer["structuredContent"]["inputResponses"]["question"]["action"],
        "decline"
    );
}

#[test]
fn a_listener_gets_what_it_asked_for_tagged_with_its_subscription() {
    let mut server = responder(Script::new().speaks(Speaks::Modern));
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let acknowledged = only(&server.line(&modern("subscriptions/listen", filter)));
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let wanted = server.notify("notifications/tools/list_changed", &json!({}));
    assert_eq!(
        only(&wanted)["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        7
    );
    assert_eq!(
        server.notify("notifications/prompts/list_changed", &json!({})),
        []
    );
}

#[test]
fn a_rule_strikes_where_and_when_it_says_and_nowhere_else() {
    let rule = Rule::new(Step::Call, Fault::Exit(3))
        .named("put")
        .occurrence(Occurrence::Nth(2));
    let mut server = responder(Script::new().rule(rule));
    let mut exits = |name: &str| {
        let actions = server.line(&request("tools/call", &json!({ "name": name })));
        actions.contains(&Action::Exit(3))
    };
    assert_eq!(
        [exits("put"), exits("echo"), exits("put"), exits("put")],
        [false, false, true, false]
    );
}

#[test]
fn a_rule_can_be_switched_by_a_file_and_be_over_after_some_starts() {
    let directory = tempfile::tempdir().unwrap();
    let switch = directory.path().join("switch");
    let switched = Rule::new(Step::Ping, Fault::NoAnswer).when_file(&switch);
    let early = Rule::new(Step::Start, Fault::Exit(1)).first_starts(2);
    let script = Script::new().rule(switched).rule(early);
    assert_eq!(Responder::new(script.clone(), 2).start(), [Action::Exit(1)]);
    let mut server = Responder::new(script, 3);
    assert_eq!(server.start(), []);
    let ping = request("ping", &json!({}));
    assert_eq!(messages(&server.line(&ping)).len(), 1);
    std::fs::write(&switch, "").unwrap();
    assert_eq!(messages(&server.line(&ping)).len(), 0);
}

#[test]
fn a_notification_meets_its_rules_and_is_not_answered() {
    let exits = Rule::new(Step::Other, Fault::Exit(3)).method("notifications/cancelled");
    let script = Script::new().on(Step::Initialized, Fault::method_not_found());
    let mut server = responder(script.rule(exits));
    let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(server.line(initialized), [Action::Note("initialized".to_owned())]);
    let cancelled = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert!(server.line(cancelled).contains(&Action::Exit(3)));
}

#[test]
fn nuisances_come_before_the_answer_and_endings_in_its_place() {
    let script = Script::new()
        .on(Step::Ping, Fault::Garbage(Garbage::AnswerToNothing))
        .on(Step::Call, Fault::Signal(Signal::Kill))
        .on(Step::List, Fault::Answer(AnswerFault::Twice));
    let mut server = responder(script);
    let ids: Vec<_> = messages(&server.line(&request("ping", &json!({}))))
        .iter()
        .map(|m| m["id"].clone())
        .collect();
    assert_eq!(ids, [json!(987654321), json!(7)]);
    let killed = server.line(&request("tools/call", &json!({ "name": "echo" })));
    assert_eq!(
        killed,
        [
            Action::Note("call echo -".to_owned()),
            Action::Signal(Signal::Kill)
        ]
    );
    assert_eq!(
        messages(&server.line(&request("tools/list", &json!({})))).len(),
        2
    );
}

#[test]
fn what_cannot_be_read_is_answered_with_the_error_it_deserves() {
    let mut server = responder(Script::new());
    assert_eq!(only(&server.line(b"{oops"))["error"]["code"], -32700);
    assert_eq!(only(&server.line(b"[]"))["error"]["code"], -32600);
    assert_eq!(only(&server.line(b"{\"id\":4}"))["id"], 4);
    assert_eq!(
        only(&server.line(&request("x/none", &json!({}))))["error"]["code"],
        -32601
    );
}

#[test]
fn a_strict_server_refuses_requests_before_initialize() {
    let mut server = responder(Script::new().strict());
    assert_eq!(
        only(&server.line(&request("tools/list", &json!({}))))["error"]["code"],
        -32600
    );
    server.line(&request("initialize", &json!({})));
    assert!(only(&server.line(&request("tools/list", &json!({}))))["result"].is_object());
}
