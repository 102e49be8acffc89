//! A daemon does not have the variables of a person's shell. What it lacks is reported with what helps.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{Shared, wait_until};
use crate::sandbox::{MAINSTAY, Ran, Sandbox, finish};

const RESTART: &str = "run `mainstay daemon restart --env GREETING` in a shell that has it";

/// A configuration whose server needs GREETING.
fn shared() -> Shared {
    let server = json!({ "command": MAINSTAY, "args": ["demo-server"], "env": { "WORD": "${GREETING}" } });
    Shared {
        sandbox: Sandbox::with(&json!({ "polite": server })),
    }
}

/// Runs a command in a shell that has GREETING.
fn with_greeting(shared: &Shared, arguments: &[&str]) -> Ran {
    let mut command = shared.sandbox.command(arguments);
    finish(command.env("GREETING", "hello").spawn().unwrap())
}

fn state(shared: &Shared) -> Value {
    let mut status = shared.sandbox.run(&["status", "polite", "--json"]).json();
    status["servers"][0].take()
}

/// What `doctor` finds in this check, in a shell that has GREETING.
fn diagnosed(document: &Value, check: &str) -> Vec<Value> {
    let checks = document["checks"].as_array().unwrap();
    let check = checks.iter().find(|found| found["check"] == check).unwrap();
    check["findings"].as_array().unwrap().clone()
}

fn doctor(shared: &Shared) -> Value {
    with_greeting(shared, &["doctor", "--json", "--listen", "127.0.0.1:0"]).json()
}

#[test]
fn a_variable_that_only_the_shell_has_is_passed_on_by_the_command_that_the_error_names() {
    let shared = shared();
    with_greeting(&shared, &["daemon", "start"]).exits(0);
    wait_until("the server failed", || {
        state(&shared)["state"] == "permanently_failed"
    });
    let failed = state(&shared);
    let why = failed.to_string();
    assert!(why.contains("the variable GREETING is not set"), "{why}");
    assert!(why.contains(RESTART), "{why}");
    assert!(why.contains("${file:PATH}"), "{why}");

    shared
        .sandbox
        .run(&["daemon", "restart", "--env", "GREETING"])
        .exits(2)
        .says("\"GREETING\" is not one");
    with_greeting(&shared, &["daemon", "restart", "--env", "GREETING"]).exits(0);
    wait_until("the server runs", || state(&shared)["state"] == "connected");
}

#[test]
fn a_daemon_that_launchd_started_is_named_so_and_can_be_replaced_by_one_with_the_variable() {
    let shared = shared();
    let mut started = shared.sandbox.command(&["daemon", "run", "--at-login"]);
    let mut started = started
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the daemon runs", || shared.status().is_some());
    wait_until("the server failed", || {
        state(&shared)["state"] == "permanently_failed"
    });
    let why = state(&shared).to_string();
    assert!(why.contains("by launchd)"), "{why}");
    assert!(why.contains(RESTART), "{why}");
    with_greeting(&shared, &["daemon", "restart", "--env", "GREETING"]).exits(0);
    assert!(started.wait().unwrap().success(), "launchd starts no other one");
    wait_until("the server runs", || state(&shared)["state"] == "connected");
}

#[test]
fn a_file_that_changes_and_a_server_that_is_added_get_the_same_explanation() {
    let shared = shared();
    shared.sandbox.configure(&json!({}));
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let line = [
        "add",
        "polite",
        "--env",
        "GREETING",
        "--",
        MAINSTAY,
        "demo-server",
    ];
    with_greeting(&shared, &line)
        .exits(2)
        .says("the variable GREETING is not set")
        .says(RESTART);
    shared
        .sandbox
        .configure(&json!({ "polite": { "command": "${GREETING}" } }));
    wait_until("the daemon refused the file", || {
        let problem = shared.status().unwrap()["config_problem"].to_string();
        problem.contains(RESTART)
    });
}

#[test]
fn doctor_finds_variables_that_only_the_shell_or_only_the_daemon_has() {
    let shared = shared();
    let found = diagnosed(&doctor(&shared), "daemon variables");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["level"], "hint", "no daemon runs: {found:?}");
    assert_eq!(found[0]["subject"], "polite");

    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let found = diagnosed(&doctor(&shared), "daemon variables");
    assert_eq!(found[0]["level"], "problem", "{found:?}");
    let remedy = found[0]["remedy"].as_str().unwrap();
    assert!(remedy.contains(RESTART), "{remedy}");

    with_greeting(&shared, &["daemon", "restart", "--env", "GREETING"]).exits(0);
    assert_eq!(diagnosed(&doctor(&shared), "daemon variables"), [] as [Value; 0]);
    // This shell lacks it, which harms no server.
    let without = shared
        .sandbox
        .run(&["doctor", "--json", "--listen", "127.0.0.1:0"]);
    assert_eq!(diagnosed(&without.json(), "configuration"), [] as [Value; 0]);
    assert!(
        without.stdout.contains("which the daemon uses: 1 server\""),
        "{}",
        without.stdout
    );
}

