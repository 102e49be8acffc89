//! The leader of a process group, which is the child itself, and how it ended.
//!
//! A process number is reused once its owner is reaped and its group is empty. So the leader's end is only *looked at*
//! (`waitid` with `NOWAIT`), and the zombie is kept until [`Leader::reap`]: meanwhile its number is certainly ours, and
//! so is that of its group. Looking, signalling and reaping exclude each other by one short lock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::task::Poll;

use crate::lock::Lock;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid};
use tokio::process::Child;

/// How a server's process ended.
///
/// Reads as `exit status 1` or `killed by SIGKILL`. Both fields are `None` when the status was lost, which happens
/// only where the surrounding program reaps children that are not its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessExit {
    /// The exit status, if the process exited by itself.
    pub code: Option<i32>,
    /// The number of the signal that killed the process, if one did.
    pub signal: Option<i32>,
}

impl ProcessExit {
    pub(super) const UNKNOWN: Self = Self {
        code: None,
        signal: None,
    };
}

impl From<ExitStatus> for ProcessExit {
    fn from(status: ExitStatus) -> Self {
        Self {
            code: status.code(),
            signal: status.signal(),
        }
    }
}

impl From<WaitIdStatus> for ProcessExit {
    fn from(status: WaitIdStatus) -> Self {
        Self {
            code: status.exit_status(),
            signal: status.terminating_signal(),
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => match signal_name(signal) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            (None, None) => f.write_str("exit status unknown"),
        }
    }
}

/// Names for the signals that end processes in practice; the numbers differ between systems.
fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [(Signal, &str); 16] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map(|(_, name)| *name)
}

pub(super) struct Leader {
    pid: Pid,
    held: Lock<LeaderState>,
}

struct LeaderState {
    child: Child,
    /// Kept here once the child is reaped and cannot be asked again.
    exit: Option<ProcessExit>,
    /// Whether the number still belongs to the child: until it is reaped.
    number_is_ours: bool,
}

impl Leader {
    pub(super) fn new(child: Child, pid: Pid) -> Self {
        Self {
            pid,
            held: Lock::new(LeaderState {
                child,
                exit: None,
                number_is_ours: true,
            }),
        }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// How the leader ended, if it did.
    pub(super) fn exit(&self) -> Option<ProcessExit> {
        self.held.lock().look(self.pid)
    }

    /// Waits for the leader's end. For one waiter: a second would take away the first one's wake-up.
    ///
    /// Cancel safety: safe.
    pub(super) async fn exited(&self) -> ProcessExit {
        poll_fn(|context| {
            let mut held = self.held.lock();
            // The child's own future is what wakes this task. It also reaps, which is why it is only polled while the
            // child runs: by the time it could wake us the look has the answer, and the zombie stays.
            if let Some(exit) = held.look(self.pid) {
                return Poll::Ready(exit);
            }
            let polled = pin!(held.child.wait()).poll(context);
            polled.map(|status| held.reaped(status.map_or(ProcessExit::UNKNOWN, ProcessExit::from)))
        })
        .await
    }

    /// Whether the number of the group is certainly that of this leader.
    pub(super) fn group_is_ours(&self) -> bool {
        self.held.lock().number_is_ours
    }

    /// Signals the whole group. Does nothing once the leader is reaped: its number may belong to another process then.
    pub(super) fn signal_group(&self, signal: Signal) {
        let held = self.held.lock();
        if held.number_is_ours {
            // It fails only if no process is left to signal.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Reaps the zombie, which frees its number. Does nothing while the leader runs.
    pub(super) fn reap(&self) {
        let mut held = self.held.lock();
        if let Some(exit) = held.look(self.pid)
            && held.number_is_ours
            && !matches!(held.child.try_wait(), Ok(None))
        {
            held.reaped(exit);
        }
    }
}

impl LeaderState {
    fn look(&mut self, pid: Pid) -> Option<ProcessExit> {
        if self.exit.is_some() {
            return self.exit;
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(pid), options) {
            Ok(status) => status.map(ProcessExit::from),
            Err(rustix::io::Errno::INTR) => None,
            // Not our child any more: the surrounding program reaps whatever ends, or ignores SIGCHLD.
            Err(_) => Some(self.reaped(ProcessExit::UNKNOWN)),
        }
    }

    fn reaped(&mut self, exit: ProcessExit) -> ProcessExit {
        self.number_is_ours = false;
        *self.exit.insert(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::ProcessExit;

    #[test]
    fn an_exit_reads_as_a_person_would_say_it() {
        let exited = ProcessExit {
            code: Some(1),
            signal: None,
        };
        let killed = ProcessExit {
            code: None,
            signal: Some(9),
        };
        let odd = ProcessExit {
            code: None,
            signal: Some(99),
        };
        assert_eq!(exited.to_string(), "exit status 1");
        assert_eq!(killed.to_string(), "killed by SIGKILL");
        assert_eq!(odd.to_string(), "killed by signal 99");
        assert_eq!(ProcessExit::UNKNOWN.to_string(), "exit status unknown");
    }
}
