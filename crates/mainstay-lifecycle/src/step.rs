//! The actions that the table calls for one input at one moment.
//!
//! Invariants: `enter` alone assigns the state. Each `Open` is followed by exactly one `Close` of its generation.
//! Nothing is opened while a connection closes, except beside connections that drain.

use std::time::Duration;

use crate::effect::{Cause, CloseMode, Effect, Effects, Transition};
use crate::input::{Input, Listing, OtherCalls, Recovery, Vitals};
use crate::machine::{Closing, Machine};
use crate::policy::{Policy, WhenLost, WhenSpent};
use crate::state::{
    Attempt, DisconnectReason, ListingPhase, ListingSchedule, LiveConnection, OpenConnection, Pause,
    SilenceWatch, State, StateKind,
};
use crate::time::{Generation, Moment, jittered};
use crate::tokens::Tokens;

pub(crate) struct MachineStep<'a> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) now: Moment,
    /// The generation for the one connection that this step may open.
    fresh: Option<Generation>,
    pub(crate) effects: Vec<Effect>,
}

impl<'a> MachineStep<'a> {
    pub(crate) fn new(machine: &'a mut Machine, now: Moment, fresh: Generation) -> Self {
        Self {
            machine,
            now,
            fresh: Some(fresh),
            effects: Vec::new(),
        }
    }

    pub(crate) fn run(mut self, input: Input) -> Effects {
        self.machine.tokens.settle(&self.machine.policy.bucket, self.now);
        self.apply(input);
        self.start_if_due();
        Effects(self.effects)
    }
}

