//! Starts a daemon that belongs to no terminal and no host.
//!
//! The starter runs `mainstay daemon run --detach`. That process begins a session of its own, starts the daemon in it, and ends: so the
//! daemon is a child of no bridge, and no signal of a terminal reaches it. The daemon reports on a pipe that it is ready, that another
//! daemon runs, or why it cannot run.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::DEFAULT_VARIABLES;
use crate::runtime_dir::{RuntimeDirError, RuntimeDirectory};
use crate::runtime_file::open_runtime_file;
use crate::wait::wait_readable;

/// What the daemon takes from the environment of the process that starts it, beside the default variables: where this user's files are,
/// and the bus with this user's keyring.
const PLACES: [&str; 11] = [
    "MAINSTAY_RUNTIME",
    "MAINSTAY_CONFIG",
    "MAINSTAY_CACHE",
    "MAINSTAY_LOG",
    "MAINSTAY_LOGINS",
    "MAINSTAY_LOGIN_KEY_FILE",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// The variables that a daemon gets from the process that starts it, unless more are asked for.
pub fn inherited_variables() -> impl Iterator<Item = &'static str> {
    DEFAULT_VARIABLES.iter().chain(&PLACES).copied()
}

/// A log larger than this is begun from its start.
pub(crate) const LOG_LIMIT: u64 = 1024 * 1024;

/// The longest report of a daemon that starts.
const REPORT_LIMIT: u64 = 64 * 1024;

/// Said when the daemon accepts connections.
const READY: &str = "ready";
/// Said when another daemon runs or is about to.
const RUNNING: &str = "running";

/// How a daemon is started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    program: PathBuf,
    /// Its arguments: those of `mainstay daemon run --detach`.
    arguments: Vec<OsString>,
    /// The names of variables that the daemon gets beside those that each daemon gets.
    variables: Vec<String>,
}

/// How a start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonStart {
    /// The new daemon accepts connections.
    Ready,
    /// Another daemon runs, or is about to.
    Running,
}

/// Why no daemon was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The program cannot be run.
    #[error(
        "cannot run `{}` to start the daemon ({source}): run `mainstay daemon start`; if Mainstay has moved, restart this host after that",
        program.display()
    )]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The daemon said why.
    #[error("the daemon cannot start: {0}")]
    Refused(String),
    /// It ended without a word.
    #[error("the daemon ended before it was ready; its log is `{}`", log.display())]
    Ended {
        /// Its log.
        log: PathBuf,
    },
    /// It said nothing in time.
    #[error("the daemon did not start within {:.0} s; its log is `{}`", within.as_secs_f64(), log.display())]
    Silent {
        /// How long it was given.
        within: Duration,
        /// Its log.
        log: PathBuf,
    },
}

impl Launcher {
    /// Starts daemons with this program and these arguments after `daemon run --detach`.
    pub fn new(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = OsString>) -> Self {
        let fixed = ["daemon", "run", "--detach"].map(OsString::from);
        Self {
            program: program.into(),
            arguments: fixed.into_iter().chain(arguments).collect(),
            variables: Vec::new(),
        }
    }

