//! The invariants of the machine: what holds for every step, in whatever state and for whatever input.

use std::time::Duration;

use crate::effect::{Effect, Transition};
use crate::explore::simulation::Simulation;
use crate::explore::trace::{ConnectionStage, Current, Expectation, ExpectedEnd};
use crate::input::{Input, Recovery};
use crate::machine::{Desired, Machine};
use crate::policy::{WhenLost, WhenSpent};
use crate::state::{Attempt, DisconnectReason, ListingPhase, Pause, State, StateKind};
use crate::time::Moment;

/// An invariant that a step broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Violation {
    /// A report of a generation that is not current, or a timer before its deadline, changed something.
    StaleInputCounted,
    /// A connection that had to end was not closed.
    MissingClose,
    /// A connection was closed that was not open, or without a reason.
    WrongClose,
    /// A connection was cut instead of drained, or drained instead of cut.
    WrongCloseMode,
    /// A close was abandoned before its deadline.
    WrongAbandon,
    /// A dial while another connection is open or closing, or too many connections that drain beside the next.
    TwoConnections,
    /// A dial of a server that is not wanted.
    UnwantedOpen,
    /// A server at rest was dialled without a reason.
    UnaskedOpen,
    /// A dial before the announced pause was over.
    EarlyOpen,
    /// A dial, or no dial, against the bucket: a start takes a token, and its first completed call gives the token back.
    BucketIgnored,
    /// A dial that could start did not.
    StalledDial,
    /// An effect names a generation that is not the right one, or the machine and the effects disagree about them.
    WrongGeneration,
    /// The latest command is not followed.
    CommandIgnored,
    /// Failures in a row were miscounted.
    FailuresMiscounted,
    /// A loss did not lead where its recovery, the budget and the policy say.
    WrongRecovery,
    /// A listing beside another one, too soon after it, without a reason, or on a connection that is not open.
    WrongListing,
    /// A change, a failed listing or an unconfirmed one is not followed by another listing.
    ForgottenListing,
    /// A probe of a server that has just sent something, or is being probed already.
    WrongProbe,
    /// A request for a probe was not followed by one.
    MissingProbe,
    /// The pause that a server asked for is not announced to its calls.
    WrongHold,
    /// The reported transitions are not the changes of state.
    WrongTransition,
    /// The catalog was not marked stale or withdrawn when it must be, or was when it must not.
    WrongCatalog,
    /// A waiting state has no deadline, or one later than what it waits for.
    MissingDeadline,
    /// A deadline is over after its timer was handled.
    StuckDeadline,
    /// A wanted server that answers everything does not end connected.
    NeverConnects,
    /// A disabled server is not at rest after its deadlines.
    NeverDisabled,
    /// A restart waits for more than the close.
    RestartWaits,
    /// A silent server stays connected.
    SilenceUnnoticed,
    /// An unused server stays connected.
    IdlenessUnnoticed,
}

pub(super) fn ensure(holds: bool, violation: Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(violation) }
}

