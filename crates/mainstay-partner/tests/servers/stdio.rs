//! The plainest MCP client there is: one line out, lines in, nothing shared with Mainstay's own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio as Pipe};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mainstay_partner::Partner;
use serde_json::{Value, json};

/// Node and Python take seconds to start when the machine is busy building.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// One running server. It is killed when dropped.
pub(crate) struct Stdio {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    seen: Vec<Value>,
    last_id: u64,
}

impl Stdio {
    pub(crate) fn start(partner: &Partner) -> Self {
        let mut child = Command::new(&partner.command)
            .args(&partner.args)
            .envs(&partner.env)
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", partner.command.display()));
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message =
                    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON on stdout: {line}"));
                if send.send(message).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
            seen: Vec::new(),
            last_id: 0,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn initialize(&mut self) -> Value {
        let client = json!({ "name": "mainstay-partner", "version": "0" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let answer = self.request("initialize", &params);
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    /// Sends a request and returns its answer; notifications that come before it are kept.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.receive(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Sends a request whose answer nobody waits for.
    pub(crate) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        self.write(&json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }));
        self.last_id
    }

    /// Waits for a notification, unless it has already been seen.
    pub(crate) fn await_notification(&mut self, method: &str) {
        if self.notifications(method).next().is_none() {
            self.receive(|message| message["method"] == method);
        }
    }

    /// The notifications seen so far.
    pub(crate) fn notifications<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Value> {
        self.seen
            .iter()
            .filter(move |message| message["method"] == method)
    }

    fn receive(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self
                .lines
                .recv_timeout(ANSWER_WITHIN)
                .expect("the server answers in time");
            if wanted(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("the server reads its stdin");
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // It may have exited by itself; either way it is reaped here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
