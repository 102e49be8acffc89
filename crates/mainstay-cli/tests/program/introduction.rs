//! A wrapped server meets the client on stdin, as if there were nothing between them.

use std::fs;

use mainstay_testkit::{Ledger, Script, Speaks, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::behind::Behind;
use crate::host::Host;
use crate::sandbox::{Sandbox, finish};
use crate::serving::LONG;

/// What clients say of themselves: the version, what they can answer, and who they are.
const CLIENTS: [(&str, &str, &str); 3] = [
    ("2025-11-25", "{}", r#"{"name":"plain","version":"1"}"#),
    (
        "2025-06-18",
        r#"{"elicitation":{}}"#,
        r#"{"version":"\u0031.0","title":"A host","name":"h\u006fst"}"#,
    ),
    (
        "2024-11-05",
        r#"{"experimental":{"x":{"n":1.0,"big":123456789012345678901234567890}},"roots":{"listChanged":true},"x-new":[ ]}"#,
        r#"{"name":"odd","version":"","x-unknown":{"n":1e2}, "icons":[{"src":"data:,"}]}"#,
    ),
];

fn wrapped(sandbox: &Sandbox, server: &Behind) -> Host {
    let line = server.wrapped();
    let line: Vec<_> = line.iter().map(String::as_str).collect();
    Host::silent(sandbox, &line)
}

fn servers(sandbox: &Sandbox, speaks: Speaks) -> [Behind; 2] {
    let script = Script::new().speaks(speaks).verbatim();
    [
        Behind::child_playing(sandbox, script.clone()),
        Behind::web_playing(script),
    ]
}

fn initialize(version: &str, capabilities: &str, info: &str) -> String {
    format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{info}}}"#)
}

/// The params of a modern call to `echo` by such a client.
fn modern_call(capabilities: &str, info: &str) -> String {
    format!(
        r#"{{"name":"echo","arguments":{{}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities},"io.modelcontextprotocol/clientInfo":{info}}}}}"#
    )
}

/// What every request of a modern server's client carries of that client.
fn modern_meta(capabilities: &str, info: &str) -> String {
    format!(
        r#""io.modelcontextprotocol/clientCapabilities":{capabilities},"io.modelcontextprotocol/clientInfo":{info}"#
    )
}

/// Waits until a process has its own way with a signal.
fn heeds(pid: Pid, signal: Signal) {
    let heeded = || {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16).unwrap();
        caught >> (signal.as_raw() - 1) & 1 == 1
    };
    assert!(
        poll::comes_true(poll::LIMIT, heeded),
        "it never listens for signals"
    );
}

#[track_caller]
fn echoes(host: &mut Host, key: &str) {
    let result = host.call("echo", &json!({ "key": key }));
    assert_eq!(result["structuredContent"]["key"], key, "{result}");
}

