//! What must hold of every step, beyond what the ledger holds the effects to as it follows them.

use crate::effect::{Effect, Transition};
use crate::explore::observer::{Current, End, Observer, Phase, Verdict};
use crate::explore::simulation::Simulation;
use crate::explore::violation::Violation;
use crate::input::{Input, Recovery};
use crate::machine::{Desired, Machine};
use crate::policy::{WhenLost, WhenSpent};
use crate::state::{
    Attempt, DisconnectReason, ListingPhase, Listings, LiveConnection, OpenConnection, Pause, SilenceWatch,
    State, StateKind,
};
use crate::time::Moment;

fn ensure(holds: bool, broken: Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(broken) }
}

/// Each change of state is told, once and truly, and the catalog with it.
pub(super) fn told(before: &Machine, effects: &[Effect], after: &Machine) -> Result<(), Violation> {
    let mut kind = before.state.kind();
    let mut about = before.state.generation();
    let mut catalog = None;
    for effect in effects {
        match effect {
            Effect::MarkStale | Effect::Withdraw => {
                ensure(catalog.replace(*effect).is_none(), Violation::CatalogMistold)?;
            }
            Effect::Transition(Transition {
                from, to, generation, ..
            }) => {
                ensure(*from == kind && to != from, Violation::TransitionUntold)?;
                ensure(*generation == about.take(), Violation::TransitionUntold)?;
                ensure(catalog.take() == catalog_of(*to), Violation::CatalogMistold)?;
                kind = *to;
            }
            Effect::Open(_)
            | Effect::Close(..)
            | Effect::CutDrain(_)
            | Effect::Abandon(_)
            | Effect::Hold(..)
            | Effect::List(_)
            | Effect::Probe(_)
            | Effect::CountStale(_) => {}
        }
    }
    ensure(catalog.is_none(), Violation::CatalogMistold)?;
    ensure(kind == after.state.kind(), Violation::TransitionUntold)
}

fn catalog_of(kind: StateKind) -> Option<Effect> {
    match kind {
        StateKind::Connecting | StateKind::Reconnecting | StateKind::Disconnected => Some(Effect::MarkStale),
        StateKind::Disabling | StateKind::PermanentlyFailed => Some(Effect::Withdraw),
        StateKind::Connected | StateKind::Disabled => None,
    }
}

/// Failures in a row are counted as the ledger does. Where a proof, a loss or an idle stop fell due in one step, any of
/// them may have come first, and the ledger takes the machine's word.
pub(super) fn counted(before: &Observer, next: &mut Simulation, verdict: Verdict) -> Result<(), Violation> {
    let seen = next.machine.failures;
    let ended = before.current.is_some() && before.generation() != next.observer.generation();
    let stopped = verdict.stops_at(&next.machine.state);
    if ended && (verdict.proof_due || stopped) {
        let unproven = before.failures + u32::from(!stopped);
        let proven = verdict.proof_due && seen == 0;
        ensure(proven || seen == unproven, Violation::FailuresMiscounted)?;
        next.observer.failures = seen;
    }
    ensure(seen == next.observer.failures, Violation::FailuresMiscounted)
}

