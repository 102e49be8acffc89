//! Whoever wants the fleet to work.

use std::time::{Duration, Instant};

use mainstay::config::Replay;
use mainstay::{
    CallError, CallErrorKind, CallOptions, Fleet, Generation, Outcome, RawJson, Reply, StateKind,
};
use mainstay_testkit::chaos::{Dice, PlannedCall, name};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::chaos::{NEVER_CALLED, SERVERS};

/// One call, and how it ended for its caller.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) key: String,
    pub(crate) server: usize,
    pub(crate) tool: &'static str,
    /// Whether it may be made twice.
    pub(crate) repeatable: bool,
    pub(crate) end: CallEnd,
    pub(crate) took: Duration,
}

#[derive(Debug)]
pub(crate) enum CallEnd {
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
    let planned = PlannedCall::draw(key, dice);
    let mut options = CallOptions::default();
    let mut repeatable = planned.repeatable;
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
            let tool = format!("{}__{}", name(server), planned.tool);
            fleet.call(&tool, &planned.arguments).options(options).await
        } else {
            handle
                .call(planned.tool, &planned.arguments)
                .options(options)
                .await
        }
    };
    let answer = match impatient {
        Some(patience) => timeout(patience, call).await.ok(),
        None => Some(call.await),
    };
    let end = match answer {
        Some(Ok(reply)) => {
            assert!(
                Some(reply.generation) >= seen,
                "{planned:?}: {seen:?} was there before {:?}",
                reply.generation
            );
            check(&planned, &reply)
        }
        Some(Err(error)) => CallEnd::Failed {
            outcome: error.outcome(),
            how: kind(&error),
        },
        None => CallEnd::Dropped,
    };
    Some(Made {
        key: planned.key,
        server,
        tool: planned.tool,
        repeatable,
        end,
        took: began.elapsed(),
    })
}

/// An answer must be the answer to this very call.
fn check(planned: &PlannedCall, reply: &Reply) -> CallEnd {
    let result: Value = RawJson::parse(&reply.result).expect("a result is JSON");
    planned.check(&result);
    CallEnd::Result {
        generation: reply.generation,
        pid: result["structuredContent"]["pid"].as_u64(),
    }
}

fn kind(error: &CallError) -> &'static str {
    match error.kind {
        CallErrorKind::NotConnected(_) => "not connected",
        CallErrorKind::WaitTimedOut { .. } => "wait timed out",
        CallErrorKind::TooManyWaiting { .. } => "too many waiting",
        CallErrorKind::TimedOut { .. } => "timed out",
        CallErrorKind::Lost { .. } => "lost",
        CallErrorKind::Disabled => "disabled",
        CallErrorKind::NotCarried { .. } => "not carried",
        CallErrorKind::Rpc(_) => "answered with an error",
        CallErrorKind::BadAnswer(_) => "bad answer",
        CallErrorKind::NotFound { .. } => "not in the catalog",
        CallErrorKind::KeeperFailed => "keeper failed",
        _ => "other",
    }
}
