//! `cargo xtask fuzz`: every target of `fuzz/`, one after the other.
//!
//! It needs a C++ compiler, which builds libFuzzer, and no nightly: the instrumentation is LLVM's own, and without `unsafe`
//! there is nothing for an address sanitizer to find. `cargo fuzz` works in the same directory and offers one.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::child;
use crate::project::Project;

const LOOK_WITHIN: Duration = Duration::from_secs(30);
/// What building may be silent for.
const BUILD_SILENCE: Duration = Duration::from_secs(15 * 60);
/// What a target may take beyond its time: to read its corpus, and to end.
const BEYOND: Duration = Duration::from_secs(120);

/// An input that takes longer has hung.
const INPUT_SECONDS: u32 = 20;
/// What breaks a reader breaks it in less; the limits that the targets choose are below.
const INPUT_BYTES: u32 = 8 * 1024;
/// A target that holds more than this has lost a bound.
const MEMORY_MB: u32 = 1024;

/// What `cargo fuzz` gives the compiler where no sanitizer is wanted.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Whether the targets can be built here.
pub(crate) fn is_possible() -> bool {
    cfg!(target_os = "linux") && child::succeeds(Command::new("c++").arg("--version"), LOOK_WITHIN)
}

/// Fuzzes for so long in all, each target for its share.
pub(crate) fn run(project: &Project, time: Duration) -> Result<()> {
    let targets = targets(project)?;
    let programs = build(project)?;
    let share = (time / u32::try_from(targets.len())?).max(Duration::from_secs(1));
    for target in &targets {
        println!("--- {target}, for {} s ---", share.as_secs());
        let kept = project.source(&format!("fuzz/corpus/{target}"));
        let found = project.built(&format!("fuzz/corpus/{target}"));
        let artifacts = project.built("fuzz/artifacts");
        for directory in [&found, &artifacts] {
            fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let mut fuzzer = Command::new(programs.join(target));
        fuzzer
            .arg(format!("-max_total_time={}", share.as_secs()))
            .arg(format!("-max_len={INPUT_BYTES}"))
            .arg(format!("-timeout={INPUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_MB}"))
            .arg(format!("-dict={}", project.source("fuzz/words.dict").display()))
            .arg(format!("-artifact_prefix={}/{target}-", artifacts.display()))
            .args(["-verbosity=0", "-print_final_stats=1"])
            // What is new goes into the first directory: the corpus in the repository grows by hand.
            .args([&found, &kept])
            .env("RUST_BACKTRACE", "1");
        let advice = || {
            format!(
                "{target} found something: copy the input from {} to {} and run `cargo test fuzzing`",
                artifacts.display(),
                kept.display()
            )
        };
        child::run(&mut fuzzer, share + BEYOND).with_context(advice)?;
    }
    Ok(())
}

fn targets(project: &Project) -> Result<Vec<String>> {
    let directory = project.source("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut targets = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default();
        targets.push(name.to_string_lossy().into_owned());
    }
    targets.sort();
    if targets.is_empty() {
        bail!("{} has no targets", directory.display());
    }
    Ok(targets)
}

/// Builds all targets; answers where they are.
fn build(project: &Project) -> Result<PathBuf> {
    let host = host()?;
    let directory = project.built("fuzz");
    let mut cargo = project.cargo();
    cargo
        .args(["build", "--release", "--bins", "--locked", "--target", &host])
        .args(["--manifest-path", "fuzz/Cargo.toml"])
        .env("CARGO_TARGET_DIR", &directory)
        .env("RUSTFLAGS", INSTRUMENTED);
    child::run_while_it_speaks(&mut cargo, BUILD_SILENCE)?;
    Ok(directory.join(host).join("release"))
}

/// The machine that this compiler builds for. Named, it keeps the instrumentation away from build scripts.
fn host() -> Result<String> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let version = child::output(rustc.arg("-vV"), LOOK_WITHIN)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}
