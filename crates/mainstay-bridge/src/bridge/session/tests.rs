use serde_json::{Value, json};

use super::*;
use crate::hello::EndReason;

const WHY: &str = "The daemon was killed.";

fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

fn answer(id: u64) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
}

fn parsed(lines: &[Vec<u8>]) -> Vec<Value> {
    lines
        .iter()
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn methods(lines: &[Vec<u8>]) -> Vec<String> {
    let lines = parsed(lines).into_iter();
    lines
        .map(|line| line["method"].as_str().unwrap().to_owned())
        .collect()
}

fn stopped(answered_all: bool) -> Option<EndNotice> {
    Some(EndNotice {
        reason: EndReason::Restart,
        answered_all,
    })
}

#[test]
fn a_call_that_may_have_run_fails_with_its_outcome_and_a_list_is_sent_again() {
    let mut session = HostSession::default();
    session.note_host_line(&request(1, "tools/call", &json!({ "name": "pay" })));
    session.note_host_line(&request(2, "tools/list", &json!({})));
    session.note_host_line(&request(3, "tasks/cancel", &json!({})));
    let messages = parsed(&session.lost(None, WHY, Some("bank")));
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["id"], 1);
    assert_eq!(messages[0]["result"]["isError"], true);
    assert_eq!(
        messages[0]["result"]["_meta"]["mainstay"],
        json!({ "outcome": "unknown", "server": "bank" })
    );
    assert_eq!(messages[1]["id"], 3);
    assert_eq!(messages[1]["error"]["data"]["mainstay"]["outcome"], "unknown");
    assert_eq!(methods(&session.replay_rest()), ["tools/list"]);
    assert!(matches!(session.note_daemon_line(&answer(2)), FromDaemon::Pass));
    assert!(session.replay_rest().is_empty(), "it is answered");
}

#[test]
fn a_daemon_that_answered_all_it_read_lets_everything_else_be_sent_again() {
    let mut session = HostSession::default();
    session.note_host_line(&request(1, "tools/call", &json!({ "name": "pay" })));
    session.note_host_line(&request(2, "tools/call", &json!({ "name": "pay" })));
    session.note_daemon_line(&answer(1));
    assert!(session.lost(stopped(true), WHY, None).is_empty());
    let again = session.replay_rest();
    assert_eq!(parsed(&again)[0]["id"], 2);
    assert_eq!(again.len(), 1);

    let messages = parsed(&session.lost(stopped(false), WHY, None));
    assert_eq!(messages[0]["result"]["_meta"]["mainstay"]["outcome"], "unknown");
}

#[test]
fn a_line_that_is_too_long_to_be_kept_fails_as_not_sent() {
    let mut session = HostSession::default();
    let long = "x".repeat(100 * 1024);
    session.note_host_line(&request(1, "tools/call", &json!({ "name": long })));
    let messages = parsed(&session.lost(stopped(true), WHY, None));
    assert_eq!(messages[0]["result"]["_meta"]["mainstay"]["outcome"], "not_sent");
}

#[test]
fn the_session_is_told_to_the_next_daemon_and_its_answers_are_swallowed() {
    let mut session = HostSession::default();
    let introduction = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
    session.note_host_line(&request(1, "initialize", &introduction));
    assert!(session.replay_initialize().is_none(), "it is not answered yet");
    session.note_daemon_line(&answer(1));
    session.note_host_line(&line(
        &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ));
    for (id, uri) in [(2, "mem://a"), (3, "mem://b"), (4, "mem://refused")] {
        session.note_host_line(&request(id, "resources/subscribe", &json!({ "uri": uri })));
    }
    session.note_daemon_line(&answer(2));
    session.note_daemon_line(&answer(3));
    session.note_daemon_line(&line(
        &json!({ "jsonrpc": "2.0", "id": 4, "error": { "code": 1, "message": "" } }),
    ));
    session.note_host_line(&request(5, "resources/unsubscribe", &json!({ "uri": "mem://a" })));
    session.note_daemon_line(&answer(5));
    session.note_host_line(&request(6, "logging/setLevel", &json!({ "level": "debug" })));
    session.note_daemon_line(&answer(6));
    assert!(session.lost(None, WHY, None).is_empty());

    let (initialize, id) = session.replay_initialize().expect("a session");
    let initialize: Value = serde_json::from_slice(&initialize).unwrap();
    assert_eq!(initialize["params"], introduction);
    let swallowed =
        session.note_daemon_line(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).as_bytes());
    assert!(matches!(swallowed, FromDaemon::Swallow(Some(answered)) if answered == id));
    let rest = session.replay_rest();
    assert_eq!(
        methods(&rest),
        [
            "notifications/initialized",
            "logging/setLevel",
            "resources/subscribe"
        ]
    );
    assert_eq!(parsed(&rest)[2]["params"]["uri"], "mem://b");
    for line in &parsed(&rest)[1..] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, line["id"]);
        assert!(matches!(
            session.note_daemon_line(answer.as_bytes()),
            FromDaemon::Swallow(Some(_))
        ));
    }
}

