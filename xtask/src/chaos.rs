//! The chaos test, for as long as somebody has patience.

use std::time::Duration;

use anyhow::Result;

use crate::arguments::ChaosOptions;
use crate::child;
use crate::project::Project;

/// What building the test may take before it starts.
const BUILD_WITHIN: Duration = Duration::from_secs(1200);

/// Runs under cargo's own runner, because nextest's limit for a single test is shorter than a long chaos.
pub(crate) fn run(project: &Project, options: &ChaosOptions) -> Result<()> {
    let mut cargo = project.cargo();
    cargo
        .args([
            "test",
            "--package",
            "mainstay",
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
