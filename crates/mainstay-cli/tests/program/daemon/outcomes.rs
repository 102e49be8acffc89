//! What became of calls whose effects must not be repeated, held against what their server did.

use std::collections::BTreeMap;

use mainstay_testkit::Ledger;
use serde_json::Value;

/// What became of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Answered,
    Unknown,
    NotSent,
}

/// What became of each call, by its key.
pub(super) type Calls = BTreeMap<String, Ended>;

impl Ended {
    #[track_caller]
    pub(super) fn of(result: &Value) -> Self {
        match result["_meta"]["mainstay"]["outcome"].as_str() {
            None if result["isError"] != true => Self::Answered,
            Some(outcome) => Self::read(outcome),
            None => panic!("{result}"),
        }
    }

    /// The same as the scripts of the real clients say it.
    #[track_caller]
    pub(super) fn read(outcome: &str) -> Self {
        match outcome {
            "answered" => Self::Answered,
            "unknown" => Self::Unknown,
            "not_sent" => Self::NotSent,
            other => panic!("a call ended as {other:?}"),
        }
    }
}

/// Holds the calls against the ledgers of the servers: no call ran twice, and none ran that is said not to have run.
#[track_caller]
pub(super) fn check(calls: &Calls, ledgers: &[&Ledger]) {
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for key in ledgers.iter().flat_map(|ledger| ledger.after("call append")) {
        *runs.entry(key).or_default() += 1;
    }
    for (key, ended) in calls {
        let runs = runs.get(key).copied().unwrap_or(0);
        match ended {
            Ended::Answered => assert_eq!(runs, 1, "{key} was answered"),
            Ended::Unknown => assert!(runs <= 1, "{key} ran {runs} times"),
            Ended::NotSent => assert_eq!(runs, 0, "{key} did not run"),
        }
    }
}
