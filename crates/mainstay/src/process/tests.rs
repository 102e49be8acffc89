//! Real children that misbehave in every way a server can. They are found by their marker or their number, never by
//! their name.

mod cycles;
mod guardian;
mod letting_go;
mod spawning;
mod stderr;
mod stopping;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use mainstay_testkit::poll::{self, comes_true};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use super::spawn::Spawned;
use super::{Ladder, Process, ShutdownDeadline, Spec, StderrRing, Stopped, spawn};

/// Long enough that only a broken promise runs into it, on however busy a machine.
const LONG: Duration = poll::LIMIT;

/// Longer than any test: a rung that should not run out is never waited out.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// A ladder for those who are expected to need all of it. SIGKILL does its work in any case.
const SHORT_LADDER: Ladder = Ladder {
    eof_grace: Duration::from_millis(30),
    term_grace: Duration::from_millis(100),
    straggler_grace: Duration::from_millis(100),
    kill_grace: NEVER,
};

/// A ladder for those who are expected to end on the first rung they understand: no rung ever runs out.
const PATIENT_LADDER: Ladder = Ladder {
    eof_grace: NEVER,
    term_grace: NEVER,
    straggler_grace: NEVER,
    kill_grace: NEVER,
};

/// A ladder whose first rung is skipped.
const NO_EOF_LADDER: Ladder = Ladder {
    eof_grace: Duration::ZERO,
    ..PATIENT_LADDER
};

struct Started {
    process: Process,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    ring: Arc<StderrRing>,
}

/// Starts a shell script as generation 1.
fn start(script: &str) -> Started {
    start_spec(&shell(script))
}

fn start_spec(spec: &Spec) -> Started {
    let ring = Arc::new(StderrRing::default());
    let Spawned {
        process,
        stdin,
        stdout,
    } = spawn(spec, 1, &ring).expect("a shell can be started");
    Started {
        process,
        stdin,
        stdout: BufReader::new(stdout).lines(),
        ring,
    }
}

impl Started {
    /// The next line the script writes: how it says that it is where the test wants it.
    async fn says(&mut self) -> String {
        let line = tokio::time::timeout(LONG, self.stdout.next_line())
            .await
            .expect("the script speaks in time");
        line.unwrap().expect("the script speaks before it ends")
    }

    /// The next line, which is the number of a process.
    async fn says_pid(&mut self) -> i32 {
        self.says()
            .await
            .trim()
            .parse()
            .expect("the script says a process number")
    }
}

/// Stops a process while no shutdown is near. A stop that waits out a rung that should not run out does not end.
async fn stop(process: Process, ladder: &Ladder) -> Stopped {
    let shutdown_deadline = ShutdownDeadline::default();
    let stopped = tokio::time::timeout(LONG, process.stop(ladder, &shutdown_deadline)).await;
    stopped.expect("the stop ends")
}

fn shell(script: &str) -> Spec {
    Spec {
        command: "sh".into(),
        args: vec!["-c".into(), script.into()],
        base_env: None,
        env: BTreeMap::new(),
        cwd: None,
        descriptors: None,
        redaction: Default::default(),
    }
}

/// The running processes with this in their environment.
fn marked(marker: &str) -> Vec<i32> {
    let entry = format!("MAINSTAY_TREE={marker}");
    let carries = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|&byte| byte == 0)
            .any(|variable| variable == entry.as_bytes())
    };
    processes().into_iter().filter(carries).collect()
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// State and parent of a process, if there is one.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn runs(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn kill(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A second program that uses this module: the test binary again, running one test in the part named by `PART`.
mod rerun {
    use std::process::{Command, Stdio};

    const PART: &str = "MAINSTAY_TEST_PART";

    /// The marker the second program itself carries, as if it were a server of another.
    pub(super) const OUTER: &str = "outer.1";

    /// Whether this is the second program.
    pub(super) fn is_it() -> bool {
        std::env::var_os(PART).is_some()
    }

    pub(super) fn of(test: &str) -> Command {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let name = format!("process::tests::{test}");
        program
            .args(["--exact", &name, "--nocapture", "--test-threads=1"])
            .env(PART, "second")
            .env("MAINSTAY_TREE", OUTER);
        program
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        program
    }

    pub(super) fn block_on(part: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(part);
    }
}
