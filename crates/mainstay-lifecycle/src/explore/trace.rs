//! What an observer knows from the trace alone: the inputs that the machine got and the effects that it produced.
//!
//! The trace never reads the machine's memory. It counts what must be counted (connections, tokens, failures in a row) and
//! says what an input requires of the effects that follow it.

use std::time::Duration;

use crate::effect::{CloseMode, Effect};
use crate::explore::invariants::{Violation, ensure};
use crate::input::{Input, Listing, OtherCalls, Recovery, Vitals};
use crate::machine::Closing;
use crate::policy::{Bucket, Policy};
use crate::state::StateKind;
use crate::time::{Generation, Moment};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Trace {
    /// Connections opened so far. Their generations count from 1.
    pub(super) opened: u64,
    pub(super) current: Option<Current>,
    pub(super) closing: Option<Closing>,
    /// The oldest first.
    pub(super) draining: Vec<Closing>,
    pub(super) is_wanted: bool,
    pub(super) failures: u32,
    /// When the bucket will be full again: tokens and refill time in one number, unlike in the machine.
    full_at: Moment,
    /// The next start is the first, which is free.
    is_first_start: bool,
}

/// The connection that was opened and not closed yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Current {
    pub(super) generation: Generation,
    /// Its start took a token, and it has completed no call since.
    costs_token: bool,
    /// A login took place since it was dialled, and before it was listed.
    pub(super) has_new_login: bool,
    pub(super) stage: ConnectionStage,
    /// A listing runs, until this deadline.
    pub(super) listing_by: Option<Moment>,
    /// A listing must follow.
    pub(super) owes_listing: bool,
    /// No listing starts before this moment.
    pub(super) list_from: Moment,
    /// Nor before this one, unless the server reports a change: it refused the last listing.
    pub(super) refused_until: Moment,
    /// The pause after the last listing, if that was refused.
    refused_pause: Duration,
    list_failures: u32,
    call_failures: u32,
    /// A probe is under way: when it was sent, and its deadline.
    pub(super) probe: Option<(Moment, Moment)>,
    probe_misses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ConnectionStage {
    Queued { by: Moment },
    Dialling { by: Moment },
    Open,
    Listed { proof_at: Option<Moment> },
}

/// What an input requires of the effects, or allows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expectation {
    /// The current connection must end.
    pub(super) end: Option<ExpectedEnd>,
    /// The stable period ends in this step, perhaps after the connection.
    pub(super) proof_due: bool,
    /// The connection may stop for idleness.
    pub(super) may_stop: bool,
    may_probe: bool,
    must_probe: bool,
    /// A connection that ends may drain beside the next one.
    pub(super) beside: bool,
    hold_until: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedEnd {
    Command(CloseMode),
    Loss(Recovery),
}

