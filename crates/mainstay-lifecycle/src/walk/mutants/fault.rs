//! What each fault does to a healthy machine.

use std::time::Duration;

use crate::deadline::{Deadline, Timer};
use crate::effect::{Cause, CloseMode, Effect, Transition};
use crate::input::{Input, Listing, Recovery, Vitals};
use crate::machine::{Desired, Machine};
use crate::policy::WhenLost;
use crate::state::{Attempt, DisconnectReason, Live, Refresh, RefreshStep, State, StateKind, Watch};
use crate::time::{Generation, Moment};
use crate::walk::world::{RETRY_AFTER, TICK};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::walk) enum Fault {
    AcceptsStaleReports,
    AcceptsAStaleClose,
    CountsNoStaleReport,
    ForgetsToClose,
    ClosesTwice,
    CutsInsteadOfDraining,
    DrainsOnAgainstAWish,
    CutsTheIdle,
    WaitsForTheReplaced,
    ReplacesAProcessBeside,
    DrainsAnyNumber,
    RestsWhileItDrains,
    AbandonsInSilence,
    AbandonsAtOnce,
    ForgetsTheCloseDeadline,
    ForgetsTheTurn,
    ForgetsTheOpenDeadline,
    ForgetsTheListDeadline,
    ForgetsTheRelist,
    ForgetsTheStart,
    ForgetsTheExpiry,
    ForgetsTheProof,
    ForgetsTheSlowProbe,
    ForgetsTheSilence,
    ForgetsTheAnswer,
    ForgetsTheIdleness,
    OpensWhileClosing,
    OpensTwice,
    ReusesTheGeneration,
    NeverTakesAToken,
    KeepsTheTokenOfWork,
    GivesATokenForEachCall,
    GivesATokenOnConnect,
    GivesATokenForAStableTime,
    SkipsTheBackoff,
    KeepsRunningWhenDisabled,
    DialsAfterADisable,
    DialsOnADisable,
    PollsWhileDisabling,
    RenewsTheBudgetOnConnect,
    CountsAProvenLoss,
    NeverSpendsTheBudget,
    LetsALoginCostBudget,
    KeepsTheBudgetOnRestart,
    KeepsTheBucketOnRestart,
    BelievesNoCall,
    RetriesWhatNeedsALogin,
    RetriesWhatNobodyMends,
    ForgetsALoginWhileDialling,
    KeepsALoginForLater,
    IgnoresRetryAfter,
    GrantsAnyPause,
    BlamesACallForAPause,
    PausesBeforeTheOtherWay,
    IgnoresTheLoginOfACall,
    BlamesTheServerForALack,
    BlamesTheServerForItsTurn,
    KeepsTheTokenOfALack,
    ForgetsTheFirstStartOfALack,
    HasNoPauseAfterALack,
    CountsAListingOfALack,
    CountsAListingOfAPause,
    TimesAStartFromItsQueue,
    ListsBeforeItsTime,
    HasNoDoubts,
    IgnoresChangesWhileListing,
    ListsAnOldGeneration,
    TrustsAnEmptyListing,
    ListsEveryChangeAtOnce,
    LetsAListingClearCalls,
    LetsACallClearListings,
    ProbesTheBusy,
    CountsMissesOfTheBusy,
    StopsTheBusy,
    NeverProbes,
    SparesTheStopped,
    NeverStops,
    SleepsThroughAStart,
    ResumesForFree,
    SleepsThroughARelist,
    SleepsThroughAnExpiry,
    IgnoresTheTimeToLive,
    ExpiresAtOnce,
    RestartsAgainstThePolicy,
    IgnoresADemandWhenLost,
    IgnoresRetryAfterOnDemand,
    IgnoresARestartWhenFailed,
    IgnoresARestartWhenIdle,
    IgnoresAnEnableWhileDisabling,
    DialsTheDormant,
    IgnoresAReturn,
    AwaitsNoReturn,
    BelievesAnyReturn,
    RenewsTheBudgetOnReturn,
    TellsNoTransition,
    TellsAWrongOrigin,
    KeepsTheCatalog,
}

