//! The rungs of a stop, when each of them comes, and the deadline that brings them nearer.
//!
//! A stop with less time than its ladder takes every rung sooner, in proportion. So even a process that must be gone in a
//! second sees the end of its input and SIGTERM before it is killed.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long each rung of a stop may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ladder {
    /// From the end of its input until the leader is sent SIGTERM.
    pub(crate) eof_grace: Duration,
    /// From SIGTERM until SIGKILL.
    pub(crate) term_grace: Duration,
    /// For processes that outlive the leader: from SIGTERM until SIGKILL.
    pub(crate) straggler_grace: Duration,
    /// From SIGKILL until the tree must be gone; what is left then is stuck in the kernel, or not ours to signal.
    pub(crate) kill_grace: Duration,
}

/// What [`Process::drain_stderr`](super::Process::drain_stderr) and the last look at the tree take at most.
const LAST_LOOK_GRACE: Duration = Duration::from_millis(100);

impl Ladder {
    /// The longest a stop takes: the sum of its rungs and of the last moment. SIGKILL counts twice: for the leader, and for
    /// the processes that outlive it.
    pub(crate) fn longest(&self) -> Duration {
        self.eof_grace + self.term_grace + self.straggler_grace + 2 * self.kill_grace + LAST_LOOK_GRACE
    }
}

impl Default for Ladder {
    fn default() -> Self {
        Self {
            eof_grace: Duration::from_secs(2),
            term_grace: Duration::from_secs(2),
            straggler_grace: Duration::from_millis(200),
            kill_grace: Duration::from_millis(500),
        }
    }
}

/// When the rungs of one stop come.
#[derive(Debug)]
pub(super) struct StopSchedule {
    shutdown_deadline: ShutdownDeadline,
    /// When the leader is sent SIGTERM.
    term_at: Instant,
    /// When it is sent SIGKILL.
    kill_at: Instant,
    /// When the processes that outlived it are sent SIGKILL, at the latest.
    sweep_at: Instant,
    /// When nothing is left, at the latest.
    end: Instant,
}

impl StopSchedule {
    pub(super) fn begin(ladder: &Ladder, shutdown_deadline: &ShutdownDeadline) -> Self {
        let now = Instant::now();
        let term_at = now + ladder.eof_grace;
        let kill_at = term_at + ladder.term_grace;
        let mut schedule = Self {
            shutdown_deadline: shutdown_deadline.clone(),
            term_at,
            kill_at,
            sweep_at: kill_at + ladder.straggler_grace,
            end: now + ladder.longest(),
        };
        schedule.apply_deadline();
        schedule
    }

    /// Waits until it is time for SIGTERM. A deadline that is set meanwhile brings it nearer.
    ///
    /// Cancel safety: safe.
    pub(super) async fn time_to_term(&mut self) {
        self.time_to(|schedule| schedule.term_at).await;
    }

    /// Waits until it is time for SIGKILL. A deadline that is set meanwhile brings it nearer.
    ///
    /// Cancel safety: safe.
    pub(super) async fn time_to_kill(&mut self) {
        self.time_to(|schedule| schedule.kill_at).await;
    }

    /// When the processes that outlived the leader are killed, by the deadline as it is now.
    pub(super) fn sweep_at(&mut self) -> Instant {
        self.apply_deadline();
        self.sweep_at
    }

    async fn time_to(&mut self, rung: fn(&Self) -> Instant) {
        loop {
            let known = self.apply_deadline();
            tokio::select! {
                biased;
                () = sleep_until(rung(self)) => return,
                () = self.shutdown_deadline.changed(known) => {}
            }
        }
    }

    /// Makes the schedule fit the deadline, and returns the deadline.
    fn apply_deadline(&mut self) -> Option<Instant> {
        let by = self.shutdown_deadline.at();
        if let Some(by) = by {
            self.shorten(by, Instant::now());
        }
        by
    }

    /// Brings the coming rungs nearer, in proportion, so that the end is no later than `by`.
    fn shorten(&mut self, by: Instant, now: Instant) {
        let planned = self.end.saturating_duration_since(now);
        let given = by.saturating_duration_since(now);
        if given >= planned {
            return;
        }
        let share = given.as_secs_f64() / planned.as_secs_f64();
        for at in [
            &mut self.term_at,
            &mut self.kill_at,
            &mut self.sweep_at,
            &mut self.end,
        ] {
            *at = now + at.saturating_duration_since(now).mul_f64(share);
        }
    }
}

/// By when all processes of a fleet must be gone, those that are being stopped included. It only comes nearer, and is never
/// lifted. Clones are the same deadline.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownDeadline(watch::Sender<Option<Instant>>);

impl Default for ShutdownDeadline {
    /// Not set: every stop takes its whole ladder.
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl ShutdownDeadline {
    /// Sets the deadline, unless it is earlier already.
    pub(crate) fn call(&self, by: Instant) {
        self.0.send_if_modified(|at| {
            let earlier = at.is_none_or(|at| by < at);
            if earlier {
                *at = Some(by);
            }
            earlier
        });
    }

    /// The deadline, if it is set.
    pub(crate) fn at(&self) -> Option<Instant> {
        *self.0.borrow()
    }

    /// Waits until it is set.
    ///
    /// Cancel safety: safe.
    pub(crate) async fn called(&self) {
        self.changed(None).await;
    }

    /// Waits until it has passed.
    ///
    /// Cancel safety: safe.
    pub(crate) async fn over(&self) {
        loop {
            let at = self.at();
            let over = async {
                match at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                () = self.changed(at) => {}
            }
        }
    }

    /// Waits until it differs from `known`.
    ///
    /// Cancel safety: safe.
    async fn changed(&self, known: Option<Instant>) {
        // The sender is not gone: this is it.
        let _ = self.0.subscribe().wait_for(|at| *at != known).await;
    }
}

#[cfg(test)]
mod tests;
