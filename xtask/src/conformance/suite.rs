//! Reading what the suite writes: its lists of scenarios, its summary, and what the client said in each scenario.

use std::fs;
use std::path::{Path, PathBuf};

use super::report::Verdict;

/// What the client says last when it did all that it should.
const COMPLETED: &str = "completed";

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
pub(super) fn verdict(said: &str, scenario: &str) -> Verdict {
    let of = |mark: &str| {
        let head = format!("{mark} {scenario}: ");
        said.lines().find_map(|line| line.strip_prefix(&head))
    };
    match (of("✓"), of("✗")) {
        (Some(_), None) => Verdict::Passed,
        (_, Some(counts)) => Verdict::Failed(counts.to_owned()),
        (None, None) => Verdict::Failed("the suite did not come to it".to_owned()),
    }
}

/// What kept the client from completing a scenario, in its own last words.
pub(super) fn client_failure(results: &Path, scenario: &str) -> Option<String> {
    let directory = directory(results, scenario);
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

/// Where the suite put the results: `auth/some-scenario-2026-07-28T01-02-03-456Z`.
fn directory(results: &Path, scenario: &str) -> Option<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::{Verdict, client_failure, entries, fs, verdict};

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
        assert_eq!(verdict(said, "tools"), Verdict::Passed);
        let warned = Verdict::Failed("7 passed, 0 failed, 1 warnings".to_owned());
        assert_eq!(verdict(said, "tools-2"), warned);
        assert!(matches!(verdict(said, "extra"), Verdict::Failed(_)));
    }

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
        let failure = |scenario: &str| client_failure(&results, scenario);
        let (one, more, none) = (failure("auth/one"), failure("auth/one-more"), failure("none"));
        fs::remove_dir_all(&results).unwrap();
        assert_eq!(one, None);
        assert!(more.unwrap().ends_with(": last words"));
        assert!(none.is_some());
    }
}
