//! Hosts that share servers through the daemon.

mod chaos;
mod disabling;
mod ending;
mod killing;
mod outcomes;
mod places;
mod racing;
mod reporting;
mod sharing;
mod upgrading;
mod variables;

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use mainstay_testkit::procfs::ProcTree;
use mainstay_testkit::{FaultyServer, Ledger, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::host::Host;
use crate::sandbox::Sandbox;

/// How soon something is expected that happens at once: the rest is for a busy machine.
pub(super) const SOON: Duration = poll::LIMIT;

/// A sandbox whose daemon ends with it.
pub(super) struct Shared {
    pub(super) sandbox: Sandbox,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            sandbox: Sandbox::new(),
        }
    }

    /// A bridge to this server, which is about to be introduced.
    pub(super) fn bridge(&self, options: &[&str], server: &FaultyServer) -> Command {
        let (command, args) = (server.command(), server.args());
        let mut line = vec!["connect"];
        line.extend(options);
        line.extend(["--", command.as_str()]);
        line.extend(args.iter().map(String::as_str));
        self.sandbox.command(&line)
    }

    /// A host that is connected to this server.
    pub(super) fn host(&self, options: &[&str], server: &FaultyServer) -> Host {
        Host::of(&mut self.bridge(options, server)).introduced()
    }

    /// What the daemon says of itself; `None` if none runs.
    pub(super) fn status(&self) -> Option<Value> {
        let ran = self.sandbox.run(&["daemon", "status", "--json"]);
        let mut document = ran.json();
        assert_eq!(ran.code, Some(if document["running"] == true { 0 } else { 1 }));
        document["running"]
            .as_bool()
            .unwrap()
            .then(|| document["daemon"].take())
    }

    pub(super) fn daemon_pid(&self) -> i32 {
        let status = self.status().expect("a daemon runs");
        i32::try_from(status["pid"].as_i64().unwrap()).unwrap()
    }

    pub(super) fn kill_daemon(&self) -> i32 {
        let pid = self.daemon_pid();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        pid
    }

    /// Every process of this test: they have its home in their environment.
    pub(super) fn tree(&self) -> ProcTree {
        ProcTree::marked("HOME", &self.sandbox.path("home").display().to_string())
    }

    /// The processes of daemons: those that are no bridge and no server.
    pub(super) fn daemons(&self) -> Vec<i32> {
        let pids = self.tree().pids().into_iter();
        let is_daemon = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).collect();
            words.contains(&&b"daemon"[..]) && words.contains(&&b"run"[..])
        };
        pids.filter(is_daemon).collect()
    }

    #[track_caller]
    pub(super) fn assert_nothing_is_left(&self) {
        assert!(
            self.tree().wait_until_gone(SOON),
            "left running: {:?}",
            self.tree().pids()
        );
        let left: Vec<_> = fs::read_dir(self.sandbox.path("run"))
            .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
            .unwrap_or_default();
        assert!(
            left.iter().all(|name| name == "daemon.log"),
            "left behind: {left:?}"
        );
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.sandbox.command(&["daemon", "stop"]).output();
        for pid in self.tree().pids() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

/// Waits until this holds.
#[track_caller]
pub(super) fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    assert!(poll::comes_true(SOON, holds), "not in time: {what}");
}

/// The process that answers a call.
#[track_caller]
pub(super) fn server_pid(host: &mut Host) -> i64 {
    let result = host.call("pid", &serde_json::json!({}));
    result["structuredContent"]["pid"]
        .as_i64()
        .unwrap_or_else(|| panic!("{result}"))
}

/// A scripted server with this ledger.
pub(super) fn noting(ledger: &Ledger) -> FaultyServer {
    FaultyServer::new().ledger(ledger)
}

/// A connection to the daemon's socket.
pub(super) fn socket(shared: &Shared) -> std::io::Result<UnixStream> {
    UnixStream::connect(shared.sandbox.path("run/daemon.sock"))
}