#[test]
fn a_legacy_server_is_told_what_its_client_says_and_nothing_else_and_again_after_it_was_killed() {
    for (version, capabilities, info) in CLIENTS {
        let sandbox = Sandbox::new();
        for mut server in servers(&sandbox, Speaks::Legacy) {
            let said = initialize(version, capabilities, info);
            let mut host = wrapped(&sandbox, &server);
            let answer = host.ask_verbatim("initialize", &said);
            assert_eq!(answer["result"]["protocolVersion"], version);
            echoes(&mut host, "before");
            assert_eq!(server.ledger.after("params initialize"), [said.as_str()]);
            server.kill();
            server.give_back();
            echoes(&mut host, "after");
            assert_eq!(server.ledger.after("params initialize"), [said.as_str(); 2]);
            host.leave().exits(0);
        }
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn a_modern_server_is_told_with_each_request_what_its_client_says() {
    for (version, capabilities, info) in CLIENTS {
        let sandbox = Sandbox::new();
        for mut server in servers(&sandbox, Speaks::Modern) {
            let told = modern_meta(capabilities, info);
            let mut modern = wrapped(&sandbox, &server);
            for _ in 0..2 {
                let answer = modern.ask_verbatim("tools/call", &modern_call(capabilities, info));
                assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
                server.kill();
                server.give_back();
            }
            modern.leave().exits(0);
            let mut legacy = wrapped(&sandbox, &server);
            legacy.ask_verbatim("initialize", &initialize(version, capabilities, info));
            echoes(&mut legacy, "legacy");
            legacy.leave().exits(0);
            let heard = server.ledger.after("params");
            let strangers: Vec<_> = heard
                .iter()
                .filter(|params| !params.contains(&told) && !params.starts_with("initialize"))
                .collect();
            assert!(strangers.is_empty(), "{told} is not in {strangers:?}");
            assert_eq!(server.ledger.count("call echo"), 3);
        }
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn a_legacy_server_is_told_of_a_modern_client_by_what_its_first_request_says() {
    for (_, capabilities, info) in CLIENTS {
        let sandbox = Sandbox::new();
        for server in servers(&sandbox, Speaks::Legacy) {
            let mut host = wrapped(&sandbox, &server);
            let answer = host.ask_verbatim("tools/call", &modern_call(capabilities, info));
            assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
            let said = initialize("2025-11-25", capabilities, info);
            assert_eq!(server.ledger.after("params initialize"), [said]);
            host.leave().exits(0);
        }
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn nothing_is_started_for_a_client_that_never_asks() {
    for (end, code) in [(None, 0), (Some(Signal::TERM), 143)] {
        let sandbox = Sandbox::new();
        let server = Behind::child(&sandbox);
        let host = wrapped(&sandbox, &server);
        // As long as it takes to start a server for another, who came later and asks.
        let other = Behind::child(&sandbox);
        let mut asks = wrapped(&sandbox, &other);
        let (version, capabilities, info) = CLIENTS[0];
        asks.ask_verbatim("initialize", &initialize(version, capabilities, info));
        echoes(&mut asks, "other");
        asks.leave().exits(0);
        let ran = match end {
            None => host.leave(),
            Some(signal) => {
                let pid = Pid::from_child(&host.child);
                heeds(pid, signal);
                kill_process(pid, signal).unwrap();
                finish(host.child)
            }
        };
        ran.exits(code);
        assert!(server.ledger.pids().is_empty(), "{end:?}");
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn a_client_that_initializes_again_is_answered_and_its_server_stays_as_it_is() {
    let sandbox = Sandbox::new();
    let mut server = Behind::child_playing(&sandbox, Script::new().verbatim());
    let (first, again) = (CLIENTS[1], CLIENTS[2]);
    let mut host = wrapped(&sandbox, &server);
    let said = initialize(first.0, first.1, first.2);
    host.ask_verbatim("initialize", &said);
    echoes(&mut host, "first");
    let answer = host.ask_verbatim("initialize", &initialize(again.0, again.1, again.2));
    assert_eq!(answer["result"]["protocolVersion"], again.0);
    echoes(&mut host, "again");
    assert_eq!(server.ledger.pids().len(), 1);
    server.kill();
    server.give_back();
    echoes(&mut host, "after");
    assert_eq!(server.ledger.after("params initialize"), [said.as_str(); 2]);
    host.leave().exits(0);
    sandbox.assert_nothing_is_left();
}

#[test]
fn whoever_asks_before_it_has_said_who_it_is_and_whoever_shares_a_server_is_met_as_the_gateway() {
    let sandbox = Sandbox::new();
    let server = Behind::child_playing(&sandbox, Script::new().verbatim());
    let mut hasty = wrapped(&sandbox, &server);
    assert!(hasty.tools().contains(&"echo".to_owned()));
    hasty.leave().exits(0);
    sandbox.configure(&json!({ "one": server.config() }));
    let mut shares = Host::start(&sandbox, &["serve", "--stdio", "--quiet"]);
    // Its list may come from disk, before the server is there.
    shares.lists("one__echo");
    let met = |ledger: &Ledger| ledger.after("params initialize").len() == 2;
    assert!(server.ledger.wait_for(met, LONG));
    shares.leave().exits(0);
    let told = server.ledger.after("params initialize");
    assert_eq!(told.len(), 2, "{told:?}");
    for told in told {
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["clientInfo"]["name"], "mainstay");
        for asked in ["sampling", "elicitation", "roots"] {
            assert!(told["capabilities"][asked].is_object(), "{told}");
        }
    }
    sandbox.assert_nothing_is_left();
}
