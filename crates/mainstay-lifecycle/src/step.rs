//! One step of the machine: an input, met by a state, at a moment.
//!
//! Invariants: the state is assigned in `enter` alone; each `Open` is followed by exactly one `Close` of the same
//! generation; nothing is opened while something closes; a report counts only if it names the current generation.

use std::time::Duration;

use crate::deadline::Timer;
use crate::effect::{Cause, Effect, Effects, Manner, Transition};
use crate::input::{Input, Listing, Recovery, Vitals};
use crate::machine::{Closing, Desired, Machine};
use crate::policy::{Policy, WhenSpent};
use crate::state::{Attempt, Live, Pause, Refresh, RefreshStep, Rest, State, StateKind, Watch};
use crate::time::{Generation, Moment, jittered};
use crate::tokens::Tokens;

/// Each expired timer moves a deadline on, so a handful is plenty; a policy of zero durations must not spin for ever.
const TIMERS_A_STEP: usize = 16;

pub(crate) struct Step<'a> {
    machine: &'a mut Machine,
    now: Moment,
    fresh: Generation,
    effects: Vec<Effect>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(machine: &'a mut Machine, now: Moment, fresh: Generation) -> Self {
        Self {
            machine,
            now,
            fresh,
            effects: Vec::new(),
        }
    }

    pub(crate) fn run(mut self, input: Input) -> Effects {
        self.machine.tokens.settle(&self.machine.policy.bucket, self.now);
        self.take(input);
        self.start_if_due();
        Effects(self.effects)
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Enable { dormant } => self.enable(dormant),
            Input::Disable => self.disable(),
            Input::Restart => self.redial(Manner::Cut, Cause::Restarted),
            Input::Replace => self.redial(Manner::Drain, Cause::Replaced),
            Input::Adjust(policy) => self.adjust(*policy),
            Input::Demand => self.wake(Rest::Idle, Cause::Demanded),
            Input::Login => self.wake(Rest::AuthRequired, Cause::LoggedIn),
            Input::Opened(generation) => self.if_current(generation, Self::opened),
            Input::OpenFailed(generation, recovery) => {
                self.if_current(generation, |step| step.open_failed(Cause::OpenFailed, recovery));
            }
            Input::Listed(generation, listing) => self.if_current(generation, |step| step.listed(listing)),
            Input::ListFailed(generation) => self.if_current(generation, Self::list_failed),
            Input::ListChanged(generation) => self.if_current(generation, Self::list_changed),
            Input::Lost(generation) => {
                self.if_current(generation, |step| step.lose(Cause::Lost, Recovery::Retry));
            }
            Input::CallAnswered(generation) => self.if_current(generation, Self::call_answered),
            Input::CallFailed(generation) => self.if_current(generation, Self::call_failed),
            Input::ProbeAnswered(generation) => self.if_current(generation, Self::probe_answered),
            Input::Closed(generation) => self.closed(generation),
            Input::Timer(vitals) => self.timers(vitals),
        }
    }

    /// The one place where the state is assigned.
    fn enter(&mut self, next: State, cause: Cause) {
        let generation = self.machine.state.generation().or(next.generation());
        let (from, to) = (self.machine.state.kind(), next.kind());
        self.machine.state = next;
        if from == to {
            return;
        }
        match to {
            StateKind::Connecting | StateKind::Reconnecting | StateKind::Disconnected => {
                self.effects.push(Effect::MarkStale);
            }
            StateKind::Disabling | StateKind::PermanentlyFailed => self.effects.push(Effect::Withdraw),
            StateKind::Connected | StateKind::Disabled => {}
        }
        self.effects.push(Effect::Transition(Transition {
            from,
            to,
            generation,
            cause,
        }));
    }
}

