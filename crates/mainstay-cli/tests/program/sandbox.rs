//! A home of its own for each test, so that no configuration or catalog of this machine is seen.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mainstay_testkit::poll::LIMIT;
use mainstay_testkit::procfs::ProcTree;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::schemas::assert_output_fits;

pub(crate) const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");

/// Far more than any run takes; a run that takes longer hangs.
const HANGS: Duration = LIMIT;
/// The variable that marks all processes of a test, as servers inherit their environment.
const MARK: &str = "MAINSTAY_PROGRAM_TEST";

pub(crate) struct Sandbox {
    directory: TempDir,
    mark: String,
}

/// How a run ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = TempDir::new().expect("a temporary directory");
        fs::create_dir(directory.path().join("work")).expect("a working directory");
        let mark = format!("{}.{n}", std::process::id());
        Self { directory, mark }
    }

    /// One with these servers in the user's own configuration.
    pub(crate) fn with(servers: &Value) -> Self {
        let sandbox = Self::new();
        sandbox.configure(servers);
        sandbox
    }

    /// Puts these servers into the user's own configuration, in the place of others.
    pub(crate) fn configure(&self, servers: &Value) {
        let file = json!({ "mcpServers": servers }).to_string();
        self.write("home/.config/mainstay/mcp.json", &file);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a directory");
        fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.other(MAINSTAY);
        command.args(arguments);
        command
    }

    /// What a program that starts Mainstay here must pass on to it.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let path = |name: &str| self.path(name).to_str().expect("a path in UTF-8").to_owned();
        [
            ("HOME", path("home")),
            ("MAINSTAY_RUNTIME", path("run")),
            (MARK, self.mark.clone()),
        ]
    }

    /// Another program that is at home here.
    pub(crate) fn other(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment())
            .current_dir(self.path("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end. What it prints with `--json` must fit its schema.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let ran = finish(self.command(arguments).spawn().expect("the program starts"));
        assert_output_fits(arguments, &ran.stdout);
        ran
    }

    /// Every process of this test that is alive, the program included.
    pub(crate) fn tree(&self) -> ProcTree {
        ProcTree::marked(MARK, &self.mark)
    }

    pub(crate) fn assert_nothing_is_left(&self) {
        assert!(
            self.tree().wait_until_gone(LIMIT),
            "left running: {:?}",
            self.tree().pids()
        );
    }
}

/// No test leaves a process running, whether it looks or not.
impl Drop for Sandbox {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.assert_nothing_is_left();
        }
    }
}

/// Waits for the end of a run; one that hangs is killed and fails the test.
pub(crate) fn finish(child: Child) -> Ran {
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let output: Output = match ended.recv_timeout(HANGS) {
        Ok(output) => output.expect("the output is read"),
        Err(_) => {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("the program hangs");
        }
    };
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.code,
            Some(code),
            "\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    #[track_caller]
    pub(crate) fn prints(&self, text: &str) -> &Self {
        assert!(
            self.stdout.contains(text),
            "no {text:?} in stdout:\n{}",
            self.stdout
        );
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(
            self.stderr.contains(text),
            "no {text:?} in stderr:\n{}",
            self.stderr
        );
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in stdout:\n{}", self.stdout))
    }
}

/// A server that works.
pub(crate) fn good() -> Value {
    json!({ "command": MAINSTAY, "args": ["demo-server"] })
}

/// A server whose program does not exist.
pub(crate) fn missing() -> Value {
    json!({ "command": "no-such-program-anywhere" })
}

/// A server that says why, and ends.
pub(crate) fn dying() -> Value {
    shell("echo 'cannot find my database' >&2; exit 3")
}

/// A server that never answers, and ends when its input does.
pub(crate) fn silent() -> Value {
    shell("cat >/dev/null")
}

pub(crate) fn shell(script: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", script] })
}

/// The keys of an object, sorted.
#[track_caller]
pub(crate) fn keys(object: &Value) -> Vec<&str> {
    let object = object.as_object().expect("an object");
    let mut keys: Vec<_> = object.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
