//! What a watcher from outside knows of a server: a reference for the machine, kept from inputs and effects alone.
//!
//! It knows which connections are open and closing, what failed in a row, what was proven, and when the next start is
//! allowed. It never decides what the machine may decide (how long a pause is within its bounds, when to look at a
//! silent server): there it takes note, and holds the machine to it.

mod current;

pub(super) use current::{Current, Phase};

use crate::effect::{CloseMode, Effect};
use crate::explore::violation::Violation;
use crate::input::{Input, Recovery, Vitals};
use crate::policy::{Bucket, Policy, WhenLost};
use crate::state::{DisconnectReason, State, StateKind};
use crate::time::{Generation, Moment};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Observer {
    /// Generations opened so far: they are numbered from 1.
    pub(super) opened: u64,
    pub(super) current: Option<Current>,
    pub(super) closing: Option<Closing>,
    /// The one that finishes its calls beside the next.
    pub(super) draining: Option<Closing>,
    pub(super) wanted: bool,
    pub(super) failures: u32,
    /// Somebody asked for the next dial, or the policy asked for it when the connection was lost.
    pub(super) asked_for: bool,
    /// No dial before this moment: the pause that was announced.
    pub(super) not_before: Moment,
    /// The generation that found nobody there, until its pause is over or nobody cares any more.
    pub(super) absent: Option<Generation>,
    /// When the bucket will be full again: tokens and refill time in one number, by other arithmetic than the machine's.
    pub(super) full_at: Moment,
    /// The next start is the first, which is free: none was made, or this machine lacked something for it.
    pub(super) first_is_free: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Closing {
    pub(super) generation: Generation,
    pub(super) manner: CloseMode,
    pub(super) by: Moment,
}

/// What an input obliges the machine to, or allows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verdict {
    /// The current connection ends.
    pub(super) end: Option<End>,
    /// The proof falls due in this step. Where the connection ends in it too, either may have come first.
    pub(super) proof_due: bool,
    /// The close that the next dial waits for is to be cut short.
    abandon: Option<Generation>,
    /// The one that drains beside the next is to be cut short.
    displace: Option<Generation>,
    /// The connection that ends may drain beside the next one.
    beside: bool,
    /// The login that ends the connection was asked for with an old credential.
    pub(super) has_new_login: bool,
    /// Calls are to pause until this moment.
    hold: Option<Moment>,
    may_probe: bool,
    must_probe: bool,
    may_stop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Wish(CloseMode),
    Loss(Recovery),
}

