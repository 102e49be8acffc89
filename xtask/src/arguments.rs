//! What a person may ask for on the command line.

use std::time::Duration;

use anyhow::{Context, Result, bail};

pub(crate) const HELP: &str = "\
Usage: cargo xtask CHORE

  test [--quick] [--keep-going] [-- ARGS]
                      everything that must hold before a change is merged: format, lints, purity, tests, doctests, conformance,
                      the dashboard, dependencies. ARGS go to the test runner, for instance a part of a test's name
      --quick         leaves out the real MCP servers and the conformance suite: no network, nothing
                      installed
      --keep-going    goes on after a failed step
  nightly [--no-mutants | --mutants K/N]
                      what takes too long for every change: documents, public API, features, minimum Rust, the full exploration, old
                      SDKs, hosts, five minutes of chaos, awaken, packages, ten minutes of fuzzing, advisories, seeded faults, and the
                      mutants: all, none, or each Nth beginning with the Kth (from 0)
  partners            installs the real MCP servers and clients of the tests, under target/partners
  conformance         the MCP conformance suite against the library as a client, and against a server
                      behind the gateway
  dashboard [--load [SECONDS]]
                      the dashboard in a real browser (Chromium); screenshots go to target/dashboard. With --load its speed and memory
                      are measured instead, with 200 servers under change for so many seconds (60)
  bench [ARGS]        the benchmarks of the library and of the gateway
  rivals              installs what the gateway is measured beside, under target/rivals
  awaken              the MCP client of awaken behind `mainstay connect`; builds its own crates, under target/awaken
  packages            builds the packages of other registries from a release build, installs and tests them: npm, and Python (3.10 and
                      3.13)
  chaos [--seconds N] [--seed S]
                      the chaos tests for N seconds each (default 60); the seed replays a run
  fuzz [--seconds N | --minutes N]
                      the fuzz targets, one after the other, for so long in all (default: a minute)
  seeded [PART]       seeds faults into the lifecycle machine, one after the other, and shows which tests find each: all, or those
                      whose name or file contains PART
  public-api          writes the listings of the public API, crates/*/public-api.txt
  help                this text";

const DEFAULT_CHAOS_SECONDS: u64 = 60;

/// How long all fuzz targets run together by default.
pub(crate) const FUZZ_TIME: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    Help,
    Test(TestOptions),
    Nightly(NightlyOptions),
    Partners,
    Rivals,
    Awaken,
    Packages,
    Conformance,
    Dashboard(DashboardOptions),
    Bench { passed_on: Vec<String> },
    Chaos(ChaosOptions),
    Fuzz { time: Duration },
    Seeded { part: String },
    PublicApi,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TestOptions {
    pub(crate) quick: bool,
    pub(crate) keep_going: bool,
    pub(crate) passed_on: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NightlyOptions {
    /// The share of the mutants, as `K/N`; `None` for none.
    pub(crate) mutants: Option<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DashboardOptions {
    /// Measures under change, for so many seconds.
    pub(crate) load_seconds: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChaosOptions {
    pub(crate) seconds: u64,
    pub(crate) seed: Option<u64>,
}

pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Chore> {
    let Some(chore) = arguments.next() else {
        return Ok(Chore::Help);
    };
    match chore.as_str() {
        "help" | "--help" | "-h" => Ok(Chore::Help),
        "test" => parse_test(arguments).map(Chore::Test),
        "nightly" => parse_nightly(arguments).map(Chore::Nightly),
        "partners" => alone(Chore::Partners, &chore, arguments),
        "rivals" => alone(Chore::Rivals, &chore, arguments),
        "awaken" => alone(Chore::Awaken, &chore, arguments),
        "packages" => alone(Chore::Packages, &chore, arguments),
        "conformance" => alone(Chore::Conformance, &chore, arguments),
        "dashboard" => parse_dashboard(arguments).map(Chore::Dashboard),
        "bench" => Ok(Chore::Bench {
            passed_on: arguments.collect(),
        }),
        "chaos" => parse_chaos(arguments).map(Chore::Chaos),
        "fuzz" => parse_fuzz(arguments).map(|time| Chore::Fuzz { time }),
        "seeded" => {
            let part = arguments.next().unwrap_or_default();
            alone(Chore::Seeded { part }, &chore, arguments)
        }
        "public-api" => alone(Chore::PublicApi, &chore, arguments),
        unknown => bail!("no chore is named {unknown:?}"),
    }
}

/// A chore that takes no argument.
fn alone(chore: Chore, name: &str, mut arguments: impl Iterator<Item = String>) -> Result<Chore> {
    match arguments.next() {
        Some(unknown) => bail!("{name} takes no argument, and got {unknown:?}"),
        None => Ok(chore),
    }
}

fn parse_test(mut arguments: impl Iterator<Item = String>) -> Result<TestOptions> {
    let mut options = TestOptions::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.quick = true,
            "--keep-going" => options.keep_going = true,
            "--" => options.passed_on = arguments.by_ref().collect(),
            unknown => bail!("test does not know {unknown:?}; what follows -- goes to the test runner"),
        }
    }
    Ok(options)
}

fn parse_nightly(mut arguments: impl Iterator<Item = String>) -> Result<NightlyOptions> {
    let mut options = NightlyOptions {
        mutants: Some("0/1".to_owned()),
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--no-mutants" => options.mutants = None,
            "--mutants" => {
                let share = arguments.next().filter(|share| is_share(share));
                options.mutants = Some(share.context("--mutants needs K/N with K below N")?);
            }
            unknown => bail!("nightly does not know {unknown:?}"),
        }
    }
    Ok(options)
}

fn parse_dashboard(mut arguments: impl Iterator<Item = String>) -> Result<DashboardOptions> {
    const DEFAULT_SECONDS: u64 = 60;
    let mut options = DashboardOptions::default();
    match arguments.next().as_deref() {
        None => return Ok(options),
        Some("--load") => {}
        Some(unknown) => bail!("dashboard does not know {unknown:?}"),
    }
    let seconds = arguments.next();
    let seconds = seconds.map_or(Ok(DEFAULT_SECONDS), |seconds| seconds.parse());
    options.load_seconds = Some(seconds.context("--load takes a number of seconds")?);
    match arguments.next() {
        Some(unknown) => bail!("dashboard does not know {unknown:?}"),
        None => Ok(options),
    }
}

fn parse_chaos(mut arguments: impl Iterator<Item = String>) -> Result<ChaosOptions> {
    let mut options = ChaosOptions {
        seconds: DEFAULT_CHAOS_SECONDS,
        seed: None,
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => options.seconds = number(&argument, &mut arguments)?,
            "--seed" => options.seed = Some(number(&argument, &mut arguments)?),
            unknown => bail!("chaos does not know {unknown:?}"),
        }
    }
    Ok(options)
}

fn parse_fuzz(mut arguments: impl Iterator<Item = String>) -> Result<Duration> {
    let mut time = FUZZ_TIME;
    while let Some(argument) = arguments.next() {
        let unit = match argument.as_str() {
            "--seconds" => 1,
            "--minutes" => 60,
            unknown => bail!("fuzz does not know {unknown:?}"),
        };
        time = Duration::from_secs(number(&argument, &mut arguments)?.saturating_mul(unit));
    }
    Ok(time)
}

/// Whether this is a share like `1/8`: the second of eight.
fn is_share(text: &str) -> bool {
    let numbers = text
        .split_once('/')
        .and_then(|(share, shares)| Some((share.parse::<usize>().ok()?, shares.parse::<usize>().ok()?)));
    numbers.is_some_and(|(share, shares)| share < shares)
}

fn number(argument: &str, arguments: &mut impl Iterator<Item = String>) -> Result<u64> {
    let value = arguments
        .next()
        .with_context(|| format!("{argument} needs a number"))?;
    value
        .parse()
        .with_context(|| format!("{argument} needs a number, and got {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::{ChaosOptions, Chore, Duration, FUZZ_TIME, Result, TestOptions, parse};

    fn parsed(line: &str) -> Result<Chore> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn no_argument_asks_for_help() {
        assert_eq!(parsed("").unwrap(), Chore::Help);
    }

    #[test]
    fn what_follows_two_dashes_goes_to_the_test_runner_untouched() {
        let expected = TestOptions {
            quick: true,
            keep_going: false,
            passed_on: vec!["--keep-going".into(), "--".into()],
        };
        assert_eq!(
            parsed("test --quick -- --keep-going --").unwrap(),
            Chore::Test(expected)
        );
    }

    #[test]
    fn an_unknown_option_is_refused_and_not_passed_on() {
        assert!(parsed("test --quik").is_err());
        assert!(parsed("chaos --second 3").is_err());
        assert!(parsed("partners now").is_err());
        assert!(parsed("rivals now").is_err());
        assert!(parsed("conformance now").is_err());
        assert!(parsed("tset").is_err());
    }

    #[test]
    fn chaos_takes_its_length_and_its_seed() {
        let expected = ChaosOptions {
            seconds: 5,
            seed: Some(7),
        };
        assert_eq!(
            parsed("chaos --seed 7 --seconds 5").unwrap(),
            Chore::Chaos(expected)
        );
        assert!(parsed("chaos --seconds").is_err());
        assert!(parsed("chaos --seconds soon").is_err());
    }

    #[test]
    fn fuzzing_takes_a_minute_unless_told_otherwise() {
        let fuzz = |line: &str| match parsed(line) {
            Ok(Chore::Fuzz { time }) => Some(time),
            _other => None,
        };
        assert_eq!(fuzz("fuzz"), Some(FUZZ_TIME));
        assert_eq!(fuzz("fuzz --minutes 60"), Some(Duration::from_secs(3600)));
        assert_eq!(fuzz("fuzz --seconds 5"), Some(Duration::from_secs(5)));
        assert_eq!(fuzz("fuzz --hours 5"), None);
    }

    #[test]
    fn a_night_takes_all_mutants_a_share_of_them_or_none() {
        let mutants = |line: &str| match parsed(line) {
            Ok(Chore::Nightly(options)) => options.mutants,
            other => panic!("{other:?}"),
        };
        assert_eq!(mutants("nightly").as_deref(), Some("0/1"));
        assert_eq!(mutants("nightly --mutants 1/8").as_deref(), Some("1/8"));
        assert_eq!(mutants("nightly --no-mutants"), None);
        assert!(parsed("nightly --mutants 8/8").is_err());
        assert!(parsed("nightly --mutants").is_err());
    }
}
