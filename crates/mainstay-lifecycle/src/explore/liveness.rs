//! What every state must lead to: if the server answers everything, and if it answers nothing.

use std::time::Duration;

use crate::explore::invariants::{Violation, ensure};
use crate::explore::simulation::{NOW, ServerActivity, Simulation, TimedInput};
use crate::input::{Input, Listing};
use crate::machine::Timer;
use crate::state::{Attempt, DisconnectReason, ListingPhase, OpenConnection, State};

/// A close, a pause, a token, a dial and a listing take fewer steps than this.
const STEPS_LIMIT: usize = 12;

pub(super) fn check(simulation: &Simulation) -> Result<(), Violation> {
    match &simulation.machine.state {
        State::Connecting { .. }
        | State::Disconnected(DisconnectReason::BudgetSpent(..) | DisconnectReason::CredentialRefused(_)) => {
            connects(simulation.clone())?;
        }
        State::Disconnected(DisconnectReason::Idle) => connects_after(simulation, Input::Demand)?,
        State::Disconnected(DisconnectReason::Lost(_)) => {
            connects_after(simulation, Input::Demand)?;
            connects_after(simulation, Input::Enable { dormant: false })?;
        }
        State::Disconnected(DisconnectReason::AuthRequired) => connects_after(simulation, Input::Login)?,
        State::PermanentlyFailed => {
            connects_after(simulation, Input::Restart)?;
            connects_after(simulation, Input::Enable { dormant: false })?;
        }
        State::Disabled | State::Disabling => {
            connects_after(simulation, Input::Enable { dormant: false })?;
            stays_dormant(simulation)?;
        }
        State::Connected(_) => {
            if simulation.machine.policy.probe.is_some() {
                leaves(
                    simulation.clone(),
                    ServerActivity::SILENT,
                    Violation::SilenceUnnoticed,
                )?;
                leaves(
                    simulation.clone(),
                    ServerActivity::STOPPED,
                    Violation::SilenceUnnoticed,
                )?;
            }
            if simulation.machine.policy.idle_stop.is_some() {
                leaves(
                    simulation.clone(),
                    ServerActivity::UNUSED,
                    Violation::IdlenessUnnoticed,
                )?;
            }
        }
    }
    if simulation.trace.is_wanted {
        restarts(simulation)?;
    }
    ends_disabled(simulation)
}

fn connects_after(simulation: &Simulation, command: Input) -> Result<(), Violation> {
    connects(simulation.step(&TimedInput::at_once(command))?.next)
}

/// A dormant server waits for its first use, even while the old connection closes.
fn stays_dormant(simulation: &Simulation) -> Result<(), Violation> {
    let enabled = TimedInput::at_once(Input::Enable { dormant: true });
    let simulation = simulation.step(&enabled)?.next;
    let is_idle = simulation.machine.state == State::Disconnected(DisconnectReason::Idle);
    ensure(is_idle, Violation::CommandIgnored)
}

/// A server that answers everything at once gets connected.
fn connects(mut simulation: Simulation) -> Result<(), Violation> {
    for _ in 0..STEPS_LIMIT {
        if matches!(simulation.machine.state, State::Connected(_)) {
            return Ok(());
        }
        let event = good_answer(&simulation).or_else(|| next_timer(&simulation, ServerActivity::ACTIVE));
        simulation = simulation.step(&event.ok_or(Violation::NeverConnects)?)?.next;
    }
    Err(Violation::NeverConnects)
}

/// The next answer of a server that answers everything well.
fn good_answer(simulation: &Simulation) -> Option<TimedInput> {
    let machine = &simulation.machine;
    if let Some(closing) = machine.closing() {
        return Some(TimedInput::at_once(Input::Closed(closing)));
    }
    let listed = |open: &OpenConnection| match open.listings.phase {
        ListingPhase::Running { .. } => Some(Input::Listed(open.generation, Listing::Good { ttl: None })),
        ListingPhase::Current { .. } | ListingPhase::Due(_) | ListingPhase::Refused(_) => None,
    };
    let answer = match &machine.state {
        State::Connecting { attempt, .. } => match attempt {
            Attempt::Pausing(..) => None,
            Attempt::Queued(generation, _) => Some(Input::Begun(*generation)),
            Attempt::Opening(generation, _) => Some(Input::Opened(*generation)),
            Attempt::Listing(open) => listed(open),
        },
        State::Connected(live) => listed(&live.open),
        State::Disabled | State::Disabling | State::Disconnected(_) | State::PermanentlyFailed => None,
    };
    answer.map(TimedInput::at_once)
}

fn next_timer(simulation: &Simulation, activity: ServerActivity) -> Option<TimedInput> {
    let deadline = simulation.machine.deadline()?;
    Some(TimedInput::timer(deadline.at.since(NOW), activity))
}

/// A server with only this activity does not stay connected.
fn leaves(
    mut simulation: Simulation,
    activity: ServerActivity,
    otherwise: Violation,
) -> Result<(), Violation> {
    let generation = simulation.trace.generation();
    for _ in 0..4 * STEPS_LIMIT {
        // Its listings succeed, so that they do not end the connection.
        let event = good_answer(&simulation).or_else(|| next_timer(&simulation, activity));
        simulation = simulation.step(&event.ok_or(otherwise)?)?.next;
        if simulation.trace.generation() != generation {
            return Ok(());
        }
    }
    Err(otherwise)
}

/// A restart dials as soon as the old connection is gone, and waits for no other timer.
fn restarts(simulation: &Simulation) -> Result<(), Violation> {
    let fresh = simulation.trace.fresh();
    let mut simulation = simulation.step(&TimedInput::at_once(Input::Restart))?.next;
    // The last connection may be closing, and others that were draining beside it.
    for _ in 0..=simulation.machine.policy.drains.get() {
        if simulation.trace.generation() == Some(fresh) {
            break;
        }
        let close = simulation.machine.deadline().ok_or(Violation::RestartWaits)?;
        ensure(close.timer == Timer::Close, Violation::RestartWaits)?;
        simulation = simulation
            .step(&TimedInput::timer(close.at.since(NOW), ServerActivity::ACTIVE))?
            .next;
    }
    ensure(
        simulation.trace.generation() == Some(fresh),
        Violation::RestartWaits,
    )
}

/// A disabled server dials no more, and is at rest after its deadlines, even if nothing answers.
fn ends_disabled(simulation: &Simulation) -> Result<(), Violation> {
    let opened = simulation.trace.opened;
    let mut simulation = simulation.step(&TimedInput::at_once(Input::Disable))?.next;
    // The last connection may be closing, and others that were draining beside it.
    for _ in 0..=simulation.machine.policy.drains.get() {
        if simulation.machine.state == State::Disabled {
            break;
        }
        let event = next_timer(&simulation, ServerActivity::ACTIVE).ok_or(Violation::NeverDisabled)?;
        simulation = simulation.step(&event)?.next;
    }
    let later = TimedInput::timer(Duration::from_nanos(1), ServerActivity::ACTIVE);
    let simulation = simulation.step(&later)?.next;
    let is_at_rest = simulation.machine.state == State::Disabled && simulation.trace.opened == opened;
    ensure(is_at_rest, Violation::NeverDisabled)
}
