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
    cargo.args(&options.passed_on).env("MAINSTAY_PARTNERS", partners);
    let end = child::run_while_it_speaks(&mut cargo, STEP_SILENCE);
    if has_nextest && options.passed_on.is_empty() {
        slowest::print(&project.built("nextest/default/junit.xml"))?;
    }
    end
}
