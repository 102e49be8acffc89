//! The guardian: a small shell process that ends every process tree when this program dies without doing so.
//!
//! - One for the whole program, started before the first child. It reads the groups that live from a pipe of which this
//!   program alone holds the other end, so however the program ends, SIGKILL too, the pipe ends. With nothing left to
//!   end, the guardian just leaves.
//! - No child escapes between its start and its line in the pipe: the guardian also searches for the marker, which is
//!   there from `exec` on; and until `exec` the child itself holds a copy of the pipe, which so cannot end earlier.
//! - It has its own process group, so Ctrl-C in a terminal, which goes to the foreground group, does not reach it; a
//!   session of its own would add nothing, as it ignores SIGHUP. It carries no marker, not even an outer program's.
//! - Writing to it never blocks. A guardian that does not read is ended. A thread waits for the end of each guardian, and replaces it.
//! - A program and its guardian that die together leave servers behind. The next program of this user that starts a guardian
//!   ends them: it runs the same script for the markers that no program answers for ([`orphan_tokens`]).

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::marker::{self, fleet_token, orphan_tokens};
use crate::lock::Lock;

const SHELL: &str = "/bin/sh";
const SCRIPT: &str = include_str!("guardian.sh");

/// A guardian that ends sooner than this was no sooner replaced than the next one may end, too.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// The pause before the replacement of a guardian with a short life: what kills them all must not keep a processor busy.
const REPLACEMENT_PAUSE: Duration = Duration::from_secs(1);

/// Starts the guardian, unless it runs.
pub(super) fn ensure() {
    REGISTRY.lock().ensure();
}

/// Puts a group under guard until the returned value is dropped.
pub(super) fn watch(group: Pid) -> GuardedGroup {
    REGISTRY.lock().add(group);
    GuardedGroup(group)
}

/// A group under guard.
pub(super) struct GuardedGroup(Pid);

impl Drop for GuardedGroup {
    fn drop(&mut self) {
        REGISTRY.lock().remove(self.0);
    }
}

/// The number of the guardian's process, if there is one.
#[cfg(test)]
pub(super) fn pid() -> Option<Pid> {
    REGISTRY
        .lock()
        .guardian
        .as_ref()
        .map(|guardian| Pid::from_child(&guardian.shell))
}

/// Never dropped, and so the pipe lasts exactly as long as the program.
static REGISTRY: Lock<Registry> = Lock::new(Registry {
    guardian: None,
    groups: Vec::new(),
    warned: false,
    swept: false,
});

struct Registry {
    guardian: Option<Guardian>,
    /// All groups that live, for the next guardian if this one dies.
    groups: Vec<Pid>,
    /// Whether the log says that there is no guardian; once is enough.
    warned: bool,
    /// Whether this program has looked for what others left behind; once is enough.
    swept: bool,
}

impl Registry {
    fn ensure(&mut self) {
        if self.guardian.as_mut().is_some_and(Guardian::is_alive) {
            return;
        }
        self.guardian = None;
        match Guardian::spawn(&self.groups) {
            Ok(guardian) => {
                self.guardian = Some(guardian);
                if !std::mem::replace(&mut self.swept, true) {
                    // Without a thread nothing is swept: the next program may have one.
                    let _ = Builder::new().name("mainstay-sweep".into()).spawn(sweep_orphans);
                }
            }
            Err(error) if !self.warned => {
                self.warned = true;
                tracing::warn!(
                    %error,
                    "no guardian ({SHELL}): if this program is killed, the servers it started may be left running"
                );
            }
            Err(_) => {}
        }
    }

    fn add(&mut self, group: Pid) {
        self.groups.push(group);
        if !self.write('+', group) {
            self.ensure();
        }
    }

    fn remove(&mut self, group: Pid) {
        self.groups.retain(|&known| known != group);
        // If this fails, the guardian is dropped, and its thread starts the next one.
        self.write('-', group);
    }

    fn write(&mut self, change: char, group: Pid) -> bool {
        let is_written = self
            .guardian
            .as_mut()
            .is_some_and(|guardian| guardian.write(change, group).is_ok());
        if !is_written {
            self.guardian = None;
        }
        is_written
    }
}

/// Ends what programs left behind that died together with their guardians. Blocks the thread.
fn sweep_orphans() {
    // Where there is no `/proc`, nothing can be found.
    for token in orphan_tokens().unwrap_or_default() {
        tracing::info!(%token, "ending the servers of a Mainstay program that was killed together with its guardian");
        let guardian = shell(&token, Stdio::null()).and_then(|mut shell| shell.wait());
        if let Err(error) = guardian {
            tracing::warn!(%error, %token, "they could not be ended: `mainstay doctor` names them");
        }
    }
}

/// Waits for the end of a guardian, and replaces it. Ends without a replacement if there is one already.
fn replace_after(guardian: Pid) {
    let started = Instant::now();
    // The guardian is not reaped here. If another thread has done that, this fails.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(guardian), options), Err(Errno::INTR)) {}
    if started.elapsed() < SHORT_LIFE {
        sleep(REPLACEMENT_PAUSE);
    }
    REGISTRY.lock().ensure();
}

/// Starts the shell that ends the trees whose markers begin with this token when its input ends.
fn shell(token: &str, input: Stdio) -> io::Result<Child> {
    Command::new(SHELL)
        .args([
            "-c",
            SCRIPT,
            "mainstay-guardian",
            &format!("{}={token}.", marker::VARIABLE),
        ])
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("LC_ALL", "C")
        .current_dir("/")
        .process_group(0)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The process of a guardian.
struct Guardian {
    shell: Child,
    pipe: ChildStdin,
}

impl Guardian {
    fn spawn(groups: &[Pid]) -> io::Result<Self> {
        let mut shell = shell(fleet_token(), Stdio::piped())?;
        let pipe = shell.stdin.take().expect("its input was asked to be a pipe");
        let mut guardian = Self { shell, pipe };
        fcntl_setfl(&guardian.pipe, fcntl_getfl(&guardian.pipe)? | OFlags::NONBLOCK)?;
        groups.iter().try_for_each(|&group| guardian.write('+', group))?;
        let pid = Pid::from_child(&guardian.shell);
        // Without a thread, the next start of a server replaces it.
        let _ = Builder::new()
            .name("mainstay-guard".into())
            .spawn(move || replace_after(pid));
        Ok(guardian)
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    /// Lines are far shorter than what a pipe takes in one piece, so each is written whole or not at all.
    fn write(&mut self, change: char, group: Pid) -> io::Result<()> {
        self.pipe
            .write_all(format!("{change} {}\n", group.as_raw_nonzero()).as_bytes())
    }
}

impl Drop for Guardian {
    /// Dead before the pipe closes: to a guardian that lives, the end of the pipe means "end them all".
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
