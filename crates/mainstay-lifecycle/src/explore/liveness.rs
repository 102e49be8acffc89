//! What every state must lead to, if the world does its part or if it does nothing at all.

use std::time::Duration;

use crate::deadline::Timer;
use crate::explore::observer::Phase;
use crate::explore::simulation::{Event, NOW, Signs, Simulation};
use crate::explore::violation::Violation;
use crate::input::{Input, Listing};
use crate::state::{DisconnectReason, State};

/// A close, a pause, a token, a dial, a listing: nothing takes more steps than this to come about.
const SOON: usize = 12;

pub(super) fn holds(world: &Simulation) -> Result<(), Violation> {
    match &world.machine.state {
        State::Connecting { .. } | State::Disconnected(DisconnectReason::BudgetSpent(..)) => {
            connects(world.clone())?;
        }
        State::Disconnected(DisconnectReason::Idle) => connects_after(world, Input::Demand)?,
        State::Disconnected(DisconnectReason::Lost(_)) => {
            connects_after(world, Input::Demand)?;
            connects_after(world, Input::Enable { dormant: false })?;
        }
        State::Disconnected(DisconnectReason::AuthRequired) => connects_after(world, Input::Login)?,
        State::PermanentlyFailed => {
            connects_after(world, Input::Restart)?;
            connects_after(world, Input::Enable { dormant: false })?;
        }
        State::Disabled | State::Disabling => {
            connects_after(world, Input::Enable { dormant: false })?;
            stays_dormant(world)?;
        }
        State::Connected(_) => {
            if world.machine.policy.probe.is_some() {
                leaves(world.clone(), Signs::SILENT, Violation::SilenceUnnoticed)?;
                leaves(world.clone(), Signs::STOPPED, Violation::SilenceUnnoticed)?;
            }
            if world.machine.policy.idle_stop.is_some() {
                leaves(world.clone(), Signs::UNUSED, Violation::IdlenessUnnoticed)?;
            }
        }
    }
    if world.observer.wanted {
        restarts(world)?;
    }
    ends_disabled(world)
}

fn connects_after(world: &Simulation, wish: Input) -> Result<(), Violation> {
    connects(world.step(&Event::at_once(wish))?.world)
}

/// A dormant server waits for its first use, even where the old connection is still being closed.
fn stays_dormant(world: &Simulation) -> Result<(), Violation> {
    let enabled = Event::at_once(Input::Enable { dormant: true });
    let world = world.step(&enabled)?.world;
    if world.machine.state == State::Disconnected(DisconnectReason::Idle) {
        Ok(())
    } else {
        Err(Violation::WishIgnored)
    }
}

/// A world that answers everything at once, and never fails.
fn connects(mut world: Simulation) -> Result<(), Violation> {
    for _ in 0..SOON {
        if matches!(world.machine.state, State::Connected(_)) {
            return Ok(());
        }
        let event = kindness(&world).or_else(|| next_timer(&world, Signs::WELL));
        world = world.step(&event.ok_or(Violation::NeverConnects)?)?.world;
    }
    Err(Violation::NeverConnects)
}

fn kindness(world: &Simulation) -> Option<Event> {
    if let Some(closing) = &world.observer.closing {
        return Some(Event::at_once(Input::Closed(closing.generation)));
    }
    let current = world.observer.current.as_ref()?;
    match current.phase {
        Phase::Queued { .. } => Some(Event::at_once(Input::Begun(current.generation))),
        Phase::Dialling { .. } => Some(Event::at_once(Input::Opened(current.generation))),
        Phase::Open | Phase::Listed { .. } => {
            current.listing?;
            Some(Event::at_once(Input::Listed(
                current.generation,
                Listing::Good { ttl: None },
            )))
        }
    }
}

fn next_timer(world: &Simulation, signs: Signs) -> Option<Event> {
    let deadline = world.machine.deadline()?;
    Some(Event::timer(deadline.at.since(NOW), signs))
}

/// With nothing but such signs of life, the server does not stay connected.
fn leaves(mut world: Simulation, signs: Signs, otherwise: Violation) -> Result<(), Violation> {
    let generation = world.observer.generation();
    for _ in 0..4 * SOON {
        // Its listings are answered: they are not what this is about.
        let event = kindness(&world).or_else(|| next_timer(&world, signs));
        world = world.step(&event.ok_or(otherwise)?)?.world;
        if world.observer.generation() != generation {
            return Ok(());
        }
    }
    Err(otherwise)
}

/// A restart dials as soon as the old connection is gone: no other timer lies between.
fn restarts(world: &Simulation) -> Result<(), Violation> {
    let fresh = world.observer.fresh();
    let mut world = world.step(&Event::at_once(Input::Restart))?.world;
    // Two connections may be closing: the last one, and the one that was draining beside it.
    for _ in 0..2 {
        if world.observer.generation() == Some(fresh) {
            break;
        }
        let close = world.machine.deadline().ok_or(Violation::RestartWaits)?;
        if close.timer != Timer::Close {
            return Err(Violation::RestartWaits);
        }
        world = world.step(&Event::timer(close.at.since(NOW), Signs::WELL))?.world;
    }
    if world.observer.generation() == Some(fresh) {
        Ok(())
    } else {
        Err(Violation::RestartWaits)
    }
}

/// A disabled server dials nothing any more, and is at rest by its own deadlines, whatever the world does.
fn ends_disabled(world: &Simulation) -> Result<(), Violation> {
    let opened = world.observer.opened;
    let mut world = world.step(&Event::at_once(Input::Disable))?.world;
    // Two connections may be closing: the last one, and the one that was draining beside it.
    for _ in 0..2 {
        if world.machine.state == State::Disabled {
            break;
        }
        let event = next_timer(&world, Signs::WELL).ok_or(Violation::NeverDisabled)?;
        world = world.step(&event)?.world;
    }
    let later = Event::timer(Duration::from_nanos(1), Signs::WELL);
    let world = world.step(&later)?.world;
    if world.machine.state == State::Disabled && world.observer.opened == opened {
        Ok(())
    } else {
        Err(Violation::NeverDisabled)
    }
}
