//! The chaos tests, one after the other, for the given time.

use std::time::Duration;

use anyhow::Result;

use crate::arguments::ChaosOptions;
use crate::child;
use crate::project::Project;

/// What building a test may take before it starts.
const BUILD_WITHIN: Duration = Duration::from_secs(1200);

/// The chaos tests, as package and test binary: the fleet, the gateway in front of one, and the daemon with its bridges.
const TESTS: [(&str, &str); 3] = [
    ("mainstay", "library"),
    ("mainstay-gateway", "gateway"),
    ("mainstay-cli", "program"),
];

/// Runs under cargo's own runner, because nextest's limit for a single test is shorter than a long chaos.
pub(crate) fn run(project: &Project, options: &ChaosOptions) -> Result<()> {
    TESTS
        .iter()
        .try_for_each(|(package, test)| run_one(project, package, test, options))
}

fn run_one(project: &Project, package: &str, test: &str, options: &ChaosOptions) -> Result<()> {
    let mut cargo = project.cargo();
    cargo
        .args([
            "test",
            "--package",
            package,
            "--test",
            test,
            "--",
            "chaos",
            "--nocapture",
        ])
        .env("MAINSTAY_CHAOS_SECONDS", options.seconds.to_string());
    if let Some(seed) = options.seed {
        cargo.env("MAINSTAY_CHAOS_SEED", seed.to_string());
    }
    child::run(
        &mut cargo,
        BUILD_WITHIN + 2 * Duration::from_secs(options.seconds),
    )
}
