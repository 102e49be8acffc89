//! `cargo xtask conformance`: the MCP conformance suite, pinned in `tests/conformance`, drives the library's client through
//! what each protocol version requires of clients.
//!
//! A scenario passes when the suite says so and the client says that it completed: the suite looks at what a client
//! sends, and would not see a call whose answer is lost. What is known to fail stands in `expected-failures.yaml`, and
//! must fail: a scenario that begins to pass is to be struck off.

mod report;
mod suite;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::project::Project;
use crate::{child, npm, tools};
use report::{Report, Verdict};

const SOURCE: &str = "tests/conformance";
const EXPECTED: &str = "tests/conformance/expected-failures.yaml";
const CLIENT: &str = "conformance_client";

/// The protocol versions that the suite has requirements for, one of each era.
const VERSIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

const BUILD_WITHIN: Duration = Duration::from_secs(1200);
/// One version's scenarios run side by side, and the suite gives each half a minute.
const SUITE_WITHIN: Duration = Duration::from_secs(120);

/// Runs all scenarios of all versions, and shows what became of each.
pub(crate) fn run(project: &Project) -> Result<()> {
    tools::ensure_partner_tools()?;
    let home = project.built("conformance/npm");
    npm::install(project, SOURCE, &home).context("cannot install the conformance suite from npm")?;
    // As a part of the workspace, so that it is built with what the tests were built with.
    let mut build = project.cargo();
    build.args(["build", "--workspace", "--example", CLIENT]);
    child::run(&mut build, BUILD_WITHIN)?;

    let expected = suite::entries(&read(&project.source(EXPECTED))?, "client");
    let mut report = Report::new(expected);
    for version in VERSIONS {
        let results = project.built("conformance/results").join(version);
        report.add(version, verdicts(project, &home, version, &results)?);
    }
    println!("{report}");
    let wrong = report.wrong();
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "not as expected in {EXPECTED}:\n  {}\ndetails are in {}",
        wrong.join("\n  "),
        project.built("conformance/results").display()
    )
}

/// Drives the client through what one version requires.
fn verdicts(project: &Project, home: &Path, version: &str, results: &Path) -> Result<Vec<(String, Verdict)>> {
    let package = home.join("node_modules/@modelcontextprotocol/conformance");
    let required = read(&package.join(format!("requirements/{version}.yaml")))?;
    let required = suite::entries(&required, "client");
    if required.is_empty() {
        bail!("the suite requires nothing of clients for {version}");
    }
    if results.exists() {
        fs::remove_dir_all(results).context("cannot remove old results")?;
    }
    fs::create_dir_all(results).context("cannot make room for results")?;
    let log = File::create(results.join("suite.log")).context("cannot write the suite's log")?;

    let mut suite = Command::new(npm::node(home));
    suite
        .arg(package.join("dist/index.js"))
        // The suite takes this line apart at its spaces, so it must have no path in it.
        .args(["client", "--command", &format!("./{CLIENT}")])
        .args(["--requirements", version, "--output-dir"])
        .arg(results)
        .current_dir(project.built("debug/examples"))
        .env("NO_PROXY", "localhost")
        .stderr(log);
    // How it ends does not matter: it calls what is expected a failure, too.
    let (said, _status) = child::said(&mut suite, SUITE_WITHIN)?;
    let verdict = |scenario: String| {
        let verdict = suite::verdict(&said, &scenario).unless(|| suite::client_failure(results, &scenario));
        (scenario, verdict)
    };
    Ok(required.into_iter().map(verdict).collect())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