/// Wishes.
impl Step<'_> {
    fn enable(&mut self, dormant: bool) {
        self.machine.desired = Desired::Enabled;
        match self.machine.state {
            State::Disabled if dormant => {
                self.machine.failures = 0;
                self.enter(State::Disconnected(Rest::Idle), Cause::Enabled);
            }
            State::Disabled | State::Disabling | State::PermanentlyFailed => {
                self.machine.failures = 0;
                self.enter(State::Connecting(self.start_now()), Cause::Enabled);
            }
            State::Connecting(_) | State::Connected(_) | State::Reconnecting(_) | State::Disconnected(_) => {}
        }
    }

    fn disable(&mut self) {
        self.machine.desired = Desired::Disabled;
        if matches!(self.machine.state, State::Disabled | State::Disabling) {
            return;
        }
        self.detach(Manner::Cut);
        self.enter(State::Disabling, Cause::Disabled);
        if self.machine.closing.is_none() {
            self.enter(State::Disabled, Cause::Disabled);
        }
    }

    /// A person or a new configuration wants a new connection: budget and bucket are renewed, the backoff is skipped.
    fn redial(&mut self, manner: Manner, cause: Cause) {
        if self.machine.desired == Desired::Disabled {
            return;
        }
        self.machine.failures = 0;
        self.machine.tokens = Tokens::full(&self.machine.policy.bucket);
        self.detach(manner);
        let attempt = self.start_now();
        let next = match self.machine.state {
            State::Connected(_) | State::Reconnecting(_) | State::Disconnected(Rest::BudgetSpent(_)) => {
                State::Reconnecting(attempt)
            }
            State::Disabled
            | State::Connecting(_)
            | State::Disabling
            | State::Disconnected(Rest::Idle | Rest::AuthRequired)
            | State::PermanentlyFailed => State::Connecting(attempt),
        };
        self.enter(next, cause);
    }

    fn wake(&mut self, from: Rest, cause: Cause) {
        if self.machine.state == State::Disconnected(from) {
            self.enter(State::Connecting(self.start_now()), cause);
        }
    }

    fn adjust(&mut self, policy: Policy) {
        self.machine.policy = policy;
        let (watch, idle_at) = (self.listening(), self.idle_at());
        if let State::Connected(live) = &mut self.machine.state {
            live.watch = watch;
            live.idle_at = idle_at;
        }
    }

    const fn start_now(&self) -> Attempt {
        Attempt::Pausing(self.now, Pause::None)
    }
}

/// Dialling and closing.
impl Step<'_> {
    /// Opens the next connection if its pause is over, the old one is gone, and there is a token.
    fn start_if_due(&mut self) {
        let due = matches!(self.attempt(), Some(Attempt::Pausing(at, _)) if *at <= self.now);
        if !due || self.machine.closing.is_some() {
            return;
        }
        if self.machine.started
            && let Err(at) = self.machine.tokens.take(&self.machine.policy.bucket, self.now)
        {
            return self.set_attempt(Attempt::Pausing(at, Pause::Token));
        }
        self.machine.started = true;
        self.set_attempt(Attempt::Opening(
            self.fresh,
            self.now + self.machine.policy.limits.open,
        ));
        self.effects.push(Effect::Open(self.fresh));
    }

    fn attempt(&self) -> Option<&Attempt> {
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
    fn set_attempt(&mut self, next: Attempt) {
        if let State::Connecting(attempt) | State::Reconnecting(attempt) = &mut self.machine.state {
            *attempt = next;
        }
    }

    /// Takes the current connection, if there is one, out of service, and starts its close.
    fn detach(&mut self, manner: Manner) {
        let Some(generation) = self.machine.state.generation() else {
            return;
        };
        let limits = &self.machine.policy.limits;
        let patience = match manner {
            Manner::Cut => limits.close,
            Manner::Drain => limits.close.saturating_add(limits.drain),
        };
        self.machine.closing = Some(Closing {
            generation,
            by: self.now + patience,
        });
        self.effects.push(Effect::Close(generation, manner));
    }

    fn closed(&mut self, generation: Generation) {
        match &self.machine.closing {
            Some(closing) if closing.generation == generation => self.close_ended(),
            Some(_) | None => self.effects.push(Effect::CountStale(generation)),
        }
    }

    fn close_ended(&mut self) {
        self.machine.closing = None;
        if self.machine.state == State::Disabling {
            self.enter(State::Disabled, Cause::Closed);
        }
    }
}

