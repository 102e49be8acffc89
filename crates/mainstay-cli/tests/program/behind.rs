//! Servers behind the gateway that a test can take away and give back.

use std::fs;
use std::path::PathBuf;

use mainstay_testkit::http::{FaultyHttpProcess, HttpScript};
use mainstay_testkit::{Fault, FaultyServer, Ledger, Rule, Script, Step};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

pub(crate) struct Behind {
    pub(crate) ledger: Ledger,
    script: Script,
    kind: Kind,
}

enum Kind {
    /// A process that the gateway starts; while the file is there, it ends as soon as it is started.
    Child { away: PathBuf },
    /// A server over HTTP, always on the same port.
    Web { process: FaultyHttpProcess },
}

impl Behind {
    /// A server on stdio.
    pub(crate) fn child(sandbox: &Sandbox) -> Self {
        Self::child_playing(sandbox, Script::new())
    }

    /// A server on stdio that plays this.
    pub(crate) fn child_playing(sandbox: &Sandbox, script: Script) -> Self {
        let ledger = Ledger::temporary();
        Self {
            script: noting(script, &ledger),
            ledger,
            kind: Kind::Child {
                away: sandbox.path("away"),
            },
        }
    }

    /// A server over HTTP. It forgets all sessions when it is restarted.
    pub(crate) fn web() -> Self {
        Self::web_playing(Script::new())
    }

    /// A server over HTTP that plays this.
    pub(crate) fn web_playing(script: Script) -> Self {
        let ledger = Ledger::temporary();
        let script = noting(script, &ledger);
        let process = FaultyHttpProcess::start(0, &script, &HttpScript::new());
        Self {
            ledger,
            script,
            kind: Kind::Web { process },
        }
    }

    /// It as an entry of a configuration.
    pub(crate) fn config(&self) -> Value {
        match &self.kind {
            Kind::Child { away } => {
                let ends = Rule::new(Step::Start, Fault::Exit(1)).when_file(away);
                FaultyServer::from(self.script.clone()).rule(ends).config()
            }
            Kind::Web { process } => json!({ "url": process.url("/mcp") }),
        }
    }

    /// How often it was called to append this.
    pub(crate) fn appended(&self, key: &str) -> usize {
        self.ledger.count(&format!("call append {key}"))
    }

    /// The arguments of the program that wrap it.
    pub(crate) fn wrapped(&self) -> Vec<String> {
        let config = self.config();
        let word = |value: &Value| value.as_str().expect("a text").to_owned();
        let mut line = vec!["wrap".to_owned()];
        match &self.kind {
            Kind::Child { .. } => {
                line.extend(["--".to_owned(), word(&config["command"])]);
                line.extend(config["args"].as_array().expect("a list").iter().map(word));
            }
            Kind::Web { .. } => line.extend(["--url".to_owned(), word(&config["url"])]),
        }
        line
    }

    /// Kills it. The gateway starts a child again; what is over HTTP stays away until it is given back.
    pub(crate) fn kill(&mut self) {
        match &mut self.kind {
            Kind::Child { .. } => self.kill_child(),
            Kind::Web { process } => process.kill(),
        }
    }

    /// Kills it, and keeps it from coming back.
    pub(crate) fn take_away(&mut self) {
        if let Kind::Child { away } = &self.kind {
            fs::write(away, "").expect("a file");
        }
        self.kill();
    }

    /// Lets it come back.
    pub(crate) fn give_back(&mut self) {
        match &mut self.kind {
            // There is none where it was only killed.
            Kind::Child { away } => drop(fs::remove_file(away)),
            Kind::Web { process } => {
                *process = FaultyHttpProcess::start(process.port(), &self.script, &HttpScript::new());
            }
        }
    }

    /// Only for a server that has just answered: the process that was started last is it.
    fn kill_child(&self) {
        let pid = *self.ledger.pids().last().expect("a server runs");
        kill_process(Pid::from_raw(pid).expect("a process id"), Signal::KILL).expect("it runs");
    }
}

fn noting(script: Script, ledger: &Ledger) -> Script {
    Script {
        ledger: Some(ledger.path().to_owned()),
        ..script
    }
}
