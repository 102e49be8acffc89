//! `cargo xtask mutants`: the mutants of `cargo mutants`, in the crates and rooms where a wrong decision costs most.
//!
//! Hours of processor time: a scheduled job takes a shard of it. `.cargo/mutants.toml` says what is mutated and what is
//! known to survive, with the reasons.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::child;
use crate::project::Project;
use crate::tools;

const LOOK_WITHIN: Duration = Duration::from_secs(30);
/// One mutant of the machine is walked for minutes before it is called alive.
const MUTANT_SILENCE: Duration = Duration::from_secs(60 * 60);

pub(crate) fn run(project: &Project, passed_on: &[String]) -> Result<()> {
    if !child::succeeds(project.cargo().args(["mutants", "--version"]), LOOK_WITHIN) {
        bail!("cargo-mutants is missing (cargo install cargo-mutants)");
    }
    let mut cargo = project.cargo();
    cargo.args(["mutants", "--no-shuffle", "--colors", "never", "--output"]);
    cargo.arg(project.built("mutants"));
    if tools::has_nextest(project) {
        cargo.args(["--test-tool", "nextest"]);
    }
    // Each mutant is built in a copy of the sources, with a build directory of its own.
    cargo.env_remove("CARGO_TARGET_DIR").args(passed_on);
    child::run_while_it_speaks(&mut cargo, MUTANT_SILENCE)
}