/// Reports of the current generation.
impl Step<'_> {
    fn if_current(&mut self, generation: Generation, then: impl FnOnce(&mut Self)) {
        if self.machine.state.generation() == Some(generation) {
            then(self);
        } else {
            self.effects.push(Effect::CountStale(generation));
        }
    }

    fn opened(&mut self) {
        let Some(Attempt::Opening(generation, _)) = self.attempt() else {
            return;
        };
        let generation = *generation;
        let refresh = self.list(generation, 0);
        self.set_attempt(Attempt::Listing(generation, refresh));
    }

    fn open_failed(&mut self, cause: Cause, recovery: Recovery) {
        if matches!(self.attempt(), Some(Attempt::Opening(..))) {
            self.lose(cause, recovery);
        }
    }

    /// The current connection is of no more use. What comes next depends on whether it had proved itself, on what can
    /// mend the failure, and on the budget.
    fn lose(&mut self, cause: Cause, recovery: Recovery) {
        let Some(generation) = self.machine.state.generation() else {
            return;
        };
        let proven = matches!(&self.machine.state, State::Connected(live) if live.is_proven());
        self.detach(Manner::Cut);
        let wanted_pause = match recovery {
            Recovery::Retry => Duration::ZERO,
            Recovery::RetryAfter(pause) => pause,
            Recovery::Login => return self.enter(State::Disconnected(Rest::AuthRequired), cause),
            Recovery::GiveUp => return self.enter(State::PermanentlyFailed, cause),
        };
        if !proven {
            self.machine.failures = self.machine.failures.saturating_add(1);
        }
        let policy = &self.machine.policy;
        if self.machine.failures >= policy.budget.get() {
            return match policy.when_spent {
                WhenSpent::GiveUp => self.enter(State::PermanentlyFailed, cause),
                WhenSpent::ProbeEvery(period) => {
                    // Three quarters to five quarters of the period, so that a herd spreads.
                    let pause = period.mul_f64(0.75) + jittered(period / 2, self.now, generation);
                    let at = self.now + pause.max(wanted_pause);
                    self.enter(State::Disconnected(Rest::BudgetSpent(at)), cause);
                }
            };
        }
        let longest = policy.backoff.longest_pause(self.machine.failures);
        let pause = jittered(longest, self.now, generation).max(wanted_pause);
        let why = if pause.is_zero() {
            Pause::None
        } else {
            Pause::Backoff
        };
        self.enter(
            State::Reconnecting(Attempt::Pausing(self.now + pause, why)),
            cause,
        );
    }

    fn call_answered(&mut self) {
        if let State::Connected(live) = &mut self.machine.state {
            live.call_failures = 0;
            self.prove();
        }
    }

    fn call_failed(&mut self) {
        if let State::Connected(live) = &mut self.machine.state {
            live.call_failures = live.call_failures.saturating_add(1);
            if live.call_failures >= self.machine.policy.call_failures.get() {
                self.lose(Cause::CallsFailed, Recovery::Retry);
            }
        }
    }

    fn prove(&mut self) {
        if let State::Connected(live) = &mut self.machine.state {
            live.proven_at = None;
            self.machine.failures = 0;
        }
    }
}

/// Listing.
impl Step<'_> {
    /// Starts a listing; `failures` of its kind came before it in a row.
    fn list(&mut self, generation: Generation, failures: u32) -> Refresh {
        self.effects.push(Effect::List(generation));
        let policy = &self.machine.policy;
        let step = RefreshStep::Running {
            by: self.now + policy.limits.list,
            again: false,
        };
        Refresh {
            step,
            failures,
            not_before: self.now + policy.relist_pause,
        }
    }

    fn relist(&mut self) {
        let Some(generation) = self.machine.state.generation() else {
            return;
        };
        let Some(failures) = self.refresh().map(|refresh| refresh.failures) else {
            return;
        };
        let next = self.list(generation, failures);
        if let Some(refresh) = self.refresh() {
            *refresh = next;
        }
    }

    fn refresh(&mut self) -> Option<&mut Refresh> {
        match &mut self.machine.state {
            State::Connected(live) => Some(&mut live.refresh),
            State::Connecting(Attempt::Listing(_, refresh))
            | State::Reconnecting(Attempt::Listing(_, refresh)) => Some(refresh),
            State::Connecting(_)
            | State::Reconnecting(_)
            | State::Disabled
            | State::Disabling
            | State::Disconnected(_)
            | State::PermanentlyFailed => None,
        }
    }

    fn listed(&mut self, listing: Listing) {
        let now = self.now;
        let Some(refresh) = self.refresh() else { return };
        let RefreshStep::Running { again, .. } = refresh.step else {
            return;
        };
        refresh.failures = 0;
        refresh.step = match (listing, again) {
            (Listing::Good, false) => RefreshStep::Fresh,
            (Listing::Good, true) | (Listing::Unconfirmed, _) => {
                RefreshStep::Due(refresh.not_before.max(now))
            }
        };
        let refresh = refresh.clone();
        if let Some(Attempt::Listing(generation, _)) = self.attempt() {
            let live = Live {
                generation: *generation,
                proven_at: Some(now + self.machine.policy.stable_after),
                refresh,
                watch: self.listening(),
                idle_at: self.idle_at(),
                call_failures: 0,
            };
            self.enter(State::Connected(live), Cause::Listed);
        }
    }

    fn list_failed(&mut self) {
        let pause = self.machine.policy.relist_pause;
        let (now, limit) = (self.now, self.machine.policy.discovery_failures.get());
        let Some(refresh) = self.refresh() else { return };
        if !matches!(refresh.step, RefreshStep::Running { .. }) {
            return;
        }
        refresh.failures = refresh.failures.saturating_add(1);
        refresh.step = RefreshStep::Due(now + pause);
        if refresh.failures >= limit {
            self.lose(Cause::ListingFailed, Recovery::Retry);
        }
    }

    fn list_changed(&mut self) {
        let now = self.now;
        let Some(refresh) = self.refresh() else { return };
        match &mut refresh.step {
            RefreshStep::Running { again, .. } => *again = true,
            RefreshStep::Due(_) => {}
            RefreshStep::Fresh if refresh.not_before <= now => self.relist(),
            RefreshStep::Fresh => refresh.step = RefreshStep::Due(refresh.not_before),
        }
    }
}