/// States and attempts.
impl MachineStep<'_> {
    /// The one place where the state is assigned.
    pub(crate) fn enter(&mut self, next: State, cause: Cause) {
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

    /// Moves the attempt on; the server stays connecting or reconnecting.
    pub(crate) fn set_attempt(&mut self, next: Attempt) {
        if let State::Connecting { attempt, .. } = &mut self.machine.state {
            *attempt = next;
        }
    }

    /// The first connection since the server was enabled or stopped, dialled as soon as possible.
    pub(crate) const fn first_attempt(&self) -> State {
        connecting(true, Attempt::Pausing(self.now, Pause::None))
    }

    /// Another connection, dialled at this moment or as soon as possible after it.
    pub(crate) fn next_attempt(&self, at: Moment) -> State {
        let attempt = if at <= self.now {
            Attempt::Pausing(self.now, Pause::None)
        } else {
            Attempt::Pausing(at, Pause::Backoff)
        };
        connecting(false, attempt)
    }

    /// A person or a new configuration wants a new connection: renews budget and bucket, and skips the backoff.
    pub(crate) fn redial(&mut self, cause: Cause) {
        self.machine.failures = 0;
        self.machine.tokens = Tokens::full(&self.machine.policy.bucket);
        let is_first = match self.machine.state {
            State::Connecting { is_first, .. } => is_first,
            State::Connected(_)
            | State::Disconnected(DisconnectReason::BudgetSpent(..) | DisconnectReason::Lost(_)) => false,
            State::Disabled
            | State::Disabling
            | State::Disconnected(
                DisconnectReason::Idle
                | DisconnectReason::AuthRequired
                | DisconnectReason::CredentialRefused(_),
            )
            | State::PermanentlyFailed => true,
        };
        self.enter(
            connecting(is_first, Attempt::Pausing(self.now, Pause::None)),
            cause,
        );
    }

    /// Opens the next connection if its pause is over, the old one is gone, and the bucket has a token.
    pub(crate) fn start_if_due(&mut self) {
        let State::Connecting {
            attempt: Attempt::Pausing(at, _),
            ..
        } = self.machine.state
        else {
            return;
        };
        let is_due = at <= self.now && self.machine.closing.is_none();
        let Some(fresh) = self.fresh.filter(|_| is_due) else {
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

    pub(crate) fn adjust(&mut self, policy: Policy) {
        let (now, machine) = (self.now, &mut *self.machine);
        machine.policy = policy;
        let policy = &machine.policy;
        if let State::Connected(live) = &mut machine.state {
            live.idle_at = idle_at(policy, now);
        }
        if let Some(open) = machine.state.open() {
            open.silence = watch_silence(policy, now);
            if let ListingPhase::Current { ttl, .. } = open.listings.phase {
                open.listings.phase = current(open, ttl, policy, now);
            }
        }
    }
}

/// Closing.
impl MachineStep<'_> {
    /// Takes the current connection, if there is one, out of service and closes it. The next dial waits for the close.
    pub(crate) fn detach(&mut self, mode: CloseMode) {
        if let Some(closing) = self.start_close(mode) {
            self.machine.closing = Some(closing);
        }
    }

    /// Takes the current connection out of service and lets its calls finish beside the next connection. If too many do so, the
    /// oldest is abandoned.
    pub(crate) fn detach_beside_next(&mut self) {
        if self.machine.draining.len() >= self.machine.policy.drains.get() as usize {
            let oldest = self.machine.draining.remove(0);
            self.effects.push(Effect::Abandon(oldest.generation));
        }
        let closing = self.start_close(CloseMode::Drain);
        self.machine.draining.extend(closing);
    }

    /// The same, if the connection is live. No caller uses one that is not, so that one is cut.
    fn detach_with_calls(&mut self) {
        if self.machine.state.is_connected() {
            self.detach_beside_next();
        } else {
            self.detach(CloseMode::Cut);
        }
    }

    fn start_close(&mut self, mode: CloseMode) -> Option<Closing> {
        let generation = self.machine.state.generation()?;
        self.machine.owes_work = false;
        let limits = &self.machine.policy.limits;
        let timeout = match mode {
            CloseMode::Cut => limits.close,
            CloseMode::Drain => limits.close.saturating_add(limits.drain),
        };
        self.effects.push(Effect::Close(generation, mode));
        Some(Closing {
            generation,
            mode,
            by: self.now + timeout,
        })
    }

    /// Ends every drain: a person does not want to wait for its calls.
    pub(crate) fn cut_drains(&mut self) {
        let by = self.now + self.machine.policy.limits.close;
        let closes = self.machine.closing.iter_mut().chain(&mut self.machine.draining);
        for closing in closes.filter(|closing| closing.mode == CloseMode::Drain) {
            closing.mode = CloseMode::Cut;
            closing.by = closing.by.min(by);
            self.effects.push(Effect::CutDrain(closing.generation));
        }
    }

    pub(crate) fn closed(&mut self, generation: Generation) {
        self.machine
            .closing
            .take_if(|closing| closing.generation == generation);
        self.machine
            .draining
            .retain(|closing| closing.generation != generation);
        self.finish_disabling(Cause::Closed);
    }

    /// Abandons the closes that have outlived their deadlines.
    pub(crate) fn abandon_overdue(&mut self) {
        let is_overdue = |closing: &mut Closing| closing.by <= self.now;
        let machine = &mut *self.machine;
        let closing = machine.closing.take_if(is_overdue);
        let draining = machine.draining.extract_if(.., is_overdue);
        for closing in closing.into_iter().chain(draining) {
            self.effects.push(Effect::Abandon(closing.generation));
        }
        self.finish_disabling(Cause::Closed);
    }

    pub(crate) fn finish_disabling(&mut self, cause: Cause) {
        let machine = &self.machine;
        if machine.state == State::Disabling && machine.closing.is_none() && machine.draining.is_empty() {
            self.enter(State::Disabled, cause);
        }
    }
}

/// Losses.
impl MachineStep<'_> {
    /// Gives the current connection up. The recovery, the budget and the policy decide what follows.
    pub(crate) fn lose(&mut self, cause: Cause, recovery: Recovery) {
        let Some(generation) = self.machine.state.generation() else {
            return;
        };
        if recovery == Recovery::RetryLack {
            return self.lose_by_lack(generation, cause);
        }
        // The server answers, and refuses what is new. It is no process: those ask for no login.
        if matches!(recovery, Recovery::Login | Recovery::RetryCredential) {
            return self.retire(cause, recovery);
        }
        self.detach(CloseMode::Cut);
        self.recover(generation, cause, recovery);
    }

    /// Gives the current connection up. Its running calls may finish.
    pub(crate) fn retire(&mut self, cause: Cause, recovery: Recovery) {
        if let Some(generation) = self.machine.state.generation() {
            self.detach_with_calls();
            self.recover(generation, cause, recovery);
        }
    }

    /// What follows a loss.
    fn recover(&mut self, generation: Generation, cause: Cause, recovery: Recovery) {
        match (recovery, &self.machine.state) {
            // The server refused the old credential; the next dial uses the new one.
            (
                Recovery::Login | Recovery::RetryCredential,
                &State::Connecting {
                    is_first,
                    has_new_login: true,
                    ..
                },
            ) => self.enter(
                connecting(is_first, Attempt::Pausing(self.now, Pause::None)),
                cause,
            ),
            (Recovery::Login, _) => self.enter(
                State::Disconnected(DisconnectReason::AuthRequired),
                Cause::LoginRequired,
            ),
            (Recovery::RetryCredential, _) => {
                let reason = match self.slow_retries() {
                    Some(period) => DisconnectReason::CredentialRefused(self.slow_probe(
                        period,
                        generation,
                        Duration::ZERO,
                    )),
                    None => DisconnectReason::AuthRequired,
                };
                self.enter(State::Disconnected(reason), Cause::LoginRequired);
            }
            (Recovery::GiveUp, _) => self.enter(State::PermanentlyFailed, cause),
            (
                Recovery::Retry
                | Recovery::RetryAfter(_)
                | Recovery::RetryWhenReachable
                | Recovery::RetryLack,
                _,
            ) => self.retry(generation, cause, recovery),
        }
    }

    /// Decides when the server is dialled again after a loss that a retry may resolve.
    fn retry(&mut self, generation: Generation, cause: Cause, recovery: Recovery) {
        if !self.machine.state.is_proven() {
            self.machine.failures = self.machine.failures.saturating_add(1);
        }
        let (now, failures, policy) = (self.now, self.machine.failures, &self.machine.policy);
        let requested = self.granted(recovery.pause());
        let is_spent = failures >= policy.budget.get();
        if policy.when_lost == WhenLost::StayDisconnected {
            let reason = DisconnectReason::Lost(now + requested);
            return self.enter(State::Disconnected(reason), cause);
        }
        let reason = if recovery == Recovery::RetryWhenReachable {
            Pause::Unreachable(generation)
        } else {
            Pause::Backoff
        };
        let next = match (is_spent, policy.when_spent) {
            (true, WhenSpent::GiveUp) => State::PermanentlyFailed,
            (true, WhenSpent::ProbeEvery(period)) => {
                let at = self.slow_probe(period, generation, requested);
                State::Disconnected(DisconnectReason::BudgetSpent(at, reason))
            }
            (false, WhenSpent::GiveUp | WhenSpent::ProbeEvery(_)) => {
                let backoff = jittered(policy.backoff.longest_pause(failures), now, generation);
                let pause = backoff.max(requested);
                let reason = if pause.is_zero() { Pause::None } else { reason };
                connecting(false, Attempt::Pausing(now + pause, reason))
            }
        };
        self.enter(next, cause);
    }

    /// The period of slow probes, if the policy retries slowly and restarts lost servers.
    fn slow_retries(&self) -> Option<Duration> {
        let policy = &self.machine.policy;
        match (policy.when_lost, policy.when_spent) {
            (WhenLost::Restart, WhenSpent::ProbeEvery(period)) => Some(period),
            (WhenLost::Restart | WhenLost::StayDisconnected, _) => None,
        }
    }

    /// When the next slow probe comes: after three quarters to five quarters of the period, so that servers that failed together spread
    /// out.
    fn slow_probe(&self, period: Duration, generation: Generation, requested: Duration) -> Moment {
        let spread = jittered(period / 2, self.now, generation);
        let pause = period.mul_f64(0.75).saturating_add(spread).max(requested);
        self.now + pause
    }

    /// This machine lacks a resource, which is not the server's failure. The failures in a row stay as they were. The start
    /// gives its token back, or stays the first and free one.
    fn lose_by_lack(&mut self, generation: Generation, cause: Cause) {
        if self.machine.owes_work {
            self.give_token_back();
        } else if !self.machine.state.is_connected() {
            self.machine.started = false;
        }
        let half = self.machine.policy.lack_pause / 2;
        let pause = half.saturating_add(jittered(half, self.now, generation));
        self.detach(CloseMode::Cut);
        let attempt = Attempt::Pausing(self.now + pause, Pause::Lack);
        self.enter(connecting(false, attempt), cause);
    }

    /// How long the machine leaves a server alone that asked for this pause.
    pub(crate) fn granted(&self, pause: Duration) -> Duration {
        pause.min(self.machine.policy.limits.retry_after)
    }

    fn give_token_back(&mut self) {
        if std::mem::take(&mut self.machine.owes_work) {
            let bucket = &self.machine.policy.bucket;
            self.machine.tokens.give_back(bucket, self.now);
        }
    }
}