impl Fault {
    pub(super) fn handle(
        self,
        machine: &mut Machine,
        input: Input,
        now: Moment,
        fresh: Generation,
    ) -> Vec<Effect> {
        let before = machine.clone();
        let Some(input) = self.forge(machine, input, now) else {
            return Vec::new();
        };
        let fresh = match self {
            Self::ReusesTheGeneration => Generation(fresh.0.saturating_sub(1).max(1)),
            _ => fresh,
        };
        let mut effects = machine.handle(input.clone(), now, fresh).0;
        self.spoil(&before, &input, machine, &mut effects, now);
        effects
    }

    /// What becomes of a machine that begins again.
    pub(super) fn resume(self, mut machine: Machine) -> Machine {
        if self == Self::ResumesForFree {
            machine.started = false;
        }
        machine
    }

    /// The deadline that is seen instead of the machine's own.
    pub(super) fn deadline(self, machine: &Machine, now: Moment) -> Option<Deadline> {
        if self == Self::PollsWhileDisabling && machine.state == State::Disabling {
            return Some(Deadline {
                at: now + TICK,
                timer: Timer::Close,
            });
        }
        machine
            .deadline()
            .filter(|deadline| self.hides() != Some(deadline.timer))
    }

    /// The timer whose deadline is not seen.
    fn hides(self) -> Option<Timer> {
        match self {
            Self::ForgetsTheCloseDeadline => Some(Timer::Close),
            Self::ForgetsTheTurn => Some(Timer::Turn),
            Self::ForgetsTheOpenDeadline => Some(Timer::Open),
            Self::ForgetsTheListDeadline => Some(Timer::List),
            Self::ForgetsTheRelist => Some(Timer::Relist),
            Self::ForgetsTheStart => Some(Timer::Start),
            Self::ForgetsTheExpiry => Some(Timer::Expiry),
            Self::ForgetsTheProof => Some(Timer::Proof),
            Self::ForgetsTheSlowProbe => Some(Timer::SlowProbe),
            Self::ForgetsTheSilence => Some(Timer::Silence),
            Self::ForgetsTheAnswer => Some(Timer::Answer),
            Self::ForgetsTheIdleness => Some(Timer::Idle),
            _ => None,
        }
    }

