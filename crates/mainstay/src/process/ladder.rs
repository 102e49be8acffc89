//! The rungs of a stop, and when each of them comes.
//!
//! A stop that has time enough takes the rungs as they are. One that has not takes all of them too, each in proportion
//! sooner: whoever must be gone in a second is still told by the end of its input, and by SIGTERM, before it is killed.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::shutdown_deadline::ShutdownDeadline;

/// How long each rung of a stop may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ladder {
    /// From the end of its input until the leader is sent SIGTERM.
    pub(crate) eof_grace: Duration,
    /// From SIGTERM until SIGKILL.
    pub(crate) term_grace: Duration,
    /// For those who outlive the leader: from SIGTERM until SIGKILL.
    pub(crate) straggler_grace: Duration,
    /// From SIGKILL until the tree must be gone; what is left then is stuck in the kernel, or not ours to signal.
    pub(crate) kill_grace: Duration,
}

/// What [`Process::drain_stderr`](super::Process::drain_stderr) and the last look at the tree take at most.
const LAST_MOMENT: Duration = Duration::from_millis(100);

impl Ladder {
    /// The longest a stop takes: the sum of its rungs, where SIGKILL counts twice (for the leader, and for those who
    /// outlive it), and the moment that reading the last of stderr and a last attempt on survivors may take.
    pub(crate) fn longest(&self) -> Duration {
        self.eof_grace + self.term_grace + self.straggler_grace + 2 * self.kill_grace + LAST_MOMENT
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

/// One stop on its way down the ladder: when its rungs come, as far as it need not hurry.
#[derive(Debug)]
pub(super) struct StopSchedule {
    shutdown_deadline: ShutdownDeadline,
    /// When the leader is sent SIGTERM.
    term_at: Instant,
    /// When it is sent SIGKILL.
    kill_at: Instant,
    /// When those who outlived it are, at the latest.
    sweep_at: Instant,
    /// When nothing is left, at the latest.
    end: Instant,
}

impl StopSchedule {
    pub(super) fn begin(ladder: &Ladder, shutdown_deadline: &ShutdownDeadline) -> Self {
        let now = Instant::now();
        let term_at = now + ladder.eof_grace;
        let kill_at = term_at + ladder.term_grace;
        let mut climb = Self {
            shutdown_deadline: shutdown_deadline.clone(),
            term_at,
            kill_at,
            sweep_at: kill_at + ladder.straggler_grace,
            end: now + ladder.longest(),
        };
        climb.heed();
        climb
    }

    /// Comes back when it is time for SIGTERM, which may become sooner meanwhile.
    ///
    /// Cancel safety: safe.
    pub(super) async fn time_to_term(&mut self) {
        self.time_to(|climb| climb.term_at).await;
    }

    /// Comes back when it is time for SIGKILL, which may become sooner meanwhile.
    ///
    /// Cancel safety: safe.
    pub(super) async fn time_to_kill(&mut self) {
        self.time_to(|climb| climb.kill_at).await;
    }

    /// When those who outlived the leader are killed, as far as is known now.
    pub(super) fn sweep_at(&mut self) -> Instant {
        self.heed();
        self.sweep_at
    }

    async fn time_to(&mut self, rung: fn(&Self) -> Instant) {
        loop {
            let heard = self.heed();
            tokio::select! {
                biased;
                () = sleep_until(rung(self)) => return,
                () = self.shutdown_deadline.changed(heard) => {}
            }
        }
    }

    fn heed(&mut self) -> Option<Instant> {
        let by = self.shutdown_deadline.at();
        if let Some(by) = by {
            self.hasten(by, Instant::now());
        }
        by
    }

    /// Brings nearer what is still to come, in proportion, so that the end comes no later than this.
    fn hasten(&mut self, by: Instant, now: Instant) {
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

#[cfg(test)]
mod tests;