/// Calls and proof.
impl MachineStep<'_> {
    /// A completed call proves the connection and gives the token of its start back.
    pub(crate) fn call_answered(&mut self) {
        if let State::Connected(live) = &mut self.machine.state {
            live.call_failures = 0;
        }
        self.prove();
        self.give_token_back();
    }

    /// Too many failures in a row end the connection. If older calls run, a probe decides: one caller's failures are not to
    /// cost the others their calls.
    pub(crate) fn call_failed(&mut self, recovery: Recovery, others: OtherCalls) {
        let policy = &self.machine.policy;
        let State::Connected(live) = &mut self.machine.state else {
            return;
        };
        let limit = policy.call_failures.get();
        live.call_failures = live.call_failures.saturating_add(1).min(limit);
        let is_over = live.call_failures >= limit;
        let can_ask = policy.probe.is_some() && others.are_older;
        match (recovery.is_retriable(), is_over) {
            (true, false) => {}
            (true, true) if can_ask => self.probe_now(),
            (true, true) if others.can_finish => self.retire(Cause::CallsFailed, recovery),
            (true, true) | (false, _) => self.lose(Cause::CallsFailed, recovery),
        }
    }

    /// Whether so many calls failed that only the answer to a probe keeps the connection.
    fn is_doubted(&self) -> bool {
        let limit = self.machine.policy.call_failures.get();
        matches!(&self.machine.state, State::Connected(live) if live.call_failures >= limit)
    }

    pub(crate) fn prove(&mut self) {
        if let State::Connected(live) = &mut self.machine.state {
            live.proven_at = None;
            self.machine.failures = 0;
        }
    }

    pub(crate) fn stop_if_idle(&mut self, vitals: Vitals) {
        let (State::Connected(live), Some(idle)) = (&mut self.machine.state, self.machine.policy.idle_stop)
        else {
            return;
        };
        if vitals.busy {
            live.idle_at = Some(self.now + idle);
        } else if self.now.since(vitals.used) < idle {
            live.idle_at = Some(vitals.used + idle);
        } else {
            // A call may have started since `vitals` was read, so the connection drains.
            self.detach(CloseMode::Drain);
            self.enter(State::Disconnected(DisconnectReason::Idle), Cause::WentIdle);
        }
    }
}

