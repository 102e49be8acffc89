//! What an operator is told without asking: each change of a server's state, in one line, on stderr.

use std::io::{BufRead as _, BufReader};
use std::time::Instant;

use mainstay::gateway::PlainText;
use mainstay_testkit::{Fault, FaultyServer, Garbage, Ledger, Step, hostile, hostile_on_stderr, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::Host;
use crate::sandbox::{Sandbox, dying, good, missing, silent};
use crate::serving::{LONG, Serving, Visitor};

/// A server as configured, and required.
fn required(mut server: Value) -> Value {
    server["required"] = json!(true);
    server
}

#[test]
fn each_change_of_state_is_one_line_with_its_cause_and_what_happens_next() {
    let ledger = Ledger::temporary();
    let mut given_up = dying();
    given_up["restart"] =
        json!({ "budget": 2, "backoff": { "first": "1ms", "ceiling": "2ms" }, "slow_probe": "1h" });
    let sandbox = Sandbox::with(&json!({
        "absent": missing(),
        "dying": given_up,
        "well": FaultyServer::new().ledger(&ledger).config(),
    }));
    let serving = Serving::start(&sandbox, &[]);
    let [up, absent, down] = serving.hears_all(["well: connected", "absent: failed for good", "dying: down"]);
    assert!(
        up.starts_with("20") && up.contains("Z "),
        "the time comes first: {up}"
    );
    assert!(
        absent.contains("command `no-such-program-anywhere` not found"),
        "{absent}"
    );
    assert!(absent.contains("it is not tried again"), "{absent}");
    assert!(
        down.contains("exit status 3; it wrote: cannot find my database"),
        "{down}"
    );
    assert!(
        down.contains("; next attempt in ") && down.contains("(failure 2 of 2)"),
        "{down}"
    );

    let pid = *ledger.pids().last().expect("it runs");
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let line = serving.hears("well: connection lost");
    assert!(
        line.contains("warning: ") && line.contains("killed by SIGKILL"),
        "{line}"
    );
    assert!(
        line.contains("; starting it again now") || line.contains("; next attempt in "),
        "{line}"
    );
    serving.hears("well: connected");
}

#[test]
fn each_failed_attempt_is_one_line_though_the_state_stays_the_same() {
    let mut dies = dying();
    dies["restart"] =
        json!({ "budget": 4, "backoff": { "first": "1ms", "ceiling": "2ms" }, "slow_probe": "1h" });
    let sandbox = Sandbox::with(&json!({ "dying": dies }));
    let serving = Serving::start(&sandbox, &[]);
    let [first, second, third, last] = serving.hears_all([
        "failure 1 of 4",
        "failure 2 of 4",
        "failure 3 of 4",
        "failure 4 of 4",
    ]);
    for failed in [first, second, third] {
        assert!(failed.contains("dying: start failed: "), "{failed}");
        for part in ["exit status 3", "; it wrote: cannot find my database; "] {
            assert!(failed.contains(part), "{failed}");
        }
    }
    assert!(last.contains("dying: down: "), "{last}");
}

#[test]
fn a_failure_beyond_the_budget_is_not_said_to_be_one_of_it() {
    let mut dies = dying();
    dies["restart"] =
        json!({ "budget": 1, "backoff": { "first": "1ms", "ceiling": "2ms" }, "slow_probe": "1s" });
    let sandbox = Sandbox::with(&json!({ "dying": dies }));
    let serving = Serving::start(&sandbox, &[]);
    serving.hears("dying: down: ");
    let beyond = serving.hears("(failure 2");
    assert!(beyond.ends_with("(failure 2)"), "{beyond}");
}

#[test]
fn with_quiet_only_what_is_wrong_is_said() {
    let sandbox = Sandbox::with(&json!({ "well": good(), "absent": missing() }));
    let mut host = Host::start(&sandbox, &["serve", "--stdio", "--quiet"]);
    while !host.tools().contains(&"well__echo".to_owned()) {}
    let ran = host.leave();
    ran.exits(0).says("warning: absent: failed for good");
    assert!(!ran.stderr.contains("well"), "{}", ran.stderr);
}

#[test]
fn a_host_reads_why_its_wrapped_server_cannot_be_had_and_nothing_of_one_that_is_restarted() {
    let sandbox = Sandbox::new();
    let mut absent = Host::silent(&sandbox, &["wrap", "no-such-program-anywhere"]);
    absent.begin(
        "initialize",
        &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {} }),
    );
    let mut stderr = BufReader::new(absent.child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(
        line.contains("warning: no-such-program-anywhere: failed for good: command"),
        "{line}"
    );

    let ledger = Ledger::temporary();
    let server = FaultyServer::new().ledger(&ledger);
    let mut arguments = vec!["wrap".to_owned(), server.command()];
    arguments.extend(server.args());
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut host = Host::start(&sandbox, &arguments);
    for round in 0..2 {
        let result = host.call("echo", &json!({ "round": round }));
        assert_eq!(result["structuredContent"]["round"], round);
        kill_process(
            Pid::from_raw(*ledger.pids().last().unwrap()).unwrap(),
            Signal::KILL,
        )
        .unwrap();
    }
    let ran = host.leave();
    assert_eq!(ran.exits(0).stderr, "");
}