impl Trace {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            opened: 0,
            current: None,
            closing: None,
            draining: Vec::new(),
            is_wanted: false,
            failures: 0,
            full_at: now,
            is_first_start: true,
        }
    }

    /// A server after its keeper failed: it is wanted, and its next start is not its first.
    pub(super) fn resumed(now: Moment) -> Self {
        Self {
            is_wanted: true,
            is_first_start: false,
            ..Self::new(now)
        }
    }

    /// The generation that the next dial gets.
    pub(super) fn fresh(&self) -> Generation {
        Generation(self.opened + 1)
    }

    pub(super) fn generation(&self) -> Option<Generation> {
        self.current.as_ref().map(|current| current.generation)
    }

    /// When the bucket allows the next start.
    pub(super) fn token_at(&self, bucket: &Bucket) -> Moment {
        let slack = bucket.refill_every * (bucket.size.get() - 1);
        Moment::new(self.full_at.since_origin().saturating_sub(slack))
    }

    fn give_token_back(&mut self, now: Moment, bucket: &Bucket) {
        let sooner = self.full_at.since_origin().saturating_sub(bucket.refill_every);
        self.full_at = Moment::new(sooner).max(now);
    }

    /// Notes an input that is not stale, and says what must follow.
    pub(super) fn note_input(
        &mut self,
        input: &Input,
        kind: StateKind,
        now: Moment,
        policy: &Policy,
    ) -> Expectation {
        match input {
            Input::Enable { .. } => {
                if !self.is_wanted || kind == StateKind::PermanentlyFailed {
                    self.failures = 0;
                }
                self.is_wanted = true;
            }
            Input::Disable => {
                self.is_wanted = false;
                return Expectation::end(ExpectedEnd::Command(CloseMode::Cut));
            }
            Input::Restart | Input::Replace { .. } if !self.is_wanted => {}
            Input::Restart | Input::Replace { .. } => {
                self.failures = 0;
                self.full_at = now;
                let is_listed = self.current.as_ref().is_some_and(Current::is_listed);
                let mode = match input {
                    Input::Restart => CloseMode::Cut,
                    _ => CloseMode::Drain,
                };
                return Expectation {
                    beside: is_listed && *input == Input::Replace { beside: true },
                    ..Expectation::end(ExpectedEnd::Command(mode))
                };
            }
            Input::Closed(generation) => {
                let is_it = |closing: &mut Closing| closing.generation == *generation;
                self.closing.take_if(is_it);
                self.draining.retain_mut(|closing| !is_it(closing));
            }
            Input::CallAnswered(_) => {
                if let Some(current) = self.current.as_mut().filter(|current| current.is_listed()) {
                    current.call_failures = 0;
                    current.stage = ConnectionStage::Listed { proof_at: None };
                    let costs_token = std::mem::take(&mut current.costs_token);
                    self.failures = 0;
                    if costs_token {
                        self.give_token_back(now, &policy.bucket);
                    }
                }
            }
            Input::Demand
            | Input::Login
            | Input::Adjust(_)
            | Input::Reachable(_)
            | Input::Begun(_)
            | Input::Opened(_)
            | Input::OpenFailed(..)
            | Input::Listed(..)
            | Input::ListFailed(..)
            | Input::ListChanged(_)
            | Input::Lost(_)
            | Input::Retired(..)
            | Input::CallFailed(..)
            | Input::ProbeNow(_)
            | Input::ProbeAnswered(_)
            | Input::Timer(_) => {
                if let Some(current) = &mut self.current {
                    let is_listed = current.is_listed();
                    let mut expected = current.note_input(input, now, policy);
                    let calls_finish = match (input, expected.end) {
                        (_, Some(ExpectedEnd::Loss(Recovery::Login | Recovery::RetryCredential)))
                        | (Input::Retired(..), _) => true,
                        (Input::CallFailed(_, _, others), Some(_)) => others.can_finish,
                        _ => false,
                    };
                    expected.beside = is_listed && calls_finish;
                    self.count_loss(expected, now, policy);
                    return expected;
                }
            }
        }
        Expectation::default()
    }

    /// A loss counts as a failure if a retry may help and the connection never proved itself. A lack of this machine costs
    /// nothing: the start gives its token back, or stays the first.
    fn count_loss(&mut self, expected: Expectation, now: Moment, policy: &Policy) {
        let Some(current) = &mut self.current else { return };
        match expected.end {
            Some(ExpectedEnd::Loss(Recovery::RetryLack)) => {
                if std::mem::take(&mut current.costs_token) {
                    self.give_token_back(now, &policy.bucket);
                } else {
                    self.is_first_start = true;
                }
            }
            Some(ExpectedEnd::Loss(recovery)) => {
                let counts = recovery.is_retriable() && !current.is_proven();
                self.failures += u32::from(counts);
            }
            None if expected.proof_due => self.failures = 0,
            Some(ExpectedEnd::Command(_)) | None => {}
        }
    }

    /// Notes the effects in their order, and compares them with what was expected.
    pub(super) fn note_effects(
        &mut self,
        effects: &[Effect],
        input: &Input,
        expected: Expectation,
        now: Moment,
        policy: &Policy,
    ) -> Result<(), Violation> {
        let before = self.generation();
        let is_cut = expected.end == Some(ExpectedEnd::Command(CloseMode::Cut));
        let (mut hold_until, mut has_probed) = (None, false);
        for effect in effects {
            match *effect {
                Effect::Open(generation) => self.note_open(generation, now, policy)?,
                Effect::Close(generation, mode) => {
                    ensure(self.generation() == Some(generation), Violation::WrongClose)?;
                    self.note_close(mode, expected, now, policy)?;
                }
                Effect::CutDrain(generation) => {
                    let mut closes = self.closing.iter_mut().chain(&mut self.draining);
                    let draining = closes
                        .find(|closing| closing.generation == generation && closing.mode == CloseMode::Drain);
                    let draining = draining.filter(|_| is_cut).ok_or(Violation::WrongCloseMode)?;
                    draining.mode = CloseMode::Cut;
                    draining.by = draining.by.min(now + policy.limits.close);
                }
                Effect::Abandon(generation) => {
                    let is_overdue = |closing: &mut Closing| {
                        let is_timeout = matches!(input, Input::Timer(_)) && closing.by <= now;
                        closing.generation == generation && is_timeout
                    };
                    let is_overdue_close = self.closing.take_if(is_overdue).is_some();
                    let is_overdue_drain = self.draining.extract_if(.., is_overdue).next().is_some();
                    // Only the oldest gives way, and only if there are too many.
                    let is_displaced = expected.beside
                        && self.draining.len() == policy.drains.get() as usize
                        && self.draining[0].generation == generation;
                    if is_displaced && !is_overdue_drain {
                        self.draining.remove(0);
                    }
                    ensure(
                        is_overdue_close || is_overdue_drain || is_displaced,
                        Violation::WrongAbandon,
                    )?;
                }
                Effect::Hold(generation, until) => {
                    ensure(self.generation() == Some(generation), Violation::WrongGeneration)?;
                    hold_until = Some(until);
                }
                Effect::List(generation) => {
                    ensure(self.generation() == Some(generation), Violation::WrongGeneration)?;
                    if let Some(current) = &mut self.current {
                        current.note_listing(now, policy)?;
                    }
                }
                Effect::Probe(generation) => {
                    ensure(self.generation() == Some(generation), Violation::WrongGeneration)?;
                    let (Some(current), Some(probe)) = (&mut self.current, &policy.probe) else {
                        return Err(Violation::WrongProbe);
                    };
                    ensure(expected.may_probe && !has_probed, Violation::WrongProbe)?;
                    current.probe = Some((now, now + probe.timeout));
                    has_probed = true;
                }
                Effect::CountStale(_) => return Err(Violation::StaleInputCounted),
                Effect::MarkStale | Effect::Withdraw | Effect::Transition(_) => {}
            }
        }
        ensure(hold_until == expected.hold_until, Violation::WrongHold)?;
        ensure(has_probed || !expected.must_probe, Violation::MissingProbe)?;
        let mut closes = self.closing.iter().chain(&self.draining);
        let drains = closes.any(|closing| closing.mode == CloseMode::Drain);
        ensure(!(is_cut && drains), Violation::WrongCloseMode)?;
        let stayed = before.is_some() && self.generation() == before;
        ensure(!(stayed && expected.end.is_some()), Violation::MissingClose)
    }

    fn note_open(&mut self, generation: Generation, now: Moment, policy: &Policy) -> Result<(), Violation> {
        ensure(generation == self.fresh(), Violation::WrongGeneration)?;
        ensure(
            self.closing.is_none() && self.current.is_none(),
            Violation::TwoConnections,
        )?;
        ensure(self.is_wanted, Violation::UnwantedOpen)?;
        let costs_token = !std::mem::take(&mut self.is_first_start);
        if costs_token {
            ensure(self.token_at(&policy.bucket) <= now, Violation::BucketIgnored)?;
            self.full_at = self.full_at.max(now) + policy.bucket.refill_every;
        }
        self.opened += 1;
        self.current = Some(Current {
            generation,
            costs_token,
            has_new_login: false,
            stage: ConnectionStage::Queued {
                by: now + policy.limits.turn,
            },
            listing_by: None,
            owes_listing: false,
            list_from: now,
            refused_until: now,
            refused_pause: Duration::ZERO,
            list_failures: 0,
            call_failures: 0,
            probe: None,
            probe_misses: 0,
        });
        Ok(())
    }

    fn note_close(
        &mut self,
        mode: CloseMode,
        expected: Expectation,
        now: Moment,
        policy: &Policy,
    ) -> Result<(), Violation> {
        let is_right = match expected.end {
            Some(ExpectedEnd::Command(required)) => mode == required,
            // If a loss and an idle stop are due in the same step, either may come first.
            Some(ExpectedEnd::Loss(_)) if expected.beside => mode == CloseMode::Drain,
            Some(ExpectedEnd::Loss(_)) => mode == CloseMode::Cut || expected.may_stop,
            None if expected.may_stop => mode == CloseMode::Drain,
            None => return Err(Violation::WrongClose),
        };
        ensure(is_right, Violation::WrongCloseMode)?;
        let Some(current) = self.current.take() else {
            return Err(Violation::WrongClose);
        };
        let timeout = match mode {
            CloseMode::Cut => policy.limits.close,
            CloseMode::Drain => policy.limits.close + policy.limits.drain,
        };
        let closing = Closing {
            generation: current.generation,
            mode,
            by: now + timeout,
        };
        if expected.beside {
            self.draining.push(closing);
            return ensure(
                self.draining.len() <= policy.drains.get() as usize,
                Violation::TwoConnections,
            );
        }
        ensure(self.closing.replace(closing).is_none(), Violation::TwoConnections)
    }

    /// Moves every moment by `shift`. Moments that only matter until they are over are kept at `now` from then on.
    pub(super) fn shift(&mut self, shift: &impl Fn(Moment) -> Moment, now: Moment) {
        self.full_at = shift(self.full_at).max(now);
        for closing in self.closing.iter_mut().chain(&mut self.draining) {
            closing.by = shift(closing.by);
        }
        let Some(current) = &mut self.current else { return };
        current.stage = match current.stage {
            ConnectionStage::Queued { by } => ConnectionStage::Queued { by: shift(by) },
            ConnectionStage::Dialling { by } => ConnectionStage::Dialling { by: shift(by) },
            ConnectionStage::Open => ConnectionStage::Open,
            ConnectionStage::Listed { proof_at } => ConnectionStage::Listed {
                proof_at: proof_at.map(shift),
            },
        };
        current.listing_by = current.listing_by.map(shift);
        current.list_from = shift(current.list_from).max(now);
        current.refused_until = shift(current.refused_until).max(now);
        current.probe = current.probe.map(|(sent, by)| (shift(sent), shift(by)));
    }
}