#[test]
fn an_initialize_in_flight_is_sent_again_as_it_was() {
    let mut session = HostSession::default();
    session.note_host_line(&request(
        1,
        "initialize",
        &json!({ "protocolVersion": "2025-11-25" }),
    ));
    assert!(session.lost(None, WHY, None).is_empty());
    assert!(session.replay_initialize().is_none());
    assert_eq!(parsed(&session.replay_rest())[0]["id"], 1);
}

#[test]
fn a_question_that_is_open_when_its_daemon_ends_is_withdrawn_once() {
    let mut session = HostSession::default();
    let question = request(1, "elicitation/create", &json!({ "message": "sure?" }));
    assert!(matches!(session.note_daemon_line(&question), FromDaemon::Pass));
    let messages = parsed(&session.lost(None, WHY, None));
    assert_eq!(messages[0]["method"], "notifications/cancelled");
    assert_eq!(messages[0]["params"]["requestId"], 1);
    assert!(session.lost(None, WHY, None).is_empty());
}

#[test]
fn a_question_that_the_host_has_answered_is_not_withdrawn() {
    let mut session = HostSession::default();
    session.note_daemon_line(&request(1, "elicitation/create", &json!({})));
    assert_eq!(session.note_host_line(&answer(1)), FromHost::Answer);
    assert!(session.lost(None, WHY, None).is_empty());
}

#[test]
fn a_cancelled_request_is_not_answered_and_not_sent_again() {
    let mut session = HostSession::default();
    session.note_host_line(&request(7, "tools/list", &json!({})));
    session.note_host_line(&line(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
    ));
    assert!(session.lost(None, WHY, None).is_empty());
    assert!(session.replay_rest().is_empty());
}

#[test]
fn a_listen_is_sent_again_and_acknowledged_to_the_host_once() {
    let mut session = HostSession::default();
    session.note_host_line(&request(
        1,
        "subscriptions/listen",
        &json!({ "notifications": {} }),
    ));
    let acknowledged = line(&json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "notifications": {}, "_meta": { "io.modelcontextprotocol/subscriptionId": 1 } },
    }));
    assert!(matches!(
        session.note_daemon_line(&acknowledged),
        FromDaemon::Pass
    ));
    for _ in 0..2 {
        assert!(session.lost(None, WHY, None).is_empty());
        assert_eq!(methods(&session.replay_rest()), ["subscriptions/listen"]);
        assert!(matches!(
            session.note_daemon_line(&acknowledged),
            FromDaemon::Swallow(None)
        ));
    }
}

#[test]
fn what_a_dead_daemon_was_asked_by_the_bridge_is_forgotten() {
    let mut session = HostSession::default();
    let listen = request(1, "subscriptions/listen", &json!({ "notifications": {} }));
    let acknowledged = line(&json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "notifications": {}, "_meta": { "io.modelcontextprotocol/subscriptionId": 1 } },
    }));
    session.note_host_line(&listen);
    session.note_daemon_line(&acknowledged);
    session.note_host_line(&request(2, "logging/setLevel", &json!({ "level": "debug" })));
    session.note_daemon_line(&answer(2));
    session.lost(None, WHY, None);
    session.replay_rest();
    assert_eq!((session.replayed.len(), session.acknowledged.len()), (1, 1));
    // The host ends the listen before the second daemon has acknowledged it, and that daemon dies too.
    session.note_host_line(&line(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
    ));
    session.lost(None, WHY, None);
    assert!(session.replayed.is_empty(), "it answers nothing any more");
    session.note_host_line(&listen);
    assert!(
        matches!(session.note_daemon_line(&acknowledged), FromDaemon::Pass),
        "another listen with the same id"
    );
}