/// Listings. One runs at a time, and never two within `relist_pause`. A change during a listing leads to another one.
impl MachineStep<'_> {
    pub(crate) fn opened(&mut self, generation: Generation) {
        let policy = &self.machine.policy;
        let open = OpenConnection {
            generation,
            listings: running(0, Duration::ZERO, policy, self.now),
            silence: watch_silence(policy, self.now),
        };
        self.effects.push(Effect::List(generation));
        self.set_attempt(Attempt::Listing(open));
    }

    pub(crate) fn start_listing(&mut self) {
        let machine = &mut *self.machine;
        if let Some(open) = machine.state.open() {
            let ListingSchedule {
                failures, backoff, ..
            } = open.listings;
            open.listings = running(failures, backoff, &machine.policy, self.now);
            self.effects.push(Effect::List(open.generation));
        }
    }

    pub(crate) fn listed(&mut self, listing: Listing) {
        let (now, machine) = (self.now, &mut *self.machine);
        let policy = &machine.policy;
        let Some(open) = machine.state.open() else { return };
        let ListingPhase::Running { again, .. } = open.listings.phase else {
            return;
        };
        let (cause, backoff) = match listing {
            Listing::Good { .. } | Listing::Unconfirmed => (Cause::Listed, Duration::ZERO),
            Listing::Refused => (
                Cause::ListingRefused,
                policy.relist_backoff(open.listings.backoff),
            ),
        };
        open.listings.failures = 0;
        open.listings.backoff = backoff;
        open.listings.phase = match listing {
            Listing::Good { ttl } if !again => current(open, ttl, policy, now),
            Listing::Refused if !again => ListingPhase::Refused(now + backoff),
            Listing::Good { .. } | Listing::Unconfirmed | Listing::Refused => {
                ListingPhase::Due(open.listings.not_before.max(now))
            }
        };
        if let State::Connecting {
            attempt: Attempt::Listing(open),
            ..
        } = &machine.state
        {
            let live = LiveConnection {
                open: OpenConnection {
                    silence: watch_silence(policy, now),
                    ..open.clone()
                },
                proven_at: Some(now + policy.stable_after),
                idle_at: idle_at(policy, now),
                call_failures: 0,
            };
            self.enter(State::Connected(live), cause);
        }
    }

    /// A listing got no answer. It counts against the connection, unless calls show that the server is well.
    pub(crate) fn list_failed(&mut self, recovery: Recovery, vitals: Vitals) {
        let machine = &mut *self.machine;
        let policy = &machine.policy;
        let lacks = recovery == Recovery::RetryLack;
        let lack_pause = if lacks { policy.lack_pause } else { Duration::ZERO };
        let requested = recovery.pause().min(policy.limits.retry_after);
        let pause = policy.relist_pause.max(requested).max(lack_pause);
        // A pause that the server asks for is no failure once it was listed: its catalog is published and its calls go on.
        let is_postponed = machine.state.is_connected() && matches!(recovery, Recovery::RetryAfter(_));
        let is_excused = machine.state.is_connected() && vitals.serves_calls();
        let Some(listings) = machine.state.open().map(|open| &mut open.listings) else {
            return;
        };
        if !matches!(listings.phase, ListingPhase::Running { .. }) {
            return;
        }
        listings.phase = ListingPhase::Due(self.now + pause);
        if !lacks && !is_postponed && !is_excused {
            listings.failures = listings.failures.saturating_add(1);
        }
        if listings.failures >= policy.discovery_failures.get() || !recovery.is_retriable() {
            self.lose(Cause::ListingFailed, recovery);
        }
    }

    pub(crate) fn list_changed(&mut self) {
        let Some(open) = self.machine.state.open() else {
            return;
        };
        let listings = &mut open.listings;
        match &mut listings.phase {
            ListingPhase::Running { again, .. } => *again = true,
            ListingPhase::Due(_) => {}
            ListingPhase::Current { .. } | ListingPhase::Refused(_) if listings.not_before <= self.now => {
                self.start_listing();
            }
            ListingPhase::Current { .. } | ListingPhase::Refused(_) => {
                listings.phase = ListingPhase::Due(listings.not_before);
            }
        }
    }
}

