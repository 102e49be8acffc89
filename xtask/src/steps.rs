//! Steps that run one after the other, with the time of each and a summary at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How a step ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepEnd {
    Passed,
    /// Nothing was checked, for this reason.
    Skipped(String),
}

impl From<()> for StepEnd {
    fn from((): ()) -> Self {
        Self::Passed
    }
}

/// Runs steps and remembers how each one ended.
pub(crate) struct Steps {
    started: Instant,
    keep_going: bool,
    rows: Vec<Row>,
}

struct Row {
    title: &'static str,
    took: Duration,
    /// `None` if an earlier step failed and this one was not run.
    end: Option<Result<StepEnd, String>>,
}

impl Steps {
    pub(crate) fn new(keep_going: bool) -> Self {
        Self {
            started: Instant::now(),
            keep_going,
            rows: Vec::new(),
        }
    }

    /// Runs one step, unless an earlier one failed and nobody asked to keep going.
    pub(crate) fn step<E: Into<StepEnd>>(&mut self, title: &'static str, run: impl FnOnce() -> Result<E>) {
        if !self.keep_going && self.failures() > 0 {
            self.rows.push(Row {
                title,
                took: Duration::ZERO,
                end: None,
            });
            return;
        }
        println!("\n=== {title} ===");
        let started = Instant::now();
        let end = run().map(Into::into).map_err(|error| format!("{error:#}"));
        let took = started.elapsed();
        let seconds = took.as_secs_f64();
        match &end {
            Ok(StepEnd::Passed) => println!("{title}: passed in {seconds:.1} s"),
            Ok(StepEnd::Skipped(reason)) => println!("{title}: skipped: {reason}"),
            Err(error) => eprintln!("{title}: failed after {seconds:.1} s: {error}"),
        }
        self.rows.push(Row {
            title,
            took,
            end: Some(end),
        });
    }

    /// Prints the summary. An error if a step failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n{}", self.table(self.started.elapsed()));
        match self.failures() {
            0 => Ok(()),
            failed => bail!("{failed} of {} steps failed", self.rows.len()),
        }
    }

    fn failures(&self) -> usize {
        let failed = self.rows.iter().filter(|row| matches!(row.end, Some(Err(_))));
        failed.count()
    }

    fn table(&self, total: Duration) -> String {
        let rows = self.rows.iter().map(|row| match &row.end {
            Some(Ok(StepEnd::Passed)) => line(row.title, "passed", Some(row.took)),
            Some(Ok(StepEnd::Skipped(reason))) => line(row.title, &format!("skipped: {reason}"), None),
            Some(Err(_)) => line(row.title, "FAILED", Some(row.took)),
            None => line(row.title, "not reached", None),
        });
        rows.chain([line("total", "", Some(total))])
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn line(title: &str, word: &str, took: Option<Duration>) -> String {
    let took = took
        .map(|took| format!("{:>8.1} s", took.as_secs_f64()))
        .unwrap_or_default();
    format!("{title:<20}{word:<12}{took}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Duration, Row, StepEnd, Steps};

    fn row(title: &'static str, millis: u64, end: Option<Result<StepEnd, String>>) -> Row {
        Row {
            title,
            took: Duration::from_millis(millis),
            end,
        }
    }

    #[test]
    fn the_summary_shows_every_step_and_how_it_ended() {
        let mut steps = Steps::new(false);
        steps.rows = vec![
            row("test partners", 0, Some(Ok(StepEnd::Skipped("--quick".into())))),
            row("format", 1250, Some(Ok(StepEnd::Passed))),
            row("lints", 20_000, Some(Err("a warning".into()))),
            row("tests", 0, None),
        ];
        let expected = "\
test partners       skipped: --quick
format              passed           1.2 s
lints               FAILED          20.0 s
tests               not reached
total                               21.5 s";
        assert_eq!(steps.table(Duration::from_millis(21_500)), expected);
        assert!(steps.finish().is_err());
    }

    #[test]
    fn steps_after_a_failure_run_only_if_asked_for() {
        for (keep_going, expected) in [(false, 0), (true, 1)] {
            let mut steps = Steps::new(keep_going);
            let mut runs = 0;
            steps.step("first", || Err::<(), _>(anyhow::anyhow!("broken")));
            steps.step("second", || {
                runs += 1;
                Ok(())
            });
            assert_eq!(runs, expected);
        }
    }
}