#[test]
fn a_log_for_programs_is_one_object_a_line() {
    let sandbox = Sandbox::with(&json!({ "well": good(), "dying": dying() }));
    let mut child = sandbox
        .command(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut seen = Vec::new();
    for line in lines {
        let object: Value = serde_json::from_str(&line.unwrap()).expect("each line is an object");
        for key in ["time", "level", "target", "message"] {
            assert!(object[key].is_string(), "no {key}: {object}");
        }
        seen.push(object);
        let is_up = |object: &Value| object["server"] == "well" && object["to"] == "connected";
        let is_down = |object: &Value| object["server"] == "dying" && object["to"] == "reconnecting";
        let is_serving = |object: &Value| {
            object["message"]
                .as_str()
                .unwrap()
                .starts_with("serving 2 servers")
        };
        if seen.iter().any(is_up) && seen.iter().any(is_serving) && seen.iter().any(is_down) {
            break;
        }
    }
    let down = seen.iter().find(|object| object["to"] == "reconnecting").unwrap();
    for (key, value) in [
        ("level", json!("warn")),
        ("target", json!("mainstay::state")),
        ("server", json!("dying")),
        ("from", json!("connecting")),
        ("cause", json!("open_failed")),
        ("exit_code", json!(3)),
        ("stderr", json!("cannot find my database")),
        ("attempt", json!(1)),
        ("budget", json!(10)),
    ] {
        assert_eq!(down[key], value, "{key} of {down}");
    }
    assert!(
        down["generation"].is_u64() && down["next_retry_ms"].is_u64(),
        "{down}"
    );
    assert!(down["next_retry"].as_str().unwrap().ends_with('Z'), "{down}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_log_holds_nothing_hidden_whatever_servers_say() {
    let (command, args) = hostile_on_stderr();
    let sandbox = Sandbox::with(&json!({
        "evil": hostile().config(), "dying": { "command": command, "args": args },
    }));
    for format in ["text", "json"] {
        let serving = Serving::start(&sandbox, &["--log-format", format]);
        // A carriage return ends a line, so that this is the last one.
        let line = serving.hears("it wrote: after");
        assert!(!line.contains(PlainText::is_hidden), "{line:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_repeat_themselves_are_few_and_the_last_one_is_written() {
    const ROUNDS: usize = 25;
    const WINDOW_SECONDS: u64 = 10;
    let ledger = Ledger::temporary();
    let mut config = FaultyServer::new().ledger(&ledger).config();
    config["restart"] = json!({ "bucket": { "size": 1000, "refill_every": "1ms" } });
    let sandbox = Sandbox::with(&json!({ "well": config }));
    let began = Instant::now();
    let serving = Serving::start(&sandbox, &["--log-format", "json"]);
    let visitor = Visitor::legacy(serving.address, "/mcp/well").await;
    for round in 0..ROUNDS {
        let result = visitor.call("echo", json!({ "round": round })).await;
        assert_eq!(result["structuredContent"]["round"], round);
        kill_process(
            Pid::from_raw(*ledger.pids().last().unwrap()).unwrap(),
            Signal::KILL,
        )
        .unwrap();
    }
    let result = visitor.call("echo", json!({ "round": "last" })).await;
    assert_eq!(result["structuredContent"]["round"], "last");
    let made_within = began.elapsed().as_secs();
    let mut written = 0;
    let last = loop {
        let line: Value = serde_json::from_str(&serving.hears(r#""server":"well""#)).unwrap();
        written += 1;
        // Each death makes one more generation.
        let is_last = line["generation"].as_u64() > Some(u64::try_from(ROUNDS).unwrap());
        if is_last && line["to"] == "connected" {
            break line;
        }
    };
    // On a slow machine all of this takes more than one window.
    let windows = 1 + usize::try_from(began.elapsed().as_secs() / WINDOW_SECONDS).unwrap();
    assert!(written < windows * ROUNDS, "{written} lines for {ROUNDS} deaths");
    if made_within < WINDOW_SECONDS {
        assert!(last["left_out"].as_u64() > Some(0), "{last}");
    }
}

#[test]
fn a_reader_of_stderr_that_has_stopped_reading_holds_up_nobody() {
    let ledger = Ledger::temporary();
    // Each line that is no message is logged.
    let noisy = FaultyServer::new()
        .ledger(&ledger)
        .on(Step::Call, Fault::Garbage(Garbage::WrongShape));
    let sandbox = Sandbox::with(&json!({ "well": noisy.config() }));
    let mut host = Host::start_with(&sandbox, &["serve", "--stdio"], ("MAINSTAY_LOG", "trace"));
    while !host.tools().contains(&"well__echo".to_owned()) {}
    // Far more than a pipe holds.
    for round in 0..300 {
        let result = host.call("well__echo", &json!({ "round": round }));
        assert_eq!(result["structuredContent"]["round"], round);
    }
    host.close_input();
    let ended = poll::comes_true(LONG, || host.child.try_wait().unwrap().is_some());
    assert!(ended, "it ends though nobody reads its stderr");
    let ran = crate::sandbox::finish(host.child);
    assert!(
        ran.stderr.len() > 60_000,
        "the pipe was full: {}",
        ran.stderr.len()
    );
}

#[test]
fn a_required_server_that_does_not_come_up_ends_the_start_and_all_reasons_are_said_together() {
    let servers = json!({
        "absent": required(missing()),
        "fine": required(good()),
        "silent": required(silent()),
        "other": dying(),
    });
    for way in [&["--listen", "127.0.0.1:0"][..], &["--stdio"]] {
        let sandbox = Sandbox::with(&servers);
        let mut line = vec!["serve", "--required-within", "1s", "--quiet"];
        line.extend(way);
        let ran = sandbox.run(&line);
        ran.exits(1)
            .says("error: 2 required servers did not come up\n  absent: command `no-such-program-anywhere` not found")
            .says("\n  silent: ");
        assert!(!ran.stderr.contains("fine"), "{}", ran.stderr);
        sandbox.assert_nothing_is_left();
    }
}

#[test]
fn required_servers_that_come_up_are_there_when_the_first_client_is_served() {
    let sandbox = Sandbox::with(&json!({ "well": required(good()), "other": silent() }));
    let mut child = sandbox
        .command(&["serve", "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let lines: Vec<_> = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.starts_with("serving "))
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        lines.iter().any(|line| line.ends_with("well: connected")),
        "{lines:?}"
    );
}

#[test]
fn a_port_in_use_names_the_remedy() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = sandbox.run(&["serve", "--listen", &address]);
    ran.exits(1)
        .says(&format!("error: cannot listen on {address}: address in use: "))
        .says("name another one with --listen");
}

#[test]
fn an_unusable_cache_is_said_once_and_keeps_nothing_from_working() {
    let sandbox = Sandbox::with(&json!({ "a": good(), "b": good(), "c": good() }));
    let file = sandbox.write("a-file", "");
    for command in [&["check"][..], &["tools"], &["call", "a", "echo", "text=hello"]] {
        let child = sandbox
            .command(command)
            .env("MAINSTAY_CACHE", file.join("cache"))
            .spawn()
            .unwrap();
        let ran = crate::sandbox::finish(child);
        ran.exits(0)
            .says("warning: catalogs are not kept on disk: ")
            .says("--no-cache");
        assert_eq!(ran.stderr.matches("catalog").count(), 1, "{}", ran.stderr);
    }
}