#[test]
fn the_requests_of_a_batch_fail_one_by_one() {
    let mut session = HostSession::default();
    let batch = b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]\n";
    session.note_host_line(batch);
    session.note_daemon_line(b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]\n");
    let messages = parsed(&session.lost(None, WHY, None));
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["id"], 2);
}

#[test]
fn the_last_line_of_a_daemon_reaches_no_host() {
    let mut session = HostSession::default();
    let goodbye = crate::hello::line(&Goodbye::new(EndReason::Stop, true));
    assert!(matches!(
        session.note_daemon_line(&goodbye),
        FromDaemon::Ends(EndNotice {
            reason: EndReason::Stop,
            answered_all: true
        })
    ));
    assert!(matches!(
        session.note_daemon_line(b"{\"mainstay\":1,\"later\":true}\n"),
        FromDaemon::Swallow(None)
    ));
}

#[test]
fn lines_are_kept_up_to_a_bound_in_all_and_those_that_are_answered_make_room() {
    let mut session = HostSession::default();
    let text = "x".repeat(60 * 1024);
    let call = |id| request(id, "tools/call", &json!({ "name": text }));
    let fit = u64::try_from(4 * 1024 * 1024 / call(10).len()).unwrap();
    for id in 0..fit + 2 {
        session.note_host_line(&call(id));
    }
    let failed = parsed(&session.lost(stopped(true), WHY, None));
    let ids: Vec<_> = failed.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    assert_eq!(ids, [fit, fit + 1], "the last ones did not fit");
    session.note_daemon_line(&answer(0));
    session.note_host_line(&call(fit));
    assert!(session.lost(stopped(true), WHY, None).is_empty(), "it fits now");
}

#[test]
fn requests_are_sent_again_in_their_order() {
    let mut session = HostSession::default();
    let sent: Vec<u64> = (0..20).rev().collect();
    for id in &sent {
        session.note_host_line(&request(*id, "tools/list", &json!({})));
    }
    session.lost(None, WHY, None);
    let again = parsed(&session.replay_rest());
    let again: Vec<_> = again.iter().filter_map(|line| line["id"].as_u64()).collect();
    assert_eq!(again, sent);
}

#[test]
fn a_session_holds_no_more_subscriptions_than_a_daemon_allows() {
    let mut session = HostSession::default();
    for id in 0..SUBSCRIPTION_LIMIT as u64 + 10 {
        let uri = format!("mem://{id}");
        session.note_host_line(&request(id, "resources/subscribe", &json!({ "uri": uri })));
        session.note_daemon_line(&answer(id));
    }
    assert_eq!(session.replay_rest().len(), SUBSCRIPTION_LIMIT);
}

#[test]
fn a_question_that_the_daemon_took_back_itself_is_not_withdrawn_again() {
    let mut session = HostSession::default();
    session.note_daemon_line(&request(1, "elicitation/create", &json!({})));
    session.note_daemon_line(&line(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } }),
    ));
    assert!(session.lost(None, WHY, None).is_empty());
}

#[test]
fn a_host_waits_for_the_answer_to_each_request_but_a_listen() {
    let mut session = HostSession::default();
    assert!(!session.awaits_answer());
    session.note_host_line(&request(1, "subscriptions/listen", &json!({})));
    assert!(!session.awaits_answer(), "it is answered when it ends");
    session.note_host_line(&request(2, "ping", &json!({})));
    assert!(session.awaits_answer());
    session.note_daemon_line(&answer(2));
    assert!(!session.awaits_answer());
}

#[test]
fn a_daemon_is_needed_for_open_requests_and_for_subscriptions() {
    let mut session = HostSession::default();
    assert!(!session.needs_daemon());
    session.note_host_line(&request(1, "resources/subscribe", &json!({ "uri": "mem://a" })));
    assert!(session.needs_daemon(), "a request is open");
    session.note_daemon_line(&answer(1));
    assert!(session.needs_daemon(), "its updates are awaited");
    session.note_host_line(&request(2, "resources/unsubscribe", &json!({ "uri": "mem://a" })));
    session.note_daemon_line(&answer(2));
    assert!(!session.needs_daemon());
}

