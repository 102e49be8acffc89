//! The stop ladder: end of input, SIGTERM, SIGKILL, then whatever escaped the group.
//!
//! The leader is given time to end well; whoever outlives it gets a shorter time, because a server that crashed is
//! waiting to be started again. Each rung has its own bound, and their sum bounds the whole. Where a shutdown_deadline leaves less
//! time than that, all rungs come sooner, also when it is called while the stop is under way.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::ladder::{Ladder, StopSchedule};
use super::scan;
use super::shutdown_deadline::ShutdownDeadline;
use super::sightings;
use super::{Exit, Process};

/// What a stop came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Stopped {
    /// How the leader ended; `None` if it survived.
    pub(crate) exit: Option<Exit>,
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

/// Between two looks at a tree that was told to end: no event tells of the end of another's child.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Process {
    /// Ends the whole tree. The leader's input is closed by the caller, who holds it; until then the first rung cannot
    /// succeed. Returns at once (one look at `/proc`) when the leader has ended and left nobody behind.
    ///
    /// Cancel safety: a stop dropped half way kills the tree, as dropping the [`Process`] does.
    pub(crate) async fn stop(mut self, ladder: &Ladder, shutdown_deadline: &ShutdownDeadline) -> Stopped {
        let started = Instant::now();
        let mut climb = StopSchedule::begin(ladder, shutdown_deadline);
        let by = self.end_leader(ladder, &mut climb).await;
        let (swept, left) = self.end_others(ladder, &mut climb, by).await;
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

    async fn end_leader(&self, ladder: &Ladder, climb: &mut StopSchedule) -> Rung {
        if self.tree.leader.exit().is_some() {
            return Rung::Exited;
        }
        if self.exits_before(climb.time_to_term()).await {
            return Rung::Eof;
        }
        self.tree.leader.signal_group(Signal::TERM);
        // A stopped process acts on SIGTERM only once it continues.
        self.tree.leader.signal_group(Signal::CONT);
        if self.exits_before(climb.time_to_kill()).await {
            return Rung::Terminated;
        }
        self.tree.leader.signal_group(Signal::KILL);
        // Nobody is given this time, and a killed leader takes next to none of it: it is the same in a hurry.
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

    /// Ends who outlived the leader. Returns how many there were, and how many there still are.
    async fn end_others(&self, ladder: &Ladder, climb: &mut StopSchedule, by: Rung) -> (usize, usize) {
        let mut hunt = Sweep {
            process: self,
            seen: HashSet::new(),
        };
        let mercy = match by {
            Rung::Exited | Rung::Eof | Rung::Terminated => ladder.straggler_grace,
            // It was shown to the whole group, and not taken.
            Rung::Killed => Duration::ZERO,
        };
        let kill_at = Instant::now() + mercy;
        let deadline = kill_at + ladder.kill_grace;

        let mut left = hunt.look(None, deadline).await;
        if left > 0 && !mercy.is_zero() {
            // For many programs a second SIGTERM means "drop everything", so the group gets only one.
            if by != Rung::Terminated {
                self.tree.leader.signal_group(Signal::TERM);
                self.tree.leader.signal_group(Signal::CONT);
            }
            hunt.look(Some(Signal::TERM), deadline).await;
            hunt.look(Some(Signal::CONT), deadline).await;
            while left > 0 && Instant::now() < kill_at.min(climb.sweep_at()) {
                sleep(LOOK_AGAIN).await;
                left = hunt.look(None, deadline).await;
            }
        }
        // Again and again, because a process may fork in the midst of a look.
        while left > 0 && Instant::now() < deadline {
            self.tree.leader.signal_group(Signal::KILL);
            left = hunt.look(Some(Signal::KILL), deadline).await;
            if left > 0 {
                sleep(LOOK_AGAIN).await;
            }
        }
        (hunt.seen.len(), left)
    }
}

/// The search for those who outlived their leader.
struct Sweep<'a> {
    process: &'a Process,
    seen: HashSet<Pid>,
}

impl Sweep<'_> {
    /// Returns how many there are, after signalling those who left the group, if told to. A look that does not end in
    /// time (reading the environment of a process stuck in the kernel may hang) proves nothing gone.
    async fn look(&mut self, signal: Option<Signal>, deadline: Instant) -> usize {
        match timeout_at(deadline, self.left(signal)).await {
            Ok(Some(left)) => {
                self.seen.extend(&left);
                left.len()
            }
            Ok(None) | Err(_) => self.seen.len().max(1),
        }
    }

    /// Who is left; `None` where that could not be seen.
    async fn left(&self, signal: Option<Signal>) -> Option<HashSet<Pid>> {
        let sightings = sightings::look().await?;
        let tree = &self.process.tree;
        let found = tree.others(&sightings);
        // The usual case: nobody is left, and there is nothing more to read.
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
