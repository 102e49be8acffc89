//! What may be depended on, by the rules of `deny.toml`. `cargo-deny` checks them.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::cargo_tools::{DENY, Installation};
use crate::child;
use crate::project::Project;
use crate::steps::StepEnd;

const CHECK_TIMEOUT: Duration = Duration::from_secs(300);

/// Licences, sources, bans and wildcards. Advisories are left to the night: a change must not fail for one that was published
/// since.
pub(crate) fn check(project: &Project) -> Result<StepEnd> {
    run(project, &["bans", "licenses", "sources"])
}

/// The advisories, whose database cargo-deny fetches.
pub(crate) fn check_advisories(project: &Project) -> Result<StepEnd> {
    run(project, &["advisories"])
}

fn run(project: &Project, checks: &[&str]) -> Result<StepEnd> {
    let program = match DENY.install(project)? {
        Installation::Ready(program) => program,
        Installation::Unreachable(reason) => return Ok(StepEnd::Skipped(reason)),
    };
    let mut deny = Command::new(program);
    deny.current_dir(project.source(""))
        .args(["deny", "--workspace", "--all-features", "check"])
        .args(checks);
    child::run(&mut deny, CHECK_TIMEOUT)?;
    Ok(StepEnd::Passed)
}