/// An answer with a list of this one item.
fn list_answer(id: &Value, item: &str) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "result": { "items": [item] } }))
}

/// A session whose host has read these lists, and one page more of each.
fn session_that_read(lists: &[&str]) -> HostSession {
    let mut session = HostSession::default();
    session.note_host_line(&request(1, "initialize", &json!({})));
    session.note_daemon_line(&answer(1));
    for list in lists {
        for (params, item) in [
            (json!({}), "first"),
            (json!({ "cursor": "2" }), "on the second page"),
        ] {
            session.note_host_line(&request(2, list, &params));
            session.note_daemon_line(&list_answer(&json!(2), item));
        }
    }
    session
}

#[test]
fn a_host_is_notified_of_each_list_that_is_different_at_the_next_daemon() {
    for (list, changed) in [
        ("tools/list", "notifications/tools/list_changed"),
        ("prompts/list", "notifications/prompts/list_changed"),
        ("resources/list", "notifications/resources/list_changed"),
        ("resources/templates/list", "notifications/resources/list_changed"),
    ] {
        let mut session = session_that_read(&[list]);
        for (item, is_changed) in [
            ("first", false),
            ("second", true),
            ("second", false),
            ("first", true),
        ] {
            assert!(session.lost(None, WHY, None).is_empty());
            let replayed = parsed(&session.replay_rest());
            let [read] = &replayed[..] else {
                panic!("{replayed:?}");
            };
            assert_eq!((&read["method"], &read["params"]), (&json!(list), &json!({})));
            let got = session.note_daemon_line(&list_answer(&read["id"], item));
            match (is_changed, got) {
                (true, FromDaemon::Replace(notification)) => {
                    assert_eq!(methods(&[notification]), [changed]);
                }
                (false, FromDaemon::Swallow(Some(_))) => {}
                (_, got) => panic!("{list} {item}: {got:?}"),
            }
        }
    }
}

#[test]
fn lists_that_the_host_did_not_get_are_not_read_again_and_an_error_is_no_change() {
    let mut session = session_that_read(&["tools/list"]);
    let modern = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-06-30" } });
    session.note_host_line(&request(3, "prompts/list", &modern));
    session.note_daemon_line(&list_answer(&json!(3), "first"));
    let error = |id: &Value| {
        line(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32000, "message": "not up" } }))
    };
    session.note_host_line(&request(4, "resources/list", &json!({})));
    session.note_daemon_line(&error(&json!(4)));
    session.lost(None, WHY, None);
    let replayed = parsed(&session.replay_rest());
    let [read] = &replayed[..] else {
        panic!("{replayed:?}");
    };
    let got = session.note_daemon_line(&error(&read["id"]));
    assert!(
        matches!(got, FromDaemon::Swallow(Some(_))),
        "a list that cannot be had says nothing of a change: {got:?}"
    );
}

#[test]
fn a_request_that_a_dead_daemon_may_have_run_does_not_fail_as_not_sent() {
    let mut session = HostSession::default();
    session.note_host_line(&request(1, "resources/read", &json!({ "uri": "mem://a" })));
    assert!(session.lost(None, WHY, None).is_empty());
    session.note_host_line(&request(2, "tools/call", &json!({ "name": "pay" })));
    let failed = parsed(&session.give_up(WHY, None));
    let said = failed[0]["error"]["message"].as_str().unwrap();
    assert!(said.contains("may have run"), "{said}");
    assert_eq!(failed[0]["error"]["data"]["mainstay"]["outcome"], "unknown");
    assert_eq!(
        failed[1]["result"]["_meta"]["mainstay"]["outcome"], "not_sent",
        "no daemon had this one"
    );

    session.note_host_line(&request(3, "resources/read", &json!({ "uri": "mem://a" })));
    session.lost(stopped(true), WHY, None);
    let failed = parsed(&session.give_up(WHY, None));
    assert_eq!(failed[0]["error"]["data"]["mainstay"]["outcome"], "not_sent");
}