/// A loss leads where its recovery, the budget and the policy say; the pause that is announced is noted.
pub(super) fn judged(next: &mut Simulation, verdict: Verdict, now: Moment) -> Result<(), Violation> {
    if verdict.stops_at(&next.machine.state) {
        return Ok(());
    }
    let policy = &next.machine.policy;
    let failures = next.observer.failures;
    let wanted = match verdict.end {
        Some(End::Loss(Recovery::Retry | Recovery::RetryOtherEra | Recovery::RetryWhenReachable)) => now,
        Some(End::Loss(Recovery::RetryAfter(pause))) => now + pause.min(policy.limits.retry_after),
        Some(End::Loss(Recovery::RetryLack)) => return lack_judged(next, now),
        Some(End::Loss(Recovery::Login)) if verdict.has_new_login => {
            next.observer.not_before = now;
            let goes_on = match next.machine.state {
                State::Connecting {
                    attempt: Attempt::Pausing(at, pause),
                    ..
                } => at == now && pause == Pause::None,
                _ => false,
            };
            return ensure(goes_on, Violation::LossMisjudged);
        }
        Some(End::Loss(Recovery::Login)) => {
            let asks = next.machine.state == State::Disconnected(DisconnectReason::AuthRequired);
            return ensure(asks, Violation::LossMisjudged);
        }
        Some(End::Loss(Recovery::GiveUp)) => {
            return ensure(
                next.machine.state == State::PermanentlyFailed,
                Violation::LossMisjudged,
            );
        }
        Some(End::Wish(_)) | None => return Ok(()),
    };
    let otherwise = verdict.end == Some(End::Loss(Recovery::RetryOtherEra));
    if policy.when_lost == WhenLost::StayDisconnected && !(otherwise && failures < policy.budget.get()) {
        next.observer.not_before = wanted;
        next.observer.absent = None;
        let rests = next.machine.state == State::Disconnected(DisconnectReason::Lost(wanted));
        return ensure(rests, Violation::LossMisjudged);
    }
    let (earliest, latest, at) = match (&next.machine.state, policy.when_spent) {
        (State::PermanentlyFailed, WhenSpent::GiveUp) => {
            return ensure(failures >= policy.budget.get(), Violation::LossMisjudged);
        }
        (State::Disconnected(DisconnectReason::BudgetSpent(at, _)), WhenSpent::ProbeEvery(period)) => {
            ensure(failures >= policy.budget.get(), Violation::LossMisjudged)?;
            (now + period * 3 / 4, now + period * 5 / 4, *at)
        }
        (
            State::Connecting {
                is_first: false,
                attempt: Attempt::Pausing(at, _),
                ..
            },
            _,
        ) => {
            ensure(failures < policy.budget.get(), Violation::LossMisjudged)?;
            let latest = if otherwise {
                now
            } else {
                now + policy.backoff.longest_pause(failures)
            };
            (now, latest, *at)
        }
        _ => return Err(Violation::LossMisjudged),
    };
    next.observer.not_before = at;
    let awaited = verdict.end == Some(End::Loss(Recovery::RetryWhenReachable)) && now < at;
    next.observer.absent = next.observer.lost().filter(|_| awaited);
    let bounded = earliest.max(wanted) <= at && at <= latest.max(wanted);
    ensure(bounded, Violation::LossMisjudged)
}

/// A lack of this machine leads to another attempt after its own pause, whatever became of the budget.
fn lack_judged(next: &mut Simulation, now: Moment) -> Result<(), Violation> {
    let State::Connecting {
        is_first: false,
        attempt: Attempt::Pausing(at, Pause::Lack),
        ..
    } = next.machine.state
    else {
        return Err(Violation::LossMisjudged);
    };
    next.observer.not_before = at;
    next.observer.absent = None;
    let pause = next.machine.policy.lack_pause;
    ensure(
        now + pause / 2 <= at && at <= now + pause,
        Violation::LossMisjudged,
    )
}

