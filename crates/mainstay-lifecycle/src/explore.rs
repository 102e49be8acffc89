//! The exploration: gives the machine every input in every order, and checks the invariants at every step.
//!
//! `simulation` knows which events can come next. `trace` notes inputs and effects as an observer sees them.
//! `invariants` and `liveness` check the machine against the trace. `search` visits every state in a scope, and
//! a random walk goes beyond. `edges` writes the transitions that were seen into the documents.

mod edges;
mod invariants;
mod liveness;
mod policies;
mod search;
mod simulation;
mod trace;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::explore::search::{Coverage, SearchScope, search};
use crate::explore::simulation::Pace;
use crate::policy::Policy;

/// Set to `small` to explore less, in about a second: for runs against many mutants of the machine.
const EXPLORE_VARIABLE: &str = "MAINSTAY_EXPLORE";

/// The page of the documents that shows the edges and the scopes.
const PAGE: &str = "../../docs/lifecycle.md";

/// Five connections are enough to spend every budget and bucket of the small policies, renew them, and begin again.
const GENERATIONS: u64 = 5;

/// Three connections are enough to replace one while two before it drain.
const GENERATIONS_BESIDE: u64 = 3;

/// What a refused listing changes ends with its connection.
const GENERATIONS_REFUSED: u64 = 2;

/// With an input at every tick, a test run has time for three connections.
const GENERATIONS_BY_TICKS: u64 = 3;

/// Two connections without probes, or one with probes, take about a second in all.
const GENERATIONS_IN_SMALL: u64 = 2;
const PROBED_GENERATIONS_IN_SMALL: u64 = 1;

fn is_small() -> bool {
    std::env::var_os(EXPLORE_VARIABLE).is_some_and(|value| value == "small")
}

fn scopes() -> Vec<SearchScope> {
    let at_deadlines = |name, policies: Vec<Policy>| SearchScope {
        name,
        policies,
        generations: GENERATIONS,
        pace: Pace::Deadlines,
        ttl: false,
        beside: false,
        refusals: false,
    };
    let by_ticks = |name, policies| SearchScope {
        generations: GENERATIONS_BY_TICKS,
        pace: Pace::Ticks,
        ..at_deadlines(name, policies)
    };
    // A test run has no time for both probes and times to live.
    let with_ttl = |scope| SearchScope { ttl: true, ..scope };
    let with_refusals = |generations, scope| SearchScope {
        generations,
        refusals: true,
        ..scope
    };
    let strict = || vec![policies::strict()];
    vec![
        with_ttl(at_deadlines("strict", strict())),
        at_deadlines("watchful", vec![policies::watchful()]),
        with_ttl(at_deadlines("resting", vec![policies::resting()])),
        at_deadlines("adjusted", vec![policies::patient(), policies::strict()]),
        SearchScope {
            generations: GENERATIONS_BESIDE,
            beside: true,
            ..at_deadlines("strict, two drain beside", vec![policies::twice_drained()])
        },
        with_refusals(
            GENERATIONS_REFUSED,
            at_deadlines("strict, listings refused", strict()),
        ),
        with_refusals(
            1,
            by_ticks("patient, listings refused, by ticks", vec![policies::patient()]),
        ),
        by_ticks("patient, by ticks", vec![policies::patient()]),
        with_ttl(by_ticks("strict, by ticks", strict())),
    ]
}

fn small_scopes() -> Vec<SearchScope> {
    let scopes = scopes().into_iter();
    let at_deadlines = scopes.filter(|scope| scope.pace == Pace::Deadlines);
    let small = at_deadlines.map(|scope| {
        let is_probed = scope.policies.iter().any(|policy| policy.probe.is_some());
        let generations = if is_probed {
            PROBED_GENERATIONS_IN_SMALL
        } else {
            GENERATIONS_IN_SMALL
        };
        SearchScope { generations, ..scope }
    });
    small.collect()
}

#[test]
fn no_interleaving_breaks_an_invariant_and_the_documents_show_every_edge() {
    let mut edges = BTreeSet::new();
    let explored = if is_small() { small_scopes() } else { scopes() };
    for (scope, coverage, took) in search_in_parallel(explored) {
        println!(
            "{}: {} states, {} steps, {} stale inputs, {} edges, {took:.1?}",
            scope.name,
            coverage.states,
            coverage.steps,
            coverage.stale_inputs,
            coverage.edges.len(),
        );
        edges.extend(coverage.edges);
    }
    if !is_small() {
        edges::compare_file("edges.txt", &edges::table(&edges));
        edges::compare_part(PAGE, "edges", &edges::diagram(&edges));
        edges::compare_part(PAGE, "scopes", &edges::scope_table(&scopes()));
    }
}

fn search_in_parallel(scopes: Vec<SearchScope>) -> Vec<(SearchScope, Coverage, Duration)> {
    let searches: Vec<_> = scopes
        .into_iter()
        .map(|scope| {
            thread::spawn(move || {
                let start = Instant::now();
                let coverage = search(&scope)
                    .unwrap_or_else(|counterexample| panic!("{}: {counterexample}", scope.name));
                (scope, coverage, start.elapsed())
            })
        })
        .collect();
    let ends = searches
        .into_iter()
        .map(|search| search.join().expect("no invariant breaks"));
    ends.collect()
}
