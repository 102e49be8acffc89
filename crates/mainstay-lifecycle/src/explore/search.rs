//! Breadth first over everything that can happen, so that the first breach found has the shortest trail.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt;

use crate::effect::Cause;
use crate::explore::liveness;
use crate::explore::simulation::{Event, Pace, Simulation};
use crate::explore::violation::Violation;
use crate::policy::Policy;
use crate::state::StateKind;

/// Where the first state was found from.
const NOWHERE: usize = usize::MAX;

/// One kind of change: from, why, to.
pub(super) type Edge = (StateKind, Cause, StateKind);

/// What a walk saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Covered {
    pub(super) states: u64,
    /// Inputs that meant something, each checked against every promise.
    pub(super) steps: u64,
    /// Inputs that had to change nothing.
    pub(super) stale: u64,
    pub(super) edges: BTreeSet<Edge>,
}

/// How to break a promise, from a server that nobody asked for yet, or from one whose keeper failed.
pub(super) struct Breach {
    pub(super) broken: Violation,
    pub(super) trail: Vec<Event>,
    pub(super) world: Simulation,
}

/// What to walk through.
pub(super) struct Scope {
    pub(super) name: &'static str,
    /// The policy to start with, and those that the configuration may change it to meanwhile.
    pub(super) policies: Vec<Policy>,
    /// How many connections to follow: a dial beyond is checked, and where it leads is not.
    pub(super) generations: u64,
    pub(super) pace: Pace,
    /// Whether the server says how long its lists are current.
    pub(super) ttl: bool,
    /// Whether the server may be dialled beside the one that it replaces.
    pub(super) beside: bool,
}

/// Walks every interleaving, until a promise is broken or nothing is left to try.
pub(super) fn walk(scope: &Scope) -> Result<Covered, Box<Breach>> {
    let mut covered = Covered::default();
    // Each state that was found: where from, and by which event.
    let mut trails: Vec<(usize, Event)> = Vec::new();
    let policy = || scope.policies[0].clone();
    let starts = [Simulation::new(policy()), Simulation::resumed(policy())];
    let mut seen = HashSet::from(starts.clone());
    let mut queue = VecDeque::from(starts.map(|start| (start, NOWHERE)));
    while let Some((world, trail)) = queue.pop_front() {
        covered.states += 1;
        let breach = |broken, last: Option<Event>| {
            Box::new(Breach {
                broken,
                trail: unwind(&trails, trail).into_iter().chain(last).collect(),
                world: world.clone(),
            })
        };
        covered.stale += world
            .hear_what_is_stale()
            .map_err(|broken| breach(broken, None))?;
        liveness::holds(&world).map_err(|broken| breach(broken, None))?;
        let mut found = Vec::new();
        for event in world.events(scope) {
            covered.steps += 1;
            let stepped = match world.step(&event) {
                Ok(stepped) => stepped,
                Err(broken) => return Err(breach(broken, Some(event))),
            };
            let edges = stepped.transitions.iter();
            covered
                .edges
                .extend(edges.map(|edge| (edge.from, edge.cause, edge.to)));
            let next = stepped.world;
            if next.observer.opened <= scope.generations && !seen.contains(&next) {
                seen.insert(next.clone());
                found.push((next, event));
            }
        }
        for (next, event) in found {
            trails.push((trail, event));
            queue.push_back((next, trails.len() - 1));
        }
    }
    Ok(covered)
}

fn unwind(trails: &[(usize, Event)], mut at: usize) -> Vec<Event> {
    let mut trail = Vec::new();
    while let Some((before, event)) = trails.get(at) {
        trail.push(event.clone());
        at = *before;
    }
    trail.reverse();
    trail
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} after", self.broken)?;
        for event in &self.trail {
            writeln!(f, "  +{:?} {:?}", event.after, event.input)?;
        }
        write!(f, "from {:#?}", self.world)
    }
}
