//! Clients that call one after the other until the chaos is over, and once more then.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use mainstay_partner::{Clients, partners};
use mainstay_testkit::FaultyServer;
use serde_json::{Value, json};

use super::super::Shared;
use super::super::outcomes::{Calls, Ended};
use crate::sandbox::{MAINSTAY, finish};

/// The pause between two calls of one client. Without it the ledgers grow faster than they are read.
const INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientKind {
    Scripted,
    Python(&'static str),
    TypeScript(&'static str),
}

impl ClientKind {
    /// The real clients, in both eras.
    pub(super) const REAL: [Self; 4] = [
        Self::Python("legacy"),
        Self::Python("modern"),
        Self::TypeScript("legacy"),
        Self::TypeScript("modern"),
    ];
}

pub(super) struct Load<'a> {
    shared: &'a Shared,
    /// The real clients; without them scripted ones take their place.
    clients: Option<Clients>,
    /// Is there when the chaos is over.
    over: PathBuf,
}

/// The chaos, until this is dropped.
pub(super) struct Over<'a>(&'a Load<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        fs::write(&self.0.over, "").expect("a file");
    }
}

impl<'a> Load<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        let clients = partners().map(|partners| partners.clients);
        if let Some(clients) = &clients {
            // A script finds its packages beside itself.
            let script = shared.sandbox.path("work/ts_client.mjs");
            fs::copy(clients.scripts.join("ts_client.mjs"), script).expect("a copy of the script");
            symlink(&clients.packages, shared.sandbox.path("work/node_modules")).expect("a link");
        }
        Self {
            shared,
            clients,
            over: shared.sandbox.path("over"),
        }
    }

    pub(super) fn over(&'a self) -> Over<'a> {
        Over(self)
    }

    /// What became of each call of one client.
    pub(super) fn run(&self, kind: ClientKind, mark: &str, server: &FaultyServer, is_shared: bool) -> Calls {
        let share = if is_shared { "yes" } else { "never" };
        match (kind, &self.clients) {
            (ClientKind::Scripted, _) | (_, None) => self.run_scripted(mark, server, share),
            (ClientKind::Python(era), Some(clients)) => {
                let script = clients.scripts.join("python_client.py");
                let mut command = self.shared.sandbox.other(&clients.python);
                command.arg(script).arg(era);
                self.run_script(command, mark, server, share)
            }
            (ClientKind::TypeScript(era), Some(clients)) => {
                let mut command = self.shared.sandbox.other(&clients.node);
                command.args(["ts_client.mjs", era]);
                self.run_script(command, mark, server, share)
            }
        }
    }

    fn run_scripted(&self, mark: &str, server: &FaultyServer, share: &str) -> Calls {
        let mut host = self.shared.host(&["--share", share], server);
        let mut calls = Calls::new();
        loop {
            let is_last = self.over.exists();
            let key = format!("{mark}n{}", calls.len());
            let ended = Ended::of(&host.call("append", &json!({ "key": key })));
            calls.insert(key, ended);
            if is_last {
                assert_eq!(ended, Ended::Answered, "the last call of {mark} is answered");
                host.leave().exits(0);
                return calls;
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Runs a real client, which says in the end what became of its calls.
    fn run_script(
        &self,
        mut command: std::process::Command,
        mark: &str,
        server: &FaultyServer,
        share: &str,
    ) -> Calls {
        let mut words = vec!["connect".to_owned(), "--share".to_owned(), share.to_owned()];
        words.extend(["--".to_owned(), server.command()]);
        words.extend(server.args());
        let environment = self.shared.sandbox.environment();
        let environment: serde_json::Map<_, _> = environment
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let target = json!({ "command": MAINSTAY, "args": words, "env": environment });
        let step = json!({ "do": "repeat", "tool": "append", "key": mark, "until": self.over });
        command.args([target.to_string(), json!([step]).to_string()]);
        let child = command.spawn().expect("the client starts");
        while !self.over.exists() {
            thread::sleep(INTERVAL);
        }
        let ran = finish(child);
        let told: Value = ran.stdout.lines().last().map_or(Value::Null, |line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        });
        let ended = told["ended"].as_object();
        let ended = ended.unwrap_or_else(|| panic!("{mark}: {told}; {}", ran.stderr));
        let word = |ended: &Value| Ended::read(ended.as_str().expect("a word"));
        let last = format!("{mark}n{}", ended.len() - 1);
        assert_eq!(
            word(&ended[&last]),
            Ended::Answered,
            "the last call of {mark} is answered"
        );
        ended
            .iter()
            .map(|(key, ended)| (key.clone(), word(ended)))
            .collect()
    }
}
