//! The model, fed with what the control API sends.

use mainstay_control::api::{
    EventRecord, LagMarker, LagReason, ServerList, ServerStatus, StateName, StderrRecord,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::super::feed::{FeedMessage, TopCommand};
use super::{DaemonLink, STDERR_LIMIT, TopModel, TopPage, TopRequest};

/// A server as the API sends it, with these fields set.
pub(in super::super) fn server(name: &str, fields: Value) -> ServerStatus {
    let mut status = json!({
        "name": name, "node": null, "origin": "configured", "target": format!("{name}-server --stdio"),
        "state": "connected", "up": true, "reason": null, "desired": "enabled", "since_ms": 1_000, "generation": 1,
        "attempt": 0, "budget": 10, "next_retry_ms": null, "calls_held_until_ms": null, "silent_since_ms": null, "start": null,
        "last_failure": null, "stderr": [], "era": "modern", "protocol_version": "2026-07-28", "transport": "stdio",
        "catalog": null, "process": null, "starts": 1, "stale_reports": 0, "sessions": [],
        "calls": {
            "waiting": 0, "in_flight": 0, "total": 0, "answered": 0, "errors": 0, "not_sent": 0, "refused": 0,
            "unknown": 0, "cancelled": 0, "last_success_ms": null, "p50_us": null, "p95_us": null,
        },
    });
    merge(&mut status, fields);
    serde_json::from_value(status).expect("a status as the API has it")
}

fn merge(into: &mut Value, fields: Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}

pub(in super::super) fn list(at_ms: u64, servers: Vec<ServerStatus>) -> FeedMessage {
    FeedMessage::Servers(ServerList { at_ms, servers })
}

fn press(model: &mut TopModel, code: KeyCode) -> Option<TopRequest> {
    model.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn names(model: &TopModel) -> Vec<&str> {
    model.servers.iter().map(|server| server.name.as_str()).collect()
}

fn with(names: &[&str]) -> TopModel {
    let mut model = TopModel::new();
    model.feed(list(
        1_000,
        names.iter().map(|name| server(name, json!({}))).collect(),
    ));
    model
}

#[test]
fn the_selection_stays_on_its_server_when_others_come_and_go() {
    let mut model = with(&["a", "b", "c"]);
    press(&mut model, KeyCode::Down);
    assert_eq!(model.selected().unwrap().name, "b");
    model.feed(list(
        2_000,
        ["0", "a", "b"].map(|name| server(name, json!({}))).to_vec(),
    ));
    assert_eq!(model.selected().unwrap().name, "b");
    model.feed(list(3_000, vec![server("z", json!({}))]));
    assert_eq!(model.selected().unwrap().name, "z", "its server is gone");
    model.feed(list(4_000, Vec::new()));
    assert!(model.selected().is_none());
    assert_eq!(names(&model), [] as [&str; 0]);
}

#[test]
fn what_is_wrong_comes_first_and_disabled_servers_come_last() {
    let mut model = TopModel::new();
    let off = json!({ "state": "disabled", "up": false, "desired": "disabled" });
    let down = json!({ "state": "permanently_failed", "up": false });
    let coming = json!({ "state": "reconnecting", "up": false });
    let idle = json!({ "state": "disconnected", "reason": "idle" });
    model.feed(list(
        1_000,
        vec![
            server("a", off),
            server("b", idle),
            server("c", json!({})),
            server("d", coming),
            server("e", down),
        ],
    ));
    assert_eq!(names(&model), ["e", "d", "b", "c", "a"]);
}

#[test]
fn the_rate_is_the_difference_of_two_lists_and_begins_again_with_the_daemon() {
    let calls = |total: u64| vec![server("a", json!({ "calls": { "total": total } }))];
    let mut model = TopModel::new();
    model.feed(list(1_000, calls(100)));
    assert!(model.rates.is_empty(), "one list is no rate");
    model.feed(list(3_000, calls(150)));
    assert_eq!(model.rates["a"], 25.0);
    model.feed(list(4_000, calls(5)));
    assert!(model.rates.is_empty(), "a smaller number is another count");
    model.feed(FeedMessage::Gone("gone".to_owned()));
    assert!(matches!(model.link, DaemonLink::Gone(_)));
    assert_eq!(names(&model), ["a"], "what was known last stays in sight");
    model.feed(list(9_000, calls(7)));
    assert!(model.rates.is_empty() && matches!(model.link, DaemonLink::Live));
}

#[test]
fn a_transition_is_shown_before_the_next_list() {
    let mut model = with(&["a", "b"]);
    let record: EventRecord = serde_json::from_value(json!({
        "sequence": 7, "at_ms": 5_000, "node": null, "server": "b", "type": "transition", "from": "connected",
        "to": "reconnecting", "cause": "lost", "generation": 2, "attempt": 3, "next_retry_ms": 9_000, "failure": null,
    }))
    .unwrap();
    model.feed(FeedMessage::Event(Box::new(record)));
    let [a, b] = &model.servers[..] else {
        panic!("two servers")
    };
    assert_eq!(a.state, StateName::Connected);
    assert_eq!(
        (b.state, b.attempt, b.next_retry_ms),
        (StateName::Reconnecting, 3, Some(9_000))
    );
    assert_eq!((b.since_ms, b.up), (5_000, false));
}

#[test]
fn keys_command_the_selected_server_and_nothing_where_there_is_none() {
    let mut empty = TopModel::new();
    for code in ['r', 'e', 'd', 'l', 't'] {
        assert_eq!(press(&mut empty, KeyCode::Char(code)), None, "{code}");
    }
    let mut model = with(&["a", "b"]);
    press(&mut model, KeyCode::End);
    for (code, command) in [
        ('r', TopCommand::Restart),
        ('e', TopCommand::Enable),
        ('d', TopCommand::Disable),
    ] {
        let asked = press(&mut model, KeyCode::Char(code));
        assert_eq!(asked, Some(TopRequest::Command(command, "b".to_owned())));
    }
    model.feed(FeedMessage::Commanded(
        TopCommand::Restart,
        "b".to_owned(),
        Err("it is \u{1b}[2Jdisabled".to_owned()),
    ));
    assert_eq!(model.notice.as_str(), "restart b: it is disabled");
    assert_eq!(
        press(&mut model, KeyCode::Char('l')),
        Some(TopRequest::Stderr("b".to_owned()))
    );
    assert_eq!(press(&mut model, KeyCode::Char('r')), None, "not from here");
    assert_eq!(press(&mut model, KeyCode::Esc), Some(TopRequest::Leave));
    assert_eq!(
        press(&mut model, KeyCode::Enter),
        Some(TopRequest::Tools("b".to_owned()))
    );
    assert_eq!(press(&mut model, KeyCode::Char('q')), Some(TopRequest::Quit));
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.key(ctrl_c), Some(TopRequest::Quit));
}

#[test]
fn followed_lines_are_bounded_and_a_reader_further_up_stays_there() {
    let mut model = with(&["a"]);
    press(&mut model, KeyCode::Char('l'));
    let line = |n: usize| {
        FeedMessage::Stderr(Ok(StderrRecord {
            at_ms: 0,
            generation: 1,
            text: format!("line {n}"),
        }))
    };
    for n in 0..STDERR_LIMIT + 5 {
        model.feed(line(n));
    }
    press(&mut model, KeyCode::Up);
    model.feed(line(0));
    model.feed(FeedMessage::Stderr(Err(LagMarker {
        lost: Some(3),
        reason: LagReason::Lagged,
    })));
    let TopPage::Stderr { lines, above_end, .. } = &model.page else {
        panic!("stderr is shown");
    };
    assert_eq!((lines.len(), *above_end), (STDERR_LIMIT, 3));
    assert_eq!(lines.back().unwrap().as_str(), "… 3 lines are missing here");
}
