//! The machine: what it remembers, and how it is asked.

use crate::effect::{CloseMode, Effects};
use crate::input::Input;
use crate::policy::{Policy, WhenLost};
use crate::state::{Attempt, DisconnectReason, Pause, State};
use crate::step::Step;
use crate::time::{Generation, Moment};
use crate::tokens::Tokens;

/// The lifecycle of one server. See the crate's documentation for the loop around it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(crate) policy: Policy,
    pub(crate) desired: Desired,
    /// Assigned in `Step::enter` alone.
    pub(crate) state: State,
    /// The connection that was detached and is not gone yet. There is never more than one: the next dial waits for it.
    pub(crate) closing: Option<Closing>,
    /// The connection that was replaced and finishes its calls beside the next one. There is never more than one.
    pub(crate) draining: Option<Closing>,
    /// A login took place since the attempt under way was dialled: if the attempt is refused for want of a login, the
    /// credential that it was refused with is an old one.
    pub(crate) has_new_login: bool,
    /// Failures in a row: attempts that failed, connections that died unproven.
    pub(crate) failures: u32,
    pub(crate) tokens: Tokens,
    /// The first start of a server's life is free; every other takes a token.
    pub(crate) started: bool,
    /// The start of the current connection took a token, and no call on it was completed yet: the first one gives the token
    /// back.
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
    pub(crate) manner: CloseMode,
    pub(crate) by: Moment,
}

impl Machine {
    /// A server that nobody has asked for yet.
    pub fn new(policy: Policy) -> Self {
        let tokens = Tokens::full(&policy.bucket);
        Self {
            policy,
            desired: Desired::Disabled,
            state: State::Disabled,
            closing: None,
            draining: None,
            has_new_login: false,
            failures: 0,
            tokens,
            started: false,
            owes_work: false,
        }
    }

    /// A server whose machine was lost: it is wanted, and dialled at this moment, or when it is asked for. No connection is left
    /// of it. Its failures are forgotten and its bucket is full, but its next start takes a token: it is not the first.
    pub fn resumed(policy: Policy, at: Moment) -> Self {
        let state = match policy.when_lost {
            WhenLost::Restart => State::Reconnecting(Attempt::Pausing(at, Pause::Backoff)),
            WhenLost::StayDisconnected => State::Disconnected(DisconnectReason::Lost(at)),
        };
        Self {
            desired: Desired::Enabled,
            state,
            started: true,
            ..Self::new(policy)
        }
    }

    /// Takes one input and says what to start. `fresh` is a generation that nobody has used: a connection that this
    /// input opens gets it.
    pub fn handle(&mut self, input: Input, now: Moment, fresh: Generation) -> Effects {
        Step::new(self, now, fresh).run(input)
    }

    /// Where the server is in its life.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// What is wanted of the server.
    pub const fn desired(&self) -> Desired {
        self.desired
    }

    /// Failures in a row so far.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// How the server is kept.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The generation that found nobody where the server should be, as long as the next dial waits for a return: whoever
    /// sees somebody there meanwhile says so with [`Input::Reachable`]. The pause ends by itself, too.
    pub const fn unreachable(&self) -> Option<Generation> {
        self.state.unreachable()
    }

    /// The generation that was detached and is not closed yet, if the next dial waits for it.
    pub fn closing(&self) -> Option<Generation> {
        self.closing.as_ref().map(|closing| closing.generation)
    }

    /// The generation that was replaced and finishes its calls, while the next one is dialled and used.
    pub fn draining(&self) -> Option<Generation> {
        self.draining.as_ref().map(|draining| draining.generation)
    }

    /// Whether every connection that was detached is gone.
    pub(crate) const fn nothing_closes(&self) -> bool {
        self.closing.is_none() && self.draining.is_none()
    }
}
