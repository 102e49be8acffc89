//! A running `mainstay serve` over HTTP, and clients that keep what they once opened.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use mainstay_testkit::client::{Reply, Session, modern, request};
use mainstay_testkit::poll::{self, LIMIT};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, finish};

/// Longer than anything takes on a busy machine; reached only by a test that fails.
pub(crate) const LONG: Duration = LIMIT;

pub(crate) struct Serving {
    child: Option<Child>,
    pub(crate) address: SocketAddr,
    said: Receiver<String>,
}

impl Serving {
    /// Starts it on a port of its own choice, and comes back when it listens.
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::start_with(sandbox, arguments, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_with(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut line = vec!["serve", "--listen", "127.0.0.1:0"];
        line.extend(arguments);
        let mut command = sandbox.command(&line);
        Self::of(command.envs(variables.iter().copied()))
    }

    /// Starts a command that runs it on a port of its own choice.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().expect("the program starts");
        let errors = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, said) = mpsc::channel();
        // To the end, so that it never finds its pipe full.
        thread::spawn(move || {
            errors
                .lines()
                .map_while(Result::ok)
                .for_each(|line| drop(sender.send(line)));
        });
        let mut serving = Self {
            child: Some(child),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            said,
        };
        let line = serving.hears("serving ");
        let (_, address) = line.split_once("://").expect("an address");
        let address = address.split("/mcp").next().unwrap_or_default();
        serving.address = address.parse().expect("an address");
        serving
    }

    /// Waits until its stderr says so; the line.
    #[track_caller]
    pub(crate) fn hears(&self, text: &str) -> String {
        loop {
            let line = self.said.recv_timeout(LONG).expect("it says so in time");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits until its stderr says so; the lines up to that one.
    #[track_caller]
    pub(crate) fn hears_up_to(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.said.recv_timeout(LONG).expect("it says so in time");
            lines.push(line);
            if lines.last().is_some_and(|line| line.contains(text)) {
                return lines;
            }
        }
    }

    /// Waits until its stderr has said all of this, in any order; the line for each.
    #[track_caller]
    pub(crate) fn hears_all<const N: usize>(&self, texts: [&str; N]) -> [String; N] {
        let mut lines: [Option<String>; N] = std::array::from_fn(|_| None);
        while lines.iter().any(Option::is_none) {
            let line = self.said.recv_timeout(LONG).expect("it says so in time");
            for (text, found) in texts.iter().zip(&mut lines) {
                if line.contains(text) {
                    found.get_or_insert_with(|| line.clone());
                }
            }
        }
        lines.map(Option::unwrap_or_default)
    }

    pub(crate) fn pid(&self) -> i32 {
        let child = self.child.as_ref().expect("it runs");
        i32::try_from(child.id()).expect("a process id fits")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it runs");
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Ran {
        finish(self.child.take().expect("it runs"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Its guardian ends the servers.
            let _gone_already = child.kill();
            let _reaped_already = child.wait();
        }
    }
}

/// A client over HTTP: what it opened first is what it uses to the end.
pub(crate) struct Visitor {
    era: Era,
    address: SocketAddr,
    path: &'static str,
    last: AtomicU64,
}

enum Era {
    Legacy(Session),
    Modern,
}

impl Visitor {
    pub(crate) async fn legacy(address: SocketAddr, path: &'static str) -> Self {
        let era = Era::Legacy(Session::open(address, path).await);
        Self::new(era, address, path)
    }

    pub(crate) fn modern(address: SocketAddr, path: &'static str) -> Self {
        Self::new(Era::Modern, address, path)
    }

    fn new(era: Era, address: SocketAddr, path: &'static str) -> Self {
        Self {
            era,
            address,
            path,
            last: AtomicU64::new(0),
        }
    }

    /// The answer to a request, whether it comes as a body or on a stream.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let mut reply = self.send(method, params).await;
        assert_eq!(reply.status, 200, "{} {method}", self.path);
        if !reply.is_events() {
            return reply.json().await;
        }
        loop {
            let message = reply.message().await;
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Sends a request, and reads the head of what comes back.
    pub(crate) async fn send(&self, method: &str, params: Value) -> Reply {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        match &self.era {
            Era::Legacy(session) => session.post(&request(id, method, params)).await,
            Era::Modern => modern(self.path, id, method, params).send(self.address).await,
        }
    }

    /// What a tool answers.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask("tools/call", params).await["result"].clone()
    }

    /// The names of the tools.
    pub(crate) async fn tools(&self) -> Vec<String> {
        names(&self.ask("tools/list", json!({})).await)
    }

    /// Lists the tools until this one is among them: a list does not wait for ever for a server that is not up.
    pub(crate) async fn lists(&self, tool: &str) {
        let is_listed = async || self.tools().await.contains(&tool.to_owned()).then_some(());
        poll::ask_for(LONG, is_listed)
            .await
            .unwrap_or_else(|| panic!("{tool} is listed"));
    }
}

/// The names in the answer to a listing of tools.
#[track_caller]
pub(crate) fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("no list: {answer}")).iter();
    tools
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect()
}
