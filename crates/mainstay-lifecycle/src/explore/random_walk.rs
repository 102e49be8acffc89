//! A random walk, far beyond the connections that the exhaustive search has time for.

use crate::explore::invariants::Violation;
use crate::explore::search::SearchScope;
use crate::explore::simulation::{Pace, Simulation, TimedInput};
use crate::explore::{is_small, liveness, policies};

/// Some seconds of a test run, and some thousands of connections.
const EVENTS: usize = 150_000;

const EVENTS_IN_SMALL: usize = 10_000;

/// The walk is the same on every run, so that a violation can be examined.
const SEED: u64 = 0x5eed;

/// How many of the last events a failure shows.
const SHOWN_EVENTS: usize = 12;

#[test]
fn a_long_random_walk_breaks_no_invariant() {
    let scope = SearchScope {
        name: "random walk",
        policies: policies::all().into(),
        generations: u64::MAX,
        pace: Pace::Ticks,
        ttl: true,
        beside: true,
    };
    let events = if is_small() { EVENTS_IN_SMALL } else { EVENTS };
    let (opened, violation) = walk(&scope, events);
    println!("{events} events, {opened} connections");
    assert_eq!(violation, None);
    assert!(opened > events as u64 / 50, "it leads through many connections");
}

fn walk(scope: &SearchScope, events: usize) -> (u64, Option<(Violation, Vec<TimedInput>)>) {
    let mut simulation = Simulation::new(scope.policies[0].clone());
    let mut random = Random(SEED);
    let mut path: Vec<TimedInput> = Vec::new();
    for _ in 0..events {
        let event = random.pick(&simulation.events(scope)).clone();
        path.push(event.clone());
        let outcome = simulation
            .check_stale_inputs()
            .and_then(|_| liveness::check(&simulation))
            .and_then(|()| simulation.step(&event));
        match outcome {
            Ok(outcome) => simulation = outcome.next,
            Err(violation) => {
                let last = path.split_off(path.len().saturating_sub(SHOWN_EVENTS));
                return (simulation.trace.opened, Some((violation, last)));
            }
        }
    }
    (simulation.trace.opened, None)
}

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        &from[(self.0 >> 33) as usize % from.len()]
    }
}
