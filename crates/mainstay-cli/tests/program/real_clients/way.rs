//! The ways from a client to a server: the union, one server of the gateway, a wrapped command, and one that the daemon shares.

use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mainstay_partner::Clients;
use mainstay_testkit::procfs::ProcTree;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::child::Group;
use super::server::{MAINSTAY, Server};

/// Longer than anything takes on a busy machine; reached only by a test that fails.
const LONG: Duration = Duration::from_secs(30);

/// The variable that marks all processes of one home, as children inherit their environment.
const MARK: &str = "MAINSTAY_CLIENTS_TEST";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Union,
    One,
    Wrap,
    Connect,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Union, Self::One, Self::Wrap, Self::Connect];

    /// Where a client finds the server: an address, or what to start.
    pub(crate) fn target(self, server: &Server, serving: &Serving) -> Value {
        match self {
            Self::Union => json!({ "url": serving.url }),
            Self::One => json!({ "url": format!("{}/{}", serving.url, server.name) }),
            Self::Wrap => started("wrap", server, serving),
            Self::Connect => started("connect", server, serving),
        }
    }
}

/// A command of the program in front of the server's.
fn started(command: &str, server: &Server, serving: &Serving) -> Value {
    let mut args = vec![command, "--", server.command.as_str()];
    args.extend(server.args.iter().map(String::as_str));
    json!({ "command": MAINSTAY, "args": args, "env": serving.environment })
}

impl fmt::Display for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Union => "`/mcp`",
            Self::One => "`/mcp/SERVER`",
            Self::Wrap => "`wrap`",
            Self::Connect => "`connect`",
        })
    }
}

/// A place where nothing of this machine is seen, neither a configuration nor a catalog.
pub(crate) struct Home {
    directory: TempDir,
    mark: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        Self {
            directory: TempDir::new().expect("a temporary directory"),
            mark: format!("{}.{n}", std::process::id()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// A copy of a script for Node, which finds its packages beside itself.
    pub(crate) fn script(&self, clients: &Clients, name: &str) -> PathBuf {
        let script = self.path().join(name);
        fs::copy(clients.scripts.join(name), &script).expect("a copy of the script");
        let packages = self.path().join("node_modules");
        if !packages.exists() {
            std::os::unix::fs::symlink(&clients.packages, packages).expect("a link to the packages");
        }
        script
    }

    /// A command that is at home here.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).envs(self.environment());
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// What a client must hand to a server that it starts: clients pass on little of their own environment.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let home = self.path().to_str().expect("a path in UTF-8").to_owned();
        [
            ("HOME", home.clone()),
            // Not MAINSTAY_RUNTIME, so that the daemon is found as it is found by everybody.
            ("XDG_RUNTIME_DIR", home),
            (MARK, self.mark.clone()),
        ]
    }

    /// The same as an object.
    pub(crate) fn variables(&self) -> Value {
        let variables = self.environment();
        let variables = variables.map(|(name, value)| (name.to_owned(), json!(value)));
        Value::Object(variables.into_iter().collect())
    }

    pub(crate) fn assert_nothing_is_left(&self) {
        let stopped = self
            .command(MAINSTAY)
            .args(["daemon", "stop", "--quiet"])
            .status();
        assert!(
            stopped.is_ok_and(|status| status.success()),
            "the daemon is stopped"
        );
        let home = self.path().display().to_string();
        // The daemon and its servers do not inherit the mark.
        for tree in [
            ProcTree::marked(MARK, &self.mark),
            ProcTree::marked("HOME", &home),
        ] {
            assert!(tree.wait_until_gone(LONG), "left running: {:?}", tree.pids());
        }
    }
}

/// A running `mainstay serve`. Dropping it kills it.
pub(crate) struct Serving {
    process: Group,
    url: String,
    environment: Value,
}

impl Serving {
    /// Starts it with these servers, on a port of its own choice.
    pub(crate) fn start(home: &Home, servers: &[Server]) -> Self {
        Self::start_with(home, servers, &json!({}))
    }

    /// The same, with these variables for the servers.
    pub(crate) fn start_with(home: &Home, servers: &[Server], env: &Value) -> Self {
        let entry = |server: &Server| {
            let entry = json!({ "command": server.command, "args": server.args, "env": env });
            (server.name.to_owned(), entry)
        };
        let configured: Map<_, _> = servers.iter().map(entry).collect();
        Self::start_configured(home, &Value::Object(configured))
    }

    /// The same with these entries of its configuration.
    pub(crate) fn start_configured(home: &Home, servers: &Value) -> Self {
        let file = home.write("mcp.json", &json!({ "mcpServers": servers }).to_string());
        let mut command = home.command(MAINSTAY);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(file);
        let mut process = Group::start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
        let errors = BufReader::new(process.child.stderr.take().expect("piped"));
        let (sender, said) = mpsc::channel();
        // To the end, so that it never finds its pipe full.
        thread::spawn(move || {
            errors
                .lines()
                .map_while(Result::ok)
                .for_each(|line| drop(sender.send(line)));
        });
        let url = loop {
            let line = said.recv_timeout(LONG).expect("it says where it serves");
            if let Some((_, url)) = line
                .split_once(" at ")
                .filter(|(said, _)| said.starts_with("serving"))
            {
                break url.to_owned();
            }
        };
        Self {
            process,
            url,
            environment: home.variables(),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Tells it to end, and waits until it has.
    pub(crate) fn end(mut self) {
        self.process.terminate();
        assert!(self.process.ends_within(LONG), "it ends when it is told to");
    }
}
