//! `cargo xtask test`: everything that must hold, one step after the other, with a summary at the end.

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::arguments::{DashboardOptions, FUZZ_TIME, TestOptions};
use crate::project::Project;
use crate::{
    child, conformance, dashboard, dependencies, fuzz, minimum_rust, partners, public_api, purity, tools,
};

/// How long a step may write nothing. Compiling and testing take as long as they take, on a cold and busy machine too, and
/// say something meanwhile: a crate, a test, a test that is slow. What is silent for so long hangs.
const STEP_SILENCE: Duration = Duration::from_secs(15 * 60);
const QUICK_STEP_WITHIN: Duration = Duration::from_secs(120);

pub(crate) fn run(project: &Project, options: &TestOptions) -> Result<()> {
    let started = Instant::now();
    let mut summary = Vec::new();
    thread::scope(|scope| {
        // Mostly downloads, so the compiler runs beside them.
        let mut partners = (!options.quick).then(|| scope.spawn(|| partners::install(project)));
        for &step in CheckStep::ALL {
            let has_failed = summary.iter().any(|(_, end)| matches!(end, StepEnd::Failed(_)));
            let end = if options.quick && step.needs_network() {
                StepEnd::Skipped
            } else if !options.keep_going && has_failed {
                StepEnd::NotReached
            } else {
                perform(step, project, options, &mut partners)
            };
            summary.push((step, end));
        }
    });
    println!("\n{}", table(&summary, started.elapsed()));
    match summary
        .iter()
        .filter(|(_, end)| matches!(end, StepEnd::Failed(_)))
        .count()
    {
        0 => Ok(()),
        failed => bail!("{failed} of {} steps failed", summary.len()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckStep {
    Tools,
    Partners,
    Format,
    Lints,
    Alone,
    Docs,
    PublicApi,
    Tests,
    Doctests,
    Conformance,
    Dashboard,
    Purity,
    MinimumRust,
    Dependencies,
    Fuzz,
}

enum StepEnd {
    Passed(Duration),
    Failed(Duration),
    Skipped,
    NotReached,
}

impl CheckStep {
    /// In the order they run: what fails fastest comes first. The installation of the partners begins with the first step, and its own
    /// step waits for its end.
    const ALL: &[Self] = &[
        Self::Tools,
        Self::Format,
        Self::Lints,
        Self::Alone,
        Self::Docs,
        Self::PublicApi,
        Self::Partners,
        Self::Tests,
        Self::Doctests,
        Self::Conformance,
        Self::Dashboard,
        Self::Purity,
        Self::MinimumRust,
        Self::Dependencies,
        Self::Fuzz,
    ];

    /// Whether it installs something from elsewhere.
    fn needs_network(self) -> bool {
        matches!(self, Self::Partners | Self::Conformance | Self::Dashboard)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Tools => "Rust tools",
            Self::Partners => "test partners",
            Self::Format => "format",
            Self::Lints => "lints",
            Self::Alone => "the library alone",
            Self::Docs => "docs",
            Self::PublicApi => "public API",
            Self::Tests => "tests",
            Self::Doctests => "doctests",
            Self::Conformance => "conformance",
            Self::Dashboard => "dashboard",
            Self::Purity => "purity",
            Self::MinimumRust => "minimum Rust",
            Self::Dependencies => "dependencies",
            Self::Fuzz => "fuzzing",
        }
    }
}

/// The installation of the partners, until its step has waited for its end.
type Installation<'scope> = Option<ScopedJoinHandle<'scope, Result<()>>>;

fn perform(
    step: CheckStep,
    project: &Project,
    options: &TestOptions,
    partners: &mut Installation<'_>,
) -> StepEnd {
    println!("\n=== {} ===", step.title());
    let started = Instant::now();
    let result = attempt(step, project, options, partners);
    let took = started.elapsed();
    match result {
        Ok(()) => {
            println!("{}: passed in {:.1} s", step.title(), took.as_secs_f64());
            StepEnd::Passed(took)
        }
        Err(error) => {
            eprintln!(
                "{}: failed after {:.1} s: {error:#}",
                step.title(),
                took.as_secs_f64()
            );
            StepEnd::Failed(took)
        }
    }
}

fn attempt(
    step: CheckStep,
    project: &Project,
    options: &TestOptions,
    partners: &mut Installation<'_>,
) -> Result<()> {
    let mut cargo = project.cargo();
    match step {
        CheckStep::Tools => tools::ensure_rust_components(project),
        CheckStep::Partners => partners.take().map_or(Ok(()), |installation| {
            installation.join().unwrap_or_else(|panic| resume_unwind(panic))
        }),
        CheckStep::Format => child::run(cargo.args(["fmt", "--all", "--check"]), QUICK_STEP_WITHIN),
        CheckStep::Lints => {
            let clippy = cargo.args([
                "clippy",
                "--workspace",
                "--all-targets",
                "--",
                "--deny",
                "warnings",
            ]);
            child::run_while_it_speaks(clippy, STEP_SILENCE)
        }
        CheckStep::Alone => alone(project),
        // Libraries only: the program and the library share a name, and with it a page.
        CheckStep::Docs => {
            let doc = cargo
                .args(["doc", "--workspace", "--no-deps", "--lib"])
                .env("RUSTDOCFLAGS", "--deny warnings");
            child::run_while_it_speaks(doc, STEP_SILENCE)
        }
        CheckStep::PublicApi => public_api::check(project),
        CheckStep::Tests => {
            // This also builds the rmcp server, which a test of its own crate needs, before any test runs.
            if tools::has_nextest(project) {
                cargo.args(["nextest", "run", "--workspace"]);
            } else {
                cargo.args(["test", "--workspace", "--tests"]);
            }
            if options.keep_going {
                cargo.arg("--no-fail-fast");
            }
            let partners = if options.quick {
                OsString::new()
            } else {
                partners::file(project).into()
            };
            child::run_while_it_speaks(
                cargo.args(&options.passed_on).env("MAINSTAY_PARTNERS", partners),
                STEP_SILENCE,
            )
        }
        CheckStep::Doctests => {
            child::run_while_it_speaks(cargo.args(["test", "--workspace", "--doc"]), STEP_SILENCE)
        }
        CheckStep::Conformance => conformance::run(project),
        CheckStep::Dashboard => dashboard::run(project, &DashboardOptions::default()),
        CheckStep::Purity => purity::check(project),
        CheckStep::MinimumRust => minimum_rust::check(project),
        CheckStep::Dependencies => dependencies::check(project),
        CheckStep::Fuzz if fuzz::is_possible() => fuzz::run(project, FUZZ_TIME),
        CheckStep::Fuzz => {
            println!("there is no C++ compiler (c++) to build libFuzzer with, so nothing is fuzzed");
            Ok(())
        }
    }
}

/// The libraries by themselves, with their default features, without any, and with each one alone. In the workspace they get every
/// feature that any crate asks of its dependencies; their users build them with what they ask for themselves.
fn alone(project: &Project) -> Result<()> {
    let mut default = project.cargo();
    child::run_while_it_speaks(default.args(["check", "--package", "mainstay"]), STEP_SILENCE)?;
    for feature in ["", "config-file", "http", "rmcp", "tls"] {
        let mut clippy = project.cargo();
        clippy.args([
            "clippy",
            "--package",
            "mainstay",
            "--lib",
            "--no-default-features",
        ]);
        clippy.args(["--features", feature, "--", "--deny", "warnings"]);
        child::run_while_it_speaks(&mut clippy, STEP_SILENCE)?;
    }
    // The tests use the program with its keyring. Both are built without it too.
    for (package, target) in [("mainstay-login", "--lib"), ("mainstay-cli", "--bins")] {
        let mut clippy = project.cargo();
        clippy.args(["clippy", "--package", package, target, "--no-default-features"]);
        clippy.args(["--", "--deny", "warnings"]);
        child::run_while_it_speaks(&mut clippy, STEP_SILENCE)?;
    }
    let mut bare = project.cargo();
    bare.args([
        "test",
        "--package",
        "mainstay",
        "--no-default-features",
        "--test",
        "bare",
    ]);
    child::run_while_it_speaks(&mut bare, STEP_SILENCE)
}

fn table(summary: &[(CheckStep, StepEnd)], total: Duration) -> String {
    let rows = summary.iter().map(|(step, end)| {
        let (word, took) = match end {
            StepEnd::Passed(took) => ("passed", Some(*took)),
            StepEnd::Failed(took) => ("FAILED", Some(*took)),
            StepEnd::Skipped => ("skipped", None),
            StepEnd::NotReached => ("not reached", None),
        };
        row(step.title(), word, took)
    });
    rows.chain([row("total", "", Some(total))])
        .collect::<Vec<_>>()
        .join("\n")
}

fn row(title: &str, word: &str, took: Option<Duration>) -> String {
    let took = took
        .map(|took| format!("{:>8.1} s", took.as_secs_f64()))
        .unwrap_or_default();
    format!("{title:<20}{word:<12}{took}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{CheckStep, Duration, StepEnd, table};

    #[test]
    fn the_summary_shows_every_step_and_what_became_of_it() {
        let summary = [
            (CheckStep::Partners, StepEnd::Skipped),
            (CheckStep::Format, StepEnd::Passed(Duration::from_millis(1250))),
            (CheckStep::Lints, StepEnd::Failed(Duration::from_secs(20))),
            (CheckStep::Tests, StepEnd::NotReached),
        ];
        let expected = "\
test partners       skipped
format              passed           1.2 s
lints               FAILED          20.0 s
tests               not reached
total                               21.5 s";
        assert_eq!(table(&summary, Duration::from_millis(21_500)), expected);
    }
}
