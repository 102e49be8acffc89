//! What became of every scenario, beside what was expected of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What became of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScenarioVerdict {
    Passed,
    Failed(String),
}

impl ScenarioVerdict {
    /// A pass, unless there is a reason against it.
    pub(super) fn unless(self, reason: impl FnOnce() -> Option<String>) -> Self {
        match self {
            Self::Passed => reason().map_or(Self::Passed, Self::Failed),
            Self::Failed(why) => Self::Failed(why),
        }
    }
}

/// One run of the suite: what became of its scenarios, and which of them are expected to fail.
struct Column {
    head: String,
    expected: BTreeSet<String>,
    verdicts: BTreeMap<String, ScenarioVerdict>,
}

const HEAD: &str = "scenario";

/// The verdicts of several runs, side by side.
pub(super) struct ConformanceReport {
    title: String,
    columns: Vec<Column>,
    /// The scenarios in the order in which they first came.
    scenarios: Vec<String>,
}

impl ConformanceReport {
    pub(super) fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            columns: Vec::new(),
            scenarios: Vec::new(),
        }
    }

    /// Adds a run of which these scenarios are expected to fail, as far as they are part of it.
    pub(super) fn add(&mut self, head: &str, expected: &[String], verdicts: Vec<(String, ScenarioVerdict)>) {
        for (scenario, _) in &verdicts {
            if !self.scenarios.contains(scenario) {
                self.scenarios.push(scenario.clone());
            }
        }
        self.columns.push(Column {
            head: head.to_owned(),
            expected: expected.iter().cloned().collect(),
            verdicts: verdicts.into_iter().collect(),
        });
    }

    /// Everything that is not as expected, one line for each.
    pub(super) fn wrong(&self) -> Vec<String> {
        let verdicts = self.columns.iter().flat_map(|column| {
            column.verdicts.iter().filter_map(|(scenario, verdict)| {
                let wrong = match (verdict, column.expected.contains(scenario)) {
                    (ScenarioVerdict::Passed, false) | (ScenarioVerdict::Failed(_), true) => return None,
                    (ScenarioVerdict::Passed, true) => "passes, and is expected to fail: strike it off",
                    (ScenarioVerdict::Failed(why), false) => why,
                };
                Some(format!("{}, {}: {scenario}: {wrong}", self.title, column.head))
            })
        });
        verdicts.collect()
    }

    /// Those that are expected to fail and are no scenario of any of these reports.
    pub(super) fn unknown<'a>(reports: &[Self], expected: &'a [String]) -> Vec<&'a String> {
        let is_known = |scenario: &String| reports.iter().any(|report| report.scenarios.contains(scenario));
        expected.iter().filter(|scenario| !is_known(scenario)).collect()
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, head: &str, cell: impl Fn(&Column) -> String) -> fmt::Result {
        let heads = self.scenarios.iter().map(String::as_str).chain([HEAD]);
        let width = heads.map(str::len).max().unwrap_or_default();
        let cells: String = self
            .columns
            .iter()
            .map(|column| format!("  {:<width$}", cell(column), width = column.head.len().max(10)))
            .collect();
        writeln!(f, "{}", format!("{head:<width$}{cells}").trim_end())
    }
}

impl Column {
    fn word(&self, scenario: &str) -> &'static str {
        match (self.verdicts.get(scenario), self.expected.contains(scenario)) {
            (None, _) => "",
            (Some(ScenarioVerdict::Passed), false) => "passed",
            (Some(ScenarioVerdict::Passed), true) => "PASSED",
            (Some(ScenarioVerdict::Failed(_)), false) => "FAILED",
            (Some(ScenarioVerdict::Failed(_)), true) => "expected",
        }
    }

    fn passed(&self) -> String {
        let passed = self
            .verdicts
            .values()
            .filter(|verdict| **verdict == ScenarioVerdict::Passed);
        format!("{}/{}", passed.count(), self.verdicts.len())
    }
}

/// A table: a row for each scenario, a column for each run, and how many passed of all that count.
impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        self.row(f, HEAD, |column| column.head.clone())?;
        for scenario in &self.scenarios {
            self.row(f, scenario, |column| column.word(scenario).to_owned())?;
        }
        self.row(f, "passed", Column::passed)
    }
}

#[cfg(test)]
mod tests {
    use super::{ConformanceReport, ScenarioVerdict};

    fn report(expected: &[&str]) -> ConformanceReport {
        let failed = || ScenarioVerdict::Failed("1 failed".to_owned());
        let expected: Vec<_> = expected.iter().map(|&name| name.to_owned()).collect();
        let mut report = ConformanceReport::new("suite");
        let verdicts = |list: Vec<(&str, ScenarioVerdict)>| {
            let named = list.into_iter().map(|(name, verdict)| (name.to_owned(), verdict));
            named.collect::<Vec<_>>()
        };
        report.add(
            "old",
            &expected,
            verdicts(vec![("calls", ScenarioVerdict::Passed), ("auth/a", failed())]),
        );
        report.add(
            "new",
            &expected,
            verdicts(vec![("auth/a", failed()), ("headers", ScenarioVerdict::Passed)]),
        );
        report
    }

    #[test]
    fn a_pass_does_not_stand_against_a_reason() {
        let failed = |why: &str| ScenarioVerdict::Failed(why.to_owned());
        assert_eq!(ScenarioVerdict::Passed.unless(|| None), ScenarioVerdict::Passed);
        assert_eq!(
            ScenarioVerdict::Passed.unless(|| Some("lost".to_owned())),
            failed("lost")
        );
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
suite
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
        assert_eq!(
            wrong,
            ["suite, old: auth/a: 1 failed", "suite, new: auth/a: 1 failed"]
        );
    }

    #[test]
    fn an_expected_failure_that_passes_or_does_not_exist_is_wrong() {
        let wrong = report(&["auth/a", "calls"]).wrong();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].starts_with("suite, old: calls: passes"));
        let expected = ["calls", "gone"].map(str::to_owned);
        assert_eq!(ConformanceReport::unknown(&[report(&[])], &expected), ["gone"]);
    }
}
