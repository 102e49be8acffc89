//! Dialling and closing: the only places that open a connection, and that take one out of service.

use crate::effect::{Cause, Effect, Manner};
use crate::machine::Closing;
use crate::state::{Attempt, Pause, State};
use crate::step::Step;
use crate::time::Generation;

impl Step<'_> {
    /// Opens the next connection if its pause is over, the old one is gone, and there is a token.
    pub(super) fn start_if_due(&mut self) {
        let due = matches!(self.attempt(), Some(Attempt::Pausing(at, _)) if *at <= self.now);
        let Some(fresh) = self.fresh.filter(|_| due && self.machine.closing.is_none()) else {
            return;
        };
        if self.machine.started {
            if let Err(at) = self.machine.tokens.take(&self.machine.policy.bucket, self.now) {
                return self.set_attempt(Attempt::Pausing(at, Pause::Token));
            }
            self.machine.owes_work = true;
        }
        self.fresh = None;
        self.machine.started = true;
        self.set_attempt(Attempt::Queued(fresh, self.now + self.machine.policy.limits.turn));
        self.effects.push(Effect::Open(fresh));
    }

    /// The turn to start has come. The time that the start may take begins here.
    pub(super) fn begun(&mut self) {
        if let Some(Attempt::Queued(generation, _)) = self.attempt() {
            let by = self.now + self.machine.policy.limits.open;
            self.set_attempt(Attempt::Opening(*generation, by));
        }
    }

    pub(super) fn attempt(&self) -> Option<&Attempt> {
        match &self.machine.state {
            State::Connecting(attempt) | State::Reconnecting(attempt) => Some(attempt),
            State::Disabled
            | State::Connected(_)
            | State::Disabling
            | State::Disconnected(_)
            | State::PermanentlyFailed => None,
        }
    }

    /// Moves an attempt on to its next step; the server stays connecting or reconnecting.
    pub(super) fn set_attempt(&mut self, next: Attempt) {
        if let State::Connecting(attempt) | State::Reconnecting(attempt) = &mut self.machine.state {
            *attempt = next;
        }
    }

    /// Takes the current connection, if there is one, out of service, and starts its close. One that drains already is
    /// cut too if that is wanted now.
    pub(super) fn detach(&mut self, manner: Manner) {
        let Some(generation) = self.machine.state.generation() else {
            if manner == Manner::Cut {
                self.hasten();
            }
            return;
        };
        self.machine.owes_work = false;
        let limits = &self.machine.policy.limits;
        let patience = match manner {
            Manner::Cut => limits.close,
            Manner::Drain => limits.close.saturating_add(limits.drain),
        };
        self.machine.closing = Some(Closing {
            generation,
            manner,
            by: self.now + patience,
        });
        self.effects.push(Effect::Close(generation, manner));
    }

    fn hasten(&mut self) {
        let by = self.now + self.machine.policy.limits.close;
        if let Some(closing) = &mut self.machine.closing
            && closing.manner == Manner::Drain
        {
            closing.manner = Manner::Cut;
            closing.by = closing.by.min(by);
            self.effects.push(Effect::Hasten(closing.generation));
        }
    }

    pub(super) fn closed(&mut self, generation: Generation) {
        match &self.machine.closing {
            Some(closing) if closing.generation == generation => self.close_ended(),
            Some(_) | None => self.effects.push(Effect::CountStale(generation)),
        }
    }

    pub(super) fn close_ended(&mut self) {
        self.machine.closing = None;
        if self.machine.state == State::Disabling {
            self.enter(State::Disabled, Cause::Closed);
        }
    }
}
