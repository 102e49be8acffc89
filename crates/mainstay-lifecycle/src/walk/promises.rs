//! What must hold of every step, beyond what the ledger holds the effects to as it follows them.

use crate::effect::{Effect, Transition};
use crate::input::{Input, Recovery};
use crate::machine::{Desired, Machine};
use crate::policy::{WhenLost, WhenSpent};
use crate::state::{Attempt, DisconnectReason, Live, Pause, Refresh, RefreshStep, State, StateKind, Watch};
use crate::time::Moment;
use crate::walk::broken::Violation;
use crate::walk::ledger::{Current, End, Ledger, Phase, Verdict};
use crate::walk::mutants::Subject;
use crate::walk::world::World;

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
pub(super) fn counted(before: &Ledger, next: &mut World, verdict: Verdict) -> Result<(), Violation> {
    let seen = next.machine.failures;
    let ended = before.current.is_some() && before.generation() != next.ledger.generation();
    let stopped = verdict.stops_at(&next.machine.state);
    if ended && (verdict.proof_due || stopped) {
        let unproven = before.failures + u32::from(!stopped);
        let proven = verdict.proof_due && seen == 0;
        ensure(proven || seen == unproven, Violation::FailuresMiscounted)?;
        next.ledger.failures = seen;
    }
    ensure(seen == next.ledger.failures, Violation::FailuresMiscounted)
}

