//! The licences and sources of what is depended on: `cargo deny`, by the rules of `deny.toml`.
//!
//! Advisories are left to a person or a scheduled job (`cargo deny check advisories`): they are fetched from a database that
//! grows every day, and a change must not fail for what somebody published since.

use std::time::Duration;

use anyhow::Result;

use crate::child;
use crate::project::Project;

const LOOK_WITHIN: Duration = Duration::from_secs(30);
const CHECK_WITHIN: Duration = Duration::from_secs(300);

pub(crate) fn check(project: &Project) -> Result<()> {
    if !child::succeeds(project.cargo().args(["deny", "--version"]), LOOK_WITHIN) {
        println!(
            "cargo-deny is not installed, so licences and sources are not checked (cargo install cargo-deny)"
        );
        return Ok(());
    }
    let mut cargo = project.cargo();
    child::run(
        cargo.args(["deny", "--workspace", "check", "bans", "licenses", "sources"]),
        CHECK_WITHIN,
    )
}
