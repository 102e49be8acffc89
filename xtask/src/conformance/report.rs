//! What became of every scenario, beside what was expected of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What became of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed(String),
}

impl Verdict {
    /// A pass, unless there is a reason against it.
    pub(super) fn unless(self, reason: impl FnOnce() -> Option<String>) -> Self {
        match self {
            Self::Passed => reason().map_or(Self::Passed, Self::Failed),
            Self::Failed(why) => Self::Failed(why),
        }
    }
}

/// A version, and the verdicts of its scenarios.
type Version = (String, BTreeMap<String, Verdict>);

const HEAD: &str = "scenario";

/// The verdicts of all versions.
pub(super) struct Report {
    expected: BTreeSet<String>,
    versions: Vec<Version>,
    /// The scenarios in the order in which they first came.
    scenarios: Vec<String>,
}

impl Report {
    /// A report for which these scenarios are expected to fail, whatever the version.
    pub(super) fn new(expected: Vec<String>) -> Self {
        Self {
            expected: expected.into_iter().collect(),
            versions: Vec::new(),
            scenarios: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, version: &str, verdicts: Vec<(String, Verdict)>) {
        for (scenario, _) in &verdicts {
            if !self.scenarios.contains(scenario) {
                self.scenarios.push(scenario.clone());
            }
        }
        self.versions
            .push((version.to_owned(), verdicts.into_iter().collect()));
    }

    /// Everything that is not as expected, one line for each.
    pub(super) fn wrong(&self) -> Vec<String> {
        let verdicts = self.versions.iter().flat_map(|(version, verdicts)| {
            verdicts.iter().filter_map(move |(scenario, verdict)| {
                let wrong = match (verdict, self.expected.contains(scenario)) {
                    (Verdict::Passed, false) | (Verdict::Failed(_), true) => return None,
                    (Verdict::Passed, true) => "passes, and is expected to fail: strike it off",
                    (Verdict::Failed(why), false) => why,
                };
                Some(format!("{version} {scenario}: {wrong}"))
            })
        });
        let unknown = self
            .expected
            .iter()
            .filter(|scenario| !self.scenarios.contains(scenario));
        let unknown = unknown.map(|scenario| format!("{scenario}: expected to fail, and no such scenario"));
        verdicts.chain(unknown).collect()
    }

    fn word(&self, scenario: &str, verdict: Option<&Verdict>) -> &'static str {
        match (verdict, self.expected.contains(scenario)) {
            (None, _) => "",
            (Some(Verdict::Passed), false) => "passed",
            (Some(Verdict::Passed), true) => "PASSED",
            (Some(Verdict::Failed(_)), false) => "FAILED",
            (Some(Verdict::Failed(_)), true) => "expected",
        }
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, head: &str, cell: impl Fn(&Version) -> String) -> fmt::Result {
        let heads = self.scenarios.iter().map(String::as_str).chain([HEAD]);
        let width = heads.map(str::len).max().unwrap_or_default();
        let cells: String = self
            .versions
            .iter()
            .map(|version| format!("  {:<10}", cell(version)))
            .collect();
        writeln!(f, "{}", format!("{head:<width$}{cells}").trim_end())
    }
}

/// A table: a row for each scenario, a column for each version, and how many passed of all that count.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row(f, HEAD, |(version, _)| version.clone())?;
        for scenario in &self.scenarios {
            self.row(f, scenario, |(_, verdicts)| {
                self.word(scenario, verdicts.get(scenario)).to_owned()
            })?;
        }
        self.row(f, "passed", |(_, verdicts)| {
            let passed = verdicts.values().filter(|verdict| **verdict == Verdict::Passed);
            format!("{}/{}", passed.count(), verdicts.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Verdict};

    fn report(expected: &[&str]) -> Report {
        let failed = || Verdict::Failed("1 failed".to_owned());
        let mut report = Report::new(expected.iter().map(|&name| name.to_owned()).collect());
        let verdicts = |list: Vec<(&str, Verdict)>| {
            let named = list.into_iter().map(|(name, verdict)| (name.to_owned(), verdict));
            named.collect::<Vec<_>>()
        };
        report.add(
            "old",
            verdicts(vec![("calls", Verdict::Passed), ("auth/a", failed())]),
        );
        report.add(
            "new",
            verdicts(vec![("auth/a", failed()), ("headers", Verdict::Passed)]),
        );
        report
    }

    #[test]
    fn a_pass_does_not_stand_against_a_reason() {
        let failed = |why: &str| Verdict::Failed(why.to_owned());
        assert_eq!(Verdict::Passed.unless(|| None), Verdict::Passed);
        assert_eq!(Verdict::Passed.unless(|| Some("lost".to_owned())), failed("lost"));
        assert_eq!(
            failed("refused").unless(|| Some("lost".to_owned())),
            failed("refused")
        );
    }

    #[test]
    fn what_is_as_expected_is_not_wrong_and_is_shown() {
        let report = report(&["auth/a"]);
        assert_eq!(report.wrong(), [""; 0]);
        let expected = "\
scenario  old         new
calls     passed
auth/a    expected    expected
headers               passed
passed    1/2         1/2
";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    fn a_failure_that_nobody_expected_is_wrong_and_says_why() {
        let wrong = report(&[]).wrong();
        assert_eq!(wrong, ["old auth/a: 1 failed", "new auth/a: 1 failed"]);
    }

    #[test]
    fn an_expected_failure_that_passes_or_does_not_exist_is_wrong() {
        let wrong = report(&["auth/a", "calls", "gone"]).wrong();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("old calls: passes") && wrong[1].starts_with("gone: "));
    }
}
