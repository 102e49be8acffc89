//! What people and the configuration want: enable, disable, restart, replace, adjust, demand, login.

use crate::effect::{Cause, Manner};
use crate::machine::Desired;
use crate::policy::Policy;
use crate::state::{Attempt, Pause, Rest, State};
use crate::step::Step;
use crate::time::Moment;
use crate::tokens::Tokens;

impl Step<'_> {
    pub(super) fn enable(&mut self, dormant: bool) {
        self.machine.desired = Desired::Enabled;
        match self.machine.state {
            State::Disabled | State::Disabling if dormant => {
                self.machine.failures = 0;
                self.enter(State::Disconnected(Rest::Idle), Cause::Enabled);
            }
            State::Disabled | State::Disabling | State::PermanentlyFailed => {
                self.machine.failures = 0;
                self.enter(State::Connecting(self.start_now()), Cause::Enabled);
            }
            State::Disconnected(Rest::Lost(at)) if !dormant => {
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
        self.hasten();
        self.detach(Manner::Cut);
        self.enter(State::Disabling, Cause::Disabled);
        if self.machine.nothing_closes() {
            self.enter(State::Disabled, Cause::Disabled);
        }
    }

    /// A person wants a new connection, and nothing of the old ones.
    pub(super) fn restart(&mut self) {
        if self.machine.desired == Desired::Enabled {
            self.hasten();
            self.detach(Manner::Cut);
            self.redial(Cause::Restarted);
        }
    }

    /// The configuration names another server.
    pub(super) fn replace(&mut self, beside: bool) {
        if self.machine.desired == Desired::Enabled {
            if beside {
                self.detach_beside();
            } else {
                self.detach(Manner::Drain);
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
            | State::Disconnected(Rest::BudgetSpent(..) | Rest::Lost(_)) => State::Reconnecting(attempt),
            State::Disabled
            | State::Connecting(_)
            | State::Disabling
            | State::Disconnected(Rest::Idle | Rest::AuthRequired)
            | State::PermanentlyFailed => State::Connecting(attempt),
        };
        self.enter(next, cause);
    }

    /// A call wants the server: one that nobody used is started, and one that was lost and not restarted is started again,
    /// at the earliest when it wishes to be.
    pub(super) fn demand(&mut self) {
        match self.machine.state {
            State::Disconnected(Rest::Idle) => {
                self.enter(State::Connecting(self.start_now()), Cause::Demanded);
            }
            State::Disconnected(Rest::Lost(at)) => {
                self.enter(State::Reconnecting(self.start_from(at)), Cause::Demanded);
            }
            State::Disconnected(Rest::AuthRequired | Rest::BudgetSpent(..))
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
            State::Disconnected(Rest::AuthRequired) => {
                self.enter(State::Connecting(self.start_now()), Cause::LoggedIn);
            }
            State::Connecting(attempt) | State::Reconnecting(attempt) => {
                self.machine.has_new_login = match attempt {
                    // The next dial uses the new credential.
                    Attempt::Pausing(..) => false,
                    Attempt::Queued(..) | Attempt::Opening(..) | Attempt::Listing(_) => true,
                };
            }
            State::Disconnected(Rest::Idle | Rest::Lost(_) | Rest::BudgetSpent(..))
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
