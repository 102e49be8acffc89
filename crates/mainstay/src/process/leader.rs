//! The leader of a process group: the child itself.
//!
//! A process number is reused once its owner is reaped and its group is empty. So the leader's end is only *looked at*
//! (`waitid` with `NOWAIT`), and the zombie is kept until [`Leader::reap`]: meanwhile its number is certainly ours, and
//! so is that of its group. Looking, signalling and reaping exclude each other by one short lock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::Child;

use super::ProcessExit;

pub(super) struct Leader {
    pid: Pid,
    held: Mutex<LeaderState>,
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
            held: Mutex::new(LeaderState {
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
        self.held().look(self.pid)
    }

    /// Waits for the leader's end. For one waiter: a second would take away the first one's wake-up.
    ///
    /// Cancel safety: safe.
    pub(super) async fn exited(&self) -> ProcessExit {
        poll_fn(|context| {
            let mut held = self.held();
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
        self.held().number_is_ours
    }

    /// Signals the whole group. Does nothing once the leader is reaped: its number may belong to another process then.
    pub(super) fn signal_group(&self, signal: Signal) {
        let held = self.held();
        if held.number_is_ours {
            // It fails only if no process is left to signal.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Reaps the zombie, which frees its number. Does nothing while the leader runs.
    pub(super) fn reap(&self) {
        let mut held = self.held();
        if let Some(exit) = held.look(self.pid)
            && held.number_is_ours
            && !matches!(held.child.try_wait(), Ok(None))
        {
            held.reaped(exit);
        }
    }

    fn held(&self) -> MutexGuard<'_, LeaderState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
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
