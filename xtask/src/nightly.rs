//! `cargo xtask nightly`: what takes too long for every change. It runs before a release, and without the mutants before a large
//! change is called done. The gate is not part of it.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::arguments::{ChaosOptions, NightlyOptions};
use crate::cargo_tools::{HACK, Installation, MUTANTS};
use crate::checks::STEP_SILENCE;
use crate::partners::Extent;
use crate::project::Project;
use crate::steps::{StepEnd, Steps};
use crate::{awaken, chaos, child, dependencies, fuzz, packages, partners, public_api, seeded, tools};

const FUZZ_TIME: Duration = Duration::from_secs(600);
const CHAOS_SECONDS: u64 = 300;
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// The time in which cargo-mutants may write nothing: it writes a line for each mutant that is not caught.
const MUTANTS_SILENCE: Duration = Duration::from_secs(3 * 3600);

/// How long listing the mutants may take: it parses the sources.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);

/// The packages whose files `.cargo/mutants.toml` names.
const MUTATED: [&str; 2] = ["mainstay", "mainstay-lifecycle"];

/// The libraries whose features their users choose.
const FEATURED: [&str; 2] = ["mainstay", "mainstay-login"];

pub(crate) fn run(project: &Project, options: &NightlyOptions) -> Result<()> {
    // All steps run, so that one failure does not hide another.
    let mut steps = Steps::new(true);
    steps.step("Rust tools", || tools::ensure_rust_components(project));
    steps.step("test partners", || partners::install(project, Extent::Nightly));
    steps.step("documents", || {
        let mut doc = project.cargo();
        // Libraries only: the program and the library share a name, and with it a page.
        doc.args(["doc", "--workspace", "--no-deps", "--lib"])
            .env("RUSTDOCFLAGS", "--deny warnings");
        child::run_while_it_speaks(&mut doc, STEP_SILENCE)
    });
    steps.step("public API", || public_api::check(project));
    steps.step("features", || features(project));
    steps.step("minimum Rust", || minimum_rust(project));
    steps.step("tests", || tests(project));
    steps.step("chaos", || {
        let options = ChaosOptions {
            seconds: CHAOS_SECONDS,
            seed: None,
        };
        chaos::run(project, &options)
    });
    steps.step("awaken", || awaken::run(project));
    steps.step("packages", || packages::run(project));
    steps.step("fuzzing", || match fuzz::is_possible() {
        true => fuzz::run(project, FUZZ_TIME).map(StepEnd::from),
        false => Ok(StepEnd::Skipped(
            "there is no C++ compiler (c++) to build libFuzzer with".to_owned(),
        )),
    });
    steps.step("advisories", || dependencies::check_advisories(project));
    steps.step("seeded faults", || seeded::run(project, ""));
    steps.step("mutants", || mutants(project, options));
    steps.finish()
}

/// Every test that the gate leaves out, with the exploration in its full bounds.
fn tests(project: &Project) -> Result<()> {
    let mut nextest = project.cargo();
    nextest
        .args([
            "nextest",
            "run",
            "--workspace",
            "--profile",
            "nightly",
            "--no-fail-fast",
        ])
        .env("MAINSTAY_PARTNERS", partners::file(project))
        .env("MAINSTAY_EXPLORE", "full");
    child::run_while_it_speaks(&mut nextest, STEP_SILENCE)
}

/// The libraries by themselves with each set of their features, and the program without any. In the workspace they get every
/// feature that any crate asks of its dependencies; their users build them with those that they ask for themselves.
fn features(project: &Project) -> Result<StepEnd> {
    let hack = match HACK.install(project)? {
        Installation::Ready(program) => program,
        Installation::Unreachable(reason) => return Ok(StepEnd::Skipped(reason)),
    };
    for package in FEATURED {
        let mut cargo = project.cargo_tool(&hack);
        cargo.args([
            "hack",
            "clippy",
            "--package",
            package,
            "--lib",
            "--feature-powerset",
        ]);
        cargo.args(["--", "--deny", "warnings"]);
        child::run_while_it_speaks(&mut cargo, STEP_SILENCE)?;
    }
    let mut program = project.cargo();
    program.args([
        "clippy",
        "--package",
        "mainstay-cli",
        "--bins",
        "--no-default-features",
    ]);
    program.args(["--", "--deny", "warnings"]);
    child::run_while_it_speaks(&mut program, STEP_SILENCE)?;
    let mut bare = project.cargo();
    bare.args([
        "test",
        "--package",
        "mainstay",
        "--no-default-features",
        "--test",
        "bare",
    ]);
    child::run_while_it_speaks(&mut bare, STEP_SILENCE).map(StepEnd::from)
}

/// The program, compiled with the oldest Rust that is promised. The lints of the gate find newer parts of the standard library
/// (`clippy::incompatible_msrv`); newer syntax is left to the old compiler.
fn minimum_rust(project: &Project) -> Result<StepEnd> {
    let hack = match HACK.install(project)? {
        Installation::Ready(program) => program,
        Installation::Unreachable(reason) => return Ok(StepEnd::Skipped(reason)),
    };
    let manifest = std::fs::read_to_string(project.source("Cargo.toml")).context("cannot read Cargo.toml")?;
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let minimum = line
        .context("Cargo.toml names no rust-version")?
        .trim()
        .trim_matches('"');
    let mut look = Command::new("rustup");
    look.args(["run", minimum, "cargo", "--version"])
        .env("RUSTUP_AUTO_INSTALL", "0");
    if !child::succeeds(&mut look, LOOK_TIMEOUT) {
        return Ok(StepEnd::Skipped(format!(
            "Rust {minimum} is not installed (rustup toolchain install {minimum})"
        )));
    }
    let mut cargo = project.cargo_tool(&hack);
    cargo
        .args([
            "hack",
            "check",
            "--rust-version",
            "--locked",
            "--package",
            "mainstay-cli",
        ])
        .env("CARGO_TARGET_DIR", project.built("minimum-rust"));
    child::run_while_it_speaks(&mut cargo, STEP_SILENCE).map(StepEnd::from)
}

/// The mutants that `.cargo/mutants.toml` chooses: all, or a share of them.
pub(crate) fn mutants(project: &Project, options: &NightlyOptions) -> Result<StepEnd> {
    let Some(shard) = &options.mutants else {
        return Ok(StepEnd::Skipped("--no-mutants".to_owned()));
    };
    let program = match MUTANTS.install(project)? {
        Installation::Ready(program) => program,
        Installation::Unreachable(reason) => return Ok(StepEnd::Skipped(reason)),
    };
    let mutants = |arguments: &[&str]| {
        let mut cargo = project.cargo_tool(&program);
        cargo.arg("mutants").args(["--shard", shard]).args(arguments);
        // Without them cargo-mutants takes the default members, in which `.cargo/mutants.toml` names no file.
        cargo.args(MUTATED.iter().flat_map(|package| ["--package", package]));
        // Each copy of the sources is built in a directory of its own.
        cargo.env_remove("CARGO_TARGET_DIR");
        cargo
    };
    let listed = child::output(&mut mutants(&["--list"]), LIST_TIMEOUT)?;
    ensure!(
        listed.lines().count() > 0,
        "there is no mutant to test: look at .cargo/mutants.toml and at the packages {MUTATED:?}"
    );
    let jobs = thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut cargo = mutants(&["--jobs", &jobs]);
    cargo.arg("--output").arg(project.built("mutants"));
    child::run_while_it_speaks(&mut cargo, MUTANTS_SILENCE).map(StepEnd::from)
}
