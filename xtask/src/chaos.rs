//! The chaos tests, one after the other, for as long as somebody has patience.

use std::time::Duration;

use anyhow::Result;

use crate::arguments::ChaosOptions;
use crate::child;
use crate::project::Project;

/// What building a test may take before it starts.
const BUILD_WITHIN: Duration = Duration::from_secs(1200);

/// Whose chaos there is: the fleet's, and the gateway's in front of one.
const PACKAGES: [&str; 2] = ["mainstay", "mainstay-gateway"];

/// Runs under cargo's own runner, because nextest's limit for a single test is shorter than a long chaos.
pub(crate) fn run(project: &Project, options: &ChaosOptions) -> Result<()> {
    PACKAGES
        .iter()
        .try_for_each(|package| run_one(project, package, options))
}

fn run_one(project: &Project, package: &str, options: &ChaosOptions) -> Result<()> {
    let mut cargo = project.cargo();
    cargo
        .args([
            "test",
            "--package",
            package,
            "--test",
            "chaos",
            "--",
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
