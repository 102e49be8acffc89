//! A host that speaks to the program on its standard input and output, as an agent does.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use mainstay_testkit::poll;
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, finish};
use crate::serving::{LONG, names};

pub(crate) struct Host {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    last: u64,
    /// Answers that came while another was waited for.
    kept: HashMap<u64, Value>,
}

impl Host {
    /// Starts the program and opens a session with it.
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::silent(sandbox, arguments).introduced()
    }

    /// Starts the program with this in its environment too, and opens a session with it.
    pub(crate) fn start_with(sandbox: &Sandbox, arguments: &[&str], env: (&str, &str)) -> Self {
        Self::of(sandbox.command(arguments).env(env.0, env.1)).introduced()
    }

    pub(crate) fn introduced(self) -> Self {
        let mut host = self;
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

    /// Starts the program and says nothing yet.
    pub(crate) fn silent(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::of(&mut sandbox.command(arguments))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            last: 0,
            kept: HashMap::new(),
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Makes a request with these params, as they are spelt, and waits for its answer.
    #[track_caller]
    pub(crate) fn ask_verbatim(&mut self, method: &str, params: &str) -> Value {
        self.last += 1;
        let id = self.last;
        self.write(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
        self.answer(id)
    }

    /// Makes a request; its id.
    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The answer to a request. Other answers that come before it are kept, and whatever else is passed over.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.answer_within(id, LONG)
    }

    /// The same, where each message may take this long.
    #[track_caller]
    pub(crate) fn answer_within(&mut self, id: u64, limit: Duration) -> Value {
        loop {
            if let Some(answer) = self.answered(id) {
                return answer;
            }
            let line = self.lines.recv_timeout(limit).expect("an answer in time");
            let message: Value = serde_json::from_str(&line).expect("nothing but messages on stdout");
            if let (Some(id), None) = (message["id"].as_u64(), message.get("method")) {
                self.kept.insert(id, message);
            }
        }
    }

    /// The next message that this holds for; others are passed over, and answers kept.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, mut holds: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(LONG).expect("such a message in time");
            let message: Value = serde_json::from_str(&line).expect("nothing but messages on stdout");
            if holds(&message) {
                return message;
            }
            if let (Some(id), None) = (message["id"].as_u64(), message.get("method")) {
                self.kept.insert(id, message);
            }
        }
    }

    /// The answer to a request, if it came while another was waited for.
    pub(crate) fn answered(&mut self, id: u64) -> Option<Value> {
        self.kept.remove(&id)
    }

    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin_call(tool, arguments);
        self.answer(id)["result"].clone()
    }

    pub(crate) fn begin_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.begin("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// The names of the tools.
    #[track_caller]
    pub(crate) fn tools(&mut self) -> Vec<String> {
        names(&self.ask("tools/list", &json!({})))
    }

    /// Lists the tools until this one is among them: a list does not wait for ever for a server that is not up.
    #[track_caller]
    pub(crate) fn lists(&mut self, tool: &str) {
        let is_listed = poll::comes_true(LONG, || self.tools().iter().any(|listed| listed == tool));
        assert!(is_listed, "{tool} is listed");
    }

    pub(crate) fn write(&mut self, message: &impl Display) {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{message}").expect("the program reads");
    }

    /// Writes a last message without a line break, and closes the program's input.
    pub(crate) fn write_last(&mut self, message: &impl Display) {
        let mut input = self.input.take().expect("open");
        write!(input, "{message}").expect("the program reads");
    }

    /// Closes the program's input.
    pub(crate) fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Closes the program's input, and waits for its end.
    pub(crate) fn leave(mut self) -> Ran {
        drop(self.input.take());
        finish(self.child)
    }
}
