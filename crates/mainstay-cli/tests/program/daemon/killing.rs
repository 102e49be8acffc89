use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mainstay_testkit::Ledger;
use mainstay_testkit::procfs::is_alive;
use serde_json::{Value, json};

use super::outcomes::{Calls, Ended, check};
use super::{Shared, noting, wait_until};
use crate::host::Host;

/// Calls a tool whose effects must not be repeated, again and again, until told to stop, and once more then.
fn load(host: &mut Host, name: usize, is_over: &AtomicBool) -> Calls {
    let mut calls = Calls::new();
    let mut call = |host: &mut Host, key: String| {
        let result = host.call("append", &json!({ "key": key }));
        let ended = Ended::of(&result);
        calls.insert(key, ended);
        ended
    };
    let mut n = 0;
    while !is_over.load(Ordering::Relaxed) {
        call(host, format!("h{name}n{n}"));
        n += 1;
    }
    assert_eq!(
        call(host, format!("h{name}last")),
        Ended::Answered,
        "the next call is answered"
    );
    calls
}

/// Ten hosts under load while `disturb` runs. What became of all calls.
fn under_load(shared: &Shared, ledger: &Ledger, disturb: impl FnOnce()) -> Calls {
    let server = noting(ledger);
    let is_over = AtomicBool::new(false);
    let calls = thread::scope(|scope| {
        let hosts: Vec<_> = (0..10)
            .map(|name| {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || {
                    let mut host = shared.host(&[], server);
                    let calls = load(&mut host, name, is_over);
                    host.leave().exits(0);
                    calls
                })
            })
            .collect();
        assert!(ledger.wait_for(|ledger| ledger.count("call append") >= 50, super::SOON));
        disturb();
        is_over.store(true, Ordering::Relaxed);
        let calls = hosts.into_iter().flat_map(|host| host.join().expect("a host"));
        calls.collect::<Calls>()
    });
    check(&calls, &[ledger]);
    calls
}

fn more_calls(ledger: &Ledger) {
    let before = ledger.count("call append");
    assert!(
        ledger.wait_for(|ledger| ledger.count("call append") >= before + 30, super::SOON),
        "calls go on"
    );
}

#[test]
fn a_killed_daemon_is_started_again_by_its_bridges_and_no_call_runs_twice() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let calls = under_load(&shared, &ledger, || {
        for _ in 0..3 {
            let server = *ledger.pids().last().unwrap();
            let killed = shared.kill_daemon();
            more_calls(&ledger);
            assert_ne!(shared.daemon_pid(), killed);
            wait_until("the guardian ends the servers of the killed daemon", || {
                !is_alive(server)
            });
        }
        wait_until("one daemon runs", || shared.daemons().len() == 1);
    });
    let unknown = calls.values().filter(|ended| **ended == Ended::Unknown).count();
    assert!(
        unknown <= 30,
        "no more than the calls in flight at each kill: {unknown}"
    );
    assert!(shared.sandbox.run(&["daemon", "stop"]).code == Some(0));
    shared.assert_nothing_is_left();
}

#[test]
fn a_daemon_that_is_replaced_costs_no_host_a_call() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let calls = under_load(&shared, &ledger, || {
        for _ in 0..2 {
            let before = shared.daemon_pid();
            shared.sandbox.run(&["daemon", "restart"]).exits(0);
            assert_ne!(shared.daemon_pid(), before);
            more_calls(&ledger);
        }
    });
    let failed: Vec<_> = calls
        .iter()
        .filter(|(_, ended)| **ended != Ended::Answered)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    shared.sandbox.run(&["daemon", "stop"]).exits(0);
    shared.assert_nothing_is_left();
}

