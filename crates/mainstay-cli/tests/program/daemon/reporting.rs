//! Commands report the state of the daemon's servers, not that of their own connections to the daemon.

use std::fs;

use mainstay_testkit::http::{FaultyHttpProcess, HttpFault, HttpScript, HttpStep};
use mainstay_testkit::{FaultyServer, Ledger, Script};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Shared, wait_until};
use crate::everyday::interrupted;
use crate::sandbox::{MAINSTAY, Sandbox, good, missing, shell};

/// A sandbox with these servers, whose daemon runs.
fn started(servers: &Value) -> Shared {
    let shared = Shared {
        sandbox: Sandbox::with(servers),
    };
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    shared
}

/// Waits until the daemon's server is in this state.
#[track_caller]
fn wait_for(shared: &Shared, server: &str, state: &str) {
    wait_until(&format!("{server} is {state}"), || {
        let status = shared.sandbox.run(&["status", server, "--json"]).json();
        status["servers"][0]["state"] == state
    });
}

#[test]
fn a_call_says_that_the_server_of_the_daemon_wants_a_login_and_promises_no_attempt() {
    let fault = HttpFault::unauthorized("https://login.example/meta", "files:read");
    let locked = HttpScript::new().at(HttpStep::Post, fault);
    let remote = FaultyHttpProcess::start(0, &Script::new(), &locked);
    let shared = started(&json!({ "web": { "url": remote.url("/mcp") } }));
    wait_for(&shared, "web", "disconnected");
    let call = ["call", "web", "echo"];
    shared
        .sandbox
        .run(&call)
        .exits(3)
        .says("server web is disconnected (auth_required)")
        .says("run `mainstay login web`, then try again");
    let document = shared
        .sandbox
        .run(&["call", "web", "echo", "--json"])
        .exits(3)
        .json();
    let error = &document["error"];
    assert_eq!(error["outcome"], "not_sent", "{document}");
    assert_eq!(error["retry_after_ms"], Value::Null, "{document}");
    let login = json!({ "resource_metadata": "https://login.example/meta", "scopes": ["files:read"] });
    assert_eq!(error["failure"]["login"], login, "{document}");
}

#[test]
fn a_call_says_that_the_server_of_the_daemon_failed_for_good_or_is_disabled() {
    let shared = started(&json!({ "lost": missing(), "off": missing() }));
    wait_for(&shared, "lost", "permanently_failed");
    shared.sandbox.run(&["disable", "off"]).exits(0);
    let call = |server: &str| {
        shared
            .sandbox
            .run(&["call", server, "x", "--json"])
            .exits(3)
            .json()
    };
    let document = call("lost");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("server lost is permanently_failed"),
        "{document}"
    );
    assert_eq!(document["error"]["retry_after_ms"], Value::Null, "{document}");
    let document = call("off");
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("server off is disabled"), "{document}");
    assert_eq!(document["error"]["retry_after_ms"], Value::Null, "{document}");
}

#[test]
fn what_a_dead_server_of_the_daemon_offered_is_marked_stale() {
    let sandbox = Sandbox::new();
    let gone = sandbox.path("gone");
    let script = format!(
        "test -e '{}' && exit 3; exec '{MAINSTAY}' demo-server",
        gone.display()
    );
    sandbox.configure(&json!({ "demo": shell(&script) }));
    let shared = Shared { sandbox };
    let sandbox = &shared.sandbox;
    sandbox.run(&["daemon", "start"]).exits(0);
    let listing = ["tools", "--server", "demo", "--json"];
    let document = sandbox.run(&listing).exits(0).json();
    assert_eq!(document["servers"][0]["stale"], false, "{document}");
    assert_eq!(document["tools"][0]["stale"], false, "{document}");

    fs::write(&gone, "").unwrap();
    sandbox.run(&["call", "demo", "crash"]);
    wait_for(&shared, "demo", "reconnecting");
    let document = sandbox.run(&listing).exits(0).json();
    let server = &document["servers"][0];
    assert_ne!(server["state"], "connected", "{document}");
    assert_eq!((&server["up"], &server["stale"]), (&json!(false), &json!(true)));
    assert_eq!(document["tools"][0]["stale"], true, "{document}");
    sandbox.run(&["tools"]).exits(0).prints("demo  stale: listed ");
    sandbox
        .run(&["describe", "demo", "echo"])
        .exits(0)
        .prints("stale: the server is not up");
    let document = sandbox
        .run(&["describe", "demo", "echo", "--json"])
        .exits(0)
        .json();
    assert_eq!(document["stale"], true, "{document}");
    let document = sandbox.run(&["check", "--json"]).exits(1).json();
    assert_eq!(document["servers"][0]["stale"], true, "{document}");
}