impl Observer {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            opened: 0,
            current: None,
            closing: None,
            draining: None,
            wanted: false,
            failures: 0,
            asked_for: false,
            not_before: now,
            absent: None,
            full_at: now,
            first_is_free: true,
        }
    }

    /// A server whose keeper failed: it is wanted, nothing of it is left, and its next start is not its first.
    pub(super) fn resumed(now: Moment, at: Moment, policy: &Policy) -> Self {
        Self {
            wanted: true,
            asked_for: policy.when_lost == WhenLost::Restart,
            not_before: at,
            first_is_free: false,
            ..Self::new(now)
        }
    }

    /// The generation that the next dial gets.
    pub(super) fn fresh(&self) -> Generation {
        Generation(self.opened + 1)
    }

    /// When the bucket allows the next start.
    pub(super) fn token_at(&self, bucket: &Bucket) -> Moment {
        let slack = bucket.refill_every * (bucket.size.get() - 1);
        Moment::new(self.full_at.since_origin().saturating_sub(slack))
    }

    /// Takes note of an input that met the state `kind`.
    pub(super) fn hear(&mut self, input: &Input, now: Moment, policy: &Policy, kind: StateKind) -> Verdict {
        match input {
            Input::Enable { dormant } => {
                self.asked_for |= !dormant || kind == StateKind::PermanentlyFailed;
                self.enable(now, kind)
            }
            Input::Disable => {
                self.wanted = false;
                self.asked_for = false;
                self.pause_ends(now);
                Verdict::ends(End::Wish(CloseMode::Cut))
            }
            Input::Restart => self.renew(now, CloseMode::Cut),
            Input::Replace { beside } => {
                let beside = *beside && self.current.as_ref().is_some_and(Current::is_listed);
                let verdict = self.renew(now, CloseMode::Drain);
                let wished = beside && verdict.end.is_some();
                Verdict {
                    beside: wished,
                    displace: self
                        .draining
                        .filter(|_| wished)
                        .map(|draining| draining.generation),
                    ..verdict
                }
            }
            Input::Demand => {
                self.asked_for = true;
                Verdict::default()
            }
            Input::Login => {
                self.asked_for = true;
                self.report(Current::logged_in)
            }
            Input::Timer(vitals) => self.time(*vitals, now, policy),
            Input::Closed(generation) => {
                let is_it = |closing: &mut Closing| closing.generation == *generation;
                if self.closing.take_if(is_it).is_none() {
                    self.draining.take_if(is_it);
                }
                Verdict::default()
            }
            Input::Reachable(_) => {
                self.pause_ends(now);
                Verdict::default()
            }
            Input::Adjust(_) => self.report(|current| current.adjusted(now, policy)),
            Input::Begun(_) => self.report(|current| current.begun(now, policy)),
            Input::Opened(_) => self.report(Current::opened),
            Input::OpenFailed(_, recovery) => {
                let verdict = self.report(|current| current.open_failed(*recovery));
                self.forgive_lack(verdict, now, policy)
            }
            Input::Listed(_, listing) => self.report(|current| current.listed(*listing, now, policy)),
            Input::ListFailed(_, recovery) => {
                self.report(|current| current.list_failed(*recovery, now, policy))
            }
            Input::ListChanged(_) => self.report(Current::list_changed),
            Input::Lost(_) => self.report(|_| Verdict::lost(true)),
            Input::CallAnswered(_) => {
                if let Some(current) = self.current.as_mut().filter(|current| current.is_listed()) {
                    self.failures = 0;
                    if std::mem::take(&mut current.costs_token) {
                        self.give_token_back(now, &policy.bucket);
                    }
                }
                self.report(Current::call_answered)
            }
            Input::CallFailed(_, recovery) => {
                self.report(|current| current.call_failed(*recovery, now, policy))
            }
            Input::ProbeNow(_) => self.report(|current| current.probe_now(policy)),
            Input::ProbeAnswered(_) => self.report(Current::watched_anew),
        }
    }

    fn enable(&mut self, now: Moment, kind: StateKind) -> Verdict {
        if !self.wanted || kind == StateKind::PermanentlyFailed {
            self.failures = 0;
            self.pause_ends(now);
        }
        self.wanted = true;
        Verdict::default()
    }

    fn renew(&mut self, now: Moment, manner: CloseMode) -> Verdict {
        if !self.wanted {
            return Verdict::default();
        }
        self.failures = 0;
        self.asked_for = true;
        self.pause_ends(now);
        self.full_at = now;
        Verdict::ends(End::Wish(manner))
    }

    /// Whatever the pause was for, nothing but a close or a token is in the way of the next dial.
    fn pause_ends(&mut self, now: Moment) {
        self.not_before = now;
        self.absent = None;
    }

    fn time(&mut self, vitals: Vitals, now: Moment, policy: &Policy) -> Verdict {
        let overdue = |closing: Option<Closing>| {
            let over = closing.filter(|closing| closing.by <= now);
            over.map(|closing| closing.generation)
        };
        let (abandon, displace) = (overdue(self.closing), overdue(self.draining));
        let verdict = self.report(|current| current.time(vitals, now, policy));
        if verdict.proof_due && verdict.end.is_none() {
            self.failures = 0;
        }
        let verdict = self.forgive_lack(verdict, now, policy);
        Verdict {
            abandon,
            displace,
            ..verdict
        }
    }

    /// A start that this machine lacked something for costs nothing: it gives its token back, or is still the first.
    fn forgive_lack(&mut self, verdict: Verdict, now: Moment, policy: &Policy) -> Verdict {
        if verdict.end == Some(End::Loss(Recovery::RetryLack))
            && let Some(current) = &mut self.current
        {
            if std::mem::take(&mut current.costs_token) {
                self.give_token_back(now, &policy.bucket);
            } else {
                self.first_is_free = true;
            }
        }
        verdict
    }

    fn give_token_back(&mut self, now: Moment, bucket: &Bucket) {
        let sooner = self.full_at.since_origin().saturating_sub(bucket.refill_every);
        self.full_at = Moment::new(sooner).max(now);
    }

    /// Books what a report does to the current connection. A loss is a failure if a retry may mend it, and if the
    /// connection never proved itself.
    fn report(&mut self, what: impl FnOnce(&mut Current) -> Verdict) -> Verdict {
        let Some(current) = &mut self.current else {
            return Verdict::default();
        };
        let mut verdict = what(current);
        verdict.has_new_login = verdict.end == Some(End::Loss(Recovery::Login)) && current.has_new_login;
        let counts = match verdict.end {
            Some(End::Loss(
                Recovery::Retry
                | Recovery::RetryOtherEra
                | Recovery::RetryAfter(_)
                | Recovery::RetryWhenReachable,
            )) => !current.is_proven(),
            Some(End::Loss(Recovery::RetryLack | Recovery::Login | Recovery::GiveUp) | End::Wish(_))
            | None => false,
        };
        self.failures += u32::from(counts);
        verdict
    }

    /// Follows the effects, in their order, and holds them against the verdict.
    pub(super) fn follow(
        &mut self,
        effects: &[Effect],
        mut verdict: Verdict,
        now: Moment,
        policy: &Policy,
    ) -> Result<(), Violation> {
        let before = self.generation();
        for effect in effects {
            match effect {
                Effect::Open(generation) => self.opens(*generation, now, policy)?,
                Effect::Close(generation, manner) => {
                    self.closes((*generation, *manner), verdict, now, policy)?;
                }
                Effect::CutDrain(generation) => self.hastens(*generation, verdict, now, policy)?,
                Effect::Abandon(generation) => {
                    let is_it = |due: &mut Generation| due == generation;
                    if verdict.abandon.take_if(is_it).is_some() {
                        self.closing = None;
                    } else if verdict.displace.take_if(is_it).is_some() {
                        self.draining = None;
                    } else {
                        return Err(Violation::AbandonUndue);
                    }
                }
                Effect::Hold(generation, until) => {
                    self.current(*generation)?;
                    if verdict.hold.take() != Some(*until) {
                        return Err(Violation::HoldMistold);
                    }
                }
                Effect::List(generation) => self.current(*generation)?.lists(now, policy)?,
                Effect::Probe(generation) => self.current(*generation)?.probes(verdict, now, policy)?,
                Effect::CountStale(_) => return Err(Violation::StaleReportMattered),
                Effect::MarkStale | Effect::Withdraw | Effect::Transition(_) => {}
            }
        }
        if verdict.abandon.is_some() || verdict.displace.is_some() {
            return Err(Violation::AbandonUndue);
        }
        if verdict.hold.is_some() {
            return Err(Violation::HoldMistold);
        }
        if verdict.must_probe && !effects.iter().any(|effect| matches!(effect, Effect::Probe(_))) {
            return Err(Violation::DoubtIgnored);
        }
        if verdict.end == Some(End::Wish(CloseMode::Cut)) && self.drains() {
            return Err(Violation::DrainOutlivesWish);
        }
        if verdict.end.is_some() && before.is_some() && self.generation() == before {
            return Err(Violation::CloseMissing);
        }
        Ok(())
    }

    fn opens(&mut self, generation: Generation, now: Moment, policy: &Policy) -> Result<(), Violation> {
        if generation != self.fresh() {
            return Err(Violation::GenerationReused);
        }
        if self.closing.is_some() || self.current.is_some() {
            return Err(Violation::OpenedBesideOld);
        }
        if !self.wanted {
            return Err(Violation::OpenedUnwanted);
        }
        if !self.asked_for {
            return Err(Violation::OpenedUnasked);
        }
        if now < self.not_before {
            return Err(Violation::OpenedTooSoon);
        }
        let costs_token = !std::mem::take(&mut self.first_is_free);
        if costs_token {
            if now < self.token_at(&policy.bucket) {
                return Err(Violation::BucketIgnored);
            }
            self.full_at = self.full_at.max(now) + policy.bucket.refill_every;
        }
        self.opened += 1;
        self.absent = None;
        self.current = Some(Current {
            costs_token,
            ..Current::dialled(generation, now, policy)
        });
        Ok(())
    }

    fn closes(
        &mut self,
        (generation, manner): (Generation, CloseMode),
        verdict: Verdict,
        now: Moment,
        policy: &Policy,
    ) -> Result<(), Violation> {
        let due = match verdict.end {
            Some(End::Wish(manner)) => manner,
            // Where a loss falls due in the same step as an idle stop, either may have come first. A call may come between the
            // look at an idle connection and its end, so it drains.
            Some(End::Loss(_)) | None if verdict.may_stop && manner == CloseMode::Drain => {
                self.asked_for = false;
                CloseMode::Drain
            }
            Some(End::Loss(recovery)) => {
                self.asked_for = verdict.has_new_login || self.goes_on(recovery, policy);
                CloseMode::Cut
            }
            None if verdict.may_stop => CloseMode::Drain,
            None => return Err(Violation::CloseUndue),
        };
        if self.generation() != Some(generation) {
            return Err(Violation::CloseUndue);
        }
        if due != manner {
            return Err(Violation::CloseManner);
        }
        let patience = match manner {
            CloseMode::Cut => policy.limits.close,
            CloseMode::Drain => policy.limits.close + policy.limits.drain,
        };
        self.current = None;
        let close = Closing {
            generation,
            manner,
            by: now + patience,
        };
        let place = if verdict.beside {
            &mut self.draining
        } else {
            &mut self.closing
        };
        match place.replace(close) {
            None => Ok(()),
            Some(_) => Err(Violation::TwoDrain),
        }
    }

    /// Whether a loss is followed by a dial that nobody has to ask for.
    fn goes_on(&self, recovery: Recovery, policy: &Policy) -> bool {
        match (recovery, policy.when_lost) {
            (Recovery::Login | Recovery::GiveUp, _) => false,
            (Recovery::RetryOtherEra, WhenLost::StayDisconnected) => self.failures < policy.budget.get(),
            (
                Recovery::Retry | Recovery::RetryAfter(_) | Recovery::RetryWhenReachable,
                WhenLost::StayDisconnected,
            ) => false,
            // What this machine lacked is no loss of the server: the start that was asked for goes on.
            (Recovery::RetryLack, WhenLost::StayDisconnected) | (_, WhenLost::Restart) => true,
        }
    }

    /// A wish cuts what was draining.
    fn hastens(
        &mut self,
        generation: Generation,
        verdict: Verdict,
        now: Moment,
        policy: &Policy,
    ) -> Result<(), Violation> {
        let wished = verdict.end == Some(End::Wish(CloseMode::Cut));
        let mut closes = self.closing.iter_mut().chain(&mut self.draining);
        let hastened = closes
            .find(|closing| wished && closing.manner == CloseMode::Drain && closing.generation == generation);
        let closing = hastened.ok_or(Violation::DrainOutlivesWish)?;
        closing.manner = CloseMode::Cut;
        closing.by = closing.by.min(now + policy.limits.close);
        Ok(())
    }

    fn drains(&self) -> bool {
        let mut closes = self.closing.iter().chain(&self.draining);
        closes.any(|closing| closing.manner == CloseMode::Drain)
    }

    pub(super) fn generation(&self) -> Option<Generation> {
        self.current.as_ref().map(|current| current.generation)
    }

    /// The generation that was closed last, while its close runs.
    pub(super) fn lost(&self) -> Option<Generation> {
        self.closing.map(|closing| closing.generation)
    }

    fn current(&mut self, generation: Generation) -> Result<&mut Current, Violation> {
        self.current
            .as_mut()
            .filter(|current| current.generation == generation)
            .ok_or(Violation::GenerationsDiffer)
    }

    /// Moves every moment by `shift`. Where only "over or not" matters, all that is over is the same to the walk.
    pub(super) fn shift(&mut self, shift: &impl Fn(Moment) -> Moment, now: Moment) {
        let over = |at: Moment| shift(at).max(now);
        self.not_before = over(self.not_before);
        self.full_at = over(self.full_at);
        for closing in self.closing.iter_mut().chain(&mut self.draining) {
            closing.by = shift(closing.by);
        }
        if let Some(current) = &mut self.current {
            current.shift(shift, now);
        }
    }
}

impl Verdict {
    /// Whether the step ended in an idle stop, which it was allowed to.
    pub(super) fn stops_at(&self, state: &State) -> bool {
        self.may_stop && *state == State::Disconnected(DisconnectReason::Idle)
    }

    fn ends(end: End) -> Self {
        Self {
            end: Some(end),
            ..Self::default()
        }
    }

    fn lost(when: bool) -> Self {
        Self::lost_until(when, Recovery::Retry)
    }

    fn lost_until(when: bool, recovery: Recovery) -> Self {
        Self {
            end: when.then_some(End::Loss(recovery)),
            ..Self::default()
        }
    }
}