    /// Starts daemons with this program and all of these arguments.
    pub(crate) fn of(program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self {
            program,
            arguments,
            variables: Vec::new(),
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// The same with one more argument.
    #[must_use]
    pub fn with(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The same, and the daemon also gets these variables of this process.
    #[must_use]
    pub fn with_variables(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.variables.extend(names);
        self
    }

    /// Starts a daemon, and waits until it reports.
    pub fn start(&self, directory: &RuntimeDirectory, within: Duration) -> Result<DaemonStart, LaunchError> {
        let mut starter = self.spawn()?;
        let report = read_report(&mut starter, within);
        // It ends as soon as it has started the daemon.
        if report.is_none() {
            let _ = starter.kill();
        }
        let _ = starter.wait();
        let log = directory.log();
        let Some(report) = report else {
            return Err(LaunchError::Silent { within, log });
        };
        match report.trim() {
            READY => Ok(DaemonStart::Ready),
            RUNNING => Ok(DaemonStart::Running),
            "" => Err(LaunchError::Ended { log }),
            why => Err(LaunchError::Refused(why.to_owned())),
        }
    }
}

impl Launcher {
    fn spawn(&self) -> Result<Child, LaunchError> {
        let spawned = self.command(self.program.as_os_str()).spawn();
        let spawned = match (spawned, self.program.file_name()) {
            // An upgrade may have removed the directory of this version. The link to the next one is on the PATH.
            (Err(error), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                self.command(name).spawn().map_err(|_| error)
            }
            (spawned, _) => spawned,
        };
        spawned.map_err(|source| LaunchError::Spawn {
            program: self.program.clone(),
            source,
        })
    }

    fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command.args(&self.arguments).env_clear();
        let mut pass_on = |name: &str| {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        };
        inherited_variables().for_each(&mut pass_on);
        self.variables.iter().for_each(|name| pass_on(name));
        command.current_dir("/");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }
}

/// What the daemon reports until it closes the pipe; `None` if it does not in time.
fn read_report(starter: &mut Child, within: Duration) -> Option<String> {
    let deadline = Instant::now() + within;
    let mut pipe = starter.stdout.take()?;
    let mut report = Vec::new();
    let mut piece = [0; 4096];
    while (report.len() as u64) < REPORT_LIMIT {
        let left = deadline.checked_duration_since(Instant::now())?;
        if !wait_readable(&pipe, left).ok()? {
            return None;
        }
        match pipe.read(&mut piece).ok()? {
            0 => break,
            length => report.extend_from_slice(&piece[..length]),
        }
    }
    Some(String::from_utf8_lossy(&report).into_owned())
}

/// Starts the daemon in a session of its own with these arguments: what `mainstay daemon run --detach` does. The caller ends then.
pub fn detach(
    program: &Path,
    arguments: impl IntoIterator<Item = OsString>,
    directory: &RuntimeDirectory,
) -> Result<(), LaunchError> {
    // Refused if this process leads a group already: then it was started from a shell, and its child leaves the group below.
    let _ = rustix::process::setsid();
    let log = directory.log();
    let log = open_log(&log).map_err(|error| directory.error(&log, error))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .stderr(log);
    // It outlives this process, so this process never waits for it.
    command.spawn().map(drop).map_err(|source| LaunchError::Spawn {
        program: program.to_owned(),
        source,
    })
}

/// Opens the log to append to it.
fn open_log(path: &Path) -> io::Result<File> {
    let file = open_runtime_file(OpenOptions::new().create(true).append(true), path)?;
    bound_log(&file)?;
    Ok(file)
}

/// Begins a log from its start when it has become too large.
pub fn bound_log(log: &File) -> io::Result<()> {
    let found = log.metadata()?;
    if found.is_file() && found.len() > LOG_LIMIT {
        log.set_len(0)?;
    }
    Ok(())
}

/// Where a daemon reports how its start went: the standard output, until it has reported.
pub struct StartReport(());

impl StartReport {
    /// Of this process.
    pub fn new() -> Self {
        Self(())
    }

    /// The daemon accepts connections.
    pub fn ready(self) {
        self.say(READY);
    }

    /// Another daemon runs.
    pub fn running(self) {
        self.say(RUNNING);
    }

    /// The daemon cannot start.
    pub fn failed(self, why: &str) {
        self.say(why);
    }

    /// Closes the pipe too: its end is what the starter waits for.
    fn say(self, report: &str) {
        let mut stdout = io::stdout();
        let _ = writeln!(stdout, "{report}").and_then(|()| stdout.flush());
        if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdout(&null);
        }
    }
}

impl Default for StartReport {
    fn default() -> Self {
        Self::new()
    }
}

/// Used in messages.
impl From<RuntimeDirError> for LaunchError {
    fn from(error: RuntimeDirError) -> Self {
        Self::Refused(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_that_has_become_too_large_is_begun_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("daemon.log");
        for (length, kept) in [(LOG_LIMIT, LOG_LIMIT), (LOG_LIMIT + 1, 0)] {
            fs::write(&path, vec![b'x'; usize::try_from(length).unwrap()]).unwrap();
            open_log(&path).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), kept);
        }
    }
}