    /// What the machine hears instead; `None` if it hears nothing.
    fn forge(self, machine: &mut Machine, input: Input, now: Moment) -> Option<Input> {
        let kind = machine.state.kind();
        match (self, input) {
            (Self::AcceptsStaleReports, input) => match machine.state.generation() {
                Some(current) => Some(renumbered(input, current)),
                None => Some(input),
            },
            (Self::AcceptsAStaleClose, Input::Closed(generation)) => {
                Some(Input::Closed(machine.closing().unwrap_or(generation)))
            }
            (Self::OpensWhileClosing, input) => {
                machine.closing = None;
                Some(input)
            }
            (Self::SkipsTheBackoff, Input::Demand) => {
                if let State::Reconnecting(Attempt::Pausing(at, _)) = &mut machine.state {
                    *at = now;
                }
                Some(Input::Demand)
            }
            (Self::KeepsRunningWhenDisabled, Input::Disable) => {
                machine.desired = Desired::Disabled;
                None
            }
            (Self::DialsAfterADisable, Input::Disable) if machine.state.generation().is_none() => None,
            (Self::DialsOnADisable, Input::Disable)
                if machine.state.generation().is_none() && machine.closing.is_none() =>
            {
                Some(Input::Restart)
            }
            (Self::CountsAProvenLoss, Input::Lost(generation)) => {
                if let State::Connected(live) = &mut machine.state
                    && live.generation == generation
                {
                    live.proven_at = Some(now);
                }
                Some(Input::Lost(generation))
            }
            (Self::NeverSpendsTheBudget, input @ (Input::Lost(_) | Input::OpenFailed(..)))
                if is_current(machine, &input) =>
            {
                machine.failures = 0;
                Some(input)
            }
            (Self::RetriesWhatNeedsALogin, Input::OpenFailed(generation, Recovery::Login))
            | (Self::RetriesWhatNobodyMends, Input::OpenFailed(generation, Recovery::GiveUp))
            | (Self::PausesBeforeTheOtherWay, Input::OpenFailed(generation, Recovery::RetryOtherEra))
            | (Self::IgnoresRetryAfter, Input::OpenFailed(generation, Recovery::RetryAfter(_))) => {
                Some(Input::OpenFailed(generation, Recovery::Retry))
            }
            (Self::BlamesTheServerForALack, Input::OpenFailed(generation, Recovery::RetryLack)) => {
                Some(Input::OpenFailed(generation, Recovery::Retry))
            }
            (Self::BlamesTheServerForItsTurn, Input::Timer(vitals)) => match machine.state {
                State::Connecting(Attempt::Queued(generation, by))
                | State::Reconnecting(Attempt::Queued(generation, by))
                    if by <= now =>
                {
                    Some(Input::OpenFailed(generation, Recovery::Retry))
                }
                _ => Some(Input::Timer(vitals)),
            },
            (Self::CountsAListingOfALack, Input::ListFailed(generation, Recovery::RetryLack)) => {
                Some(Input::ListFailed(generation, Recovery::Retry))
            }
            (Self::IgnoresTheLoginOfACall, Input::CallFailed(generation, Recovery::Login)) => {
                Some(Input::CallFailed(generation, Recovery::Retry))
            }
            (Self::CountsAListingOfAPause, Input::ListFailed(generation, Recovery::RetryAfter(_)))
                if machine.state.generation() == Some(generation) =>
            {
                if let State::Connected(Live { refresh, .. }) = &mut machine.state {
                    refresh.failures += u32::from(matches!(refresh.step, RefreshStep::Running { .. }));
                }
                Some(Input::ListFailed(generation, Recovery::RetryAfter(RETRY_AFTER)))
            }
            (Self::BlamesACallForAPause, Input::CallFailed(generation, Recovery::RetryAfter(_))) => {
                Some(Input::CallFailed(generation, Recovery::Retry))
            }
            (Self::GrantsAnyPause, input) => {
                machine.policy.limits.retry_after = Duration::MAX;
                Some(input)
            }
            (Self::ForgetsALoginWhileDialling, Input::Login) if machine.state.generation().is_some() => None,
            (Self::WaitsForTheReplaced, Input::Replace { .. }) => Some(Input::Replace { beside: false }),
            (Self::ReplacesAProcessBeside, Input::Replace { .. }) => Some(Input::Replace { beside: true }),
            (Self::SparesTheStopped, Input::Timer(vitals)) => Some(Input::Timer(Vitals {
                stopped: false,
                ..vitals
            })),
            (Self::ListsBeforeItsTime, Input::ListFailed(generation, Recovery::RetryAfter(_))) => {
                Some(Input::ListFailed(generation, Recovery::Retry))
            }
            (Self::HasNoDoubts, Input::ProbeNow(generation))
                if machine.state.generation() == Some(generation) =>
            {
                None
            }
            (Self::BelievesNoCall, Input::CallAnswered(generation))
                if machine.state.generation() == Some(generation) =>
            {
                None
            }
            (Self::IgnoresChangesWhileListing, Input::ListChanged(generation))
                if machine.state.generation() == Some(generation)
                    && refresh(machine)
                        .is_some_and(|refresh| matches!(refresh.step, RefreshStep::Running { .. })) =>
            {
                None
            }
            (Self::TrustsAnEmptyListing, Input::Listed(generation, Listing::Unconfirmed)) => {
                Some(Input::Listed(generation, Listing::Good { ttl: None }))
            }
            (Self::ListsEveryChangeAtOnce, Input::ListChanged(generation))
                if machine.state.generation() == Some(generation) =>
            {
                if let Some(refresh) = refresh(machine) {
                    refresh.not_before = now;
                }
                Some(Input::ListChanged(generation))
            }
            (Self::ProbesTheBusy, Input::Timer(vitals)) => Some(unbusy(
                vitals,
                watches(machine, |watch| matches!(watch, Watch::Listening(_))),
            )),
            (Self::CountsMissesOfTheBusy, Input::Timer(vitals)) => Some(unbusy(
                vitals,
                watches(machine, |watch| matches!(watch, Watch::Asked { .. })),
            )),
            (Self::StopsTheBusy, Input::Timer(vitals)) => {
                Some(unbusy(vitals, watches(machine, |watch| *watch == Watch::Off)))
            }
            (Self::NeverProbes, Input::Timer(mut vitals)) => {
                vitals.busy |= watches(machine, |watch| matches!(watch, Watch::Listening(_)));
                Some(Input::Timer(vitals))
            }
            (Self::NeverStops, Input::Timer(mut vitals)) => {
                vitals.used = now;
                Some(Input::Timer(vitals))
            }
            (Self::SleepsThroughAStart, Input::Timer(_)) if is_due(machine, Timer::Start) => None,
            (Self::SleepsThroughARelist, Input::Timer(_)) if is_due(machine, Timer::Relist) => None,
            (Self::SleepsThroughAnExpiry, Input::Timer(_)) if is_due(machine, Timer::Expiry) => None,
            (Self::IgnoresTheTimeToLive, Input::Listed(generation, Listing::Good { .. })) => {
                Some(Input::Listed(generation, Listing::Good { ttl: None }))
            }
            (Self::RestartsAgainstThePolicy, input) => {
                machine.policy.when_lost = WhenLost::Restart;
                Some(input)
            }
            (Self::IgnoresADemandWhenLost, Input::Demand)
                if matches!(machine.state, State::Disconnected(DisconnectReason::Lost(_))) =>
            {
                None
            }
            (Self::IgnoresRetryAfterOnDemand, Input::Demand) => {
                if let State::Disconnected(DisconnectReason::Lost(at)) = &mut machine.state {
                    *at = now;
                }
                Some(Input::Demand)
            }
            (Self::IgnoresARestartWhenFailed, Input::Restart) if kind == StateKind::PermanentlyFailed => None,
            (Self::IgnoresARestartWhenIdle, Input::Restart)
                if machine.state == State::Disconnected(DisconnectReason::Idle) =>
            {
                None
            }
            (Self::IgnoresAnEnableWhileDisabling, Input::Enable { .. }) if kind == StateKind::Disabling => {
                None
            }
            (Self::IgnoresAReturn, Input::Reachable(generation))
                if machine.unreachable() == Some(generation) =>
            {
                None
            }
            (Self::AwaitsNoReturn, Input::OpenFailed(generation, Recovery::RetryWhenReachable)) => {
                Some(Input::OpenFailed(generation, Recovery::Retry))
            }
            (Self::BelievesAnyReturn, Input::Reachable(generation)) => {
                Some(Input::Reachable(machine.unreachable().unwrap_or(generation)))
            }
            (Self::DialsTheDormant, Input::Enable { .. }) => Some(Input::Enable { dormant: false }),
            (_, input) => Some(input),
        }
    }

