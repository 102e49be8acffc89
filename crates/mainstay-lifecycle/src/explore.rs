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

/// How far to explore: `small` for runs against many mutants, `full` for the night. Every other run explores the bound of the gate.
const EXPLORE_VARIABLE: &str = "MAINSTAY_EXPLORE";

/// The page of the documents that shows the edges and the scopes.
const PAGE: &str = "../../docs/lifecycle.md";

/// How many connections each scope follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// A few seconds of processor time.
    Small,
    /// Less than half a minute: together with the other tests of this crate it finds every seeded fault (`cargo xtask seeded`). Edges
    /// that need a spent budget of missed probes are seen at night only.
    Gate,
    /// Minutes of processor time: enough connections to spend every budget and bucket of the small policies, renew them, and begin
    /// again.
    Full,
}

impl Bound {
    fn chosen() -> Self {
        match std::env::var(EXPLORE_VARIABLE).as_deref() {
            Err(_) => Self::Gate,
            Ok("small") => Self::Small,
            Ok("full") => Self::Full,
            Ok(other) => panic!("{EXPLORE_VARIABLE} is small, full or not set, and not {other:?}"),
        }
    }
}

/// The connections that a scope follows in each bound; 0 leaves the scope out.
struct Generations {
    small: u64,
    gate: u64,
    full: u64,
}

impl Generations {
    fn within(&self, bound: Bound) -> u64 {
        match bound {
            Bound::Small => self.small,
            Bound::Gate => self.gate,
            Bound::Full => self.full,
        }
    }
}

/// Each scope with the connections that it follows.
fn scopes() -> Vec<(SearchScope, Generations)> {
    let at_deadlines = |name, policies: Vec<Policy>| SearchScope {
        name,
        policies,
        generations: 0,
        pace: Pace::Deadlines,
        ttl: false,
        beside: false,
        refusals: false,
    };
    let by_ticks = |name, policies| SearchScope {
        pace: Pace::Ticks,
        ..at_deadlines(name, policies)
    };
    // A test run has no time for both probes and times to live.
    let with_ttl = |scope| SearchScope { ttl: true, ..scope };
    let with_refusals = |scope| SearchScope {
        refusals: true,
        ..scope
    };
    let strict = || vec![policies::strict()];
    let generations = |small, gate, full| Generations { small, gate, full };
    vec![
        (with_ttl(at_deadlines("strict", strict())), generations(2, 4, 5)),
        (
            at_deadlines("watchful", vec![policies::watchful()]),
            generations(1, 2, 5),
        ),
        (
            with_ttl(at_deadlines("resting", vec![policies::resting()])),
            generations(2, 3, 5),
        ),
        (
            at_deadlines("adjusted", vec![policies::patient(), policies::strict()]),
            generations(1, 1, 5),
        ),
        (
            SearchScope {
                beside: true,
                ..at_deadlines("strict, two drain beside", vec![policies::twice_drained()])
            },
            generations(2, 2, 3),
        ),
        // What a refused listing changes ends with its connection.
        (
            with_refusals(at_deadlines("strict, listings refused", strict())),
            generations(2, 2, 2),
        ),
        (
            with_refusals(by_ticks(
                "patient, listings refused, by ticks",
                vec![policies::patient()],
            )),
            generations(0, 1, 1),
        ),
        (
            by_ticks("patient, by ticks", vec![policies::patient()]),
            generations(0, 1, 3),
        ),
        (
            with_ttl(by_ticks("strict, by ticks", strict())),
            generations(0, 1, 3),
        ),
    ]
}

fn scopes_within(bound: Bound) -> Vec<SearchScope> {
    let scopes = scopes().into_iter().map(|(scope, generations)| SearchScope {
        generations: generations.within(bound),
        ..scope
    });
    scopes.filter(|scope| scope.generations > 0).collect()
}

#[test]
fn no_interleaving_breaks_an_invariant_and_the_documents_show_every_edge() {
    let mut edges = BTreeSet::new();
    let bound = Bound::chosen();
    for (scope, coverage, took) in search_in_parallel(scopes_within(bound)) {
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
    edges::compare_part(PAGE, "scopes", &edges::scope_table(&scopes()));
    match bound {
        Bound::Small | Bound::Gate => edges::check_listed(&edges),
        Bound::Full => {
            edges::compare_file(&edges::table(&edges));
            edges::compare_part(PAGE, "edges", &edges::diagram(&edges));
        }
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
