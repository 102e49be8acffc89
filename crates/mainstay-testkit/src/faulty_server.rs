//! A faulty server as a command line that any MCP client can start.

use std::sync::OnceLock;

use crate::fault::Fault;
use crate::ledger::Ledger;
use crate::program::program;
use crate::rule::{Rule, Step};
use crate::script::Script;

/// Builds the command, arguments and environment that start a scripted server process.
#[derive(Clone, Debug, Default)]
pub struct FaultyServer {
    script: Script,
    term: Term,
    env: Vec<(String, String)>,
}

/// What SIGTERM does to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Term {
    #[default]
    Ends,
    Ignored,
    /// Ignored by the server, and noted by a shell beside it.
    Noted,
}

/// A signal that is ignored stays so across `exec`.
const IGNORES_TERM: &str = r#"trap '' TERM; exec "$0" "$@""#;

/// The shell beside it is of its group, and so gets the signal too. The ledger is the first argument. The server starts when the trap
/// is set: a signal that comes before that would end the shell unnoted.
const NOTES_TERM: &str = r#"
ready=$(mktemp -u) && mkfifo "$ready"
(trap 'echo term >>"$1"; exit' TERM; echo >"$ready"; sleep 600 & wait) </dev/null >/dev/null 2>&1 &
read -r _ <"$ready"; rm -f "$ready"
shift; trap '' TERM; exec "$0" "$@""#;

impl FaultyServer {
    /// A process that plays [`Script::new`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the script: `server.script(|script| script.page_size(2).fidelity())`.
    #[must_use]
    pub fn script(mut self, change: impl FnOnce(Script) -> Script) -> Self {
        self.script = change(self.script);
        self
    }

    /// Adds a tool that answers as `echo` does.
    #[must_use]
    pub fn tool(self, name: &str) -> Self {
        self.script(|script| script.tool(name))
    }

    /// Fails with `fault` whenever `step` is reached.
    #[must_use]
    pub fn on(self, step: Step, fault: Fault) -> Self {
        self.script(|script| script.on(step, fault))
    }

    /// Fails as the rule says.
    #[must_use]
    pub fn rule(self, rule: Rule) -> Self {
        self.script(|script| script.rule(rule))
    }

    /// Keeps its ledger there.
    #[must_use]
    pub fn ledger(self, ledger: &Ledger) -> Self {
        let path = ledger.path().to_owned();
        self.script(|script| Script {
            ledger: Some(path),
            ..script
        })
    }

    /// Ignores SIGTERM, from its first moment on.
    #[must_use]
    pub fn ignores_term(mut self) -> Self {
        self.term = Term::Ignored;
        self
    }

    /// Ignores SIGTERM, but its ledger notes it: `term`. There is one process more for that.
    #[must_use]
    pub fn notes_term(mut self) -> Self {
        self.term = Term::Noted;
        self
    }

    /// Starts with this in its environment.
    #[must_use]
    pub fn env_var(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The program to start.
    ///
    /// # Panics
    /// When `faulty-server` is not built and cannot be.
    #[must_use]
    pub fn command(&self) -> String {
        match self.term {
            Term::Ends => executable(),
            Term::Ignored | Term::Noted => "/bin/sh".to_owned(),
        }
    }

    /// Its arguments.
    ///
    /// # Panics
    /// As [`FaultyServer::command`].
    #[must_use]
    pub fn args(&self) -> Vec<String> {
        let mut args = Vec::new();
        match self.term {
            Term::Ends => {}
            Term::Ignored => args.extend(["-c".to_owned(), IGNORES_TERM.to_owned(), executable()]),
            Term::Noted => {
                let ledger = self.script.ledger.as_ref();
                let ledger = ledger.map_or("/dev/null".to_owned(), |path| path.display().to_string());
                args.extend(["-c".to_owned(), NOTES_TERM.to_owned(), executable(), ledger]);
            }
        }
        args.push("--script".to_owned());
        args.push(serde_json::to_string(&self.script).expect("a script is plain data"));
        args
    }

    /// What to add to its environment.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        self.env.clone()
    }

    /// All three, as an entry of an `mcpServers` configuration.
    ///
    /// # Panics
    /// As [`FaultyServer::command`].
    #[must_use]
    pub fn config(&self) -> serde_json::Value {
        let env: serde_json::Map<_, _> = self
            .env
            .iter()
            .map(|(key, value)| (key.clone(), value[..].into()))
            .collect();
        serde_json::json!({ "command": self.command(), "args": self.args(), "env": env })
    }
}

impl From<Script> for FaultyServer {
    fn from(script: Script) -> Self {
        Self {
            script,
            ..Self::default()
        }
    }
}

/// The path of the program, found or built once for each test process.
fn executable() -> String {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| program("mainstay-testkit", "faulty-server"))
        .clone()
}
