//! Runs tests against one mutant at a time: only those that reach it, the fastest first, until one fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::workshop::TestProgram;
use crate::child;

const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long a test may take without a mutant.
const BASELINE_TIMEOUT: Duration = Duration::from_secs(120);
/// With a mutant, a test may take this much longer, and then this many times as long: the machine may be busy.
const HANG_GRACE: Duration = Duration::from_secs(10);
const HANG_FACTOR: u32 = 5;

/// A test as it is without a mutant.
#[derive(Debug)]
pub(crate) struct TestCase {
    program: TestProgram,
    pub(crate) name: String,
    pub(crate) time: Duration,
    reaches: BTreeSet<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MutantVerdict {
    /// A test failed, and failed again.
    Caught { by: String },
    /// A test did not end.
    TimedOut { by: String },
    /// Every test passed that reaches it.
    Missed { tests: usize },
}

impl fmt::Display for MutantVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught { by } => write!(f, "caught by {by}"),
            Self::TimedOut { by } => write!(f, "timed out in {by}"),
            Self::Missed { tests } => write!(f, "missed by {tests} tests"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TestEnd {
    Passed,
    Failed,
    TimedOut,
}

/// How often each test caught a mutant of each file: it will catch more there.
pub(crate) type Catches = Mutex<BTreeMap<(String, String), u32>>;

impl TestCase {
    /// Runs each test once, without a mutant, and notes which mutants it reaches. Tests that fail are left out, and returned by name.
    pub(crate) fn all(
        programs: &[TestProgram],
        traces: &Path,
        jobs: usize,
    ) -> Result<(Vec<Self>, Vec<String>)> {
        fs::create_dir_all(traces)?;
        let mut names = Vec::new();
        for program in programs {
            names.extend(program.tests()?.into_iter().map(|name| (program, name)));
        }
        let tried = in_parallel(jobs, &names, |number, (program, name)| {
            let trace = traces.join(number.to_string());
            let _ = fs::remove_file(&trace);
            let begun = Instant::now();
            let end = run(
                program,
                name,
                ("MUTANT_TRACE", &trace.display().to_string()),
                BASELINE_TIMEOUT,
            )?;
            let case = Self {
                program: (*program).clone(),
                name: name.clone(),
                time: begun.elapsed(),
                // A test that reaches no mutant writes no trace.
                reaches: fs::read_to_string(&trace)
                    .unwrap_or_default()
                    .lines()
                    .flat_map(str::parse)
                    .collect(),
            };
            Ok((case, end))
        })?;
        let (passed, failed): (Vec<_>, Vec<_>) =
            tried.into_iter().partition(|(_, end)| *end == TestEnd::Passed);
        let passed = passed.into_iter().map(|(case, _)| case);
        Ok((
            passed.filter(|case| !case.reaches.is_empty()).collect(),
            failed.into_iter().map(|(case, _)| case.title()).collect(),
        ))
    }

    pub(crate) fn title(&self) -> String {
        format!("{}::{}", self.program.name, self.name)
    }

    /// Runs it with this mutant, or with none.
    fn run_with(&self, mutant: Option<usize>) -> Result<TestEnd> {
        let timeout = HANG_GRACE + self.time * HANG_FACTOR;
        let mutant = mutant.map_or_else(|| "none".to_owned(), |mutant| mutant.to_string());
        run(&self.program, &self.name, ("MUTANT", &mutant), timeout)
    }
}

/// Tests one mutant.
pub(crate) fn judge(
    mutant: usize,
    file: &str,
    cases: &[TestCase],
    catches: &Catches,
) -> Result<MutantVerdict> {
    let mut reaching: Vec<&TestCase> = cases
        .iter()
        .filter(|case| case.reaches.contains(&mutant))
        .collect();
    let key = |case: &TestCase| (file.to_owned(), case.title());
    {
        let catches = catches.lock().expect("no holder panics");
        reaching.sort_by_cached_key(|case| case.time / (1 + catches.get(&key(case)).copied().unwrap_or(0)));
    }
    for case in &reaching {
        let end = match case.run_with(Some(mutant))? {
            // A test that fails now and then is no witness.
            TestEnd::Failed => case.run_with(Some(mutant))?,
            // Nor is one that is too slow without a mutant now, since the machine is busier than it was.
            TestEnd::TimedOut if case.run_with(None)? != TestEnd::Passed => TestEnd::Passed,
            end @ (TestEnd::Passed | TestEnd::TimedOut) => end,
        };
        let by = case.title();
        match end {
            TestEnd::Passed => {}
            TestEnd::Failed => {
                *catches
                    .lock()
                    .expect("no holder panics")
                    .entry(key(case))
                    .or_default() += 1;
                return Ok(MutantVerdict::Caught { by });
            }
            TestEnd::TimedOut => return Ok(MutantVerdict::TimedOut { by }),
        }
    }
    Ok(MutantVerdict::Missed {
        tests: reaching.len(),
    })
}

/// Runs one test in a process of its own.
fn run(program: &TestProgram, name: &str, variable: (&str, &str), timeout: Duration) -> Result<TestEnd> {
    let mut command = Command::new(&program.path);
    command
        .args(["--exact", name, "--test-threads", "1"])
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory)
        .env("MAINSTAY_EXPLORE", "small")
        .env(variable.0, variable.1)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = child::spawn(&mut command)?;
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().context("cannot wait for a test")? {
            return Ok(if status.success() {
                TestEnd::Passed
            } else {
                TestEnd::Failed
            });
        }
        thread::sleep(POLL_INTERVAL);
    }
    child::end(&mut child)?;
    Ok(TestEnd::TimedOut)
}

/// Does the same with each item, a few at a time, and keeps their order. The first error ends it.
pub(crate) fn in_parallel<Item: Sync, Output: Send>(
    jobs: usize,
    items: &[Item],
    act: impl Fn(usize, &Item) -> Result<Output> + Sync,
) -> Result<Vec<Output>> {
    let next = Mutex::new(0..items.len());
    let done = Mutex::new(BTreeMap::new());
    let work = || -> Result<()> {
        loop {
            let Some(number) = next.lock().expect("no holder panics").next() else {
                return Ok(());
            };
            let output = act(number, &items[number])?;
            done.lock().expect("no holder panics").insert(number, output);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let done = done.into_inner().expect("no holder panics");
    Ok(done.into_values().collect())
}
