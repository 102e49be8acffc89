use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use mainstay_testkit::{AnswerFault, Fault, FaultyServer, Rule, Step};
use serde_json::json;

use crate::sandbox::{Sandbox, dying, finish, good, keys, missing, shell, silent};

#[test]
fn the_answer_is_printed_and_nothing_else() {
    let sandbox = Sandbox::new();
    for arguments in [r#"{"text": "hello"}"#, "text=hello"] {
        let ran = sandbox.run(&["call", "demo", "echo", arguments]);
        assert_eq!(ran.exits(0).stdout, "hello\n");
    }
    let ran = sandbox.run(&["call", "demo", "demo__echo", "text=5"]);
    assert_eq!(
        ran.exits(0).stdout,
        "5\n",
        "by its public name, and a number that is text"
    );
    sandbox.assert_nothing_is_left();
}

#[test]
fn arguments_can_come_from_stdin() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["call", "demo", "echo", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(br#"{"text": "from stdin"}"#)
        .unwrap();
    assert_eq!(finish(child).exits(0).stdout, "from stdin\n");
}

#[test]
fn a_call_that_was_cut_off_may_have_run() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["call", "demo", "crash"]);
    ran.exits(4)
        .says("the connection to server demo was lost")
        .says("exit status 1")
        .says("stderr: demo server: crashing")
        .says("the call may have run");
    assert_eq!(ran.stdout, "");
    let document = sandbox.run(&["call", "demo", "crash", "--json"]).exits(4).json();
    assert_eq!(document["error"]["outcome"], "unknown");
    assert_eq!(document["error"]["may_have_run"], true);
    assert_eq!(document["error"]["failure"]["exit_code"], 1);
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_call_whose_result_is_past_the_bound_is_said_to_have_run() {
    let huge = Fault::Answer(AnswerFault::Huge(70 << 20));
    let server = FaultyServer::new().rule(Rule::new(Step::Call, huge));
    let sandbox = Sandbox::with(&json!({ "big": server.config() }));
    let ran = sandbox.run(&["call", "big", "echo"]);
    ran.exits(4)
        .says("the answer of server big cannot be used")
        .says("the call has run");
    assert!(!ran.stderr.contains("says why"), "{}", ran.stderr);
    let document = sandbox.run(&["call", "big", "echo", "--json"]).exits(4).json();
    assert_eq!(document["error"]["outcome"], "answered");
    assert_eq!(document["error"]["may_have_run"], true);
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_call_whose_answer_cannot_be_written_is_said_to_have_run() {
    for json in [&[][..], &["--json"]] {
        let sandbox = Sandbox::with(&json!({ "demo": good() }));
        let line: Vec<&str> = [&["call", "demo", "echo", "text=hi"][..], json].concat();
        let mut command = sandbox.command(&line);
        command.stdout(fs::File::create("/dev/full").unwrap());
        finish(command.spawn().unwrap())
            .exits(4)
            .says("the call has run: cannot write to stdout");
    }
}

#[test]
fn a_call_to_a_server_that_is_not_up_did_not_run() {
    let sandbox = Sandbox::with(&json!({ "absent": missing(), "dying": dying(), "silent": silent() }));
    sandbox
        .run(&["call", "absent", "echo"])
        .exits(3)
        .says("not found")
        .says("the call was not sent: it did not run");
    sandbox
        .run(&["call", "dying", "echo"])
        .exits(3)
        .says("exit status 3")
        .says("stderr: cannot find my database");
    let ran = sandbox.run(&["call", "silent", "echo", "--timeout", "300ms", "--json"]);
    let document = ran.exits(3).json();
    assert_eq!(document["error"]["outcome"], "not_sent");
    assert_eq!(document["error"]["may_have_run"], false);
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_call_that_takes_too_long_may_have_run() {
    let ran = Sandbox::new().run(&["call", "demo", "sleep", "seconds=60", "--timeout", "10s"]);
    ran.exits(4).says("did not answer in time");
    assert_eq!(ran.stderr.matches("may have run").count(), 1, "{}", ran.stderr);
}

#[test]
fn an_error_the_server_answers_with_is_no_result() {
    let ran = Sandbox::new().run(&["call", "demo", "add", r#"{"a": "one"}"#]);
    ran.exits(1).says("error: ");
    assert_eq!(ran.stdout, "");
}

#[test]
fn arguments_that_are_not_understood_start_nothing() {
    let sandbox = Sandbox::new();
    let started = sandbox.path("started");
    let server = shell(&format!("touch '{}'; exit 1", started.display()));
    sandbox.write(
        "home/.config/mainstay/mcp.json",
        &json!({ "mcpServers": { "s": server } }).to_string(),
    );
    for (arguments, said) in [
        (
            r#"{"text": }"#,
            "the arguments are not JSON: expected value at line 1 column 10",
        ),
        ("[1]", "not a JSON object"),
        ("hello", "neither a JSON object nor KEY=VALUE"),
    ] {
        sandbox.run(&["call", "s", "echo", arguments]).exits(2).says(said);
    }
    assert!(!started.exists());
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let sandbox = Sandbox::with(&json!({ "files": good() }));
    sandbox
        .run(&["call", "flies", "echo"])
        .exits(2)
        .says("there is no server \"flies\"; did you mean \"files\"?");
    sandbox
        .run(&["call", "files", "ecoh"])
        .exits(2)
        .says("there is no tool \"ecoh\"; did you mean \"echo\"?");
    sandbox
        .run(&["call", "files", "xyzzy"])
        .exits(2)
        .says("`mainstay tools` lists them");
}

#[test]
fn json_has_the_documented_keys_and_the_result_as_it_was_sent() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["call", "demo", "echo", "text=hello", "--json"]);
    let document = ran.exits(0).json();
    let expected = [
        "error",
        "generation",
        "is_error",
        "result",
        "server",
        "tool",
        "version",
    ];
    assert_eq!(keys(&document), expected);
    assert_eq!(document["version"], 1);
    assert_eq!(document["is_error"], false);
    assert_eq!(
        document["result"]["content"][0],
        json!({ "type": "text", "text": "hello" })
    );

    let document = sandbox.run(&["call", "demo", "crash", "--json"]).exits(4).json();
    assert_eq!(keys(&document), expected);
    assert_eq!(
        keys(&document["error"]),
        [
            "failure",
            "may_have_run",
            "message",
            "outcome",
            "retry_after_ms",
            "rpc"
        ]
    );
}
