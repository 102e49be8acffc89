//! `mainstay record` and `mainstay replay`: a session is recorded, and played again.

use std::fs::{self, File};
use std::process::Stdio;

use mainstay_partner::{Partners, partners};
use serde_json::{Value, json};

use crate::daemon::{Shared, wait_until};
use crate::host::Host;
use crate::sandbox::{Ran, Sandbox, finish, good, shell};

/// A daemon that records whole messages of these servers.
fn recording(servers: &Value, options: &[&str]) -> Shared {
    let shared = Shared {
        sandbox: Sandbox::with(servers),
    };
    let line: Vec<&str> = ["daemon", "start"].iter().chain(options).copied().collect();
    shared.sandbox.run(&line).exits(0);
    let name = servers
        .as_object()
        .and_then(|servers| servers.keys().next())
        .expect("a server");
    wait_until("the server is connected", || {
        let status = shared.sandbox.run(&["status", "--json"]).json();
        status["servers"][0]["name"] == *name && status["servers"][0]["state"] == "connected"
    });
    shared
}

/// Records the server into this file.
fn record(shared: &Shared, server: &str, file: &str) -> String {
    let ran = shared.sandbox.run(&["record", server]);
    ran.exits(0);
    let path = shared.sandbox.write(file, &ran.stdout);
    path.display().to_string()
}

fn replay(shared: &Shared, arguments: &[&str]) -> Ran {
    let line: Vec<&str> = ["replay"].iter().chain(arguments).copied().collect();
    shared.sandbox.run(&line)
}

/// A recording of a few calls to the demo server.
fn recorded_demo() -> (Shared, String) {
    let shared = recording(&json!({ "demo": good() }), &["--record"]);
    let call = |words: &[&str]| {
        let line: Vec<&str> = ["call", "demo"].iter().chain(words).copied().collect();
        shared.sandbox.run(&line)
    };
    call(&["echo", "text=hello"]).exits(0);
    call(&["echo", "text=again"]).exits(0);
    call(&["echo"]);
    let file = record(&shared, "demo", "demo.jsonl");
    (shared, file)
}

#[test]
fn a_recording_replays_equal_and_a_planted_difference_is_told_with_its_place() {
    let (shared, file) = recorded_demo();
    let text = fs::read_to_string(&file).expect("written");
    let header: Value = serde_json::from_str(text.lines().next().expect("a header")).expect("JSON");
    assert_eq!(
        (&header["type"], &header["version"]),
        (&json!("mainstay-recording"), &json!(1))
    );
    assert_eq!(
        (&header["server"], &header["has_payloads"]),
        (&json!("demo"), &json!(true))
    );

    replay(&shared, &[&file]).exits(0).prints("0 different");
    let document = replay(&shared, &[&file, "--json", "demo"]).exits(0).json();
    assert!(document["compared"].as_u64() >= Some(4), "{document}");
    assert_eq!(document["equal"], document["compared"]);

    // The answer of the second call was another one.
    let at = text
        .find("again\"}]")
        .or_else(|| text.rfind("again"))
        .expect("it was answered");
    let planted = format!("{}other{}", &text[..at], &text[at + "again".len()..]);
    let planted = shared
        .sandbox
        .write("planted.jsonl", &planted)
        .display()
        .to_string();
    let ran = replay(&shared, &[&planted]);
    ran.exits(1)
        .prints("tools/call echo differs")
        .prints("/result/content/0/text")
        .prints("other")
        .prints("again");
    assert_eq!(ran.stdout.matches("differs").count(), 1, "{}", ran.stdout);
    replay(&shared, &[&planted, "--ignore", "/result/content/*/text"]).exits(0);
    replay(&shared, &[&planted, "--ignore", "text"]).exits(0);
}

#[test]
fn a_server_that_answers_otherwise_or_dies_is_told() {
    let (shared, file) = recorded_demo();
    let other = r#"while read -r line; do id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'); case "$line" in
        *initialize\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"x\",\"version\":\"1\"}}}";;
        *tools/list*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[]}}";;
        *server/discover*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}";;
        *tools/call*) exit 4;;
        *\"id\":*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}";; esac; done"#;
    let ran = replay(&shared, &[&file, "--timeout", "20s", "--", "sh", "-c", other]);
    ran.exits(1)
        .prints("tools/list differs")
        .prints("no answer")
        .prints("tools/call echo differs");
    replay(&shared, &[&file, "--", "no-such-program-anywhere"])
        .exits(1)
        .says("no-such-program-anywhere");
    replay(&shared, &[&file, "unknown"])
        .exits(2)
        .says("there is no server \"unknown\"");
}

