//! Dialling and closing: the only places that open a connection, and that take one out of service.

use crate::effect::{Cause, CloseMode, Effect};
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
        self.machine.has_new_login = false;
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

    /// Takes the current connection, if there is one, out of service, and starts its close. The next dial waits for it.
    pub(super) fn detach(&mut self, manner: CloseMode) {
        if let Some(closing) = self.start_close(manner) {
            self.machine.closing = Some(closing);
        }
    }

    /// Takes a live connection out of service, and lets it finish its calls beside the next one. There is room for one such
    /// connection: an older one is cut short. A connection that is not live has no calls to finish.
    pub(super) fn detach_beside(&mut self) {
        if !matches!(self.machine.state, State::Connected(_)) {
            return self.detach(CloseMode::Drain);
        }
        if let Some(older) = self.machine.draining.take() {
            self.effects.push(Effect::Abandon(older.generation));
        }
        self.machine.draining = self.start_close(CloseMode::Drain);
    }

    fn start_close(&mut self, manner: CloseMode) -> Option<Closing> {
        let generation = self.machine.state.generation()?;
        self.machine.owes_work = false;
        self.machine.has_new_login = false;
        let limits = &self.machine.policy.limits;
        let patience = match manner {
            CloseMode::Cut => limits.close,
            CloseMode::Drain => limits.close.saturating_add(limits.drain),
        };
        self.effects.push(Effect::Close(generation, manner));
        Some(Closing {
            generation,
            manner,
            by: self.now + patience,
        })
    }

    /// Cuts what drains: nobody wants to wait for its calls any more.
    pub(super) fn cut_drain(&mut self) {
        let by = self.now + self.machine.policy.limits.close;
        let closes = self.machine.closing.iter_mut().chain(&mut self.machine.draining);
        for closing in closes.filter(|closing| closing.manner == CloseMode::Drain) {
            closing.manner = CloseMode::Cut;
            closing.by = closing.by.min(by);
            self.effects.push(Effect::CutDrain(closing.generation));
        }
    }

    pub(super) fn closed(&mut self, generation: Generation) {
        let machine = &mut self.machine;
        let is_it = |closing: &mut Closing| closing.generation == generation;
        let closed = machine.closing.take_if(is_it).or(machine.draining.take_if(is_it));
        match closed {
            Some(_) => self.close_ended(),
            None => self.effects.push(Effect::CountStale(generation)),
        }
    }

    /// Abandons the closes that have outlived their deadlines.
    pub(super) fn abandon_overdue(&mut self) {
        let (machine, now) = (&mut self.machine, self.now);
        let is_over = |closing: &mut Closing| closing.by <= now;
        let over = [
            machine.closing.take_if(is_over),
            machine.draining.take_if(is_over),
        ];
        let over = over.into_iter().flatten();
        self.effects
            .extend(over.map(|closing| Effect::Abandon(closing.generation)));
        self.close_ended();
    }

    fn close_ended(&mut self) {
        if self.machine.state == State::Disabling && self.machine.nothing_closes() {
            self.enter(State::Disabled, Cause::Closed);
        }
    }
}