/// The passing of time.
impl Step<'_> {
    fn timers(&mut self, vitals: Vitals) {
        for _ in 0..TIMERS_A_STEP {
            match self.machine.deadline() {
                Some(deadline) if deadline.at <= self.now => self.expire(deadline.timer, vitals),
                Some(_) | None => return,
            }
        }
    }

    fn expire(&mut self, timer: Timer, vitals: Vitals) {
        match timer {
            Timer::Close => {
                if let Some(closing) = &self.machine.closing {
                    self.effects.push(Effect::Abandon(closing.generation));
                }
                self.close_ended();
            }
            Timer::Start => self.start_if_due(),
            Timer::Open => self.open_failed(Cause::OpenTimedOut, Recovery::Retry),
            Timer::List => self.list_failed(),
            Timer::Relist => self.relist(),
            Timer::Proof => self.prove(),
            Timer::Silence => self.look(vitals),
            Timer::Answer => self.unanswered(vitals),
            Timer::Idle => self.stop_if_idle(vitals),
            Timer::SlowProbe => self.enter(State::Reconnecting(self.start_now()), Cause::SlowProbe),
        }
    }

    /// Probes a server that has been silent with nothing to do. One that works on a call is left to that call's own
    /// deadline: a server that does one thing at a time cannot answer a probe meanwhile.
    fn look(&mut self, vitals: Vitals) {
        let Some(probe) = &self.machine.policy.probe else {
            return;
        };
        let (now, silence, timeout) = (self.now, probe.after_silence, probe.timeout);
        let State::Connected(live) = &mut self.machine.state else {
            return;
        };
        let Watch::Listening { misses, .. } = live.watch else {
            return;
        };
        if vitals.busy {
            live.watch = Watch::Listening {
                until: now + silence,
                misses,
            };
        } else if now.since(vitals.heard) < silence {
            live.watch = Watch::Listening {
                until: vitals.heard + silence,
                misses: 0,
            };
        } else {
            live.watch = Watch::Asked {
                asked: now,
                by: now + timeout,
                misses,
            };
            self.effects.push(Effect::Probe(live.generation));
        }
    }

    fn unanswered(&mut self, vitals: Vitals) {
        let Some(probe) = &self.machine.policy.probe else {
            return;
        };
        let (limit, timeout) = (probe.misses.get(), probe.timeout);
        let listening = self.listening();
        let now = self.now;
        let State::Connected(live) = &mut self.machine.state else {
            return;
        };
        let Watch::Asked { asked, misses, .. } = live.watch else {
            return;
        };
        let misses = misses.saturating_add(1);
        if vitals.busy || vitals.heard > asked {
            live.watch = listening;
        } else if misses < limit {
            live.watch = Watch::Asked {
                asked: now,
                by: now + timeout,
                misses,
            };
            self.effects.push(Effect::Probe(live.generation));
        } else {
            self.lose(Cause::ProbesMissed, Recovery::Retry);
        }
    }

    fn probe_answered(&mut self) {
        let listening = self.listening();
        if let State::Connected(live) = &mut self.machine.state {
            live.watch = listening;
        }
    }

    fn stop_if_idle(&mut self, vitals: Vitals) {
        let Some(idle) = self.machine.policy.idle_stop else {
            return;
        };
        let now = self.now;
        let State::Connected(live) = &mut self.machine.state else {
            return;
        };
        if vitals.busy {
            live.idle_at = Some(now + idle);
        } else if now.since(vitals.used) < idle {
            live.idle_at = Some(vitals.used + idle);
        } else {
            self.detach(Manner::Cut);
            self.enter(State::Disconnected(Rest::Idle), Cause::WentIdle);
        }
    }

    fn listening(&self) -> Watch {
        match &self.machine.policy.probe {
            Some(probe) => Watch::Listening {
                until: self.now + probe.after_silence,
                misses: 0,
            },
            None => Watch::Off,
        }
    }

    fn idle_at(&self) -> Option<Moment> {
        self.machine.policy.idle_stop.map(|idle| self.now + idle)
    }
}
