//! Starting a server process.
//!
//! A server takes four or five descriptors. Systems start programs with a low limit that they may raise themselves (the soft
//! limit, mostly 1,024), because programs that use `select` cannot bear more. So this program raises its own, and gives each
//! child that it starts the limit that it was given itself, or that its configuration names.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::marker::{self, Marker};
use super::stderr::{StderrRing, drain};
use super::{Process, guardian};
use crate::lack::Lack;
use crate::redaction::Redaction;

/// What to start. Has no `Debug`: arguments and environment hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    /// A path, or a name to look up in `PATH`. A relative path is taken from `cwd`.
    pub(crate) command: OsString,
    pub(crate) args: Vec<OsString>,
    /// In place of the environment of this program; `None` to inherit that.
    pub(crate) base_env: Option<BTreeMap<OsString, OsString>>,
    /// Added to that environment, and stronger than it.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Where to run; where this program runs if `None`.
    pub(crate) cwd: Option<PathBuf>,
    /// How many descriptors it may open; as many as this program was started with if `None`.
    pub(crate) descriptors: Option<DescriptorLimit>,
    /// What is taken out of what it writes to stderr.
    pub(crate) redaction: Arc<Redaction>,
}

/// A process that was just started, and the two ends to talk to it.
pub(crate) struct Spawned {
    pub(crate) process: Process,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// Why a server's process could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SpawnError {
    /// No file of that name, at its path or in `PATH`.
    #[error("command `{}` not found{}: {}", command.display(), sought_in(.searched.is_some()), to_be_found(command))]
    NotFound {
        /// The command as configured.
        command: OsString,
        /// The `PATH` that was searched; `None` for a command that is a path.
        searched: Option<String>,
    },
    /// The file is there but cannot be run.
    #[error(
        "command `{}` cannot be executed ({source}): {remedy}",
        command.display()
    )]
    NotExecutable {
        /// The command as configured.
        command: OsString,
        /// What to do about it.
        remedy: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The command is a directory.
    #[error("command `{}` is a directory: give the path of a program", command.display())]
    Directory {
        /// The command as configured.
        command: OsString,
    },
    /// The working directory is missing, is no directory, or may not be entered.
    #[error(
        "working directory `{}` cannot be used ({source}): create it, or change the configured path",
        path.display()
    )]
    WorkingDirectory {
        /// The directory as configured.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The command line or environment is one no system accepts: a NUL byte in it, or too long.
    #[error("command `{}` has arguments or an environment that cannot be passed on ({source})", command.display())]
    Unpassable {
        /// The command as configured.
        command: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// This machine lacks something that a start needs.
    #[error("command `{}` could not be started: {lack}", command.display())]
    Lacking {
        /// The command as configured.
        command: OsString,
        /// What is lacking.
        lack: Lack,
    },
    /// Anything else.
    #[error("command `{}` could not be started ({source})", command.display())]
    Io {
        /// The command as configured.
        command: OsString,
        /// What the system said.
        source: io::Error,
    },
}

impl SpawnError {
    /// Whether trying again is of no use until a person changes something.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::NotFound { .. }
            | Self::NotExecutable { .. }
            | Self::Directory { .. }
            | Self::WorkingDirectory { .. }
            | Self::Unpassable { .. } => true,
            Self::Lacking { .. } | Self::Io { .. } => false,
        }
    }
}

/// Starts a process as the leader of its own group. What it writes to stderr goes to `ring`, as of `generation`.
///
/// To be called within a runtime. Blocks for the moment it takes to start a process.
pub(crate) fn spawn(spec: &Spec, generation: u64, ring: &Arc<StderrRing>) -> Result<Spawned, SpawnError> {
    if let Some(cwd) = &spec.cwd {
        // Beforehand, because the system reports a bad directory and a bad command alike.
        enter(cwd).map_err(|source| SpawnError::WorkingDirectory {
            path: cwd.clone(),
            source,
        })?;
    }
    // Before the child, so that no child ever runs unguarded.
    guardian::ensure();

    let marker = Marker::next();
    let mut command = Command::new(&spec.command);
    if let Some(base) = &spec.base_env {
        command.env_clear().envs(base);
    }
    command
        .args(&spec.args)
        .envs(&spec.env)
        .env(marker::VARIABLE, marker.as_str());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    let mut child = command.spawn().map_err(|source| explain(spec, source))?;

    let parts = (
        child.id(),
        child.stdin.take(),
        child.stdout.take(),
        child.stderr.take(),
    );
    let (Some(id), Some(stdin), Some(stdout), Some(stderr)) = parts else {
        unreachable!("a child that was just started has its number and its three pipes");
    };
    let pid = i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .expect("the system numbers processes from 1");
    set_descriptor_limit(pid, spec.descriptors);
    let drain = drain(stderr, generation, Arc::clone(ring), Arc::clone(&spec.redaction));
    Ok(Spawned {
        process: Process::new(child, pid, marker, drain),
        stdin,
        stdout,
    })
}

fn enter(cwd: &Path) -> io::Result<()> {
    // The dot asks for the right to enter, which the directory's own metadata does not.
    std::fs::metadata(cwd.join(".")).map(drop)
}

