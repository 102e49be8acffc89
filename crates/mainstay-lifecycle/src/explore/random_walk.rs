//! A long way at random, far beyond the connections that the exhaustive walk has room for.

use crate::explore::liveness;
use crate::explore::policies;
use crate::explore::search::Scope;
use crate::explore::simulation::{Event, Pace, Simulation};
use crate::explore::violation::Violation;

/// Events on the way: some seconds of a test run, and some thousands of connections.
const EVENTS: usize = 150_000;

/// The way is the same on every run, so that a breach can be looked at.
const SEED: u64 = 0x5eed;

/// How many of the last events are shown when a promise breaks.
const SHOWN: usize = 12;

#[test]
fn no_promise_is_broken_on_a_long_way() {
    let scope = Scope {
        name: "stroll",
        policies: policies::all().into(),
        generations: u64::MAX,
        pace: Pace::Ticks,
        ttl: true,
        beside: true,
    };
    let (opened, breach) = stroll(&scope);
    println!("{EVENTS} events, {opened} connections");
    assert_eq!(breach, None);
    assert!(
        opened > EVENTS as u64 / 50,
        "the way leads through many connections"
    );
}

fn stroll(scope: &Scope) -> (u64, Option<(Violation, Vec<Event>)>) {
    let mut world = Simulation::new(scope.policies[0].clone());
    let mut dice = Dice(SEED);
    let mut way: Vec<Event> = Vec::new();
    for _ in 0..EVENTS {
        let events = world.events(scope);
        let event = dice.pick(&events).clone();
        way.push(event.clone());
        let next = world
            .hear_what_is_stale()
            .and_then(|_| liveness::holds(&world))
            .and_then(|()| world.step(&event));
        match next {
            Ok(next) => world = next.world,
            Err(broken) => {
                let last = way.split_off(way.len().saturating_sub(SHOWN));
                return (world.observer.opened, Some((broken, last)));
            }
        }
    }
    (world.observer.opened, None)
}

/// A sequence of numbers that nobody would guess, and everybody can repeat.
struct Dice(u64);

impl Dice {
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        &from[(self.0 >> 33) as usize % from.len()]
    }
}
