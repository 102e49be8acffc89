//! What a person is told about a mistake: of his own, or of a program that he takes for a server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use mainstay_testkit::{AnswerFault, Fault, FaultyServer, Step};
use serde_json::json;

use crate::sandbox::{MAINSTAY, Sandbox, dying, missing, shell};

#[test]
fn a_secret_in_the_arguments_is_on_no_screen_and_is_warned_of() {
    let mut server = dying();
    for arg in ["--api-key=sk-hunter2", "-e", "TOKEN=hunter2"] {
        server["args"].as_array_mut().expect("arguments").push(json!(arg));
    }
    let sandbox = Sandbox::with(&json!({ "files": server }));
    for line in [&["check"][..], &["check", "--json"], &["check", "--no-start"]] {
        let ran = sandbox.run(line);
        let seen = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!seen.contains("hunter2"), "{line:?}: {seen}");
        ran.says(
            "this argument holds a secret in plain text; put the secret into a variable, and write ${NAME}",
        );
        ran.prints("--api-key=***").prints("TOKEN=***");
    }
}

#[test]
fn the_value_of_a_variable_is_on_no_screen_wherever_the_configuration_uses_it() {
    let secret = "hunter2-hunter2";
    let shared = crate::daemon::Shared {
        sandbox: Sandbox::with(&json!({
            "command": { "command": "/nowhere/${HUNTED}/program" },
            "name": { "command": "program-${HUNTED}" },
            "argument": { "command": "sh", "args": ["-c", "echo $0 >&2; exit 3", "${HUNTED}"] },
            "directory": { "command": "sh", "cwd": "/nowhere/${HUNTED}" },
            "address": { "url": "http://127.0.0.1:9/${HUNTED}?key=${HUNTED}" },
            "host": { "url": "http://${HUNTED}.invalid/mcp" },
        })),
    };
    let sandbox = &shared.sandbox;
    let run = |line: &[&str]| {
        let mut command = sandbox.command(line);
        let ran = crate::sandbox::finish(command.env("HUNTED", secret).spawn().expect("it starts"));
        format!("{}{}", ran.stdout, ran.stderr)
    };
    let log = fs::File::create(sandbox.path("log")).unwrap();
    let mut daemon = sandbox.command(&["daemon", "run"]);
    let mut daemon = daemon.env("HUNTED", secret).stderr(log).spawn().unwrap();
    crate::daemon::wait_until("every server has failed", || {
        let servers = shared.sandbox.run(&["status", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&servers.stdout).unwrap_or_default();
        document["servers"].as_array().is_some_and(|servers| {
            let failed = |server: &serde_json::Value| !server["last_failure"].is_null();
            servers.len() == 6 && servers.iter().all(failed)
        })
    });
    for line in [
        &["status"][..],
        &["status", "--json"],
        &["daemon", "status", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["events"],
        &["events", "--json"],
        &["logs", "argument"],
        &["call", "directory", "x"],
        &["check", "--no-daemon", "--timeout", "5s"],
        &["check", "--no-daemon", "--timeout", "5s", "--json"],
        &["check", "--no-start"],
    ] {
        let seen = run(line);
        assert!(!seen.contains(secret), "{line:?}: {seen}");
    }
    let log = fs::read_to_string(sandbox.path("log")).unwrap();
    assert!(!log.contains(secret), "{log}");
    run(&["daemon", "stop"]);
    daemon.wait().unwrap();
}

#[test]
fn a_program_that_reads_and_does_not_answer_is_doubted_while_it_is_waited_for() {
    let sandbox = Sandbox::with(&json!({ "cow": shell("while read -r line; do :; done") }));
    sandbox
        // After ten seconds the attempt has failed.
        .run(&["check", "--timeout", "9s"])
        .exits(1)
        .says("cow: connecting, reads its input and does not answer, ")
        .prints("doing      reads its input and does not answer, ")
        .prints("is it an MCP server on stdin and stdout? run it by hand");
    sandbox.assert_nothing_is_left();
}

#[test]
fn a_program_that_ends_without_an_error_is_said_to_be_no_server() {
    let sandbox = Sandbox::with(&json!({ "cow": shell("echo moo") }));
    sandbox
        .run(&["check"])
        .exits(1)
        .says("this does not look like an MCP server, which waits for messages on stdin")
        .prints("is it an MCP server on stdin and stdout? run it by hand");
}

#[test]
fn a_disabled_server_may_lack_its_values() {
    let off = json!({ "command": "x", "env": { "TOKEN": "${NO_SUCH_TOKEN}" }, "disabled": true });
    let sandbox = Sandbox::with(&json!({ "good": crate::sandbox::good(), "off": off }));
    sandbox
        .run(&["check"])
        .exits(0)
        .says("note: ")
        .says("the variable NO_SUCH_TOKEN is not set, which matters only when the server is enabled")
        .prints("○  off     disabled");
}

#[test]
fn only_a_call_is_said_not_to_have_run() {
    let sandbox = Sandbox::with(&json!({ "dying": dying() }));
    let described = sandbox.run(&["describe", "dying__x"]);
    described.exits(3).says("cannot find my database");
    assert!(!described.stderr.contains("the call"), "{}", described.stderr);
    sandbox
        .run(&["call", "dying__x"])
        .exits(3)
        .says("the call was not sent: it did not run");
}

#[test]
fn a_result_that_is_no_object_is_a_failure_of_a_call_that_may_have_run() {
    let server = FaultyServer::new().on(Step::Call, Fault::Answer(AnswerFault::ResultIsNumber));
    let sandbox = Sandbox::with(&json!({ "odd": server.config() }));
    sandbox
        .run(&["call", "odd", "echo"])
        .exits(4)
        .says("cannot be used: its result is not an object")
        .says("the call may have run");
    let document = sandbox.run(&["call", "odd", "echo", "--json"]).exits(4).json();
    assert_eq!(document["error"]["outcome"], "unknown");
}

#[test]
fn two_dashes_with_nothing_behind_them_are_a_mistake() {
    let sandbox = Sandbox::new();
    for line in [&["check", "--"][..], &["call", "echo", "--"], &["tools", "--"]] {
        sandbox.run(line).exits(2).says("name a command behind `--`");
    }
}

#[test]
fn a_bad_answer_to_initialize_is_said_in_the_words_of_the_protocol() {
    let server = FaultyServer::new().on(Step::Initialize, Fault::Result(json!({ "capabilities": {} })));
    let sandbox = Sandbox::with(&json!({ "odd": server.config() }));
    sandbox
        .run(&["check"])
        .exits(1)
        .says("the answer to initialize is not valid: it has no `protocolVersion`");
}

/// The address of something that answers every connection with these bytes.
fn answering(answer: impl AsRef<[u8]> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_ref());
        }
    });
    url
}