/// Every change of state is reported once and correctly, and the catalog with it.
pub(super) fn transitions_are_reported(
    before: &Machine,
    effects: &[Effect],
    after: &Machine,
) -> Result<(), Violation> {
    let mut kind = before.state.kind();
    let mut current = before.state.generation();
    let mut catalog = None;
    for effect in effects {
        match effect {
            Effect::MarkStale | Effect::Withdraw => {
                ensure(catalog.replace(*effect).is_none(), Violation::WrongCatalog)?;
            }
            Effect::Transition(Transition {
                from, to, generation, ..
            }) => {
                ensure(*from == kind && to != from, Violation::WrongTransition)?;
                ensure(*generation == current.take(), Violation::WrongTransition)?;
                ensure(catalog.take() == catalog_effect(*to), Violation::WrongCatalog)?;
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
    ensure(catalog.is_none(), Violation::WrongCatalog)?;
    ensure(kind == after.state.kind(), Violation::WrongTransition)
}

fn catalog_effect(kind: StateKind) -> Option<Effect> {
    match kind {
        StateKind::Connecting | StateKind::Reconnecting | StateKind::Disconnected => Some(Effect::MarkStale),
        StateKind::Disabling | StateKind::PermanentlyFailed => Some(Effect::Withdraw),
        StateKind::Connected | StateKind::Disabled => None,
    }
}

/// A server at rest is dialled only for a reason, and no dial comes before the pause that was announced.
pub(super) fn dials_are_asked_for(
    before: &State,
    input: &Input,
    after: &Simulation,
    now: Moment,
) -> Result<(), Violation> {
    if !matches!(after.machine.state, State::Connecting { .. }) {
        return Ok(());
    }
    let is_redial = matches!(input, Input::Restart | Input::Replace { .. });
    let (is_asked, not_before) = match before {
        State::Disabled | State::Disabling => (matches!(input, Input::Enable { dormant: false }), now),
        State::PermanentlyFailed => (is_redial || matches!(input, Input::Enable { .. }), now),
        State::Disconnected(DisconnectReason::Idle) => (is_redial || *input == Input::Demand, now),
        State::Disconnected(DisconnectReason::AuthRequired) => (is_redial || *input == Input::Login, now),
        State::Disconnected(DisconnectReason::CredentialRefused(at)) => {
            let is_due = matches!(input, Input::Timer(_)) && *at <= now;
            (is_redial || is_due || *input == Input::Login, now)
        }
        State::Disconnected(DisconnectReason::Lost(at)) => {
            let is_asked = matches!(input, Input::Demand | Input::Enable { dormant: false });
            (is_redial || is_asked, *at)
        }
        State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => {
            let is_due = matches!(input, Input::Timer(_)) && *at <= now;
            (is_redial || is_due || matches!(input, Input::Reachable(_)), now)
        }
        State::Connecting {
            attempt: Attempt::Pausing(at, _),
            ..
        } => (true, *at),
        State::Connecting { .. } | State::Connected(_) => (true, now),
    };
    ensure(is_asked, Violation::UnaskedOpen)?;
    let skips_pause = is_redial || matches!(input, Input::Reachable(_));
    let has_opened = after.trace.current.is_some() && before.generation().is_none();
    ensure(
        !has_opened || skips_pause || not_before <= now,
        Violation::EarlyOpen,
    )
}

/// Failures in a row are counted as in the trace. If a proof, a loss or an idle stop are due in one step, any of them may
/// come first, and the trace follows the machine.
pub(super) fn failures_are_counted(
    before: &Simulation,
    after: &mut Simulation,
    expected: Expectation,
) -> Result<(), Violation> {
    let counted = after.machine.failures;
    let has_ended = before.trace.current.is_some() && before.trace.generation() != after.trace.generation();
    let has_stopped = stopped(after, expected);
    if has_ended && (expected.proof_due || has_stopped) {
        let unproven = before.trace.failures + u32::from(!has_stopped);
        let is_right = counted == unproven || (expected.proof_due && counted == 0);
        ensure(is_right, Violation::FailuresMiscounted)?;
        after.trace.failures = counted;
    }
    ensure(counted == after.trace.failures, Violation::FailuresMiscounted)
}

fn stopped(after: &Simulation, expected: Expectation) -> bool {
    expected.may_stop && after.machine.state == State::Disconnected(DisconnectReason::Idle)
}

/// A loss leads where its recovery, the budget and the policy say.
pub(super) fn losses_are_judged(
    before: &Simulation,
    after: &Simulation,
    expected: Expectation,
    now: Moment,
) -> Result<(), Violation> {
    let (state, policy) = (&after.machine.state, &after.machine.policy);
    let Some(ExpectedEnd::Loss(recovery)) = expected.end else {
        return Ok(());
    };
    if stopped(after, expected) {
        return Ok(());
    }
    let pause = match state {
        // Beside a connection that drains the dial waits for nothing but a token.
        State::Connecting {
            attempt: Attempt::Queued(..) | Attempt::Pausing(_, Pause::Token),
            ..
        } if expected.beside => Some((Duration::ZERO, Pause::None)),
        State::Connecting {
            attempt: Attempt::Pausing(at, pause),
            ..
        } => Some((at.since(now), *pause)),
        _ => None,
    };
    let requested = recovery.pause().min(policy.limits.retry_after);
    let is_spent = after.trace.failures >= policy.budget.get();
    let has_new_login = before
        .trace
        .current
        .as_ref()
        .is_some_and(|current| current.has_new_login);
    let is_right = match (recovery, state) {
        (Recovery::Login | Recovery::RetryCredential, _) if has_new_login => {
            pause.is_some_and(|(pause, _)| pause.is_zero())
        }
        (Recovery::Login, _) => *state == State::Disconnected(DisconnectReason::AuthRequired),
        (Recovery::RetryCredential, State::Disconnected(DisconnectReason::CredentialRefused(at))) => {
            let WhenSpent::ProbeEvery(period) = policy.when_spent else {
                return Err(Violation::WrongRecovery);
            };
            let pause = at.since(now);
            policy.when_lost == WhenLost::Restart && period * 3 / 4 <= pause && pause <= period * 5 / 4
        }
        (Recovery::RetryCredential, _) => {
            let waits_for_person =
                policy.when_lost == WhenLost::StayDisconnected || policy.when_spent == WhenSpent::GiveUp;
            waits_for_person && *state == State::Disconnected(DisconnectReason::AuthRequired)
        }
        (Recovery::GiveUp, _) => *state == State::PermanentlyFailed,
        (Recovery::RetryLack, _) => pause.is_some_and(|(pause, why)| {
            why == Pause::Lack && policy.lack_pause / 2 <= pause && pause <= policy.lack_pause
        }),
        (_, State::Disconnected(DisconnectReason::Lost(at))) => {
            let stays = policy.when_lost == WhenLost::StayDisconnected;
            stays && *at == now + requested
        }
        (_, State::PermanentlyFailed) => is_spent && policy.when_spent == WhenSpent::GiveUp,
        (_, State::Disconnected(DisconnectReason::BudgetSpent(at, _))) => {
            let WhenSpent::ProbeEvery(period) = policy.when_spent else {
                return Err(Violation::WrongRecovery);
            };
            let pause = at.since(now);
            let (least, most) = (period * 3 / 4, period * 5 / 4);
            is_spent && least.max(requested) <= pause && pause <= most.max(requested)
        }
        (_, State::Connecting { is_first: false, .. }) => {
            let goes_on = policy.when_lost == WhenLost::Restart;
            let most = policy.backoff.longest_pause(after.trace.failures).max(requested);
            let is_bounded = pause.is_some_and(|(pause, _)| requested <= pause && pause <= most);
            goes_on && !is_spent && is_bounded
        }
        _ => false,
    };
    ensure(is_right, Violation::WrongRecovery)?;
    let waits = matches!(pause, Some((pause, _)) if !pause.is_zero())
        || matches!(state, State::Disconnected(DisconnectReason::BudgetSpent(..)));
    let closing = if expected.beside {
        after.trace.draining.last()
    } else {
        after.trace.closing.as_ref()
    };
    let lost = closing.map(|closing| closing.generation);
    let unreachable = lost.filter(|_| waits && recovery == Recovery::RetryWhenReachable);
    ensure(
        after.machine.unreachable() == unreachable,
        Violation::WrongRecovery,
    )
}

/// The machine is where the effects and the latest command left it.
pub(super) fn state_follows_the_trace(after: &Simulation, now: Moment) -> Result<(), Violation> {
    let (machine, trace) = (&after.machine, &after.trace);
    ensure(
        machine.state.generation() == trace.generation()
            && machine.closing == trace.closing
            && machine.draining == trace.draining,
        Violation::WrongGeneration,
    )?;
    let is_closed = trace.closing.is_none() && trace.draining.is_empty();
    let (desired, is_reconciled) = match machine.state.kind() {
        StateKind::Disabled => (Desired::Disabled, !trace.is_wanted && is_closed),
        StateKind::Disabling => (Desired::Disabled, !trace.is_wanted && !is_closed),
        StateKind::Connecting
        | StateKind::Connected
        | StateKind::Reconnecting
        | StateKind::Disconnected
        | StateKind::PermanentlyFailed => (Desired::Enabled, trace.is_wanted),
    };
    ensure(
        machine.desired() == desired && is_reconciled,
        Violation::CommandIgnored,
    )?;
    if let State::Connecting {
        attempt: Attempt::Pausing(at, pause),
        ..
    } = machine.state
    {
        ensure(at > now || trace.closing.is_some(), Violation::StalledDial)?;
        let token_at = trace.token_at(&machine.policy.bucket);
        ensure(pause != Pause::Token || at == token_at, Violation::BucketIgnored)?;
    }
    let Some(current) = &trace.current else {
        return Ok(());
    };
    let is_listed = machine.state.kind() == StateKind::Connected;
    ensure(current.is_listed() == is_listed, Violation::WrongGeneration)?;
    let is_kept = is_listed || !current.is_open() || current.listing_by.is_some() || current.owes_listing;
    ensure(is_kept, Violation::ForgottenListing)
}

/// A listing starts only if it is the first, is owed, or replaces a catalog that has expired.
pub(super) fn listings_have_a_reason(
    before: &Simulation,
    input: &Input,
    effects: &[Effect],
    now: Moment,
) -> Result<(), Violation> {
    if !effects.iter().any(|effect| matches!(effect, Effect::List(_))) {
        return Ok(());
    }
    let Some(current) = before
        .trace
        .current
        .as_ref()
        .filter(|current| current.is_listed())
    else {
        return Ok(());
    };
    let has_expired = before.machine.clone().state.open().is_some_and(
        |open| matches!(open.listings.phase, ListingPhase::Current { until: Some(at), .. } if at <= now),
    );
    let is_reported = matches!(
        input,
        Input::ListChanged(_) | Input::ListFailed(..) | Input::Listed(..)
    );
    let has_timed_out = current.listing_by.is_some_and(|by| by <= now);
    ensure(
        current.owes_listing || has_expired || is_reported || has_timed_out,
        Violation::WrongListing,
    )
}

/// Whatever waits has a deadline, no later than what it waits for, and in the future once its timer was handled.
pub(super) fn waits_have_deadlines(after: &Simulation, input: &Input, now: Moment) -> Result<(), Violation> {
    let (machine, trace, policy) = (&after.machine, &after.trace, &after.machine.policy);
    let deadline = machine.deadline().map(|deadline| deadline.at);
    let dial = match machine.state {
        State::Connecting {
            attempt: Attempt::Pausing(at, _),
            ..
        } if trace.closing.is_none() => Some(at),
        State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => Some(at),
        _ => None,
    };
    let current = trace.current.as_ref();
    let stage = current.and_then(|current| match current.stage {
        ConnectionStage::Queued { by } | ConnectionStage::Dialling { by } => Some(by),
        ConnectionStage::Open => None,
        ConnectionStage::Listed { proof_at } => proof_at,
    });
    let relist = current
        .filter(|current| current.owes_listing && current.listing_by.is_none())
        .map(|current| (current.list_from.max(current.refused_until)).max(now + policy.relist_pause));
    let is_open = current.is_some_and(Current::is_open);
    let is_listed = current.is_some_and(Current::is_listed);
    let silence = policy.probe.as_ref().filter(|_| is_open);
    let waits = [
        trace.closing.as_ref().map(|closing| closing.by),
        dial,
        stage,
        current.and_then(|current| current.listing_by),
        current.and_then(|current| current.probe).map(|(_, by)| by),
        relist,
        silence.map(|probe| now + probe.after_silence.max(probe.timeout)),
        policy.idle_stop.filter(|_| is_listed).map(|idle| now + idle),
    ];
    let drains = trace.draining.iter().map(|draining| draining.by);
    for at in waits.into_iter().flatten().chain(drains) {
        let is_covered = deadline.is_some_and(|deadline| deadline <= at);
        ensure(is_covered, Violation::MissingDeadline)?;
    }
    let is_handled = !matches!(input, Input::Timer(_)) || deadline.is_none_or(|at| at > now);
    ensure(is_handled, Violation::StuckDeadline)
}
