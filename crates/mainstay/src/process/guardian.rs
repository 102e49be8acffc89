//! The guardian: a small shell process that ends every process tree when this program dies without doing so.
//!
//! - One for the whole program, started before the first child. It reads the groups that live from a pipe of which this
//!   program alone holds the other end, so however the program ends, SIGKILL too, the pipe ends. With nothing left to
//!   end, the guardian just leaves.
//! - No child escapes between its start and its line in the pipe: the guardian also searches for the marker, which is
//!   there from `exec` on; and until `exec` the child itself holds a copy of the pipe, which so cannot end earlier.
//! - It has its own process group, so Ctrl-C in a terminal, which goes to the foreground group, does not reach it; a
//!   session of its own would add nothing, as it ignores SIGHUP. It carries no marker, not even an outer program's.
//! - Telling it never blocks. A guardian that died or does not listen is replaced at the next start of a server.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Pid;

use super::marker::{self, fleet_token};

const SHELL: &str = "/bin/sh";
const SCRIPT: &str = include_str!("guardian.sh");

/// Starts the guardian, unless it is there.
pub(super) fn ensure() {
    guard().ensure();
}

/// Puts a group under guard until the returned value is dropped.
pub(super) fn watch(group: Pid) -> Watched {
    guard().add(group);
    Watched(group)
}

/// A group under guard.
pub(super) struct Watched(Pid);

impl Drop for Watched {
    fn drop(&mut self) {
        guard().remove(self.0);
    }
}

/// The number of the guardian's process, if there is one.
#[cfg(test)]
pub(super) fn pid() -> Option<Pid> {
    guard().post.as_ref().map(|post| Pid::from_child(&post.shell))
}

/// Never dropped, and so the pipe lasts exactly as long as the program.
static GUARD: Mutex<Guard> = Mutex::new(Guard {
    post: None,
    groups: Vec::new(),
    warned: false,
});

fn guard() -> MutexGuard<'static, Guard> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Guard {
    post: Option<Post>,
    /// All that live, to be told to the next guardian if this one dies.
    groups: Vec<Pid>,
    /// Whether a person was told that there is no guardian; once is enough.
    warned: bool,
}

impl Guard {
    fn ensure(&mut self) {
        if self.post.as_mut().is_some_and(Post::is_manned) {
            return;
        }
        self.post = None;
        match Post::man(&self.groups) {
            Ok(post) => self.post = Some(post),
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
        if !self.tell('+', group) {
            self.ensure();
        }
    }

    fn remove(&mut self, group: Pid) {
        self.groups.retain(|&known| known != group);
        // A guardian that cannot be told is dismissed; while nobody is started there is nobody new to guard, and the
        // next start brings another.
        self.tell('-', group);
    }

    fn tell(&mut self, change: char, group: Pid) -> bool {
        let told = self
            .post
            .as_mut()
            .is_some_and(|post| post.tell(change, group).is_ok());
        if !told {
            self.post = None;
        }
        told
    }
}

/// One guardian at work.
struct Post {
    shell: Child,
    pipe: ChildStdin,
}

impl Post {
    fn man(groups: &[Pid]) -> io::Result<Self> {
        let mut shell = Command::new(SHELL)
            .args([
                "-c",
                SCRIPT,
                "mainstay-guardian",
                &format!("{}={}.", marker::VARIABLE, fleet_token()),
            ])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("LC_ALL", "C")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = shell.stdin.take().expect("its input was asked to be a pipe");
        let mut post = Self { shell, pipe };
        fcntl_setfl(&post.pipe, fcntl_getfl(&post.pipe)? | OFlags::NONBLOCK)?;
        groups.iter().try_for_each(|&group| post.tell('+', group))?;
        Ok(post)
    }

    fn is_manned(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    /// Lines are far shorter than what a pipe takes in one piece, so each is written whole or not at all.
    fn tell(&mut self, change: char, group: Pid) -> io::Result<()> {
        self.pipe
            .write_all(format!("{change} {}\n", group.as_raw_nonzero()).as_bytes())
    }
}

impl Drop for Post {
    /// Dead before the pipe closes: to a guardian that lives, the end of the pipe means "end them all".
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