impl Current {
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.stage, ConnectionStage::Listed { .. })
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.stage, ConnectionStage::Open | ConnectionStage::Listed { .. })
    }

    fn is_proven(&self) -> bool {
        self.stage == ConnectionStage::Listed { proof_at: None }
    }

    fn note_input(&mut self, input: &Input, now: Moment, policy: &Policy) -> Expectation {
        match *input {
            Input::Begun(_) => {
                if let ConnectionStage::Queued { .. } = self.stage {
                    let by = now + policy.limits.open;
                    self.stage = ConnectionStage::Dialling { by };
                }
            }
            Input::Opened(_) if !self.is_open() => self.stage = ConnectionStage::Open,
            Input::OpenFailed(_, recovery) if !self.is_open() => {
                return Expectation::end(ExpectedEnd::Loss(recovery));
            }
            Input::Lost(_) => return Expectation::end(ExpectedEnd::Loss(Recovery::Retry)),
            Input::Retired(_, recovery) => return Expectation::end(ExpectedEnd::Loss(recovery)),
            Input::Listed(_, listing) if self.listing_by.take().is_some() => {
                self.list_failures = 0;
                self.note_listing_answer(listing, now, policy);
                if self.stage == ConnectionStage::Open {
                    let proof_at = Some(now + policy.stable_after);
                    self.stage = ConnectionStage::Listed { proof_at };
                    self.has_new_login = false;
                    self.forget_probe();
                }
            }
            Input::ListFailed(_, recovery, vitals) => {
                return self.note_failed_listing(recovery, vitals, now, policy);
            }
            Input::ListChanged(_) => {
                self.owes_listing |= self.is_open();
                self.refused_until = now;
            }
            Input::CallFailed(_, Recovery::RetryAfter(pause), _) if self.is_listed() => {
                return Expectation {
                    hold_until: Some(now + pause.min(policy.limits.retry_after)),
                    ..Expectation::default()
                };
            }
            Input::CallFailed(_, recovery, OtherCalls { are_older, .. })
                if self.is_listed() && recovery != Recovery::RetryLack =>
            {
                self.call_failures = policy.call_failures.get().min(self.call_failures + 1);
                let is_asked = are_older && policy.probe.is_some();
                if self.is_doubted(policy) && recovery.is_retriable() && is_asked {
                    return Expectation {
                        may_probe: self.probe.is_none(),
                        must_probe: self.probe.is_none(),
                        ..Expectation::default()
                    };
                }
                return Expectation::end_if(self.is_doubted(policy) || !recovery.is_retriable(), recovery);
            }
            Input::ProbeNow(_) => {
                let is_due = self.is_open() && policy.probe.is_some() && self.probe.is_none();
                return Expectation {
                    may_probe: is_due,
                    must_probe: is_due,
                    ..Expectation::default()
                };
            }
            Input::ProbeAnswered(_) => self.note_answered_probe(policy),
            Input::Adjust(_) => self.forget_probe(),
            Input::Login => self.has_new_login = !self.is_listed(),
            Input::Timer(vitals) => return self.note_time(vitals, now, policy),
            _ => {}
        }
        Expectation::default()
    }

    /// A change that was reported during the listing is listed soon, whatever this listing brought.
    fn note_listing_answer(&mut self, listing: Listing, now: Moment, policy: &Policy) {
        let has_changed = self.owes_listing;
        match listing {
            Listing::Good { .. } | Listing::Unconfirmed => self.refused_pause = Duration::ZERO,
            Listing::Refused => {
                let doubled = (self.refused_pause * 2).min(policy.backoff.ceiling());
                self.refused_pause = doubled.max(policy.relist_pause);
                if !has_changed {
                    self.refused_until = now + self.refused_pause;
                }
            }
        }
        self.owes_listing |= !matches!(listing, Listing::Good { .. });
    }

    fn note_failed_listing(
        &mut self,
        recovery: Recovery,
        vitals: Vitals,
        now: Moment,
        policy: &Policy,
    ) -> Expectation {
        if self.listing_by.take().is_none() {
            return Expectation::default();
        }
        self.owes_listing = true;
        let (pause, counts) = match recovery {
            Recovery::RetryAfter(pause) => (pause.min(policy.limits.retry_after), !self.is_listed()),
            Recovery::RetryLack => (policy.lack_pause, false),
            _ => (policy.relist_pause, true),
        };
        // Callers use a connection that was listed, and no other.
        let is_well = vitals.answered || (vitals.busy && !vitals.stopped);
        let counts = counts && !(is_well && self.is_listed());
        self.list_failures += u32::from(counts);
        self.list_from = self.list_from.max(now + pause);
        let is_over = self.list_failures >= policy.discovery_failures.get();
        Expectation::end_if(is_over || !recovery.is_retriable(), recovery)
    }

    fn note_time(&mut self, vitals: Vitals, now: Moment, policy: &Policy) -> Expectation {
        match self.stage {
            ConnectionStage::Queued { by } => return Expectation::end_if(by <= now, Recovery::RetryLack),
            ConnectionStage::Dialling { by } => return Expectation::end_if(by <= now, Recovery::Retry),
            ConnectionStage::Open | ConnectionStage::Listed { .. } => {}
        }
        let mut expected = match self.listing_by {
            Some(by) if by <= now => self.note_failed_listing(Recovery::Retry, vitals, now, policy),
            Some(_) | None => Expectation::default(),
        };
        if let Some(probe) = &policy.probe {
            let is_working = vitals.busy && !vitals.stopped;
            match self.probe {
                None => {
                    let is_silent = now.since(vitals.last_received) >= probe.after_silence;
                    expected.may_probe = is_silent;
                }
                Some((sent, by)) if by <= now => {
                    if vitals.last_received > sent {
                        self.note_answered_probe(policy);
                    } else if is_working && !self.is_doubted(policy) {
                        self.probe = Some((now, now + probe.after_silence));
                        self.probe_misses = 0;
                    } else {
                        self.probe = None;
                        self.probe_misses += 1;
                        expected.may_probe = true;
                        if self.probe_misses >= probe.misses.get() {
                            expected.end = Some(ExpectedEnd::Loss(Recovery::Retry));
                        }
                    }
                }
                Some(_) => {}
            }
        }
        if let ConnectionStage::Listed { proof_at } = self.stage {
            let is_idle = |idle| !vitals.busy && now.since(vitals.used) >= idle;
            expected.may_stop = policy.idle_stop.is_some_and(is_idle);
            expected.proof_due = proof_at.is_some_and(|at| at <= now);
            if expected.proof_due && expected.end.is_none() {
                self.stage = ConnectionStage::Listed { proof_at: None };
            }
        }
        expected
    }

    /// Whether so many calls failed that only the answer to a probe keeps the connection.
    fn is_doubted(&self, policy: &Policy) -> bool {
        self.is_listed() && self.call_failures >= policy.call_failures.get()
    }

    fn note_answered_probe(&mut self, policy: &Policy) {
        self.forget_probe();
        if self.is_doubted(policy) {
            self.call_failures = 0;
        }
    }

    fn forget_probe(&mut self) {
        (self.probe, self.probe_misses) = (None, 0);
    }

    fn note_listing(&mut self, now: Moment, policy: &Policy) -> Result<(), Violation> {
        let is_due = self.list_from.max(self.refused_until) <= now;
        let is_free = self.is_open() && self.listing_by.is_none() && is_due;
        ensure(is_free, Violation::WrongListing)?;
        self.listing_by = Some(now + policy.limits.list);
        self.list_from = now + policy.relist_pause;
        self.owes_listing = false;
        Ok(())
    }
}

impl Expectation {
    fn end(end: ExpectedEnd) -> Self {
        Self {
            end: Some(end),
            ..Self::default()
        }
    }

    fn end_if(is_over: bool, recovery: Recovery) -> Self {
        Self {
            end: is_over.then_some(ExpectedEnd::Loss(recovery)),
            ..Self::default()
        }
    }
}