    /// What becomes of the machine and its effects afterwards.
    fn spoil(
        self,
        before: &Machine,
        input: &Input,
        machine: &mut Machine,
        effects: &mut Vec<Effect>,
        now: Moment,
    ) {
        let current = is_current(before, input);
        let restarted = *input == Input::Restart && machine.desired == Desired::Enabled;
        match self {
            Self::CountsNoStaleReport => effects.retain(|effect| !matches!(effect, Effect::CountStale(_))),
            Self::ForgetsToClose => effects.retain(|effect| !matches!(effect, Effect::Close(..))),
            Self::ClosesTwice => double(effects, |effect| matches!(effect, Effect::Close(..))),
            Self::OpensTwice => double(effects, |effect| matches!(effect, Effect::Open(_))),
            Self::CutsInsteadOfDraining => {
                for effect in effects {
                    if let Effect::Close(_, manner) = effect {
                        *manner = CloseMode::Cut;
                    }
                }
            }
            Self::CutsTheIdle if machine.state == State::Disconnected(DisconnectReason::Idle) => {
                for effect in effects {
                    if let Effect::Close(_, manner) = effect {
                        *manner = CloseMode::Cut;
                    }
                }
            }
            Self::DrainsAnyNumber if matches!(input, Input::Replace { .. }) => {
                effects.retain(|effect| !matches!(effect, Effect::Abandon(_)));
            }
            Self::RestsWhileItDrains if machine.state == State::Disabling && machine.closing.is_none() => {
                machine.state = State::Disabled;
                effects.push(Effect::Transition(Transition {
                    from: StateKind::Disabling,
                    to: StateKind::Disabled,
                    generation: None,
                    cause: Cause::Closed,
                }));
            }
            Self::KeepsALoginForLater => machine.has_new_login |= before.has_new_login,
            Self::GrantsAnyPause => machine.policy.limits.retry_after = before.policy.limits.retry_after,
            Self::DrainsOnAgainstAWish => effects.retain(|effect| !matches!(effect, Effect::CutDrain(_))),
            Self::AbandonsInSilence => effects.retain(|effect| !matches!(effect, Effect::Abandon(_))),
            Self::AbandonsAtOnce => {
                let closing = machine.closing().filter(|_| before.closing.is_none());
                effects.extend(closing.map(Effect::Abandon));
            }
            Self::ListsAnOldGeneration => {
                for effect in effects {
                    if let Effect::List(generation) = effect {
                        generation.0 -= 1;
                    }
                }
            }
            Self::TellsAWrongOrigin => {
                for effect in effects {
                    if let Effect::Transition(transition) = effect {
                        transition.from = StateKind::Disabled;
                    }
                }
            }
            Self::TellsNoTransition => effects.retain(|effect| !matches!(effect, Effect::Transition(_))),
            Self::KeepsTheCatalog => effects.retain(|effect| *effect != Effect::Withdraw),
            Self::OpensWhileClosing if machine.closing.is_none() => machine.closing = before.closing.clone(),
            Self::NeverTakesAToken => machine.tokens = before.tokens.clone(),
            Self::KeepsTheTokenOfWork if current && matches!(input, Input::CallAnswered(_)) => {
                machine.tokens = before.tokens.clone();
            }
            Self::GivesATokenForEachCall if current && matches!(input, Input::CallAnswered(_)) => {
                machine.owes_work = true;
            }
            Self::GivesATokenOnConnect
                if before.state.kind() != machine.state.kind()
                    && machine.state.kind() == StateKind::Connected =>
            {
                give_token_back(machine, now);
            }
            Self::GivesATokenForAStableTime if is_proven(machine) && !is_proven(before) => {
                give_token_back(machine, now);
            }
            Self::KeepsTheTokenOfALack if current && is_lack(input) => {
                machine.tokens = before.tokens.clone();
            }
            Self::ForgetsTheFirstStartOfALack if current && is_lack(input) => machine.started = true,
            Self::HasNoPauseAfterALack if current && is_lack(input) => {
                if let State::Reconnecting(Attempt::Pausing(at, _)) = &mut machine.state {
                    *at = now;
                }
            }
            Self::TimesAStartFromItsQueue if current && matches!(input, Input::Begun(_)) => {
                if let (
                    State::Connecting(Attempt::Queued(_, from))
                    | State::Reconnecting(Attempt::Queued(_, from)),
                    State::Connecting(Attempt::Opening(_, by)) | State::Reconnecting(Attempt::Opening(_, by)),
                ) = (&before.state, &mut machine.state)
                {
                    *by = *from;
                }
            }
            Self::RenewsTheBudgetOnConnect
                if before.state.kind() != machine.state.kind()
                    && machine.state.kind() == StateKind::Connected =>
            {
                machine.failures = 0;
            }
            Self::LetsALoginCostBudget if machine.state != before.state && asks_for_login(input) => {
                machine.failures += 1;
            }
            Self::RenewsTheBudgetOnReturn
                if before
                    .unreachable()
                    .is_some_and(|absent| *input == Input::Reachable(absent)) =>
            {
                machine.failures = 0;
            }
            Self::RestartsAgainstThePolicy => machine.policy.when_lost = before.policy.when_lost,
            Self::ExpiresAtOnce if current && matches!(input, Input::Listed(..)) => {
                if let Some(refresh) = refresh(machine)
                    && let RefreshStep::Fresh { until: Some(at), .. } = &mut refresh.step
                {
                    *at = now.max(refresh.not_before);
                }
            }
            Self::KeepsTheBudgetOnRestart if restarted => machine.failures = before.failures,
            Self::KeepsTheBucketOnRestart if restarted => machine.tokens = before.tokens.clone(),
            Self::LetsAListingClearCalls if current && matches!(input, Input::Listed(..)) => {
                if let State::Connected(live) = &mut machine.state {
                    live.call_failures = 0;
                }
            }
            Self::LetsACallClearListings if current && matches!(input, Input::CallAnswered(_)) => {
                if let Some(refresh) = refresh(machine) {
                    refresh.failures = 0;
                }
            }
            _ => {}
        }
    }
}

