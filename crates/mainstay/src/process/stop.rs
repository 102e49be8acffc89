//! The stop ladder: end of input, SIGTERM, SIGKILL, then a sweep of what escaped the group.
//!
//! The leader gets time to end by itself. What outlives it gets less, because a server that crashed waits to be started
//! again. Each rung has its own bound, and their sum bounds the whole. If a shutdown deadline leaves less time, all rungs
//! come sooner, also when the deadline is set while the stop is under way.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::ladder::{Ladder, ShutdownDeadline, StopSchedule};
use super::{Process, ProcessExit, scan, shared_scan};

/// The result of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Stopped {
    /// How the leader ended; `None` if it survived.
    pub(crate) exit: Option<ProcessExit>,
    /// What ended the leader.
    pub(crate) by: Rung,
    /// How many other processes outlived the leader and had to be ended.
    pub(crate) swept: usize,
    /// How many processes of the tree, the leader included, were still there at the deadline.
    pub(crate) survivors: usize,
    /// How long it took.
    pub(crate) took: Duration,
}

/// What ended a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// It had ended before the stop began.
    Exited,
    /// The end of its input.
    Eof,
    /// SIGTERM.
    Terminated,
    /// SIGKILL.
    Killed,
}

/// From one look at a tree that was signalled to the next: the end of a process that is not our child is no event.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

impl Process {
    /// Ends the whole tree. The caller holds the leader's input and closes it before; otherwise the first rung cannot
    /// succeed. Takes one look at `/proc` when the leader has ended and left no process behind.
    ///
    /// Cancel safety: dropping a stop kills the tree, as dropping the [`Process`] does.
    pub(crate) async fn stop(mut self, ladder: &Ladder, shutdown_deadline: &ShutdownDeadline) -> Stopped {
        let started = Instant::now();
        let mut schedule = StopSchedule::begin(ladder, shutdown_deadline);
        let by = self.end_leader(ladder, &mut schedule).await;
        let (swept, left) = self.end_others(ladder, &mut schedule, by).await;
        // For systems on which the scan sees nothing, this is what ends the rest of the group.
        self.tree.leader.signal_group(Signal::KILL);

        let exit = self.tree.leader.exit();
        let survivors = left + usize::from(exit.is_none());
        if survivors > 0 {
            tracing::warn!(
                pid = self.pid(),
                marker = self.marker(),
                survivors,
                "processes survive their stop"
            );
        }
        self.drain_stderr().await;
        if survivors == 0 {
            self.note_gone();
        }
        Stopped {
            exit,
            by,
            swept,
            survivors,
            took: started.elapsed(),
        }
    }

    async fn end_leader(&self, ladder: &Ladder, schedule: &mut StopSchedule) -> Rung {
        if self.tree.leader.exit().is_some() {
            return Rung::Exited;
        }
        if self.exits_before(schedule.time_to_term()).await {
            return Rung::Eof;
        }
        self.tree.leader.signal_group(Signal::TERM);
        // A stopped process acts on SIGTERM only once it continues.
        self.tree.leader.signal_group(Signal::CONT);
        if self.exits_before(schedule.time_to_kill()).await {
            return Rung::Terminated;
        }
        self.tree.leader.signal_group(Signal::KILL);
        // A killed leader ends in next to no time, so the schedule does not shorten this.
        let _ = timeout(ladder.kill_grace, self.exited()).await;
        Rung::Killed
    }

    async fn exits_before(&self, end: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            _ = self.exited() => true,
            () = end => false,
        }
    }

    /// Ends the processes that outlived the leader. Returns how many there were, and how many are left.
    async fn end_others(&self, ladder: &Ladder, schedule: &mut StopSchedule, by: Rung) -> (usize, usize) {
        let mut sweep = Sweep {
            process: self,
            seen: HashSet::new(),
        };
        let grace = match by {
            Rung::Exited | Rung::Eof | Rung::Terminated => ladder.straggler_grace,
            // The whole group had its time.
            Rung::Killed => Duration::ZERO,
        };
        let kill_at = Instant::now() + grace;
        let deadline = kill_at + ladder.kill_grace;

        let mut left = sweep.look(None, deadline).await;
        if left > 0 && !grace.is_zero() {
            // For many programs a second SIGTERM means "drop everything", so the group gets only one.
            if by != Rung::Terminated {
                self.tree.leader.signal_group(Signal::TERM);
                self.tree.leader.signal_group(Signal::CONT);
            }
            sweep.look(Some(Signal::TERM), deadline).await;
            sweep.look(Some(Signal::CONT), deadline).await;
            while left > 0 && Instant::now() < kill_at.min(schedule.sweep_at()) {
                sleep(LOOK_INTERVAL).await;
                left = sweep.look(None, deadline).await;
            }
        }
        // Again and again, because a process may fork in the midst of a look.
        while left > 0 && Instant::now() < deadline {
            self.tree.leader.signal_group(Signal::KILL);
            left = sweep.look(Some(Signal::KILL), deadline).await;
            if left > 0 {
                sleep(LOOK_INTERVAL).await;
            }
        }
        (sweep.seen.len(), left)
    }
}

/// The search for processes that outlived their leader.
struct Sweep<'a> {
    process: &'a Process,
    seen: HashSet<Pid>,
}

impl Sweep<'_> {
    /// Sends the signal, if there is one, to the processes that left the group, and returns how many processes there are. A
    /// look that does not end in time proves nothing gone: the environment of a process stuck in the kernel may hang.
    async fn look(&mut self, signal: Option<Signal>, deadline: Instant) -> usize {
        match timeout_at(deadline, self.left(signal)).await {
            Ok(Some(left)) => {
                self.seen.extend(&left);
                left.len()
            }
            Ok(None) | Err(_) => self.seen.len().max(1),
        }
    }

    /// The processes that are left; `None` where the scan failed.
    async fn left(&self, signal: Option<Signal>) -> Option<HashSet<Pid>> {
        let scan = shared_scan::look().await?;
        let tree = &self.process.tree;
        let found = tree.others(&scan);
        // The usual case: nothing is left.
        if found.is_empty() && self.seen.is_empty() {
            return Some(found);
        }
        let (tree, seen) = (Arc::clone(tree), self.seen.clone());
        let look = spawn_blocking(move || {
            if let Some(signal) = signal {
                tree.signal_escaped(&found, signal);
            }
            // A dying process loses its environment a moment before it is gone; gone is what counts.
            let dying = seen.into_iter().filter(|&pid| scan::group_of(pid).is_some());
            dying.chain(found).collect()
        });
        look.await.ok()
    }
}
