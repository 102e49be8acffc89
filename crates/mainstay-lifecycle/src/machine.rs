//! The machine: what it remembers between inputs, and every deadline of it in one table.

use crate::effect::{CloseMode, Effects};
use crate::input::Input;
use crate::policy::{Policy, WhenLost};
use crate::state::{Attempt, DisconnectReason, ListingPhase, OpenConnection, Pause, SilenceWatch, State};
use crate::step::MachineStep;
use crate::time::{Generation, Moment};
use crate::tokens::Tokens;

/// The lifecycle of one server. The crate's documentation shows the loop around it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(crate) policy: Policy,
    /// Assigned in `MachineStep::enter` alone.
    pub(crate) state: State,
    /// The connection that left service and is being closed. The next dial waits for it.
    pub(crate) closing: Option<Closing>,
    /// Connections that were replaced and finish their calls beside the next one, the oldest first: as many as the policy allows.
    pub(crate) draining: Vec<Closing>,
    /// Failures in a row: attempts that failed, and connections that ended unproven.
    pub(crate) failures: u32,
    pub(crate) tokens: Tokens,
    /// The server was started before. The first start is free; every other takes a token.
    pub(crate) started: bool,
    /// The start of the current connection took a token, and the connection has completed no call yet.
    pub(crate) owes_work: bool,
}

/// What the person or the configuration wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Desired {
    /// The server shall be connected, or ready to be.
    Enabled,
    /// Nothing of the server shall run.
    Disabled,
}

/// A close under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Closing {
    pub(crate) generation: Generation,
    pub(crate) mode: CloseMode,
    pub(crate) by: Moment,
}

impl Machine {
    /// A server that has never been enabled.
    pub fn new(policy: Policy) -> Self {
        let tokens = Tokens::full(&policy.bucket);
        Self {
            policy,
            state: State::Disabled,
            closing: None,
            draining: Vec::new(),
            failures: 0,
            tokens,
            started: false,
            owes_work: false,
        }
    }

    /// An enabled server whose machine was lost with its keeper, and of which no connection is left. The policy decides
    /// whether it is dialled at this moment or at the next call. Its failures are forgotten and its bucket is full, but
    /// its next start takes a token: it is not the first.
    pub fn resumed(policy: Policy, at: Moment) -> Self {
        let state = match policy.when_lost {
            WhenLost::Restart => State::Connecting {
                is_first: false,
                has_new_login: false,
                attempt: Attempt::Pausing(at, Pause::Backoff),
            },
            WhenLost::StayDisconnected => State::Disconnected(DisconnectReason::Lost(at)),
        };
        Self {
            state,
            started: true,
            ..Self::new(policy)
        }
    }

    /// Takes one input and returns the effects to start. `fresh` is an unused generation: a connection that this input
    /// opens gets it.
    pub fn handle(&mut self, input: Input, now: Moment, fresh: Generation) -> Effects {
        MachineStep::new(self, now, fresh).run(input)
    }

    /// The current state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Whether the server is wanted. The state says so too: only an unwanted server is disabled or disabling.
    pub const fn desired(&self) -> Desired {
        match self.state {
            State::Disabled | State::Disabling => Desired::Disabled,
            State::Connecting { .. }
            | State::Connected(_)
            | State::Disconnected(_)
            | State::PermanentlyFailed => Desired::Enabled,
        }
    }

    /// Failures in a row so far.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// The starts that the bucket allows without a pause, and when the next one is added if the bucket is not full.
    pub const fn start_tokens(&self) -> (u32, Option<Moment>) {
        self.tokens.left()
    }

    /// The policy in force.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The generation that could not reach the server's address, while the next dial waits for that address. When the
    /// address is reachable again, report [`Input::Reachable`]. The pause also ends by itself.
    pub const fn unreachable(&self) -> Option<Generation> {
        self.state.unreachable()
    }

    /// The generation that is being closed, if the next dial waits for it.
    pub fn closing(&self) -> Option<Generation> {
        self.closing.as_ref().map(|closing| closing.generation)
    }

    /// The generations that were replaced and finish their calls, while the next one is dialled and used.
    pub fn draining(&self) -> impl Iterator<Item = Generation> {
        self.draining.iter().map(|draining| draining.generation)
    }
}

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
            State::Disconnected(
                DisconnectReason::BudgetSpent(at, _) | DisconnectReason::CredentialRefused(at),
            ) => deadline(*at, Timer::SlowProbe),
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
        ListingPhase::Due(at) | ListingPhase::Refused(at) => deadline(at, Timer::Relist),
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
