//! What every state must lead to, if the world does its part or if it does nothing at all.

use std::time::Duration;

use crate::deadline::Timer;
use crate::input::{Input, Listing};
use crate::state::{DisconnectReason, State};
use crate::walk::broken::Violation;
use crate::walk::ledger::Phase;
use crate::walk::mutants::Subject;
use crate::walk::world::{Event, NOW, Signs, World};

/// A close, a pause, a token, a dial, a listing: nothing takes more steps than this to come about.
const SOON: usize = 12;

pub(super) fn holds(world: &World, subject: Subject) -> Result<(), Violation> {
    match &world.machine.state {
        State::Connecting(_)
        | State::Reconnecting(_)
        | State::Disconnected(DisconnectReason::BudgetSpent(..)) => {
            connects(world.clone(), subject)?;
        }
        State::Disconnected(DisconnectReason::Idle) => connects_after(world, Input::Demand, subject)?,
        State::Disconnected(DisconnectReason::Lost(_)) => {
            connects_after(world, Input::Demand, subject)?;
            connects_after(world, Input::Enable { dormant: false }, subject)?;
        }
        State::Disconnected(DisconnectReason::AuthRequired) => connects_after(world, Input::Login, subject)?,
        State::PermanentlyFailed => {
            connects_after(world, Input::Restart, subject)?;
            connects_after(world, Input::Enable { dormant: false }, subject)?;
        }
        State::Disabled | State::Disabling => {
            connects_after(world, Input::Enable { dormant: false }, subject)?;
            stays_dormant(world, subject)?;
        }
        State::Connected(_) => {
            if world.machine.policy.probe.is_some() {
                leaves(world.clone(), Signs::SILENT, subject, Violation::SilenceUnnoticed)?;
                leaves(
                    world.clone(),
                    Signs::STOPPED,
                    subject,
                    Violation::SilenceUnnoticed,
                )?;
            }
            if world.machine.policy.idle_stop.is_some() {
                leaves(
                    world.clone(),
                    Signs::UNUSED,
                    subject,
                    Violation::IdlenessUnnoticed,
                )?;
            }
        }
    }
    if world.ledger.wanted {
        restarts(world, subject)?;
    }
    ends_disabled(world, subject)
}

fn connects_after(world: &World, wish: Input, subject: Subject) -> Result<(), Violation> {
    connects(world.step(&Event::at_once(wish), subject)?.world, subject)
}

/// A dormant server waits for its first use, even where the old connection is still being closed.
fn stays_dormant(world: &World, subject: Subject) -> Result<(), Violation> {
    let enabled = Event::at_once(Input::Enable { dormant: true });
    let world = world.step(&enabled, subject)?.world;
    if world.machine.state == State::Disconnected(DisconnectReason::Idle) {
        Ok(())
    } else {
        Err(Violation::WishIgnored)
    }
}

/// A world that answers everything at once, and never fails.
fn connects(mut world: World, subject: Subject) -> Result<(), Violation> {
    for _ in 0..SOON {
        if matches!(world.machine.state, State::Connected(_)) {
            return Ok(());
        }
        let event = kindness(&world).or_else(|| next_timer(&world, Signs::WELL, subject));
        world = world
            .step(&event.ok_or(Violation::NeverConnects)?, subject)?
            .world;
    }
    Err(Violation::NeverConnects)
}

fn kindness(world: &World) -> Option<Event> {
    if let Some(closing) = &world.ledger.closing {
        return Some(Event::at_once(Input::Closed(closing.generation)));
    }
    let current = world.ledger.current.as_ref()?;
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

fn next_timer(world: &World, signs: Signs, subject: Subject) -> Option<Event> {
    let deadline = subject.deadline(&world.machine, NOW)?;
    Some(Event::timer(deadline.at.since(NOW), signs))
}

/// With nothing but such signs of life, the server does not stay connected.
fn leaves(mut world: World, signs: Signs, subject: Subject, otherwise: Violation) -> Result<(), Violation> {
    let generation = world.ledger.generation();
    for _ in 0..4 * SOON {
        // Its listings are answered: they are not what this is about.
        let event = kindness(&world).or_else(|| next_timer(&world, signs, subject));
        world = world.step(&event.ok_or(otherwise)?, subject)?.world;
        if world.ledger.generation() != generation {
            return Ok(());
        }
    }
    Err(otherwise)
}

/// A restart dials as soon as the old connection is gone: no other timer lies between.
fn restarts(world: &World, subject: Subject) -> Result<(), Violation> {
    let fresh = world.ledger.fresh();
    let mut world = world.step(&Event::at_once(Input::Restart), subject)?.world;
    // Two connections may be closing: the last one, and the one that was draining beside it.
    for _ in 0..2 {
        if world.ledger.generation() == Some(fresh) {
            break;
        }
        let close = subject
            .deadline(&world.machine, NOW)
            .ok_or(Violation::RestartWaits)?;
        if close.timer != Timer::Close {
            return Err(Violation::RestartWaits);
        }
        world = world
            .step(&Event::timer(close.at.since(NOW), Signs::WELL), subject)?
            .world;
    }
    if world.ledger.generation() == Some(fresh) {
        Ok(())
    } else {
        Err(Violation::RestartWaits)
    }
}

/// A disabled server dials nothing any more, and is at rest by its own deadlines, whatever the world does.
fn ends_disabled(world: &World, subject: Subject) -> Result<(), Violation> {
    let opened = world.ledger.opened;
    let mut world = world.step(&Event::at_once(Input::Disable), subject)?.world;
    // Two connections may be closing: the last one, and the one that was draining beside it.
    for _ in 0..2 {
        if world.machine.state == State::Disabled {
            break;
        }
        let event = next_timer(&world, Signs::WELL, subject).ok_or(Violation::NeverDisabled)?;
        world = world.step(&event, subject)?.world;
    }
    let later = Event::timer(Duration::from_nanos(1), Signs::WELL);
    let world = world.step(&later, subject)?.world;
    if world.machine.state == State::Disabled && world.ledger.opened == opened {
        Ok(())
    } else {
        Err(Violation::NeverDisabled)
    }
}