#[test]
fn commands_use_a_server_of_the_daemon_whose_variable_only_the_daemon_has() {
    let shared = shared();
    let server = json!({ "command": MAINSTAY, "args": ["demo-server"], "env": { "WORD": "${GREETING}" } });
    let other = json!({ "command": MAINSTAY, "args": ["demo-server"], "env": { "WORD": "${OTHER}" } });
    shared
        .sandbox
        .configure(&json!({ "polite": server, "rude": other }));
    with_greeting(&shared, &["daemon", "start", "--env", "GREETING"]).exits(0);
    for line in [
        &["call", "polite", "echo", "text=hello"][..],
        &["check", "--server", "polite"],
        &["tools", "--server", "polite"],
        &["ping", "polite", "--count", "1"],
    ] {
        let ran = shared.sandbox.run(line);
        ran.exits(0).says("using the servers of the daemon");
        assert!(!ran.stderr.contains("is not set"), "{}", ran.stderr);
    }
    // The daemon lacks this one too, and says what helps.
    let ran = shared.sandbox.run(&["call", "rude", "echo", "text=hello"]);
    ran.exits(3)
        .says("the variable OTHER is not set; the daemon (process ")
        .says(" by `mainstay daemon`) does not have the variables of your shell");
    shared
        .sandbox
        .run(&["check"])
        .exits(1)
        .prints("1 of 2 servers up; down: rude");
    shared
        .sandbox
        .run(&["call", "polite", "echo", "text=hello", "--no-daemon"])
        .exits(2)
        .says("the variable GREETING is not set; set it")
        .says("server \"polite\" is not used, for the errors in its configuration");
    // The daemon has no server of a change that it did not apply.
    let new = json!({ "command": MAINSTAY, "env": { "WORD": "${NEW}" } });
    shared
        .sandbox
        .configure(&json!({ "polite": server, "rude": other, "new": new }));
    wait_until("the daemon refused the file", || {
        !shared.status().unwrap()["config_problem"].is_null()
    });
    let ran = shared.sandbox.run(&["check"]);
    ran.exits(2)
        .says("the variable NEW is not set")
        .prints("1 of 2 servers up; down: rude; not used: new");
    assert!(!ran.stderr.contains("GREETING"), "{}", ran.stderr);
    // What is configured is read in this shell.
    shared
        .sandbox
        .run(&["check", "--no-start"])
        .exits(2)
        .says("the variable GREETING is not set; set it");
}

#[test]
fn a_server_that_is_added_or_imported_with_a_variable_of_the_shell_gets_a_warning() {
    let shared = shared();
    let line = ["add", "kind", "--env", "GREETING", "--", MAINSTAY, "demo-server"];
    with_greeting(&shared, &line)
        .exits(0)
        .says("`mainstay daemon start --env GREETING`");
    let host = json!({ "mcpServers": { "rude": { "command": "rude", "env": { "WORD": "${GREETING}" } } } });
    shared.sandbox.write("home/.cursor/mcp.json", &host.to_string());
    with_greeting(&shared, &["import", "--from", "cursor"])
        .says("GREETING would come from Mainstay's environment")
        .says("`mainstay daemon start --env GREETING`");
    let without = shared.sandbox.run(&["import", "--from", "cursor"]);
    without.says("the variable GREETING is not set");
    assert!(!without.stderr.contains("would come from"), "{}", without.stderr);
}

#[test]
fn the_value_of_a_variable_is_in_no_arguments() {
    let shared = shared();
    with_greeting(&shared, &["daemon", "start", "--env", "GREETING"]).exits(0);
    for pid in shared.daemons() {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&line).contains("hello"));
    }
    let refused = shared
        .sandbox
        .run(&["daemon", "start", "--env", "GREETING=hello"]);
    refused.exits(2).says("takes the name of a variable");
    assert!(!refused.stderr.contains("hello"), "{}", refused.stderr);
}

#[test]
fn doctor_takes_a_daemon_without_a_configuration_for_what_it_is() {
    let shared = Shared::new();
    shared.sandbox.run(&["daemon", "start"]).exits(0);
    let document = doctor(&shared);
    assert_eq!(diagnosed(&document, "configuration"), [] as [Value; 0]);
}
