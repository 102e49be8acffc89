//! What is required of clients: the suite is the server, and starts a client for each scenario.
//!
//! A scenario passes when the suite says so and the client says that it completed: the suite looks at what a client
//! sends, and would not see a call whose answer is lost.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::VERSIONS;
use super::report::{ConformanceReport, ScenarioVerdict};
use super::suite::{Suite, directory, verdict};
use crate::project::Project;

/// The example that plays the client.
pub(super) const CLIENT: &str = "conformance_client";

/// What the client says last when it did all that it should.
const COMPLETED: &str = "completed";

pub(super) fn run(project: &Project, suite: &Suite, expected: &[String]) -> Result<ConformanceReport> {
    let mut report = ConformanceReport::new("the library as a client");
    let clients = project.built("debug/examples");
    for version in VERSIONS {
        report.add(version, expected, verdicts(&clients, suite, version)?);
    }
    Ok(report)
}

/// Extensions that no version requires and that Mainstay has all the same. The suite runs them with the others.
const EXTENSIONS: [&str; 4] = [
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
];

/// Drives the client through what one version requires, and through extensions.
fn verdicts(clients: &Path, suite: &Suite, version: &str) -> Result<Vec<(String, ScenarioVerdict)>> {
    let mut required = suite.required(version, "client")?;
    required.extend(EXTENSIONS.map(str::to_owned));
    let results = suite.results(&format!("client/{version}"))?;
    // The suite takes this line apart at its spaces, so it must have no path in it.
    let client = format!("./{CLIENT}");
    let said = suite.said(&["client", "--command", &client], version, &results, clients)?;
    let verdict = |scenario: String| {
        let verdict = verdict(&said, &scenario).unless(|| failure(&results, &scenario));
        (scenario, verdict)
    };
    Ok(required.into_iter().map(verdict).collect())
}

/// What kept the client from completing a scenario, in its own last words.
fn failure(results: &Path, scenario: &str) -> Option<String> {
    let directory: Option<PathBuf> = directory(results, scenario);
    let last = |file: &str| {
        let text = fs::read_to_string(directory.as_ref()?.join(file)).ok()?;
        text.lines().last().map(str::to_owned)
    };
    if last("stdout.txt").as_deref() == Some(COMPLETED) {
        return None;
    }
    let words = last("stderr.txt").unwrap_or_else(|| "it said nothing".to_owned());
    Some(format!("the client did not complete it: {words}"))
}

#[cfg(test)]
mod tests {
    use super::{failure, fs};

    #[test]
    fn a_client_that_does_not_say_that_it_completed_has_failed() {
        let results = std::env::temp_dir().join(format!("xtask-conformance-{}", std::process::id()));
        let write = |scenario: &str, stdout: &str, stderr: &str| {
            let directory = results.join(format!("{scenario}-2026-11-16T03-45-38-506Z"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("stdout.txt"), stdout).unwrap();
            fs::write(directory.join("stderr.txt"), stderr).unwrap();
        };
        write("auth/one", "completed\n", "a warning\n");
        write("auth/one-more", "hello\n", "first\nlast words\n");
        let failure = |scenario: &str| failure(&results, scenario);
        assert_eq!(failure("auth/one"), None);
        assert!(failure("auth/one-more").unwrap().ends_with("last words"));
        assert!(failure("auth/none").unwrap().ends_with("it said nothing"));
        fs::remove_dir_all(&results).unwrap();
    }
}
