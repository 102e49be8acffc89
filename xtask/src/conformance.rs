//! `cargo xtask conformance`: the MCP conformance suite, pinned in `tests/conformance`, asks of the library what each
//! protocol version requires of clients, and of a server behind the gateway what it requires of servers.
//!
//! What is known to fail stands in `expected-failures.yaml`, and must fail: a scenario that begins to pass is to be struck
//! off.

mod client;
mod report;
mod server;
mod suite;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::project::Project;
use crate::{child, npm, tools};
use report::ConformanceReport;
use suite::Suite;

const SOURCE: &str = "tests/conformance";
const EXPECTED: &str = "tests/conformance/expected-failures.yaml";

/// The protocol versions that the suite has requirements for, one of each era.
const VERSIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

const BUILD_WITHIN: Duration = Duration::from_secs(1200);

/// Runs all scenarios of all versions for both sides, and shows what became of each.
pub(crate) fn run(project: &Project) -> Result<()> {
    tools::ensure_partner_tools()?;
    let home = project.built("conformance/npm");
    npm::install(project, SOURCE, &home).context("cannot install the conformance suite from npm")?;
    // As a part of the workspace, so that it is built with what the tests were built with.
    let mut build = project.cargo();
    build.args(["build", "--workspace", "--bins", "--example", client::CLIENT]);
    child::run(&mut build, BUILD_WITHIN)?;

    let suite = Suite::installed(&home, project.built("conformance/results"));
    let expected = suite::read(&project.source(EXPECTED))?;
    let client = suite::entries(&expected, "client");
    let server = suite::entries(&expected, "server");
    let mut wrong = Vec::new();
    wrong.extend(judged(&[client::run(project, &suite, &client)?], &client));
    wrong.extend(judged(&server::run(project, &suite, &server)?, &server));
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "not as expected in {EXPECTED}:\n  {}\ndetails are in {}",
        wrong.join("\n  "),
        project.built("conformance/results").display()
    )
}

/// Shows what became of one side's scenarios, and returns what is not as expected.
fn judged(reports: &[ConformanceReport], expected: &[String]) -> Vec<String> {
    for report in reports {
        println!("{report}");
    }
    let unknown = ConformanceReport::unknown(reports, expected);
    let unknown = unknown
        .into_iter()
        .map(|scenario| format!("{scenario}: expected to fail, and no such scenario"));
    reports
        .iter()
        .flat_map(ConformanceReport::wrong)
        .chain(unknown)
        .collect()
}
