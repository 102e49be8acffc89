//! What people and the configuration want: enable, disable, restart, replace, adjust, demand, login.

use crate::effect::{Cause, CloseMode};
use crate::machine::Desired;
use crate::policy::Policy;
use crate::state::{Attempt, DisconnectReason, Pause, State};
use crate::step::Step;
use crate::time::Moment;
use crate::tokens::Tokens;

impl Step<'_> {
    pub(super) fn enable(&mut self, dormant: bool) {
        self.machine.desired = Desired::Enabled;
        match self.machine.state {
            State::Disabled | State::Disabling if dormant => {
                self.machine.failures = 0;
                self.enter(State::Disconnected(DisconnectReason::Idle), Cause::Enabled);
            }
            State::Disabled | State::Disabling | State::PermanentlyFailed => {
                self.machine.failures = 0;
                self.enter(State::Connecting(self.start_now()), Cause::Enabled);
            }
            State::Disconnected(DisconnectReason::Lost(at)) if !dormant => {
                self.enter(State::Reconnecting(self.start_from(at)), Cause::Enabled);
            }
            State::Connecting(_) | State::Connected(_) | State::Reconnecting(_) | State::Disconnected(_) => {}
        }
    }

    pub(super) fn disable(&mut self) {
        self.machine.desired = Desired::Disabled;
        if matches!(self.machine.state, State::Disabled | State::Disabling) {
            return;
        }
        self.cut_drain();
        self.detach(CloseMode::Cut);
        self.enter(State::Disabling, Cause::Disabled);
        if self.machine.nothing_closes() {
            self.enter(State::Disabled, Cause::Disabled);
        }
    }

    /// A person wants a new connection, and nothing of the old ones.
    pub(super) fn restart(&mut self) {
        if self.machine.desired == Desired::Enabled {
            self.cut_drain();
            self.detach(CloseMode::Cut);
            self.redial(Cause::Restarted);
        }
    }

    /// The configuration names another server.
    pub(super) fn replace(&mut self, beside: bool) {
        if self.machine.desired == Desired::Enabled {
            if beside {
                self.detach_beside();
            } else {
                self.detach(CloseMode::Drain);
            }
            self.redial(Cause::Replaced);
        }
    }

    /// A person or a new configuration wants a new connection: budget and bucket are renewed, the backoff is skipped.
    fn redial(&mut self, cause: Cause) {
        self.machine.failures = 0;
        self.machine.tokens = Tokens::full(&self.machine.policy.bucket);
        let attempt = self.start_now();
        let next = match self.machine.state {
            State::Connected(_)
            | State::Reconnecting(_)
            | State::Disconnected(DisconnectReason::BudgetSpent(..) | DisconnectReason::Lost(_)) => {
                State::Reconnecting(attempt)
            }
            State::Disabled
            | State::Connecting(_)
            | State::Disabling
            | State::Disconnected(DisconnectReason::Idle | DisconnectReason::AuthRequired)
            | State::PermanentlyFailed => State::Connecting(attempt),
        };
        self.enter(next, cause);
    }

    /// A call wants the server: one that nobody used is started, and one that was lost and not restarted is started again,
    /// at the earliest when it wishes to be.
    pub(super) fn demand(&mut self) {
        match self.machine.state {
            State::Disconnected(DisconnectReason::Idle) => {
                self.enter(State::Connecting(self.start_now()), Cause::Demanded);
            }
            State::Disconnected(DisconnectReason::Lost(at)) => {
                self.enter(State::Reconnecting(self.start_from(at)), Cause::Demanded);
            }
            State::Disconnected(DisconnectReason::AuthRequired | DisconnectReason::BudgetSpent(..))
            | State::Disabled
            | State::Connecting(_)
            | State::Connected(_)
            | State::Reconnecting(_)
            | State::Disabling
            | State::PermanentlyFailed => {}
        }
    }

    /// A server that waits for a login is dialled. An attempt that is under way may have been made with the old credential:
    /// its refusal will not be the last word.
    pub(super) fn logged_in(&mut self) {
        match &self.machine.state {
            State::Disconnected(DisconnectReason::AuthRequired) => {
                self.enter(State::Connecting(self.start_now()), Cause::LoggedIn);
            }
            State::Connecting(attempt) | State::Reconnecting(attempt) => {
                self.machine.has_new_login = match attempt {
                    // The next dial uses the new credential.
                    Attempt::Pausing(..) => false,
                    Attempt::Queued(..) | Attempt::Opening(..) | Attempt::Listing(_) => true,
                };
            }
            State::Disconnected(
                DisconnectReason::Idle | DisconnectReason::Lost(_) | DisconnectReason::BudgetSpent(..),
            )
            | State::Disabled
            | State::Connected(_)
            | State::Disabling
            | State::PermanentlyFailed => {}
        }
    }

    pub(super) fn adjust(&mut self, policy: Policy) {
        self.machine.policy = policy;
        let (watch, idle_at) = (self.listening(), self.idle_at());
        if let Some((_, watched)) = self.watched() {
            *watched = watch;
        }
        if let State::Connected(live) = &mut self.machine.state {
            live.idle_at = idle_at;
        }
        self.judge_expiry_again();
    }

    /// Starts at this moment, or at once if it is over.
    fn start_from(&self, at: Moment) -> Attempt {
        if at <= self.now {
            self.start_now()
        } else {
            Attempt::Pausing(at, Pause::Backoff)
        }
    }

    pub(super) const fn start_now(&self) -> Attempt {
        Attempt::Pausing(self.now, Pause::None)
    }
}
