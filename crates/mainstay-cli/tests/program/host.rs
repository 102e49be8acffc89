//! A host that speaks to the program on its standard input and output, as an agent does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, finish};

/// Longer than anything takes on a busy machine; reached only by a test that fails.
const LONG: Duration = Duration::from_secs(30);

pub(crate) struct Host {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    last: u64,
}

impl Host {
    /// Starts the program and opens a session with it.
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut child = sandbox
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut host = Self {
            input: child.stdin.take(),
            child,
            lines,
            last: 0,
        };
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "host", "version": "1" },
        });
        let answer = host.ask("initialize", &params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        host.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        host
    }

    /// The answer to a request. What comes before it is passed over.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let line = self.lines.recv_timeout(LONG).expect("an answer in time");
            let message: Value = serde_json::from_str(&line).expect("nothing but messages on stdout");
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
        }
    }

    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }

    /// The names of the tools.
    #[track_caller]
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let answer = self.ask("tools/list", &json!({}));
        let tools = answer["result"]["tools"].as_array().expect("a list").iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{message}").expect("the program reads");
    }

    /// Closes the program's input, and waits for its end.
    pub(crate) fn leave(mut self) -> Ran {
        drop(self.input.take());
        finish(self.child)
    }
}