fn renumbered(input: Input, generation: Generation) -> Input {
    match input {
        Input::Begun(_) => Input::Begun(generation),
        Input::Opened(_) => Input::Opened(generation),
        Input::OpenFailed(_, recovery) => Input::OpenFailed(generation, recovery),
        Input::Listed(_, listing) => Input::Listed(generation, listing),
        Input::ListFailed(_, recovery) => Input::ListFailed(generation, recovery),
        Input::ListChanged(_) => Input::ListChanged(generation),
        Input::Lost(_) => Input::Lost(generation),
        Input::CallAnswered(_) => Input::CallAnswered(generation),
        Input::CallFailed(_, recovery) => Input::CallFailed(generation, recovery),
        Input::ProbeNow(_) => Input::ProbeNow(generation),
        Input::ProbeAnswered(_) => Input::ProbeAnswered(generation),
        Input::Enable { .. }
        | Input::Disable
        | Input::Restart
        | Input::Replace { .. }
        | Input::Adjust(_)
        | Input::Demand
        | Input::Login
        | Input::Closed(_)
        | Input::Reachable(_)
        | Input::Timer(_) => input,
    }
}

fn is_current(machine: &Machine, input: &Input) -> bool {
    let current = machine.state.generation();
    current.is_some_and(|current| renumbered(input.clone(), current) == *input)
}

