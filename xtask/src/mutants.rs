//! `cargo xtask mutants`: the mutants of `cargo mutants`, in the crates and rooms where a wrong decision costs most.
//!
//! Days of processor time: a scheduled job takes a shard of it each night. `.cargo/mutants.toml` says what is mutated and what is
//! known to survive, with the reasons.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::child;
use crate::project::Project;
use crate::tools;

const LOOK_WITHIN: Duration = Duration::from_secs(30);
/// A mutant of the keeper is tested for minutes before it counts as missed.
const MUTANT_SILENCE: Duration = Duration::from_secs(60 * 60);

/// The tests that a mutant must pass to survive: those that say where the fault is. Chaos and real servers take minutes for each
/// mutant.
const TESTS: &str = "not binary(chaos) and not binary(partners)";

pub(crate) fn run(project: &Project, passed_on: &[String]) -> Result<()> {
    if !child::succeeds(project.cargo().args(["mutants", "--version"]), LOOK_WITHIN) {
        bail!("cargo-mutants is missing (cargo install cargo-mutants)");
    }
    let mut cargo = project.cargo();
    cargo.args(["mutants", "--no-shuffle", "--colors", "never", "--output"]);
    cargo.arg(project.built("mutants"));
    let has_nextest = tools::has_nextest(project);
    if has_nextest {
        cargo.args(["--test-tool", "nextest"]);
    }
    if !names_packages(passed_on) {
        // cargo-mutants would only take the default members of the workspace.
        cargo.arg("--workspace");
    }
    // Each mutant is built in a copy of the sources, with a build directory of its own.
    cargo.env_remove("CARGO_TARGET_DIR").args(passed_on);
    if has_nextest && !passed_on.iter().any(|argument| argument == "--") {
        cargo.args(["--", "-E", TESTS]);
    }
    child::run_while_it_speaks(&mut cargo, MUTANT_SILENCE)
}

fn names_packages(arguments: &[String]) -> bool {
    let names = |argument: &String| {
        let name = argument.split('=').next().unwrap_or_default();
        matches!(name, "-p" | "--package" | "--workspace")
    };
    arguments.iter().any(names)
}

#[cfg(test)]
mod tests {
    use super::names_packages;

    #[test]
    fn the_whole_workspace_is_mutated_unless_a_package_is_named() {
        let names = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            names_packages(&arguments)
        };
        assert!(!names("--shard 1/8"));
        for named in [
            "-p mainstay-lifecycle",
            "--package=mainstay",
            "--workspace --list",
        ] {
            assert!(names(named), "{named}");
        }
    }
}