/// Probes of a silent connection.
impl MachineStep<'_> {
    /// Probes a server that was silent.
    pub(crate) fn check_silence(&mut self, vitals: Vitals) {
        let (now, machine) = (self.now, &mut *self.machine);
        let (Some(probe), Some(open)) = (&machine.policy.probe, machine.state.open()) else {
            return;
        };
        if now.since(vitals.last_received) < probe.after_silence {
            open.silence = SilenceWatch::CheckAt(vitals.last_received + probe.after_silence);
        } else {
            self.probe(0);
        }
    }

    /// Probes without waiting for silence, unless a probe is under way.
    pub(crate) fn probe_now(&mut self) {
        if let Some(open) = self.machine.state.open()
            && let SilenceWatch::CheckAt(_) = open.silence
        {
            self.probe(0);
        }
    }

    fn probe(&mut self, misses: u32) {
        let (now, machine) = (self.now, &mut *self.machine);
        if let (Some(probe), Some(open)) = (&machine.policy.probe, machine.state.open()) {
            open.silence = SilenceWatch::Probing {
                sent: now,
                by: now + probe.timeout,
                misses,
            };
            self.effects.push(Effect::Probe(open.generation));
        }
    }

    /// A server that works on a call is left to the deadline of that call: one that does one thing at a time cannot answer
    /// meanwhile, and gets no second probe. A stopped process does not work.
    pub(crate) fn probe_missed(&mut self, vitals: Vitals) {
        let is_doubted = self.is_doubted();
        let (now, machine) = (self.now, &mut *self.machine);
        let (Some(probe), Some(open)) = (&machine.policy.probe, machine.state.open()) else {
            return;
        };
        let SilenceWatch::Probing { sent, misses, .. } = open.silence else {
            return;
        };
        let missed = misses.saturating_add(1);
        if vitals.last_received > sent {
            self.probe_answered();
        } else if vitals.is_working() && !is_doubted {
            // What comes from now on answers the probe, late or not.
            open.silence = SilenceWatch::Probing {
                sent: now,
                by: now + probe.after_silence,
                misses: 0,
            };
        } else if missed < probe.misses.get() {
            self.probe(missed);
        } else {
            self.lose(Cause::ProbesMissed, Recovery::Retry);
        }
    }

    pub(crate) fn probe_answered(&mut self) {
        let is_doubted = self.is_doubted();
        let machine = &mut *self.machine;
        if let State::Connected(live) = &mut machine.state
            && is_doubted
        {
            live.call_failures = 0;
        }
        if let Some(open) = machine.state.open() {
            open.silence = watch_silence(&machine.policy, self.now);
        }
    }
}