#[test]
fn a_disabled_server_of_the_daemon_is_listed_as_disabled_and_not_as_empty() {
    let shared = started(&json!({ "demo": good() }));
    let sandbox = &shared.sandbox;
    sandbox.run(&["tools"]).exits(0).prints("demo__echo");
    sandbox.run(&["disable", "demo"]).exits(0);
    let ran = sandbox.run(&["tools", "--server", "demo"]);
    ran.exits(0);
    assert_eq!(ran.stdout, "demo  disabled\n");
    let document = sandbox.run(&["tools", "--json"]).exits(0).json();
    assert_eq!(document["servers"][0]["state"], "disabled", "{document}");
}

#[test]
fn the_protocol_that_a_command_shows_is_that_of_the_server() {
    let remote = FaultyHttpProcess::start(0, &Script::new(), &HttpScript::new());
    let shared = started(&json!({ "web": { "url": remote.url("/mcp") } }));
    for line in [&["check", "--json"][..], &["ping", "web", "--json"]] {
        let seen = |line: &[&str]| {
            let document = shared.sandbox.run(line).exits(0).json();
            let server = document.get("servers").map_or(&document, |servers| &servers[0]);
            ["protocol_version", "era", "transport"].map(|key| server[key].clone())
        };
        assert_eq!(seen(line), seen(&[line, &["--no-daemon"]].concat()));
    }
}

#[test]
fn the_remedy_for_a_server_that_never_ran_does_not_point_at_its_stderr() {
    let shared = started(&json!({ "lost": missing() }));
    wait_for(&shared, "lost", "permanently_failed");
    let ran = shared.sandbox.run(&["status", "lost"]);
    ran.prints("then `mainstay restart lost`");
    assert!(!ran.stdout.contains("mainstay logs"), "{}", ran.stdout);
}

#[test]
fn an_interrupted_call_leaves_the_server_to_the_daemon_and_says_so() {
    let ledger = Ledger::temporary();
    let shared = started(&json!({ "s": FaultyServer::new().ledger(&ledger).config() }));
    let line = ["call", "s", "sleep_ms", r#"{"ms": 60000}"#];
    let ran = interrupted(&shared.sandbox, &line, Signal::INT, || {
        ledger.count("call sleep_ms") > 0
    });
    ran.exits(130)
        .says("the call may have run")
        .says("the daemon keeps the servers");
    assert!(!ran.stderr.contains("stopping"), "{}", ran.stderr);
    shared.sandbox.run(&["call", "s", "echo"]).exits(0);
    assert_eq!(ledger.pids().len(), 1, "the same process");
}

#[test]
fn status_and_check_count_the_same_servers() {
    let mut off = good();
    off["enabled"] = json!(false);
    let typo = json!({ "comand": "cat" });
    let servers = json!({ "good": good(), "off": off, "typo": typo });
    let shared = started(&servers);
    let count = |line: &[&str]| {
        let ran = shared.sandbox.run(line);
        let sum = ran.stdout.lines().last().unwrap_or_default();
        sum.split_once(';').map_or(sum, |(count, _)| count).to_owned()
    };
    let check = ["check", "--timeout", "10s"];
    let check_alone = [&check[..], &["--no-daemon"]].concat();
    assert_eq!(count(&check), "1 of 2 servers up", "with the daemon");
    assert_eq!(count(&["status"]), "1 of 2 servers up");
    assert_eq!(count(&check_alone), "1 of 2 servers up", "without it");
    assert_eq!(count(&["check", "--server", "good"]), "1 of 1 server up");
    assert_eq!(count(&["status", "good"]), "1 of 1 server up");

    // Nobody misses what a person disabled.
    shared.sandbox.run(&["disable", "typo"]).exits(0);
    assert_eq!(count(&["status"]), "1 of 1 server up");
    assert_eq!(count(&check), "1 of 1 server up");
    shared.sandbox.run(&["enable", "typo"]).exits(0);

    // The daemon has no server of a change that it did not apply.
    let mut changed = servers;
    changed["new"] = typo;
    shared.sandbox.configure(&changed);
    wait_until("the daemon refused the file", || {
        !shared.status().unwrap()["config_problem"].is_null()
    });
    assert_eq!(count(&["status"]), "1 of 2 servers up");
    assert_eq!(count(&check), "1 of 2 servers up");
}

#[test]
fn status_shows_what_is_wrong_first_and_json_goes_by_name() {
    let mut off = good();
    off["enabled"] = json!(false);
    let shared = started(&json!({ "a-good": good(), "b-off": off, "c-lost": missing(), "d-good": good() }));
    wait_for(&shared, "a-good", "connected");
    wait_for(&shared, "c-lost", "permanently_failed");
    wait_for(&shared, "d-good", "connected");
    let ran = shared.sandbox.run(&["status"]);
    let table = ran.stdout.split("\n\n").nth(1).unwrap_or_default();
    let names = table
        .lines()
        .skip(1)
        .filter_map(|row| row.split_whitespace().nth(1));
    let names: Vec<_> = names.collect();
    assert_eq!(names, ["c-lost", "a-good", "d-good", "b-off"], "{}", ran.stdout);
    let document = shared.sandbox.run(&["status", "--json"]).json();
    let names = document["servers"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a-good", "b-off", "c-lost", "d-good"]);
}
