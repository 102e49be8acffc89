//! The words of every day: public names, `describe`, `read`, `prompt`, servers from the command line, Ctrl-C.

use std::process::Child;

use mainstay_testkit::http::{FaultyHttpServer, HttpScript};
use mainstay_testkit::{Fault, FaultyServer, Ledger, Script, Step, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::sandbox::{MAINSTAY, Ran, Sandbox, dying, finish, good, keys, missing, shell};

/// A server that notes that it was started, and never works.
fn noting(sandbox: &Sandbox, file: &str) -> Value {
    shell(&format!("touch '{}'; exit 1", sandbox.path(file).display()))
}

#[test]
fn a_tool_is_called_by_its_public_name_and_only_its_server_is_started() {
    let sandbox = Sandbox::new();
    sandbox.configure(&json!({ "good": good(), "other": noting(&sandbox, "started") }));
    let ran = sandbox.run(&["call", "good__echo", "text=hello"]);
    assert_eq!(ran.exits(0).stdout, "hello\n");
    let document = sandbox
        .run(&["call", "good__echo", "text=hello", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&document["server"], &document["tool"]),
        (&json!("good"), &json!("good__echo"))
    );
    assert!(!sandbox.path("started").exists());
    sandbox
        .run(&["call", "god__echo"])
        .exits(2)
        .says("there is no server \"god\"; did you mean \"good\"?");
    sandbox
        .run(&["call", "good__ecoh"])
        .exits(2)
        .says("there is no tool \"good__ecoh\"; did you mean \"good__echo\"?");
    sandbox
        .run(&["call", "good"])
        .exits(2)
        .says("name a tool of server \"good\"");
}

#[test]
fn a_name_of_two_servers_is_that_of_the_one_that_offers_it() {
    // Both names are spelt the same in public.
    let other = FaultyServer::from(Script::new().bare().tool("only"));
    let sandbox = Sandbox::with(&json!({ "a.b": other.config(), "a_b": good() }));
    sandbox
        .run(&["call", "a_b__echo", "text=hello"])
        .exits(0)
        .prints("hello");
    let document = sandbox.run(&["call", "a_b__only", "--json"]).exits(0).json();
    assert_eq!(document["server"], "a.b");
}

#[test]
fn a_tool_is_described_with_its_arguments() {
    let tool = json!({
        "name": "paint", "description": "Paints a wall.\n\nSlowly.",
        "annotations": { "destructiveHint": true },
        "inputSchema": { "type": "object", "required": ["colour"], "properties": {
            "colour": { "enum": ["red", "blue"], "description": "Which one." },
            "coats": { "type": "integer", "default": 2 },
            "wall": { "type": "object", "required": ["width"], "properties": { "width": { "type": "number" } } },
        } },
    });
    let server = FaultyServer::from(Script::new().tool_json(tool));
    let sandbox = Sandbox::with(&json!({ "shop": server.config() }));
    for words in [&["describe", "shop__paint"][..], &["describe", "shop", "paint"]] {
        let ran = sandbox.run(words);
        ran.exits(0)
            .prints("shop__paint  paint of server shop\n  destructive\n")
            .prints("  Paints a wall.\n\n  Slowly.\n")
            .prints("  colour   one of \"red\", \"blue\", required\n           Which one.\n")
            .prints("  coats    integer, default 2\n")
            .prints("  wall     object\n    width  number, required\n");
    }
    let document = sandbox
        .run(&["describe", "shop__paint", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        keys(&document),
        [
            "definition",
            "hints",
            "name",
            "original",
            "server",
            "stale",
            "version"
        ]
    );
    assert_eq!(document["definition"]["inputSchema"]["required"][0], "colour");
    sandbox
        .run(&["describe", "shop", "pain"])
        .exits(2)
        .says("did you mean \"paint\"?");
    Sandbox::with(&json!({ "dying": dying() }))
        .run(&["describe", "dying__x"])
        .exits(3)
        .says("cannot find my database");
}

#[test]
fn a_resource_is_read_from_the_server_that_offers_it() {
    let sandbox = Sandbox::with(&json!({
        "absent": missing(), "demo": good(), "mem": FaultyServer::new().config(),
    }));
    let ran = sandbox.run(&["read", "demo://about"]);
    ran.exits(0).prints("This is the demo server of Mainstay.");
    // By the template that fits, and by the server's name.
    assert_eq!(sandbox.run(&["read", "demo://square/7"]).exits(0).stdout, "49\n");
    assert_eq!(
        sandbox.run(&["read", "demo", "demo://square/8"]).exits(0).stdout,
        "64\n"
    );
    let document = sandbox.run(&["read", "demo://about", "--json"]).exits(0).json();
    assert_eq!(
        keys(&document),
        [
            "error",
            "generation",
            "is_error",
            "result",
            "server",
            "uri",
            "version"
        ]
    );
    assert_eq!(
        (&document["server"], &document["uri"]),
        (&json!("demo"), &json!("demo://about"))
    );
    sandbox
        .run(&["read", "nothing://here"])
        .exits(2)
        .says("no server that is up offers the resource \"nothing://here\"");
    sandbox
        .run(&["read", "dmeo", "demo://about"])
        .exits(2)
        .says("did you mean \"demo\"?");
    let refused = sandbox
        .run(&["read", "demo", "demo://nothing", "--json"])
        .exits(1)
        .json();
    assert_eq!(refused["error"]["outcome"], "answered");
}

#[test]
fn a_prompt_is_got_with_its_arguments() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["prompt", "demo__summarize", "text=A story.", "sentences=2"]);
    assert_eq!(
        ran.exits(0).stdout,
        "user: Summarize this text in 2 sentences:\n\nA story.\n",
        "and a number is text"
    );
    let document = sandbox
        .run(&["prompt", "demo", "summarize", r#"{"text": "x"}"#, "--json"])
        .exits(0)
        .json();
    assert_eq!(document["prompt"], "summarize");
    assert_eq!(document["result"]["messages"][0]["role"], "user");
    sandbox
        .run(&["prompt", "demo__sumarize"])
        .exits(2)
        .says("there is no prompt \"demo__sumarize\"; did you mean \"demo__summarize\"?");
}

#[test]
fn every_command_takes_a_server_from_the_command_line() {
    // The configuration is not looked at, and nothing is remembered.
    let sandbox = Sandbox::new();
    sandbox.configure(&json!({ "other": noting(&sandbox, "started") }));
    for (words, printed) in [
        (&["check"][..], "✔  mainstay  connected"),
        (&["check", "--no-start"], "1 server configured"),
        (&["tools"], "mainstay__echo"),
        (&["describe", "echo"], "text  string, required"),
        (&["describe", "mainstay__echo"], "text  string, required"),
        (&["call", "echo", "text=hello"], "hello"),
        (&["call", "echo", r#"{"text": "hello"}"#, "--json"], "hello"),
        (&["call", "mainstay", "echo", "text=hello"], "hello"),
        (&["describe", "mainstay", "echo"], "text  string, required"),
        (&["read", "demo://square/7"], "49"),
        (&["read", "mainstay", "demo://square/7"], "49"),
        (&["prompt", "summarize", "text=x"], "user: "),
        (&["prompt", "mainstay", "summarize", "text=x"], "user: "),
        (&["ping"], "3 of 3"),
    ] {
        let mut line = words.to_vec();
        line.extend(["--", MAINSTAY, "demo-server"]);
        sandbox.run(&line).exits(0).prints(printed);
    }
    assert!(!sandbox.path("started").exists());
    assert!(!sandbox.path("home/.cache").exists());
    sandbox.run(&["tools", "--server", "x", "--", "y"]).exits(2);
    sandbox.run(&["tools", "--url", "http://x", "--", "y"]).exits(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_takes_an_address_and_a_token_from_a_variable() {
    let server = FaultyHttpServer::start(Script::new(), HttpScript::new())
        .await
        .unwrap();
    let url = server.url("/mcp");
    let sandbox = Sandbox::new();
    for (words, printed) in [
        (&["check"][..], "connected"),
        (&["tools"], "__echo"),
        (&["describe", "echo"], "Returns its arguments unchanged."),
        (&["call", "echo", "key=hello"], "hello"),
        (&["read", "mem://one"], ""),
        (&["prompt", "greet", "who=you"], "Greet you."),
        (&["ping"], "3 of 3"),
    ] {
        let mut line = words.to_vec();
        line.extend(["--url", &url, "--bearer-token-env", "TOKEN"]);
        let child = sandbox.command(&line).env("TOKEN", "hunter2").spawn().unwrap();
        let ran = tokio::task::spawn_blocking(move || finish(child)).await.unwrap();
        ran.exits(0).prints(printed);
    }
}

#[test]
fn no_secret_of_a_command_or_an_address_becomes_a_name() {
    let sandbox = Sandbox::new();
    for line in [
        &["tools", "--url", "http://hunter2@127.0.0.1:9/mcp"][..],
        &["ping", "http://user:hunter2@127.0.0.1:9/mcp"],
        &["wrap", "--url", "http://hunter2@127.0.0.1:9/mcp"],
    ] {
        let ran = sandbox.run(line);
        ran.exits(2).says("--bearer-token-env");
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
    let script = r#"while [ "$1" != demo-server ]; do shift; done; exec "$0" demo-server"#;
    let docker = sandbox.write(
        "work/docker",
        &format!("#!/bin/sh\nset -- {MAINSTAY} \"$@\"\nexec sh -c '{script}' \"$@\"\n"),
    );
    std::fs::set_permissions(&docker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = sandbox.run(&[
        "tools",
        "--",
        "./docker",
        "run",
        "-e",
        "TOKEN=hunter2",
        "image",
        "demo-server",
    ]);
    ran.exits(0).prints("image__echo");
    assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
}

#[test]
fn wrap_needs_no_dashes_before_its_command() {
    let sandbox = Sandbox::new();
    let mut host = crate::host::Host::start(&sandbox, &["wrap", MAINSTAY, "demo-server"]);
    assert!(host.tools().contains(&"echo".to_owned()));
    host.leave().exits(0);
}

#[test]
fn check_can_be_confined_to_some_servers_or_to_the_configuration() {
    let sandbox = Sandbox::new();
    let mut broken = good();
    broken["startup_timeout"] = json!("soon");
    sandbox.configure(&json!({ "good": good(), "other": noting(&sandbox, "started") }));
    sandbox
        .run(&["check", "--server", "good"])
        .exits(0)
        .prints("1 of 1 server up");
    sandbox
        .run(&["check", "--server", "god"])
        .exits(2)
        .says("did you mean \"good\"?");
    sandbox
        .run(&["check", "--no-start"])
        .exits(0)
        .prints("good ")
        .prints("2 servers configured");
    let document = sandbox.run(&["check", "--no-start", "--json"]).exits(0).json();
    assert_eq!(keys(&document), ["configuration", "ok", "servers", "version"]);
    assert_eq!(
        keys(&document["servers"][0]),
        ["address", "command", "enabled", "lazy", "required", "server"]
    );
    assert!(!sandbox.path("started").exists());

    sandbox.configure(&json!({ "good": good(), "broken": broken }));
    let ran = sandbox.run(&["check", "--no-start"]);
    ran.exits(2)
        .says("startup_timeout")
        .prints("1 server configured; not used, for errors: broken");
    let document = sandbox.run(&["check", "--no-start", "--json"]).exits(2).json();
    assert_eq!(document["ok"], false);
}

#[test]
fn descriptions_are_not_cut_in_a_pipe() {
    let long = "word ".repeat(60);
    let tool = json!({ "name": "t", "description": long, "inputSchema": { "type": "object" } });
    let sandbox = Sandbox::with(&json!({ "s": FaultyServer::from(Script::new().tool_json(tool)).config() }));
    let ran = sandbox.run(&["tools"]);
    ran.exits(0).prints(long.trim());
}

#[test]
fn one_fact_is_said_once_and_the_remedy_comes_last() {
    let sandbox = Sandbox::with(&json!({ "web": { "url": "http://127.0.0.1:9/mcp" }, "dying": dying() }));
    let ran = sandbox.run(&["call", "web", "x"]);
    ran.exits(3)
        .says("error: server web is reconnecting: connection refused\n");
    assert_eq!(
        ran.stderr.to_lowercase().matches("refused").count(),
        1,
        "{}",
        ran.stderr
    );
    let ran = sandbox.run(&["call", "dying", "x"]);
    assert_eq!(
        ran.exits(3).stderr.matches("cannot find my database").count(),
        1,
        "{}",
        ran.stderr
    );
    let ran = sandbox.run(&["call", "dying", "x", "--config", "nowhere.json"]);
    ran.exits(2);
    let ran = sandbox.run(&["serve", "--listen", "0.0.0.0:0"]);
    let said = ran.exits(2).stderr.clone();
    assert!(
        said.find("token").unwrap() < said.find("--token-file").unwrap(),
        "{said}"
    );
}

/// Starts a call, and interrupts it once the ledger says that it has come so far.
pub(crate) fn interrupted(sandbox: &Sandbox, line: &[&str], signal: Signal, when: impl Fn() -> bool) -> Ran {
    let child: Child = sandbox.command(line).spawn().unwrap();
    assert!(poll::comes_true(poll::LIMIT, when), "it comes so far");
    kill_process(Pid::from_child(&child), signal).unwrap();
    finish(child)
}

#[test]
fn an_interrupted_call_says_whether_it_may_have_run() {
    let ledger = Ledger::temporary();
    let runs = FaultyServer::new().ledger(&ledger);
    let sandbox = Sandbox::with(&json!({ "s": runs.config() }));
    let line = ["call", "s", "sleep_ms", r#"{"ms": 60000}"#];
    for (signal, code, name) in [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM")] {
        let before = ledger.count("call sleep_ms");
        let ran = interrupted(&sandbox, &line, signal, || ledger.count("call sleep_ms") > before);
        ran.exits(code)
            .says("the call may have run")
            .says("stopping the servers");

        let before = ledger.count("call sleep_ms");
        let line = [&line[..], &["--json"]].concat();
        let ran = interrupted(&sandbox, &line, signal, || ledger.count("call sleep_ms") > before);
        let document = ran.exits(code).json();
        assert_eq!(document["server"], "s");
        assert_eq!(document["is_error"], true);
        assert_eq!(document["error"]["message"], format!("interrupted by {name}"));
        assert_eq!(document["error"]["outcome"], "unknown");
        assert_eq!(document["error"]["may_have_run"], true);
    }
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_call_that_is_interrupted_before_its_server_is_up_did_not_run() {
    let ledger = Ledger::temporary();
    let hangs = FaultyServer::new().ledger(&ledger).on(Step::Start, Fault::Hang);
    let sandbox = Sandbox::with(&json!({ "s": hangs.config() }));
    let line = ["call", "s", "append", "key=x"];
    let ran = interrupted(&sandbox, &line, Signal::INT, || !ledger.pids().is_empty());
    ran.exits(130).says("the call was not sent: it did not run");
    let starts = ledger.pids().len();
    let line = ["call", "s", "append", "key=x", "--json"];
    let ran = interrupted(&sandbox, &line, Signal::INT, || ledger.pids().len() > starts);
    let document = ran.exits(130).json();
    assert_eq!(document["error"]["outcome"], "not_sent");
    assert_eq!(document["error"]["may_have_run"], false);
}
