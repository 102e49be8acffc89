//! The exhaustive search: breadth first, so that the first counterexample is one of the shortest.
//! A random walk goes far beyond the connections that the search has time for.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt;

use crate::effect::Cause;
use crate::explore::invariants::Violation;
use crate::explore::simulation::{Pace, Simulation, TimedInput};
use crate::explore::{Bound, liveness, policies};
use crate::policy::Policy;
use crate::state::StateKind;

/// The predecessor of a start.
const NO_PREDECESSOR: usize = usize::MAX;

/// One kind of transition: from, cause, to.
pub(super) type Edge = (StateKind, Cause, StateKind);

/// What a search visited.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    pub(super) states: u64,
    /// Inputs that counted. Each was checked against every invariant.
    pub(super) steps: u64,
    /// Inputs that had to change nothing.
    pub(super) stale_inputs: u64,
    pub(super) edges: BTreeSet<Edge>,
}

/// The events that break an invariant, from a server that was never enabled or whose keeper failed.
pub(super) struct Counterexample {
    pub(super) violation: Violation,
    pub(super) events: Vec<TimedInput>,
    pub(super) last: Simulation,
}

/// What a search covers.
pub(super) struct SearchScope {
    pub(super) name: &'static str,
    /// The policy to start with, and those that the configuration may change it to.
    pub(super) policies: Vec<Policy>,
    /// How many connections to follow. The dial after the last one is checked, and not followed.
    pub(super) generations: u64,
    pub(super) pace: Pace,
    /// The server may give its lists a time to live.
    pub(super) ttl: bool,
    /// The server may be dialled beside the one that it replaces.
    pub(super) beside: bool,
    /// The server may refuse its listings, and may answer calls while it does not answer a listing.
    pub(super) refusals: bool,
}

/// Visits every state in the scope, until an invariant breaks.
pub(super) fn search(scope: &SearchScope) -> Result<Coverage, Box<Counterexample>> {
    let mut coverage = Coverage::default();
    // For each state that was found: its predecessor, and the event between them.
    let mut found_by: Vec<(usize, TimedInput)> = Vec::new();
    let policy = || scope.policies[0].clone();
    let starts = [Simulation::new(policy()), Simulation::resumed(policy())];
    let mut seen = HashSet::from(starts.clone());
    let mut queue = VecDeque::from(starts.map(|start| (start, NO_PREDECESSOR)));
    while let Some((simulation, at)) = queue.pop_front() {
        coverage.states += 1;
        let counterexample = |violation, event: Option<TimedInput>| {
            Box::new(Counterexample {
                violation,
                events: path(&found_by, at).into_iter().chain(event).collect(),
                last: simulation.clone(),
            })
        };
        coverage.stale_inputs += simulation
            .check_stale_inputs()
            .map_err(|violation| counterexample(violation, None))?;
        liveness::check(&simulation).map_err(|violation| counterexample(violation, None))?;
        let mut found = Vec::new();
        for event in simulation.events(scope) {
            coverage.steps += 1;
            let outcome = match simulation.step(&event) {
                Ok(outcome) => outcome,
                Err(violation) => return Err(counterexample(violation, Some(event))),
            };
            let edges = outcome.transitions.iter();
            coverage
                .edges
                .extend(edges.map(|edge| (edge.from, edge.cause, edge.to)));
            let next = outcome.next;
            if next.trace.opened <= scope.generations && !seen.contains(&next) {
                seen.insert(next.clone());
                found.push((next, event));
            }
        }
        for (next, event) in found {
            found_by.push((at, event));
            queue.push_back((next, found_by.len() - 1));
        }
    }
    Ok(coverage)
}

fn path(found_by: &[(usize, TimedInput)], mut at: usize) -> Vec<TimedInput> {
    let mut events = Vec::new();
    while let Some((predecessor, event)) = found_by.get(at) {
        events.push(event.clone());
        at = *predecessor;
    }
    events.reverse();
    events
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} after", self.violation)?;
        for event in &self.events {
            writeln!(f, "  +{:?} {:?}", event.after, event.input)?;
        }
        write!(f, "from {:#?}", self.last)
    }
}

/// Some seconds of a test run, and some thousands of connections.
const EVENTS: usize = 150_000;

const EVENTS_IN_GATE: usize = 50_000;
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
        refusals: true,
    };
    let events = match Bound::chosen() {
        Bound::Small => EVENTS_IN_SMALL,
        Bound::Gate => EVENTS_IN_GATE,
        Bound::Full => EVENTS,
    };
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
