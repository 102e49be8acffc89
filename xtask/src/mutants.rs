//! `cargo xtask mutants`: changes the sources in one place at a time and runs the tests, which must fail.
//!
//! `cargo mutants` lists the places and changes (`.cargo/mutants.toml` limits them), but would compile each mutant alone. Here all
//! mutants are compiled once, each behind a switch, and a test process chooses one by a variable of its environment. A mutant in
//! a constant cannot be switched and is not tested.

mod listing;
mod places;
mod schema;
mod trial;
mod workshop;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::child;
use crate::project::Project;
use listing::Mutant;
use trial::{Catches, MutantVerdict, TestCase};
use workshop::Workshop;

const LOOK_WITHIN: Duration = Duration::from_secs(30);

/// More than a machine has cores: a test that hangs waits for its time limit and computes nothing.
const DEFAULT_JOBS: usize = 4;

/// Tests that say little about where a fault is, and take minutes: chaos, and real servers.
const SKIPPED: &[&str] = &["chaos", "partners"];

/// What is mutated, and the packages whose tests must catch its mutants. A later package is asked for what the earlier ones missed.
const PACKAGES: &[(&str, &[&str])] = &[
    ("mainstay-lifecycle", &["mainstay-lifecycle"]),
    ("mainstay", &["mainstay", "mainstay-gateway"]),
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MutantOptions {
    /// Only this package's mutants.
    pub(crate) package: Option<String>,
    /// Only mutants with one of these texts in their names, if there are any.
    pub(crate) only: Vec<String>,
    /// Only each Nth mutant, beginning with the Kth: `(K, N)`, counted from 0.
    pub(crate) shard: Option<(usize, usize)>,
    /// How many tests run at the same time.
    pub(crate) jobs: Option<usize>,
    /// Only tests that take no longer than this without a mutant. A mutant that they miss may be caught by a slower one.
    pub(crate) within: Option<Duration>,
}

pub(crate) fn run(project: &Project, options: &MutantOptions) -> Result<()> {
    if !child::succeeds(project.cargo().args(["mutants", "--version"]), LOOK_WITHIN) {
        bail!("cargo-mutants is missing (cargo install cargo-mutants)");
    }
    let is_wanted = |package: &str| options.package.as_deref().is_none_or(|only| only == package);
    let packages: Vec<_> = PACKAGES
        .iter()
        .filter(|(package, _)| is_wanted(package))
        .collect();
    if packages.is_empty() {
        bail!(
            "no mutants are listed for {:?}",
            options.package.as_deref().unwrap_or_default()
        );
    }
    let names: Vec<&str> = packages.iter().map(|(package, _)| *package).collect();
    let mutants = listing::list(&mut project.cargo(), &names)?;
    let workshop = Workshop::copy_of(project, &mutants)?;
    let mut missed = 0;
    for (package, testers) in packages {
        missed += run_package(project, &workshop, &mutants, (package, testers), options)?;
    }
    if missed > 0 {
        bail!("the tests missed {missed} mutants");
    }
    Ok(())
}

/// Returns how many mutants were missed.
fn run_package(
    project: &Project,
    workshop: &Workshop,
    mutants: &[Mutant],
    (package, testers): (&str, &[&str]),
    options: &MutantOptions,
) -> Result<usize> {
    let jobs = options.jobs.unwrap_or(DEFAULT_JOBS).max(1);
    let all = mutants.iter().filter(|mutant| mutant.package == package);
    let constants = all.clone().filter(|mutant| mutant.function.is_none()).count();
    let fitting = workshop.fit(project, package, mutants)?;
    let unviable = all.count() - constants - fitting.len();
    let is_chosen = |id: &usize| {
        let name = &mutants[*id].name;
        let is_named = options.only.is_empty() || options.only.iter().any(|only| name.contains(only));
        is_named && options.shard.is_none_or(|(shard, shards)| id % shards == shard)
    };
    let mut left: Vec<usize> = fitting.into_iter().filter(is_chosen).collect();
    let mut verdicts: BTreeMap<usize, MutantVerdict> = BTreeMap::new();
    for tester in testers {
        let programs = workshop.test_programs(tester, SKIPPED)?;
        let traces = project.built("mutants/traces").join(tester);
        let (mut cases, failing) = TestCase::all(&programs, &traces, jobs)?;
        println!("{tester}: {} tests reach a mutant", cases.len());
        if let Some(limit) = options.within {
            cases.retain(|case| case.time <= limit);
            println!("{tester}: {} of them take no longer than {limit:?}", cases.len());
        }
        for title in failing {
            println!("{tester}: {title} fails without a mutant, and is left out");
        }
        let catches = Catches::default();
        let judged = trial::in_parallel(jobs, &left, |_, &id| {
            let verdict = trial::judge(id, &mutants[id].file, &cases, &catches)?;
            println!("{verdict}: {}", mutants[id].name);
            Ok((id, verdict))
        })?;
        verdicts.extend(judged);
        left.retain(|id| matches!(verdicts[id], MutantVerdict::Missed { .. }));
        if left.is_empty() {
            break;
        }
    }
    let timed_out = verdicts
        .values()
        .filter(|verdict| matches!(verdict, MutantVerdict::TimedOut { .. }))
        .count();
    println!(
        "{package}: {constants} mutants in constants, {unviable} that do not compile, {} tested: {} caught, {timed_out} of them by a time \
         limit, and {} missed",
        verdicts.len(),
        verdicts.len() - left.len(),
        left.len(),
    );
    for id in &left {
        println!("missed: {}", mutants[*id].name);
    }
    Ok(left.len())
}