const fn connecting(is_first: bool, attempt: Attempt) -> State {
    State::Connecting {
        is_first,
        has_new_login: false,
        attempt,
    }
}

fn running(failures: u32, backoff: Duration, policy: &Policy, now: Moment) -> ListingSchedule {
    ListingSchedule {
        phase: ListingPhase::Running {
            by: now + policy.limits.list,
            again: false,
        },
        failures,
        backoff,
        not_before: now + policy.relist_pause,
    }
}

/// A listing that is current from now on. It expires up to a tenth of its time late, so that servers listed together
/// spread out.
fn current(open: &OpenConnection, ttl: Option<Duration>, policy: &Policy, now: Moment) -> ListingPhase {
    let until = policy.expiry.period(ttl).map(|period| {
        let spread = jittered(period / 10, now, open.generation);
        (now + period.saturating_add(spread)).max(open.listings.not_before)
    });
    ListingPhase::Current { ttl, until }
}

fn watch_silence(policy: &Policy, now: Moment) -> SilenceWatch {
    match &policy.probe {
        Some(probe) => SilenceWatch::CheckAt(now + probe.after_silence),
        None => SilenceWatch::Off,
    }
}

fn idle_at(policy: &Policy, now: Moment) -> Option<Moment> {
    policy.idle_stop.map(|idle| now + idle)
}