#[test]
fn the_session_goes_on_with_the_next_daemon() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = shared.host(&[], &noting(&ledger));
    let tools = host.tools();
    host.ask("resources/subscribe", &json!({ "uri": "mem://one" }));
    host.ask("logging/setLevel", &json!({ "level": "debug" }));
    let running = host.begin_call("sleep_ms", &json!({ "ms": 60_000, "key": "sleeps" }));
    assert!(ledger.wait_for(|ledger| ledger.count("call sleep_ms") == 1, super::SOON));
    shared.kill_daemon();
    let answer = host.answer(running)["result"].clone();
    assert_eq!(Ended::of(&answer), Ended::Unknown, "{answer}");
    assert_eq!(answer["_meta"]["mainstay"]["server"], "faulty-server");
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("The call may have run"), "{text}");
    assert_eq!(host.tools(), tools);
    let touch = host.begin_call("touch", &json!({ "uri": "mem://one" }));
    let updated = host.wait_for(|message| message["method"] == "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "mem://one");
    host.answer(touch);
    let log = host.begin_call("log", &json!({ "level": "debug", "text": "heard again" }));
    host.wait_for(|message| {
        message["method"] == "notifications/message" && message.to_string().contains("heard")
    });
    host.answer(log);
    assert_eq!(ledger.count("call sleep_ms"), 1, "it did not run again");
}

/// A host that can be asked.
fn host_with_a_person(shared: &Shared, ledger: &Ledger) -> Host {
    let mut host = Host::of(&mut shared.bridge(&[], &noting(ledger)));
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "host", "version": "1" },
    });
    host.ask("initialize", &params);
    host.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    host
}

#[test]
fn an_answer_that_a_host_sends_twice_answers_no_question_of_the_next_daemon() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = host_with_a_person(&shared, &ledger);
    let ask = json!({ "kind": "elicitation", "key": "k" });
    let answer = |action: &str, id: &Value| json!({ "jsonrpc": "2.0", "id": id, "result": { "action": action, "content": { "name": action } } });
    let first = host.begin_call("ask", &ask);
    let question = host.wait_for(|message| message["method"] == "elicitation/create");
    host.write(&answer("decline", &question["id"]));
    host.answer(first);
    let dead = shared.kill_daemon();
    // The bridge starts it: from here on it sends nothing to the dead one.
    wait_until("the next daemon runs", || {
        shared.daemons().iter().any(|pid| *pid != dead)
    });
    let second = host.begin_call("ask", &ask);
    let again = host.wait_for(|message| message["method"] == "elicitation/create");
    assert_ne!(again["id"], question["id"]);
    host.write(&answer("decline", &question["id"]));
    host.write(&answer("accept", &again["id"]));
    let result = host.answer(second);
    assert!(result.to_string().contains("accept"), "{result}");
}

#[test]
fn a_question_of_a_dead_daemon_is_withdrawn_and_a_late_answer_harms_nothing() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = host_with_a_person(&shared, &ledger);
    let ask = json!({ "kind": "elicitation", "key": "k" });
    let first = host.begin_call("ask", &ask);
    let question = host.wait_for(|message| message["method"] == "elicitation/create");
    shared.kill_daemon();
    host.wait_for(|message| {
        message["method"] == "notifications/cancelled" && message["params"]["requestId"] == question["id"]
    });
    assert_eq!(Ended::of(&host.answer(first)["result"]), Ended::Unknown);
    let second = host.begin_call("ask", &ask);
    let again = host.wait_for(|message| message["method"] == "elicitation/create");
    assert_ne!(again["id"], question["id"], "the host can tell them apart");
    let answer = |action: &str, id: &Value| json!({ "jsonrpc": "2.0", "id": id, "result": { "action": action, "content": { "name": action } } });
    host.write(&answer("cancel", &question["id"]));
    // The bridge reads in order: when it has answered this, the daemon has had the late answer.
    let echo = host.begin_call("echo", &json!({ "key": "after it" }));
    host.answer(echo);
    assert!(host.answered(second).is_none(), "the late answer is for none");
    host.write(&answer("accept", &again["id"]));
    let result = host.answer(second);
    assert!(result.to_string().contains("accept"), "{result}");
}
