//! Servers that a person disables or removes while hosts use them.

use mainstay_testkit::Ledger;
use serde_json::{Value, json};

use super::{Shared, noting, server_pid, wait_until};
use crate::host::Host;
use crate::sandbox::{Sandbox, good};

/// The name under which the daemon lists the only server.
fn name_of_server(shared: &Shared) -> String {
    let status = shared.status().expect("a daemon runs");
    let servers = status["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 1, "{status}");
    servers[0]["name"].as_str().unwrap().to_owned()
}

#[track_caller]
fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
}

#[test]
fn a_server_of_a_host_that_a_person_disabled_stays_disabled_after_its_last_bridge_and_its_daemon() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let start = ["daemon", "start", "--linger", "10ms"];
    shared.sandbox.run(&start).exits(0);
    let mut host = shared.host(&[], &noting(&ledger));
    server_pid(&mut host);
    let name = name_of_server(&shared);
    shared.sandbox.run(&["disable", &name]).exits(0);
    host.leave().exits(0);
    wait_until("the server is gone", || {
        shared.status().unwrap()["servers"].as_array().unwrap().is_empty()
    });

    let refused = |host: &mut Host| {
        let result = host.call("pid", &json!({}));
        assert!(text(&result).contains("is disabled"), "{result}");
    };
    refused(&mut shared.host(&[], &noting(&ledger)));
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
    refused(&mut shared.host(&[], &noting(&ledger)));
    // A server of its own for a host is the same server.
    let mut own = Host::of(&mut shared.bridge(&["--share", "never"], &noting(&ledger)));
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "h", "version": "1" } });
    let answer = own.ask("initialize", &params);
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("is disabled"), "{answer}");
    own.leave().exits(0);
    assert_eq!(
        ledger.pids().len(),
        1,
        "it was started before it was disabled, and not since"
    );

    let mut host = shared.host(&[], &noting(&ledger));
    let name = name_of_server(&shared);
    shared.sandbox.run(&["enable", &name]).exits(0);
    server_pid(&mut host);
    shared.sandbox.run(&["daemon", "restart"]).exits(0);
    server_pid(&mut shared.host(&[], &noting(&ledger)));
}

#[test]
fn a_call_that_is_cut_because_its_server_is_disabled_says_so() {
    let shared = Shared::new();
    let ledger = Ledger::temporary();
    let mut host = shared.host(&[], &noting(&ledger));
    server_pid(&mut host);
    let call = host.begin_call("sleep_ms", &json!({ "ms": 60_000 }));
    wait_until("the call runs", || {
        let status = shared.sandbox.run(&["status", "--json"]).json();
        status["servers"][0]["calls"]["in_flight"] == 1
    });
    shared
        .sandbox
        .run(&["disable", &name_of_server(&shared)])
        .exits(0);
    let answer = host.answer(call);
    let said = text(&answer["result"]);
    assert!(said.contains("was disabled while the call was pending"), "{said}");
    assert!(said.contains("may have run"), "{said}");
    assert_eq!(answer["result"]["_meta"]["mainstay"]["outcome"], "unknown");
}

#[test]
fn a_call_that_is_cut_because_its_server_is_removed_says_so() {
    let shared = Shared {
        sandbox: Sandbox::with(&json!({ "demo": good() })),
    };
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let mut host = Host::start(&shared.sandbox, &["connect"]);
    host.tools();
    let call = host.begin_call("demo__sleep", &json!({ "seconds": 60 }));
    wait_until("the call runs", || {
        let status = shared.sandbox.run(&["status", "--json"]).json();
        status["servers"][0]["calls"]["in_flight"] == 1
    });
    shared.sandbox.run(&["remove", "demo"]).exits(0);
    shared.sandbox.run(&["reload"]).exits(0);
    let answer = host.answer(call);
    let said = text(&answer["result"]);
    assert!(said.contains("Server demo was removed"), "{said}");
    assert!(said.contains("may have run"), "{said}");
    assert_eq!(answer["result"]["_meta"]["mainstay"]["outcome"], "unknown");
}

#[test]
fn a_call_to_a_disabled_server_says_that_it_is_disabled_and_how_to_enable_it() {
    let shared = Shared {
        sandbox: Sandbox::with(&json!({ "demo": good() })),
    };
    let sandbox = &shared.sandbox;
    sandbox.run(&["daemon", "start"]).exits(0);
    sandbox.run(&["call", "demo", "echo", "text=on"]).exits(0);
    sandbox.run(&["disable", "demo"]).exits(0);
    let words = "server demo is disabled, and was not asked: `mainstay enable demo` enables it";
    for line in [
        &["call", "demo", "echo", "text=off"][..],
        &["describe", "demo", "echo"],
    ] {
        sandbox.run(line).exits(3).says(words);
    }
    let document = sandbox.run(&["call", "demo", "echo", "--json"]).exits(3).json();
    assert_eq!(document["error"]["outcome"], "not_sent", "{document}");
    // A tool that an enabled server lacks is another mistake.
    sandbox.run(&["enable", "demo"]).exits(0);
    sandbox.run(&["call", "demo", "nothing"]).exits(2);
}
