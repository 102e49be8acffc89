//! Every deadline of the machine, in one table: when the machine must be asked next, and why.

use crate::machine::Machine;
use crate::state::{Attempt, DisconnectReason, ListingPhase, OpenConnection, SilenceWatch, State};
use crate::time::Moment;

/// When the machine needs `Input::Timer`, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    /// The moment.
    pub at: Moment,
    /// The reason.
    pub timer: Timer,
}

/// Everything the machine ever waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A close must have ended: the next dial may wait for it.
    Close,
    /// The pause before the next dial ends.
    Start,
    /// The turn to start must have come.
    Turn,
    /// Dial and handshake must have ended.
    Open,
    /// A listing must have ended.
    List,
    /// A listing is due: the catalog changed, or a listing failed or must be confirmed.
    Relist,
    /// The catalog expires.
    Expiry,
    /// The stable period ends and proves the connection.
    Proof,
    /// Check whether the server has been silent.
    Silence,
    /// A probe must have been answered.
    Answer,
    /// Check whether callers still use the server.
    Idle,
    /// The next slow probe of a server whose budget is spent.
    SlowProbe,
}

impl Machine {
    /// The next deadline. `None` only if the machine waits for nothing: the server is at rest, or live with nothing left to
    /// prove, probe or expire.
    pub fn deadline(&self) -> Option<Deadline> {
        let closes = self.closing.iter().chain(&self.draining);
        let closes = closes.map(|closing| Deadline {
            at: closing.by,
            timer: Timer::Close,
        });
        closes.chain(self.state_deadline()).min()
    }

    fn state_deadline(&self) -> Option<Deadline> {
        match &self.state {
            State::Connecting { attempt, .. } => match attempt {
                // The dial waits for the close, which has a deadline of its own.
                Attempt::Pausing(..) if self.closing.is_some() => None,
                Attempt::Pausing(at, _) => deadline(*at, Timer::Start),
                Attempt::Queued(_, by) => deadline(*by, Timer::Turn),
                Attempt::Opening(_, by) => deadline(*by, Timer::Open),
                Attempt::Listing(open) => open_deadline(open),
            },
            State::Connected(live) => {
                let proof = live.proven_at.and_then(|at| deadline(at, Timer::Proof));
                let idle = live.idle_at.and_then(|at| deadline(at, Timer::Idle));
                let deadlines = [open_deadline(&live.open), proof, idle];
                deadlines.into_iter().flatten().min()
            }
            State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => deadline(*at, Timer::SlowProbe),
            State::Disconnected(
                DisconnectReason::Idle | DisconnectReason::AuthRequired | DisconnectReason::Lost(_),
            )
            | State::Disabled
            | State::Disabling
            | State::PermanentlyFailed => None,
        }
    }
}

fn open_deadline(open: &OpenConnection) -> Option<Deadline> {
    let listing = match open.listings.phase {
        ListingPhase::Current { until, .. } => until.and_then(|at| deadline(at, Timer::Expiry)),
        ListingPhase::Due(at) => deadline(at, Timer::Relist),
        ListingPhase::Running { by, .. } => deadline(by, Timer::List),
    };
    let silence = match open.silence {
        SilenceWatch::Off => None,
        SilenceWatch::CheckAt(at) => deadline(at, Timer::Silence),
        SilenceWatch::Probing { by, .. } => deadline(by, Timer::Answer),
    };
    listing.into_iter().chain(silence).min()
}

const fn deadline(at: Moment, timer: Timer) -> Option<Deadline> {
    Some(Deadline { at, timer })
}
