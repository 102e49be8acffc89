//! The one table of deadlines: when the machine must be asked next, and why.

use crate::machine::Machine;
use crate::state::{Attempt, DisconnectReason, Live, Refresh, RefreshStep, State, Watch};
use crate::time::Moment;

/// When the machine wants `Input::Timer`, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    /// The moment.
    pub at: Moment,
    /// What it is for.
    pub timer: Timer,
}

/// Everything the machine ever waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A close that must not outlive its deadline: the next dial may wait for it.
    Close,
    /// The end of a pause: the next dial.
    Start,
    /// A turn to start that must come.
    Turn,
    /// A dial and handshake that must not hang.
    Open,
    /// A listing that must not hang.
    List,
    /// A listing that is due: something changed, failed, or wants to be confirmed.
    Relist,
    /// A listing that has lived its time.
    Expiry,
    /// Living this long proves a connection.
    Proof,
    /// Time to see whether the server was silent.
    Silence,
    /// A probe that must be answered.
    Answer,
    /// Time to see whether anybody uses the server.
    Idle,
    /// The next slow probe of a server whose budget is spent.
    SlowProbe,
}

impl Machine {
    /// The next deadline. `None` only where there is nothing to wait for: at rest, or live with nothing left to prove and
    /// nothing that expires.
    pub fn deadline(&self) -> Option<Deadline> {
        let closes = self.closing.iter().chain(&self.draining);
        let closes = closes.map(|closing| Deadline {
            at: closing.by,
            timer: Timer::Close,
        });
        closes.chain(self.of_state()).min()
    }

    fn of_state(&self) -> Option<Deadline> {
        match &self.state {
            State::Connecting(attempt) | State::Reconnecting(attempt) => self.of_attempt(attempt),
            State::Connected(live) => of_live(live),
            State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => deadline(*at, Timer::SlowProbe),
            State::Disconnected(
                DisconnectReason::Idle | DisconnectReason::AuthRequired | DisconnectReason::Lost(_),
            )
            | State::Disabled
            | State::Disabling
            | State::PermanentlyFailed => None,
        }
    }

    fn of_attempt(&self, attempt: &Attempt) -> Option<Deadline> {
        match attempt {
            // While the old connection closes, its deadline is the one to wait for.
            Attempt::Pausing(..) if self.closing.is_some() => None,
            Attempt::Pausing(at, _) => deadline(*at, Timer::Start),
            Attempt::Queued(_, by) => deadline(*by, Timer::Turn),
            Attempt::Opening(_, by) => deadline(*by, Timer::Open),
            Attempt::Listing(opened) => {
                let soonest = [of_refresh(&opened.refresh), of_watch(&opened.watch)];
                soonest.into_iter().flatten().min()
            }
        }
    }
}

fn of_live(live: &Live) -> Option<Deadline> {
    let watch = of_watch(&live.watch);
    let proof = live.proven_at.map(|at| Deadline {
        at,
        timer: Timer::Proof,
    });
    let idle = live.idle_at.map(|at| Deadline {
        at,
        timer: Timer::Idle,
    });
    [of_refresh(&live.refresh), watch, proof, idle]
        .into_iter()
        .flatten()
        .min()
}

fn of_watch(watch: &Watch) -> Option<Deadline> {
    match *watch {
        Watch::Off => None,
        Watch::Listening(until) => deadline(until, Timer::Silence),
        Watch::Asked { by, .. } => deadline(by, Timer::Answer),
    }
}

fn of_refresh(refresh: &Refresh) -> Option<Deadline> {
    match refresh.step {
        RefreshStep::Fresh { until, .. } => until.and_then(|at| deadline(at, Timer::Expiry)),
        RefreshStep::Due(at) => deadline(at, Timer::Relist),
        RefreshStep::Running { by, .. } => deadline(by, Timer::List),
    }
}

fn deadline(at: Moment, timer: Timer) -> Option<Deadline> {
    Some(Deadline { at, timer })
}