/// The machine is where the effects left it, and where the latest wish wants it.
pub(super) fn agreed(next: &Simulation, now: Moment) -> Result<(), Violation> {
    let (machine, observer) = (&next.machine, &next.observer);
    let closing = observer.closing.as_ref().map(|closing| closing.generation);
    let draining = observer.draining.as_ref().map(|draining| draining.generation);
    ensure(
        machine.state.generation() == observer.generation()
            && machine.closing() == closing
            && machine.draining() == draining,
        Violation::GenerationsDiffer,
    )?;
    let nothing_closes = closing.is_none() && draining.is_none();
    let desired = if observer.wanted {
        Desired::Enabled
    } else {
        Desired::Disabled
    };
    let at_rest = match machine.state.kind() {
        StateKind::Disabled => !observer.wanted && nothing_closes,
        StateKind::Disabling => !observer.wanted && !nothing_closes,
        StateKind::Connecting
        | StateKind::Connected
        | StateKind::Reconnecting
        | StateKind::Disconnected
        | StateKind::PermanentlyFailed => observer.wanted,
    };
    ensure(machine.desired() == desired && at_rest, Violation::WishIgnored)?;
    // A pause that is over may have become one for a token.
    let awaited = observer.absent == machine.unreachable()
        || (machine.unreachable().is_none() && observer.not_before <= now);
    ensure(awaited, Violation::ReturnIgnored)?;
    match (&machine.state, &observer.current) {
        (State::Connecting { attempt: attempt, .. }, current) => {
            attempt_agrees(next, attempt, current.as_ref(), now)
        }
        (State::Connected(live), Some(current)) => live_agrees(next, live, current, now),
        (State::Disabled | State::Disabling | State::Disconnected(_) | State::PermanentlyFailed, None) => {
            Ok(())
        }
        (_, _) => Err(Violation::GenerationsDiffer),
    }
}

fn attempt_agrees(
    next: &Simulation,
    attempt: &Attempt,
    current: Option<&Current>,
    now: Moment,
) -> Result<(), Violation> {
    let observer = &next.observer;
    match (attempt, current) {
        (Attempt::Pausing(at, pause), None) => {
            ensure(*at > now || observer.closing.is_some(), Violation::DialStalled)?;
            let token_at = observer.token_at(&next.machine.policy.bucket);
            let honest = match pause {
                Pause::Token => *at == token_at && *at >= observer.not_before,
                Pause::None | Pause::Backoff | Pause::Lack | Pause::Unreachable(_) => {
                    *at <= observer.not_before.max(now)
                }
            };
            ensure(honest, Violation::BucketIgnored)
        }
        (Attempt::Queued(_, by), Some(current)) => ensure(
            current.phase == Phase::Queued { by: *by },
            Violation::GenerationsDiffer,
        ),
        (Attempt::Opening(_, by), Some(current)) => ensure(
            current.phase == Phase::Dialling { by: *by },
            Violation::GenerationsDiffer,
        ),
        (Attempt::Listing(opened), Some(current)) => {
            ensure(current.phase == Phase::Open, Violation::GenerationsDiffer)?;
            ensure(
                !matches!(opened.listings.phase, ListingPhase::Current { .. }),
                Violation::ListingForgotten,
            )?;
            watch_agrees(next, &opened.silence, current, now)?;
            refresh_agrees(next, &opened.listings, current, now)
        }
        (Attempt::Pausing(..), Some(_))
        | (Attempt::Queued(..) | Attempt::Opening(..) | Attempt::Listing(..), None) => {
            Err(Violation::GenerationsDiffer)
        }
    }
}