#[test]
fn a_server_that_speaks_tls_is_suspected_where_plain_http_gets_no_answer_of_http() {
    // How a server of TLS answers what is no handshake.
    let url = answering(b"\x15\x03\x01\x00\x02\x02\x46");
    Sandbox::new()
        .run(&["check", "--url", &url])
        .exits(1)
        .prints("if it speaks TLS, write https://");
}

#[test]
fn a_web_page_is_not_taken_for_a_server_that_fails() {
    let page = "<!DOCTYPE HTML>\n<html><title>Error</title></html>";
    let head = "HTTP/1.1 501 Unsupported method\r\nContent-Type: text/html\r\nConnection: close";
    let url = answering(format!("{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len()));
    Sandbox::new()
        .run(&["check", "--url", &url])
        .exits(1)
        .prints("a web page answered: is this the address of an MCP server?");
}

#[test]
fn the_path_that_was_searched_is_for_the_terminal_alone() {
    let sandbox = Sandbox::with(&json!({ "absent": missing() }));
    let ran = sandbox.run(&["check", "--json"]);
    let message = ran.json()["servers"][0]["error"]["message"].to_string();
    assert!(
        message.contains("not found in any directory of PATH: install it") && !message.contains("/bin"),
        "{message}"
    );
    let ran = sandbox.run(&["check"]);
    ran.exits(1).prints("PATH       /");
}

#[test]
fn the_hint_at_what_there_is_names_the_server_of_the_command_line() {
    Sandbox::new()
        .run(&["call", "zzz", "--", MAINSTAY, "demo-server"])
        .exits(2)
        .says(&format!("`mainstay tools -- {MAINSTAY} demo-server` lists them"));
}

#[test]
fn a_server_s_name_beside_a_server_of_the_command_line_is_refused_with_the_remedy() {
    let sandbox = Sandbox::new();
    for (words, what) in [
        (&["call", "time", "echo", "text=x"][..], "tool \"echo\""),
        (&["describe", "time", "echo"], "tool \"echo\""),
        (&["prompt", "time", "summarize"], "prompt \"summarize\""),
        (&["read", "time", "demo://about"], "resource \"demo://about\""),
    ] {
        let mut line = words.to_vec();
        line.extend(["--", MAINSTAY, "demo-server"]);
        sandbox.run(&line).exits(2).says(&format!(
            "there is no server \"time\": the command line names the server, \"mainstay\"; leave \"time\" out, and name the {what} alone"
        ));
    }
}