#[test]
fn a_secret_in_an_answer_is_compared_and_shown_by_its_name() {
    let script = r#"while read -r line; do id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/'); case "$line" in
        *initialize\"*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"x\",\"version\":\"1\"}}}";;
        *tools/list*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"who\",\"inputSchema\":{\"type\":\"object\"}}]}}";;
        *tools/call*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"token is $TOKEN\"}]}}";;
        *\"id\":*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}";; esac; done"#;
    let mut server = shell(script);
    server["env"] = json!({ "TOKEN": "secret-of-the-server" });
    let shared = recording(&json!({ "who": server }), &["--record"]);
    let ran = shared.sandbox.run(&["call", "who", "who"]);
    ran.exits(0).prints("token is secret-of-the-server");
    let file = record(&shared, "who", "who.jsonl");
    let text = fs::read_to_string(&file).expect("written");
    assert!(text.contains("token is [TOKEN]"), "{text}");
    replay(&shared, &[&file]).exits(0).prints("0 different");
    let planted = text.replace("token is", "token was");
    let planted = shared.sandbox.write("planted.jsonl", &planted);
    for json in [&[][..], &["--json"]] {
        let line: Vec<&str> = [&[planted.to_str().unwrap()][..], json].concat();
        let ran = replay(&shared, &line);
        ran.exits(1)
            .prints("token was [TOKEN]")
            .prints("token is [TOKEN]");
        assert!(!ran.stdout.contains("secret-of"), "{}", ran.stdout);
    }
}

#[test]
fn what_cannot_be_played_is_said_in_one_line() {
    let (shared, file) = recorded_demo();
    let text = fs::read_to_string(&file).expect("written");
    let file_with = |name: &str, text: &str| shared.sandbox.write(name, text).display().to_string();

    let cut = file_with("cut.jsonl", &text[..text.len() - 40]);
    replay(&shared, &[&cut]).exits(0).says("is cut off");
    let newer = file_with("newer.jsonl", &text.replacen("\"version\":1", "\"version\":2", 1));
    replay(&shared, &[&newer]).exits(2).says("its format is 2");
    let none = file_with("none.jsonl", "hello\n");
    replay(&shared, &[&none]).exits(2).says("is no recording");
    replay(&shared, &["missing.jsonl"]).exits(2).says("missing.jsonl");
    let bare = file_with(
        "bare.jsonl",
        &text
            .lines()
            .filter(|line| !line.contains("\"message\""))
            .collect::<Vec<_>>()
            .join("\n")
            .replace("\"messages\":", "\"messages\":0,\"were\":"),
    );
    replay(&shared, &[&bare]).exits(2).says("no request of a client");

    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("a full device");
    let ran = finish(
        shared
            .sandbox
            .command(&["record", "demo"])
            .stdout(Stdio::from(full))
            .spawn()
            .expect("started"),
    );
    ran.exits(1).says("No space left on device");
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    shared
        .sandbox
        .run(&["call", "demo", "echo", "text=still"])
        .exits(0)
        .prints("still");
}

#[test]
fn without_the_option_heads_are_recorded_and_no_word_of_a_call() {
    let shared = recording(&json!({ "demo": good() }), &[]);
    shared
        .sandbox
        .run(&["call", "demo", "echo", "text=unmistakable"])
        .exits(0)
        .prints("unmistakable");
    let file = record(&shared, "demo", "heads.jsonl");
    let text = fs::read_to_string(&file).expect("written");
    assert!(text.contains("tools/call") && text.contains("echo"), "{text}");
    assert!(!text.contains("unmistakable"), "{text}");
    replay(&shared, &[&file])
        .exits(2)
        .says("holds heads only")
        .says("--record");
    shared
        .sandbox
        .run(&["record", "dem"])
        .exits(2)
        .says("did you mean");
}

#[test]
fn without_a_daemon_nothing_is_recorded() {
    let sandbox = Sandbox::with(&json!({ "demo": good() }));
    let ran = sandbox.run(&["record", "demo"]);
    ran.exits(1).says("no daemon runs");
    assert_eq!(ran.stdout, "");
}

/// The real reference server, with its tools, prompts and resources, and a host that it can ask.
#[test]
fn a_session_with_the_reference_server_replays_equal() {
    let Some(Partners { everything, .. }) = partners() else {
        return;
    };
    let server = json!({ "command": everything.command, "args": everything.args });
    let shared = recording(&json!({ "everything": server }), &["--record"]);
    let mut host = Host::start(&shared.sandbox, &["connect", "everything"]);
    for (method, params) in [
        (
            "tools/call",
            json!({ "name": "echo", "arguments": { "message": "hello" } }),
        ),
        (
            "tools/call",
            json!({ "name": "get-sum", "arguments": { "a": 20, "b": 22 } }),
        ),
        (
            "tools/call",
            json!({ "name": "get-structured-content", "arguments": { "location": "New York" } }),
        ),
        ("tools/call", json!({ "name": "no-such-tool", "arguments": {} })),
        (
            "tools/call",
            json!({ "name": "get-sum", "arguments": { "a": "no number" } }),
        ),
        (
            "prompts/get",
            json!({ "name": "args-prompt", "arguments": { "city": "Ghent" } }),
        ),
        (
            "resources/read",
            json!({ "uri": "demo://resource/static/document/architecture.md" }),
        ),
    ] {
        let answer = host.ask(method, &params);
        assert!(
            answer["result"].is_object() || answer["error"].is_object(),
            "{answer}"
        );
    }
    let file = record(&shared, "everything", "everything.jsonl");
    drop(host);
    let command = everything.command.display().to_string();
    let mut line = vec![file.as_str(), "--json", "--", command.as_str()];
    let arguments: Vec<String> = everything.args.iter().map(ToString::to_string).collect();
    line.extend(arguments.iter().map(String::as_str));
    let ran = replay(&shared, &line);
    let document = ran.json();
    assert_eq!(document["different"], json!([]), "{document:#}");
    assert!(document["compared"].as_u64() >= Some(10), "{document}");
    ran.exits(0);
}