fn is_due(machine: &Machine, timer: Timer) -> bool {
    machine.deadline().is_some_and(|deadline| deadline.timer == timer)
}

fn is_proven(machine: &Machine) -> bool {
    matches!(&machine.state, State::Connected(live) if live.is_proven())
}

fn give_token_back(machine: &mut Machine, now: Moment) {
    if std::mem::take(&mut machine.owes_work) {
        machine.tokens.give_back(&machine.policy.bucket, now);
    }
}

fn is_lack(input: &Input) -> bool {
    matches!(input, Input::OpenFailed(_, Recovery::RetryLack))
}

fn asks_for_login(input: &Input) -> bool {
    matches!(input, Input::OpenFailed(_, Recovery::Login))
}

fn refresh(machine: &mut Machine) -> Option<&mut Refresh> {
    match &mut machine.state {
        State::Connecting(Attempt::Listing(opened)) | State::Reconnecting(Attempt::Listing(opened)) => {
            Some(&mut opened.refresh)
        }
        State::Connected(live) => Some(&mut live.refresh),
        _ => None,
    }
}

fn watches(machine: &Machine, how: impl Fn(&Watch) -> bool) -> bool {
    matches!(&machine.state, State::Connected(Live { watch, .. }) if how(watch))
}

fn unbusy(mut vitals: Vitals, when: bool) -> Input {
    vitals.busy &= !when;
    Input::Timer(vitals)
}

fn double(effects: &mut Vec<Effect>, which: impl Fn(&Effect) -> bool) {
    let again: Vec<Effect> = effects.iter().copied().filter(which).collect();
    effects.extend(again);
}
