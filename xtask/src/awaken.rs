//! `cargo xtask awaken`: awaken's own MCP client behind `mainstay connect`, in a crate outside the workspace, `tests/awaken`.
//!
//! It builds some 300 crates that nothing else needs, so it is no part of `cargo xtask test`: `.ci/nightly` runs it.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::child;
use crate::project::Project;

const MANIFEST: &str = "tests/awaken/Cargo.toml";

/// The programs that the tests start: the variable that names each, its package and its name.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("MAINSTAY_PROGRAM", "mainstay-cli", "mainstay"),
    ("FAULTY_SERVER_PROGRAM", "mainstay-testkit", "faulty-server"),
];

const BUILD_WITHIN: Duration = Duration::from_secs(1200);
/// What its crates take to be fetched and built on a small machine, and the tests after that.
const TEST_WITHIN: Duration = Duration::from_secs(3600);

/// Builds what is missing and runs the tests, those of the document included.
pub(crate) fn run(project: &Project) -> Result<()> {
    let mut test = project.cargo();
    test.args(["test", "--locked", "--manifest-path"])
        .arg(project.source(MANIFEST))
        .env("CARGO_TARGET_DIR", project.built("awaken"));
    for (variable, package, program) in PROGRAMS {
        // With all of its programs: `mainstay` becomes its bridge if that lies beside it.
        let mut build = project.cargo();
        child::run(
            build.args(["build", "--package", package, "--bins"]),
            BUILD_WITHIN,
        )?;
        test.env(variable, project.built("debug").join(program));
    }
    child::run(&mut test, TEST_WITHIN).context("awaken does not do behind Mainstay what docs/awaken.md says")
}
