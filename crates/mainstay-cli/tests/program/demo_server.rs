//! The demo server as a process, seen by a client on its pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use mainstay_testkit::poll::{self, LIMIT};
use serde_json::{Value, json};

struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    last_id: u64,
}

impl Client {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mainstay"))
            .arg("demo-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start the demo server");
        let stdin = child.stdin.take();
        let messages = read_messages(child.stdout.take().expect("a pipe"));
        Self {
            child,
            stdin,
            messages,
            last_id: 0,
        }
    }

    fn line(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("still open"), "{line}").expect("write to the server");
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.line(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    fn next(&mut self) -> Value {
        self.messages.recv_timeout(LIMIT).expect("a message in time")
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn ask_modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        self.ask(method, &params)
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    fn wait(&mut self) -> ExitStatus {
        let ended = poll::look_for(LIMIT, || self.child.try_wait().expect("a child of ours"));
        ended.unwrap_or_else(|| panic!("still running after {LIMIT:?}"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn read_messages(stdout: ChildStdout) -> Receiver<Value> {
    let (sender, messages) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let message = serde_json::from_str(&line.expect("text")).expect("each line is a JSON message");
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    messages
}

#[test]
fn the_legacy_handshake_agrees_on_the_requested_version() {
    let mut client = Client::start();
    let hello = client.ask(
        "initialize",
        &json!({ "protocolVersion": "2025-03-26", "capabilities": {} }),
    );
    assert_eq!(hello["result"]["protocolVersion"], "2025-03-26");
    assert_eq!(hello["result"]["serverInfo"]["name"], "mainstay-demo");
    client.notify("notifications/initialized", &json!({}));
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
    let unknown = client.ask("initialize", &json!({ "protocolVersion": "1999-01-01" }));
    assert_eq!(unknown["result"]["protocolVersion"], "2025-11-25");
}

#[test]
fn a_modern_client_discovers_lists_and_calls_without_a_handshake() {
    let mut client = Client::start();
    let found = client.ask_modern("server/discover", json!({}))["result"].clone();
    assert_eq!(found["supportedVersions"][0], "2026-07-28");
    let required = [
        "cacheScope",
        "capabilities",
        "resultType",
        "supportedVersions",
        "ttlMs",
    ];
    assert!(
        required.iter().all(|member| found.get(member).is_some()),
        "{found}"
    );
    let tools = client.ask_modern("tools/list", json!({}))["result"].clone();
    assert_eq!(
        (&tools["resultType"], &tools["cacheScope"]),
        (&json!("complete"), &json!("public"))
    );
    let sum = client.ask_modern(
        "tools/call",
        json!({ "name": "add", "arguments": { "a": 2, "b": 3 } }),
    );
    assert_eq!(sum["result"]["structuredContent"]["sum"], 5);
    assert_eq!(client.ask_modern("ping", json!({}))["error"]["code"], -32601);
}

#[test]
fn every_kind_of_offer_is_listed_and_can_be_used() {
    let mut client = Client::start();
    for (method, member, count) in [
        ("tools/list", "tools", 8),
        ("prompts/list", "prompts", 1),
        ("resources/list", "resources", 1),
        ("resources/templates/list", "resourceTemplates", 1),
    ] {
        let list = client.ask(method, &json!({}));
        assert_eq!(
            list["result"][member].as_array().map(Vec::len),
            Some(count),
            "{list}"
        );
    }
    assert_eq!(
        client.call("echo", &json!({ "text": "héllo" }))["result"]["content"][0]["text"],
        "héllo"
    );
    let stats = client.call("text_stats", &json!({ "text": "one two\nthree" }));
    assert_eq!(
        stats["result"]["structuredContent"],
        json!({ "characters": 13, "words": 3, "lines": 2 })
    );
    let now = client.call("time_now", &json!({}));
    assert!(
        now["result"]["structuredContent"]["utc"]
            .as_str()
            .is_some_and(|utc| utc.ends_with('Z'))
    );
    let prompt = client.ask(
        "prompts/get",
        &json!({ "name": "summarize", "arguments": { "text": "T" } }),
    );
    assert!(
        prompt["result"]["messages"][0]["content"]["text"]
            .as_str()
            .is_some_and(|text| text.ends_with('T'))
    );
    let about = client.ask("resources/read", &json!({ "uri": "demo://about" }));
    assert!(about["result"]["contents"][0]["text"].is_string());
    let square = client.ask("resources/read", &json!({ "uri": "demo://square/12" }));
    assert_eq!(square["result"]["contents"][0]["text"], "144");
}

#[test]
fn a_sleeping_call_blocks_no_other() {
    let mut client = Client::start();
    client.send(
        "tools/call",
        &json!({ "name": "sleep", "arguments": { "seconds": 3600 } }),
    );
    client.call("echo", &json!({ "text": "meanwhile" }));
}

#[test]
fn a_cancelled_call_is_never_answered_and_its_id_is_free_again() {
    let mut client = Client::start();
    let cancelled = client.send(
        "tools/call",
        &json!({ "name": "sleep", "arguments": { "seconds": 0.2 } }),
    );
    client.notify("notifications/cancelled", &json!({ "requestId": cancelled }));
    // Had the first call gone on, its answer would come before this one.
    client.last_id = cancelled - 1;
    let slept = client.call("sleep", &json!({ "seconds": 0.4 }));
    assert_eq!(slept["result"]["content"][0]["text"], "slept 0.4 s");
}

#[test]
fn an_id_that_is_still_in_use_is_refused() {
    let mut client = Client::start();
    let sleeping = client.send(
        "tools/call",
        &json!({ "name": "sleep", "arguments": { "seconds": 3600 } }),
    );
    client.last_id = sleeping - 1;
    assert_eq!(
        client.call("echo", &json!({ "text": "x" }))["error"]["code"],
        -32600
    );
}

#[test]
fn progress_is_reported_in_order_when_asked_for_and_not_otherwise() {
    let mut client = Client::start();
    let arguments = json!({ "to": 3, "interval_ms": 1 });
    let meta = json!({ "progressToken": "p" });
    let id = client.send(
        "tools/call",
        &json!({ "name": "count", "arguments": arguments, "_meta": meta }),
    );
    for step in 1..=3 {
        let progress = client.next();
        assert_eq!(progress["method"], "notifications/progress");
        let params = &progress["params"];
        assert_eq!(
            (&params["progressToken"], &params["progress"]),
            (&json!("p"), &json!(step))
        );
    }
    assert_eq!(client.next()["id"], id);
    assert_eq!(
        client.call("count", &arguments)["result"]["content"][0]["text"],
        "counted to 3"
    );
}

#[test]
fn log_messages_follow_the_level_the_client_set() {
    let mut client = Client::start();
    let debug = json!({ "name": "log", "arguments": { "message": "m", "level": "debug" } });
    assert!(client.ask("tools/call", &debug)["result"].is_object());
    client.ask("logging/setLevel", &json!({ "level": "debug" }));
    client.send("tools/call", &debug);
    let logged = client.next();
    assert_eq!(logged["method"], "notifications/message");
    assert_eq!(logged["params"]["data"], "m");
    client.next();
    assert_eq!(
        client.ask("logging/setLevel", &json!({ "level": "loud" }))["error"]["code"],
        -32602
    );
    // In the modern era each request says for itself what it wants.
    assert!(client.ask_modern("tools/call", debug)["result"].is_object());
}

#[test]
fn bad_input_gets_its_error_and_the_server_goes_on() {
    let mut client = Client::start();
    for (line, code) in [
        ("{oops", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x/none"}"#, -32601),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"demo://none"}}"#,
            -32002,
        ),
    ] {
        client.line(line);
        assert_eq!(client.next()["error"]["code"], code, "{line}");
    }
    client.line("");
    client.line(r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#);
    assert_eq!(client.ask("ping", &json!({}))["result"], json!({}));
}

#[test]
fn it_exits_cleanly_when_its_input_ends_even_with_a_call_running() {
    let mut client = Client::start();
    client.send(
        "tools/call",
        &json!({ "name": "sleep", "arguments": { "seconds": 3600 } }),
    );
    client.ask("ping", &json!({}));
    drop(client.stdin.take());
    assert!(client.wait().success());
}

#[test]
fn what_was_asked_before_the_end_of_input_is_still_answered() {
    let mut client = Client::start();
    let id = client.send(
        "tools/call",
        &json!({ "name": "echo", "arguments": { "text": "last" } }),
    );
    drop(client.stdin.take());
    assert_eq!(client.next()["id"], id);
    assert!(client.wait().success());
}

#[test]
fn crash_ends_the_process_with_the_given_code_and_no_answer() {
    let mut client = Client::start();
    client.send(
        "tools/call",
        &json!({ "name": "crash", "arguments": { "code": 7 } }),
    );
    assert_eq!(client.wait().code(), Some(7));
    assert!(client.messages.recv_timeout(LIMIT).is_err());
}
