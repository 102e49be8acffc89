//! Whoever wants the fleet to work.

use std::time::{Duration, Instant};

use mainstay::{CallError, CallOptions, Fleet, Generation, Outcome, RawJson, Replay, Reply, StateKind};
use mainstay_testkit::chaos::Dice;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::{NEVER_CALLED, SERVERS, name};

/// One call, and what its caller was told of it.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) key: String,
    pub(crate) server: usize,
    pub(crate) tool: &'static str,
    /// Whether it may be made twice.
    pub(crate) repeatable: bool,
    pub(crate) told: Told,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) enum Told {
    Result {
        generation: Generation,
        /// What the server said its process is, where it was asked.
        pid: Option<u64>,
    },
    Failed {
        outcome: Outcome,
        how: &'static str,
    },
    /// The caller did not wait.
    Dropped,
}

pub(crate) async fn call_until_over(
    fleet: Fleet,
    caller: usize,
    seed: u64,
    over: watch::Receiver<bool>,
) -> Vec<Made> {
    let mut dice = Dice::new(seed, caller);
    let mut calls = Vec::new();
    for call in 0.. {
        if *over.borrow() {
            break;
        }
        let key = format!("c{caller:02}-{call}");
        calls.extend(make(&fleet, key, &mut dice).await);
        tokio::time::sleep(Duration::from_millis(dice.below(20))).await;
    }
    calls
}

/// Makes one call, unless its server is gone from the fleet.
async fn make(fleet: &Fleet, key: String, dice: &mut Dice) -> Option<Made> {
    let server = dice.index(SERVERS - NEVER_CALLED);
    let (tool, hinted_safe, arguments) = choose(&key, dice);
    let mut options = CallOptions::default();
    let mut repeatable = hinted_safe;
    match dice.below(10) {
        0 => options = options.fail_fast(),
        1 => {
            options = options.replay(Replay::Never);
            repeatable = false;
        }
        2 => {
            let (to, _nobody_reads) = mpsc::channel(1);
            options = options.progress(to);
        }
        _ => {}
    }
    let impatient = (dice.below(30) == 0).then(|| Duration::from_millis(dice.below(20)));
    let by_public_name = dice.below(4) == 0;
    let handle = fleet.server(&name(server))?;
    let status = handle.status();
    let seen = status.generation.filter(|_| status.state == StateKind::Connected);

    let began = Instant::now();
    let call = async {
        if by_public_name {
            let tool = format!("{}__{tool}", name(server));
            fleet.call(&tool, &arguments, options).await
        } else {
            handle.call(tool, &arguments, options).await
        }
    };
    let answer = match impatient {
        Some(patience) => timeout(patience, call).await.ok(),
        None => Some(call.await),
    };
    let told = match answer {
        Some(Ok(reply)) => {
            assert!(
                Some(reply.generation) >= seen,
                "{key}: {seen:?} was there before {:?}",
                reply.generation
            );
            check(tool, &key, &reply)
        }
        Some(Err(error)) => Told::Failed {
            outcome: error.outcome(),
            how: kind(&error),
        },
        None => Told::Dropped,
    };
    Some(Made {
        key,
        server,
        tool,
        repeatable,
        told,
        took: began.elapsed(),
    })
}

/// A tool, whether its server hints that it may be run twice, and its arguments.
fn choose(key: &str, dice: &mut Dice) -> (&'static str, bool, Value) {
    match dice.below(1000) {
        0..150 => ("echo", true, json!({ "key": key })),
        150..300 => ("pid", true, json!({ "key": key })),
        300..400 => ("put", true, json!({ "key": key })),
        400..650 => ("append", false, json!({ "key": key })),
        650..700 => ("big", true, json!({ "key": key, "bytes": 100_000 })),
        700..800 => ("sleep_ms", true, json!({ "key": key, "ms": dice.below(60) })),
        800..805 => ("sleep_ms", true, json!({ "key": key, "ms": 5000 })),
        805..810 => ("slow_then_answer", true, json!({ "key": key, "ms": 1600 })),
        810..900 => (
            "progress",
            true,
            json!({ "key": key, "steps": 5, "interval_ms": 4 }),
        ),
        900..940 => ("fail", true, json!({ "key": key })),
        940..970 => ("refuse", true, json!({ "key": key })),
        970..980 => ("emit", false, json!({ "key": key, "times": 20 })),
        980..990 => ("crash", false, json!({ "key": key })),
        _ => ("commit_then_die", false, json!({ "key": key })),
    }
}

/// An answer must be the answer to this very call.
fn check(tool: &'static str, key: &str, reply: &Reply) -> Told {
    let result: Value = RawJson::parse(&reply.result).expect("a result is JSON");
    let content = &result["structuredContent"];
    match tool {
        "echo" | "put" | "append" => assert_eq!(content["key"], key, "the answer to another call: {result}"),
        "big" => assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(100_000)),
        "fail" => assert_eq!(result["isError"], true),
        _ => {}
    }
    Told::Result {
        generation: reply.generation,
        pid: content["pid"].as_u64(),
    }
}

fn kind(error: &CallError) -> &'static str {
    match error {
        CallError::NotConnected(_) => "not connected",
        CallError::WaitTimedOut { .. } => "wait timed out",
        CallError::TooManyWaiting { .. } => "too many waiting",
        CallError::TimedOut { .. } => "timed out",
        CallError::Lost { .. } => "lost",
        CallError::NotCarried { .. } => "not carried",
        CallError::Rpc { .. } => "answered with an error",
        CallError::BadAnswer { .. } => "bad answer",
        CallError::NotFound { .. } => "not in the catalog",
        CallError::KeeperFailed { .. } => "keeper failed",
        _ => "other",
    }
}