fn explain(spec: &Spec, source: io::Error) -> SpawnError {
    use io::ErrorKind::{ArgumentListTooLong, InvalidInput, NotFound, PermissionDenied};

    let command = spec.command.clone();
    if let Some(lack) = Lack::of_start(&source) {
        return SpawnError::Lacking { command, lack };
    }
    let no_program_format = rustix::io::Errno::NOEXEC.raw_os_error();
    match (source.kind(), located(spec)) {
        // The file is there, so what is missing is the interpreter it names.
        (NotFound, Some(file)) => SpawnError::NotExecutable {
            command,
            remedy: match has_carriage_return(&file) {
                true => "its `#!` line ends with a carriage return: save the file with the line ends of Unix",
                false => "the interpreter that it names, in its `#!` line or as its loader, does not exist",
            },
            source,
        },
        (NotFound, None) => SpawnError::NotFound {
            command,
            searched: searched(spec),
        },
        (PermissionDenied, Some(file)) if file.is_dir() => SpawnError::Directory { command },
        (PermissionDenied, _) => SpawnError::NotExecutable {
            command,
            remedy: "make it executable (`chmod +x`), and check that you may read every directory above it",
            source,
        },
        (ArgumentListTooLong | InvalidInput, _) => SpawnError::Unpassable { command, source },
        _ if source.raw_os_error() == Some(no_program_format) => SpawnError::NotExecutable {
            command,
            remedy: "it is no program of this system. A script needs a `#!` line, or its interpreter as the command and the script as \
                     the first argument",
            source,
        },
        _ => SpawnError::Io { command, source },
    }
}

/// The file of the command, if there is one.
fn located(spec: &Spec) -> Option<PathBuf> {
    if is_path(&spec.command) {
        let cwd = spec.cwd.as_deref().unwrap_or(Path::new(""));
        return Some(cwd.join(&spec.command)).filter(|file| file.exists());
    }
    let path = path(spec)?;
    let mut files = std::env::split_paths(&path).map(|dir| dir.join(&spec.command));
    files.find(|file| file.exists())
}

/// Whether the first line of a script ends as a line of Windows does. The system takes it for a part of the interpreter's name.
fn has_carriage_return(file: &Path) -> bool {
    let mut beginning = [0; 256];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut beginning));
    let read = &beginning[..read.unwrap_or(0)];
    let line = read.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.starts_with(b"#!") && line.ends_with(b"\r")
}

/// How a command gets found that was not.
fn to_be_found(command: &OsStr) -> &'static str {
    match command.to_string_lossy().contains(char::is_whitespace) {
        true => "it has a space in it; give the program and its arguments apart",
        false => "install it, or give its full path",
    }
}

fn searched(spec: &Spec) -> Option<String> {
    if is_path(&spec.command) {
        return None;
    }
    let path = path(spec).map(|path| path.display().to_string());
    Some(path.unwrap_or_default())
}

fn sought_in(is_name: bool) -> &'static str {
    if is_name { " in any directory of PATH" } else { "" }
}

/// The `PATH` that counts is the one the child gets.
fn path(spec: &Spec) -> Option<OsString> {
    let name = OsStr::new("PATH");
    let set = spec.env.get(name).cloned();
    set.or_else(|| match &spec.base_env {
        Some(base) => base.get(name).cloned(),
        None => std::env::var_os(name),
    })
}

fn is_path(command: &OsStr) -> bool {
    command.as_encoded_bytes().contains(&b'/')
}

/// What this process was started with, once it has raised its limit.
static ORIGINAL_LIMIT: OnceLock<Rlimit> = OnceLock::new();

/// How many files, pipes and sockets a process may open (`RLIMIT_NOFILE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescriptorLimit {
    /// The limit in force, which the process may raise itself; `None` for no limit.
    pub soft: Option<u64>,
    /// As far as the process may raise it; `None` for no limit.
    pub hard: Option<u64>,
}

impl DescriptorLimit {
    /// The limit that this process was started with, also after [`raise_descriptor_limit`].
    pub fn of_this_process() -> Self {
        let limit = ORIGINAL_LIMIT.get().copied();
        let limit = limit.unwrap_or_else(|| getrlimit(Resource::Nofile));
        Self {
            soft: limit.current,
            hard: limit.maximum,
        }
    }

    /// This limit as far as a process with the limit `own` may give it to another.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn within(self, own: Rlimit) -> Rlimit {
        let lower = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Rlimit {
            current: lower(self.soft, own.maximum),
            maximum: lower(self.hard, own.maximum),
        }
    }
}

/// For systems that report no limit; they accept at most this.
const FALLBACK_LIMIT: u64 = 10_240;

/// Lets this process open as many files, pipes and sockets as the system allows it: raises the soft limit of descriptors to the
/// hard one, and returns what it is then. The servers that are started later keep the limit that this process had before.
///
/// A program calls it once, at its start. Each server takes four or five descriptors, and each client of a gateway one.
///
/// # Errors
/// When the system refuses; the limit is then what it was.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        ..before
    };
    if before == raised {
        return Ok(before.current);
    }
    let fallback = Rlimit {
        current: Some(FALLBACK_LIMIT),
        ..before
    };
    setrlimit(Resource::Nofile, raised)
        .or_else(|error| match before.current {
            Some(current) if current < FALLBACK_LIMIT => setrlimit(Resource::Nofile, fallback),
            Some(_) | None => Err(error),
        })
        .map_err(io::Error::from)?;
    // A second call finds the limit raised, and must not take that for the original.
    let _ = ORIGINAL_LIMIT.set(before);
    Ok(getrlimit(Resource::Nofile).current)
}

/// Gives a child that was just started this limit, or the one that this process was started with. Its program is loaded by then and
/// has hardly begun; the other way, between `fork` and `exec`, takes `unsafe`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_descriptor_limit(child: Pid, wanted: Option<DescriptorLimit>) {
    let own = getrlimit(Resource::Nofile);
    let limit = wanted
        .unwrap_or_else(DescriptorLimit::of_this_process)
        .within(own);
    if limit != own {
        // A child that changed its user is not ours to limit, and keeps the higher limit.
        let _ = rustix::process::prlimit(Some(child), Resource::Nofile, limit);
    }
}

/// Only Linux limits another process.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_descriptor_limit(_: Pid, _: Option<DescriptorLimit>) {}
