//! `cargo xtask test`: the gate. All that must hold before a change is merged, one step after the other.
//!
//! It builds the workspace twice, once for clippy and once for the tests. What needs another build, or more time, belongs to
//! `cargo xtask nightly`.

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::arguments::{DashboardOptions, TestOptions};
use crate::partners::Extent;
use crate::project::Project;
use crate::steps::{StepEnd, Steps};
use crate::{child, conformance, dashboard, dependencies, partners, purity, slowest, tools};

/// The time in which a step may write nothing. Compiling and testing take as long as they take, on a cold and busy machine
/// too, and write meanwhile: a crate, a test, a test that is slow. A step that is silent for so long hangs.
pub(crate) const STEP_SILENCE: Duration = Duration::from_secs(15 * 60);
const QUICK_STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// The reason for which `--quick` skips a step that installs something.
const QUICK: &str = "--quick";

pub(crate) fn run(project: &Project, options: &TestOptions) -> Result<()> {
    let mut steps = Steps::new(options.keep_going);
    thread::scope(|scope| {
        // Mostly downloads, so the compiler runs beside them.
        let partners = (!options.quick).then(|| scope.spawn(|| partners::install(project, Extent::Gate)));
        steps.step("Rust tools", || tools::ensure_rust_components(project));
        steps.step("format", || {
            let mut cargo = project.cargo();
            child::run(cargo.args(["fmt", "--all", "--check"]), QUICK_STEP_TIMEOUT)
        });
        steps.step("purity", || purity::check(project));
        steps.step("lints", || lints(project));
        steps.step("test partners", || match partners {
            Some(installation) => {
                let end = installation.join().unwrap_or_else(|panic| resume_unwind(panic));
                end.map(StepEnd::from)
            }
            None => Ok(StepEnd::Skipped(QUICK.to_owned())),
        });
    });
    steps.step("tests", || {
        let partners = (!options.quick).then(|| partners::file(project));
        tests(project, options, partners.unwrap_or_default().into())
    });
    steps.step("doctests", || {
        let mut cargo = project.cargo();
        child::run_while_it_speaks(cargo.args(["test", "--workspace", "--doc"]), STEP_SILENCE)
    });
    steps.step("conformance", || {
        unless_quick(options, || conformance::run(project))
    });
    steps.step("dashboard", || {
        unless_quick(options, || dashboard::run(project, &DashboardOptions::default()))
    });
    steps.step("dependencies", || match options.quick {
        true => Ok(StepEnd::Skipped(QUICK.to_owned())),
        false => dependencies::check(project),
    });
    steps.finish()
}

fn unless_quick(options: &TestOptions, run: impl FnOnce() -> Result<()>) -> Result<StepEnd> {
    if options.quick {
        return Ok(StepEnd::Skipped(QUICK.to_owned()));
    }
    run().map(StepEnd::from)
}

fn lints(project: &Project) -> Result<()> {
    let mut clippy = project.cargo();
    clippy.args(["clippy", "--workspace", "--all-targets"]);
    clippy.args(["--", "--deny", "warnings"]);
    child::run_while_it_speaks(&mut clippy, STEP_SILENCE)
}

/// All tests of the workspace. This also builds the rmcp server, which a test of its own crate needs, before any test runs.
fn tests(project: &Project, options: &TestOptions, partners: OsString) -> Result<()> {
    let mut cargo = project.cargo();
    let has_nextest = tools::has_nextest(project);
    if has_nextest {
        cargo.args(["nextest", "run", "--workspace"]);
    } else {
        println!("cargo-nextest is not installed: tests that measure time share the machine with all others");
        cargo.args(["test", "--workspace", "--tests"]);
    }
    if options.keep_going {
        cargo.arg("--no-fail-fast");
    }
    if has_nextest {
        cargo.args(&options.passed_on);
    } else {
        cargo.args(without_nightly_tests(&options.passed_on));
    }
    cargo.env("MAINSTAY_PARTNERS", partners);
    let mut run = || child::run_while_it_speaks(&mut cargo, STEP_SILENCE);
    if has_nextest && options.passed_on.is_empty() {
        slowest::print_after(&project.built("nextest/default/junit.xml"), run)
    } else {
        run()
    }
}

/// Parts of the names of the tests that need what only a night installs. The `default-filter` of nextest leaves them out.
const NIGHTLY_TESTS: [&str; 2] = ["old_sdks::", "a_real_host_"];

/// The arguments for `cargo test`, which knows no default filter. What follows `--` goes to each test program.
fn without_nightly_tests(passed_on: &[String]) -> Vec<String> {
    let mut arguments = passed_on.to_vec();
    if !arguments.iter().any(|argument| argument == "--") {
        arguments.push("--".to_owned());
    }
    let skips = NIGHTLY_TESTS.into_iter().flat_map(|part| ["--skip", part]);
    arguments.extend(skips.map(str::to_owned));
    arguments
}

#[cfg(test)]
mod tests {
    use super::{NIGHTLY_TESTS, without_nightly_tests};

    #[test]
    fn cargo_test_leaves_out_the_tests_of_the_night() {
        let arguments = |passed_on: &[&str]| {
            let passed_on: Vec<_> = passed_on.iter().map(|&argument| argument.to_owned()).collect();
            without_nightly_tests(&passed_on).join(" ")
        };
        let skips = "--skip old_sdks:: --skip a_real_host_";
        assert_eq!(arguments(&[]), format!("-- {skips}"));
        assert_eq!(arguments(&["part"]), format!("part -- {skips}"));
        assert_eq!(
            arguments(&["--", "--nocapture"]),
            format!("-- --nocapture {skips}")
        );
    }

    #[test]
    fn nextest_leaves_out_the_same_tests() {
        let config = include_str!("../../.config/nextest.toml");
        let filter = config.lines().find(|line| line.starts_with("default-filter"));
        let filter = filter.expect("the default profile has a filter");
        assert_eq!(filter.matches("test(").count(), NIGHTLY_TESTS.len(), "{filter}");
        for part in NIGHTLY_TESTS {
            assert!(filter.contains(part), "{filter} does not name {part}");
        }
    }
}
