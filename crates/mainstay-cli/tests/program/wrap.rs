use mainstay_testkit::{FaultyServer, Ledger, Speaks};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::host::Host;
use crate::sandbox::{MAINSTAY, Sandbox, good};

fn wrapped(sandbox: &Sandbox, server: &FaultyServer) -> Host {
    wrapped_with(sandbox, &[], server)
}

fn wrapped_with(sandbox: &Sandbox, options: &[&str], server: &FaultyServer) -> Host {
    let command = server.command();
    let args = server.args();
    let mut line = [&["wrap"], options, &["--", command.as_str()]].concat();
    line.extend(args.iter().map(String::as_str));
    Host::start(sandbox, &line)
}

#[test]
fn a_last_message_without_a_line_break_is_answered() {
    let shared = crate::daemon::Shared::new();
    for line in [
        &["wrap"][..],
        &["connect"],
        &["connect", "--share", "never"],
        &["serve", "--stdio"],
    ] {
        let server = ["--", MAINSTAY, "demo-server"];
        let is_own = line[0] != "serve";
        let line = line.iter().chain(server.iter().filter(|_| is_own));
        let line: Vec<&str> = line.copied().collect();
        let mut host = Host::start(&shared.sandbox, &line);
        let tools = host.tools().len();
        host.write_last(&json!({ "jsonrpc": "2.0", "id": 4711, "method": "tools/list" }));
        let answer = host.answer(4711);
        assert_eq!(
            answer["result"]["tools"].as_array().map(Vec::len),
            Some(tools),
            "{line:?}"
        );
        host.leave().exits(0);
    }
}

#[test]
fn a_wrapped_server_is_served_under_its_own_names_and_ends_with_its_host() {
    let sandbox = Sandbox::new();
    let mut host = Host::start(&sandbox, &["wrap", "--", MAINSTAY, "demo-server"]);
    assert!(host.tools().contains(&"echo".to_owned()));
    let result = host.call("echo", &json!({ "text": "hello" }));
    assert_eq!(result["content"][0]["text"], "hello");
    let ran = host.leave();
    ran.exits(0);
    assert_eq!(ran.stderr, "", "it says nothing of its own");
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_wrapped_server_of_both_eras_is_spoken_to_in_the_era_of_its_host_unless_another_is_pinned() {
    let sandbox = Sandbox::new();
    for (options, initializes, discovers) in [(&[][..], 1, 0), (&["--era", "modern"], 0, 1)] {
        let ledger = Ledger::temporary();
        let server = FaultyServer::new()
            .script(|script| script.speaks(Speaks::Both))
            .ledger(&ledger);
        let mut host = wrapped_with(&sandbox, options, &server);
        let result = host.call("echo", &json!({ "text": "hello" }));
        assert!(result["content"][0]["text"].is_string(), "{options:?}: {result}");
        let greeted = (ledger.count("initialize"), ledger.count("discover"));
        assert_eq!(
            greeted,
            (initializes, discovers),
            "{options:?}: {:?}",
            ledger.lines()
        );
        host.leave().exits(0);
    }
    sandbox.assert_nothing_is_left();
}

#[test]
fn the_host_s_session_outlives_the_server() {
    let sandbox = Sandbox::new();
    let ledger = Ledger::temporary();
    let mut host = wrapped(&sandbox, &FaultyServer::new().ledger(&ledger));
    let tools = host.tools();
    for round in 1..=3 {
        let result = host.call("echo", &json!({ "round": round }));
        assert_eq!(result["structuredContent"]["round"], round);
        let pid = *ledger.pids().last().expect("a server runs");
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        assert_eq!(host.tools(), tools, "the last good list");
    }
    let result = host.call("echo", &json!({ "round": "last" }));
    assert_eq!(result["structuredContent"]["round"], "last");
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

#[test]
fn all_servers_are_served_as_one_on_standard_input_and_output() {
    let sandbox = Sandbox::with(&json!({ "one": good(), "two": good() }));
    let mut host = Host::start(&sandbox, &["serve", "--stdio", "--quiet"]);
    // Each is there when it is up; a client is told, and looks again.
    host.lists("two__echo");
    host.lists("one__echo");
    let result = host.call("two__add", &json!({ "a": 2, "b": 3 }));
    assert_eq!(result["structuredContent"]["sum"], 5.0);
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

#[test]
fn without_a_configuration_the_demo_server_is_served() {
    let sandbox = Sandbox::new();
    let mut host = Host::start(&sandbox, &["serve", "--stdio", "--quiet"]);
    host.lists("demo__echo");
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

#[test]
fn what_cannot_be_wrapped_is_said() {
    let sandbox = Sandbox::new();
    sandbox.run(&["wrap"]).exits(2);
    sandbox
        .run(&["wrap", "--url", "ftp://example.com"])
        .exits(2)
        .says("scheme");
    sandbox
        .run(&[
            "wrap",
            "--url",
            "http://localhost:1/mcp",
            "--bearer-token-env",
            "NO_SUCH_VARIABLE",
        ])
        .exits(2)
        .says("NO_SUCH_VARIABLE");
}
