//! The project's chores, run as `cargo xtask …`.
//!
//! It is the first thing a fresh clone builds, so it has few dependencies, and none that the project does not have anyway.

mod arguments;
mod awaken;
mod cargo_tools;
mod chaos;
mod checks;
mod child;
mod conformance;
mod dashboard;
mod dependencies;
mod fuzz;
mod nightly;
mod npm;
mod packages;
mod partners;
mod project;
mod public_api;
mod purity;
mod python;
mod rivals;
mod seeded;
mod service;
mod slowest;
mod stamp;
mod steps;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use arguments::{Chore, HELP};
use partners::Extent;
use project::Project;

/// What has benchmarks: the library, and the program with the gateway.
const BENCHED: [&str; 2] = ["mainstay", "mainstay-cli"];

/// A benchmark run builds with optimisations and then measures for minutes.
const BENCH_WITHIN: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let chore = match arguments::parse(std::env::args().skip(1)) {
        Ok(chore) => chore,
        Err(error) => {
            eprintln!("{error:#}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    let project = Project::find()?;
    match chore {
        Chore::Help => {
            println!("{HELP}");
            Ok(())
        }
        Chore::Test(options) => checks::run(&project, &options),
        Chore::Nightly(options) => nightly::run(&project, &options),
        Chore::Partners => {
            partners::install(&project, Extent::Nightly).and_then(|()| partners::build_rmcp_server(&project))
        }
        Chore::Conformance => conformance::run(&project),
        Chore::Dashboard(options) => dashboard::run(&project, &options),
        Chore::Rivals => rivals::install(&project),
        Chore::Awaken => awaken::run(&project),
        Chore::Packages => packages::run(&project).map(|_end| ()),
        Chore::Bench { passed_on } => BENCHED.iter().try_for_each(|package| {
            let mut cargo = project.cargo();
            cargo.args(["bench", "--package", package]).args(&passed_on);
            child::run(&mut cargo, BENCH_WITHIN)
        }),
        Chore::Chaos(options) => chaos::run(&project, &options),
        Chore::Fuzz { time } => fuzz::run(&project, time),
        Chore::Seeded { part } => seeded::run(&project, &part),
        Chore::PublicApi => public_api::renew(&project),
    }
}
