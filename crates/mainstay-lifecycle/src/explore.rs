//! The machine, walked through: everything that can happen, in every order, held against what it promises.
//!
//! `world` says what can happen next; `ledger` keeps a watcher's account of it beside the machine; `promises` and
//! `liveness` hold one against the other; `search` goes everywhere and `stroll` goes
//! far; `edges` writes down which ways there are; and
//! `mutants` shows that a machine with a fault does not get through.

mod edges;
mod invariants;
mod liveness;
mod observer;
mod policies;
mod random_walk;
mod search;
mod simulation;
mod violation;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::explore::search::{Covered, Scope, walk};
use crate::explore::simulation::Pace;

/// The page of the documents that shows the edges and the scopes.
const PAGE: &str = "../../docs/lifecycle.md";

/// Five connections are enough to spend every budget and bucket of the small policies, renew them, and begin again.
const GENERATIONS: u64 = 5;

/// Three connections are enough for one to drain while the next is replaced, too.
const GENERATIONS_BESIDE: u64 = 3;

/// With an input at every tick, three connections are what a test run has time for.
const GENERATIONS_BY_TICKS: u64 = 3;

fn scopes() -> Vec<Scope> {
    let by_deadlines = |name, policies| Scope {
        name,
        policies,
        generations: GENERATIONS,
        pace: Pace::Deadlines,
        ttl: false,
        beside: false,
    };
    let by_ticks = |name, policies| Scope {
        name,
        policies,
        generations: GENERATIONS_BY_TICKS,
        pace: Pace::Ticks,
        ttl: false,
        beside: false,
    };
    let beside = |name, policies| Scope {
        name,
        policies,
        generations: GENERATIONS_BESIDE,
        pace: Pace::Deadlines,
        ttl: false,
        beside: true,
    };
    // Beside probes, times to live are more than a test run has time for: they are walked without.
    let with_ttl = |scope| Scope { ttl: true, ..scope };
    vec![
        with_ttl(by_deadlines("strict", vec![policies::strict()])),
        by_deadlines("watchful", vec![policies::watchful()]),
        with_ttl(by_deadlines("resting", vec![policies::resting()])),
        by_deadlines("adjusted", vec![policies::patient(), policies::strict()]),
        beside("strict, replaced beside", vec![policies::strict()]),
        by_ticks("patient, by ticks", vec![policies::patient()]),
        with_ttl(by_ticks("strict, by ticks", vec![policies::strict()])),
    ]
}

#[test]
fn no_interleaving_breaks_a_promise_and_the_edges_are_those_of_the_table() {
    let mut taken = BTreeSet::new();
    for (scope, covered, took) in walk_side_by_side(scopes()) {
        println!(
            "{}: {} states, {} steps, {} stale inputs, {} edges, {took:.1?}",
            scope.name,
            covered.states,
            covered.steps,
            covered.stale,
            covered.edges.len(),
        );
        taken.extend(covered.edges);
    }
    edges::keep("edges.txt", &edges::table(&taken));
    edges::keep_part(PAGE, "edges", &edges::diagram(&taken));
    edges::keep_part(PAGE, "scopes", &edges::extent(&scopes()));
}

fn walk_side_by_side(scopes: Vec<Scope>) -> Vec<(Scope, Covered, Duration)> {
    let walks: Vec<_> = scopes
        .into_iter()
        .map(|scope| {
            thread::spawn(move || {
                let start = Instant::now();
                let covered = walk(&scope).unwrap_or_else(|breach| panic!("{}: {breach}", scope.name));
                (scope, covered, start.elapsed())
            })
        })
        .collect();
    let ends = walks
        .into_iter()
        .map(|walk| walk.join().expect("no promise is broken"));
    ends.collect()
}