fn live_agrees(
    next: &Simulation,
    live: &LiveConnection,
    current: &Current,
    now: Moment,
) -> Result<(), Violation> {
    let policy = &next.machine.policy;
    let proof = Phase::Listed {
        proof_at: live.proven_at,
    };
    ensure(
        current.phase == proof && live.is_proven() == current.is_proven(),
        Violation::ProofMisjudged,
    )?;
    ensure(
        live.call_failures == current.call_failures,
        Violation::HealthMiscounted,
    )?;
    watch_agrees(next, &live.open.silence, current, now)?;
    let looked_at = match (live.idle_at, policy.idle_stop) {
        (Some(at), Some(idle)) => at <= now + idle,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    ensure(looked_at, Violation::IdlenessUnnoticed)?;
    refresh_agrees(next, &live.open.listings, current, now)
}

fn watch_agrees(
    next: &Simulation,
    watch: &SilenceWatch,
    current: &Current,
    now: Moment,
) -> Result<(), Violation> {
    let watched = match (watch, &next.machine.policy.probe) {
        (SilenceWatch::Off, None) => true,
        (SilenceWatch::CheckAt(until), Some(probe)) => {
            current.asked.is_none() && current.misses == 0 && *until <= now + probe.after_silence
        }
        (
            SilenceWatch::Probing {
                sent: asked,
                by,
                misses,
            },
            Some(_),
        ) => current.asked == Some((*asked, *by)) && current.misses == *misses,
        (SilenceWatch::Off, Some(_)) | (SilenceWatch::CheckAt(_) | SilenceWatch::Probing { .. }, None) => {
            false
        }
    };
    ensure(watched, Violation::HealthMiscounted)
}

fn refresh_agrees(
    next: &Simulation,
    refresh: &Listings,
    current: &Current,
    now: Moment,
) -> Result<(), Violation> {
    ensure(
        refresh.failures == current.list_failures,
        Violation::HealthMiscounted,
    )?;
    let kept = match &refresh.phase {
        ListingPhase::Current { until, .. } => {
            let expires = match (until, current.expires) {
                (Some(at), Some((earliest, latest))) => earliest <= *at && *at <= latest,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            current.listing.is_none() && !current.owed && expires
        }
        ListingPhase::Due(at) => {
            let soon = *at <= current.list_from.max(now + next.machine.policy.relist_pause);
            current.listing.is_none() && current.owed && soon
        }
        ListingPhase::Running { by, again } => current.listing == Some(*by) && current.owed == *again,
    };
    ensure(kept, Violation::ListingForgotten)
}

/// Whatever waits has a deadline, no later than what it waits for, and not over once its timer was handled.
pub(super) fn awaited(next: &Simulation, now: Moment, input: &Input) -> Result<(), Violation> {
    let (observer, policy) = (&next.observer, &next.machine.policy);
    let deadline = next.machine.deadline().map(|deadline| deadline.at);
    let current = observer.current.as_ref();
    let of_phase = current.and_then(|current| match current.phase {
        Phase::Queued { by } | Phase::Dialling { by } => Some(by),
        Phase::Open => current.listing,
        Phase::Listed { proof_at } => proof_at,
    });
    let relist = current
        .filter(|current| current.owed && current.listing.is_none())
        .map(|current| current.list_from.max(now + policy.relist_pause));
    let dial = match &next.machine.state {
        State::Connecting {
            attempt: Attempt::Pausing(at, _),
            ..
        } => observer.closing.is_none().then_some(*at),
        State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => Some(*at),
        State::Connecting { .. }
        | State::Connected(_)
        | State::Disconnected(
            DisconnectReason::Idle | DisconnectReason::AuthRequired | DisconnectReason::Lost(_),
        )
        | State::Disabled
        | State::Disabling
        | State::PermanentlyFailed => None,
    };
    let connected = matches!(next.machine.state, State::Connected(_));
    let open = current
        .is_some_and(|current| !matches!(current.phase, Phase::Queued { .. } | Phase::Dialling { .. }));
    let probe = policy.probe.as_ref().filter(|_| open);
    let idle = policy.idle_stop.filter(|_| connected);
    let awaited = [
        observer.closing.map(|closing| closing.by),
        observer.draining.map(|draining| draining.by),
        of_phase,
        current.and_then(|current| current.listing),
        current.and_then(|current| current.asked).map(|(_, by)| by),
        relist,
        current
            .and_then(|current| current.expires)
            .map(|(_, latest)| latest),
        dial,
        probe.map(|probe| now + probe.after_silence.max(probe.timeout)),
        idle.map(|idle| now + idle),
    ];
    for at in awaited.into_iter().flatten() {
        ensure(
            deadline.is_some_and(|deadline| deadline <= at),
            Violation::DeadlineMissing,
        )?;
    }
    if matches!(input, Input::Timer(_)) {
        ensure(deadline.is_none_or(|at| at > now), Violation::DeadlineStuck)?;
    }
    Ok(())
}