/// A loss leads where its recovery, the budget and the policy say; the pause that is announced is noted.
pub(super) fn judged(next: &mut World, verdict: Verdict, now: Moment) -> Result<(), Violation> {
    if verdict.stops_at(&next.machine.state) {
        return Ok(());
    }
    let policy = &next.machine.policy;
    let failures = next.ledger.failures;
    let wanted = match verdict.end {
        Some(End::Loss(Recovery::Retry | Recovery::RetryOtherEra | Recovery::RetryWhenReachable)) => now,
        Some(End::Loss(Recovery::RetryAfter(pause))) => now + pause.min(policy.limits.retry_after),
        Some(End::Loss(Recovery::RetryLack)) => return lack_judged(next, now),
        Some(End::Loss(Recovery::Login)) if verdict.has_new_login => {
            next.ledger.not_before = now;
            let goes_on = match next.machine.state {
                State::Connecting(Attempt::Pausing(at, pause))
                | State::Reconnecting(Attempt::Pausing(at, pause)) => at == now && pause == Pause::None,
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
        next.ledger.not_before = wanted;
        next.ledger.absent = None;
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
        (State::Reconnecting(Attempt::Pausing(at, _)), _) => {
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
    next.ledger.not_before = at;
    let awaited = verdict.end == Some(End::Loss(Recovery::RetryWhenReachable)) && now < at;
    next.ledger.absent = next.ledger.lost().filter(|_| awaited);
    let bounded = earliest.max(wanted) <= at && at <= latest.max(wanted);
    ensure(bounded, Violation::LossMisjudged)
}

/// A lack of this machine leads to another attempt after its own pause, whatever became of the budget.
fn lack_judged(next: &mut World, now: Moment) -> Result<(), Violation> {
    let State::Reconnecting(Attempt::Pausing(at, Pause::Lack)) = next.machine.state else {
        return Err(Violation::LossMisjudged);
    };
    next.ledger.not_before = at;
    next.ledger.absent = None;
    let pause = next.machine.policy.lack_pause;
    ensure(
        now + pause / 2 <= at && at <= now + pause,
        Violation::LossMisjudged,
    )
}

/// The machine is where the effects left it, and where the latest wish wants it.
pub(super) fn agreed(next: &World, now: Moment) -> Result<(), Violation> {
    let (machine, ledger) = (&next.machine, &next.ledger);
    let closing = ledger.closing.as_ref().map(|closing| closing.generation);
    let draining = ledger.draining.as_ref().map(|draining| draining.generation);
    ensure(
        machine.state.generation() == ledger.generation()
            && machine.closing() == closing
            && machine.draining() == draining,
        Violation::GenerationsDiffer,
    )?;
    let nothing_closes = closing.is_none() && draining.is_none();
    let desired = if ledger.wanted {
        Desired::Enabled
    } else {
        Desired::Disabled
    };
    let at_rest = match machine.state.kind() {
        StateKind::Disabled => !ledger.wanted && nothing_closes,
        StateKind::Disabling => !ledger.wanted && !nothing_closes,
        StateKind::Connecting
        | StateKind::Connected
        | StateKind::Reconnecting
        | StateKind::Disconnected
        | StateKind::PermanentlyFailed => ledger.wanted,
    };
    ensure(machine.desired == desired && at_rest, Violation::WishIgnored)?;
    // A pause that is over may have become one for a token.
    let awaited = ledger.absent == machine.unreachable()
        || (machine.unreachable().is_none() && ledger.not_before <= now);
    ensure(awaited, Violation::ReturnIgnored)?;
    match (&machine.state, &ledger.current) {
        (State::Connecting(attempt) | State::Reconnecting(attempt), current) => {
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
    next: &World,
    attempt: &Attempt,
    current: Option<&Current>,
    now: Moment,
) -> Result<(), Violation> {
    let ledger = &next.ledger;
    match (attempt, current) {
        (Attempt::Pausing(at, pause), None) => {
            ensure(*at > now || ledger.closing.is_some(), Violation::DialStalled)?;
            let token_at = ledger.token_at(&next.machine.policy.bucket);
            let honest = match pause {
                Pause::Token => *at == token_at && *at >= ledger.not_before,
                Pause::None | Pause::Backoff | Pause::Lack | Pause::Unreachable(_) => {
                    *at <= ledger.not_before.max(now)
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
                !matches!(opened.refresh.step, RefreshStep::Fresh { .. }),
                Violation::ListingForgotten,
            )?;
            watch_agrees(next, &opened.watch, current, now)?;
            refresh_agrees(next, &opened.refresh, current, now)
        }
        (Attempt::Pausing(..), Some(_))
        | (Attempt::Queued(..) | Attempt::Opening(..) | Attempt::Listing(..), None) => {
            Err(Violation::GenerationsDiffer)
        }
    }
}

fn live_agrees(next: &World, live: &Live, current: &Current, now: Moment) -> Result<(), Violation> {
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
    watch_agrees(next, &live.watch, current, now)?;
    let looked_at = match (live.idle_at, policy.idle_stop) {
        (Some(at), Some(idle)) => at <= now + idle,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    ensure(looked_at, Violation::IdlenessUnnoticed)?;
    refresh_agrees(next, &live.refresh, current, now)
}

fn watch_agrees(next: &World, watch: &Watch, current: &Current, now: Moment) -> Result<(), Violation> {
    let watched = match (watch, &next.machine.policy.probe) {
        (Watch::Off, None) => true,
        (Watch::Listening(until), Some(probe)) => {
            current.asked.is_none() && current.misses == 0 && *until <= now + probe.after_silence
        }
        (Watch::Asked { asked, by, misses }, Some(_)) => {
            current.asked == Some((*asked, *by)) && current.misses == *misses
        }
        (Watch::Off, Some(_)) | (Watch::Listening(_) | Watch::Asked { .. }, None) => false,
    };
    ensure(watched, Violation::HealthMiscounted)
}

fn refresh_agrees(next: &World, refresh: &Refresh, current: &Current, now: Moment) -> Result<(), Violation> {
    ensure(
        refresh.failures == current.list_failures,
        Violation::HealthMiscounted,
    )?;
    let kept = match &refresh.step {
        RefreshStep::Fresh { until, .. } => {
            let expires = match (until, current.expires) {
                (Some(at), Some((earliest, latest))) => earliest <= *at && *at <= latest,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            current.listing.is_none() && !current.owed && expires
        }
        RefreshStep::Due(at) => {
            let soon = *at <= current.list_from.max(now + next.machine.policy.relist_pause);
            current.listing.is_none() && current.owed && soon
        }
        RefreshStep::Running { by, again } => current.listing == Some(*by) && current.owed == *again,
    };
    ensure(kept, Violation::ListingForgotten)
}

/// Whatever waits has a deadline, no later than what it waits for, and not over once its timer was handled.
pub(super) fn awaited(next: &World, now: Moment, input: &Input, subject: Subject) -> Result<(), Violation> {
    let (ledger, policy) = (&next.ledger, &next.machine.policy);
    let deadline = subject.deadline(&next.machine, now).map(|deadline| deadline.at);
    let current = ledger.current.as_ref();
    let of_phase = current.and_then(|current| match current.phase {
        Phase::Queued { by } | Phase::Dialling { by } => Some(by),
        Phase::Open => current.listing,
        Phase::Listed { proof_at } => proof_at,
    });
    let relist = current
        .filter(|current| current.owed && current.listing.is_none())
        .map(|current| current.list_from.max(now + policy.relist_pause));
    let dial = match &next.machine.state {
        State::Connecting(Attempt::Pausing(at, _)) | State::Reconnecting(Attempt::Pausing(at, _)) => {
            ledger.closing.is_none().then_some(*at)
        }
        State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => Some(*at),
        State::Connecting(_)
        | State::Reconnecting(_)
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
        ledger.closing.map(|closing| closing.by),
        ledger.draining.map(|draining| draining.by),
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
