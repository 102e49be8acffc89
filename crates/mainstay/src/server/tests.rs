//! What a failed call says of itself: one table of all errors.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Generation, StateKind};

use super::{CallError, NotConnected};
use crate::transport::http::{Challenge, HttpFailure};
use crate::transport::{End, SendFailure};
use crate::wire::{BadAnswer, Outcome, RequestError, RpcError, TimeoutKind};

const ALL: [Outcome; 4] = [
    Outcome::NotSent,
    Outcome::Refused,
    Outcome::Unknown,
    Outcome::Answered,
];

fn down() -> Box<NotConnected> {
    Box::new(NotConnected {
        server: "s".into(),
        state: StateKind::Reconnecting,
        reason: None,
        attempt: 3,
        next_retry: Some(SystemTime::now()),
        last_error: None,
    })
}

/// Every error, with each outcome that it can have.
fn every_error() -> Vec<CallError> {
    let (server, generation): (Arc<str>, _) = ("s".into(), Generation(1));
    let mut errors = vec![
        CallError::NotConnected(down()),
        CallError::WaitTimedOut {
            waited: Duration::from_secs(15),
            now: down(),
        },
        CallError::TooManyWaiting {
            limit: 1,
            now: down(),
        },
        CallError::Rpc {
            server: server.clone(),
            generation,
            error: RpcError::new(-32603, "broke half way"),
        },
        CallError::Rpc {
            server: server.clone(),
            generation,
            error: RpcError::new(-32602, "no such tool"),
        },
        CallError::BadAnswer {
            server: server.clone(),
            generation,
            what: BadAnswer::Malformed,
        },
        CallError::Hidden {
            server: server.clone(),
            tool: "t".to_owned(),
        },
        CallError::NotOffered {
            server: server.clone(),
            method: "prompts/get".to_owned(),
            capability: "prompts",
        },
        CallError::Gone {
            server: server.clone(),
        },
        CallError::NotFound {
            name: "tool t".to_owned(),
        },
        CallError::KeeperFailed {
            server: server.clone(),
        },
        CallError::TooManySubscriptions {
            server: server.clone(),
            limit: 1,
        },
        CallError::BadArguments("a key is no text".to_owned()),
    ];
    for outcome in ALL {
        errors.extend([
            CallError::TimedOut {
                server: server.clone(),
                generation,
                kind: TimeoutKind::Total,
                outcome,
                noise: None,
            },
            CallError::Lost {
                server: server.clone(),
                generation,
                reason: "end of stream".to_owned(),
                failure: None,
                outcome,
            },
            CallError::NotCarried {
                server: server.clone(),
                generation,
                reason: "status 500".to_owned(),
                outcome,
            },
            CallError::AuthRequired {
                server: server.clone(),
                generation,
                challenge: Box::default(),
                outcome,
            },
            CallError::Throttled {
                server: server.clone(),
                generation,
                retry_after: None,
                outcome,
            },
        ]);
    }
    errors
}

/// A variant that is new must be put into the table above, and its truth into this one.
fn surely_did_not_run(error: &CallError) -> bool {
    match error {
        CallError::NotConnected(_)
        | CallError::WaitTimedOut { .. }
        | CallError::TooManyWaiting { .. }
        | CallError::Hidden { .. }
        | CallError::NotOffered { .. }
        | CallError::Gone { .. }
        | CallError::NotFound { .. }
        | CallError::KeeperFailed { .. }
        | CallError::TooManySubscriptions { .. }
        | CallError::BadArguments(_) => true,
        CallError::TimedOut { outcome, .. }
        | CallError::Lost { outcome, .. }
        | CallError::NotCarried { outcome, .. }
        | CallError::AuthRequired { outcome, .. }
        | CallError::Throttled { outcome, .. } => match outcome {
            Outcome::NotSent | Outcome::Refused => true,
            Outcome::Unknown | Outcome::Answered => false,
        },
        CallError::Rpc { error, .. } => error.code() == -32602,
        CallError::BadAnswer { .. } => false,
    }
}

#[test]
fn no_error_says_that_a_call_did_not_run_when_it_may_have() {
    for error in every_error() {
        let did_not_run = surely_did_not_run(&error);
        assert_eq!(error.may_have_run(), !did_not_run, "{error:?}");
        if did_not_run {
            continue;
        }
        let words = error.to_string();
        assert!(
            !words.contains("not sent") && !words.contains("did not run"),
            "{words}"
        );
        assert!(
            matches!(error.outcome(), Outcome::Unknown | Outcome::Answered),
            "{error:?}"
        );
    }
}

#[test]
fn an_answer_past_the_bound_is_an_answer_whichever_transport_met_it() {
    let over_stdio = RequestError::BadAnswer(BadAnswer::TooLarge { limit: 8, length: 9 });
    let failure = HttpFailure::BodyTooLarge { limit: 8 };
    let over_http = RequestError::Send(SendFailure::new(Outcome::Answered, failure));
    for error in [over_stdio, over_http] {
        let error = CallError::of(error, "s".into(), Generation(1), None);
        assert!(matches!(error, CallError::BadAnswer { .. }), "{error:?}");
        assert_eq!((error.outcome(), error.may_have_run()), (Outcome::Answered, true));
    }
}

#[test]
fn a_later_round_that_is_refused_does_not_undo_an_earlier_one() {
    let refusals = [
        HttpFailure::AuthRequired {
            status: 401,
            challenge: Challenge::default(),
        },
        HttpFailure::Throttled {
            status: 429,
            retry_after: None,
        },
        HttpFailure::SessionLost { status: 404 },
        HttpFailure::Status {
            status: 400,
            body: String::new(),
        },
    ];
    let refused = refusals.map(|failure| RequestError::Send(SendFailure::new(Outcome::Refused, failure)));
    let others = [
        RequestError::Lost {
            outcome: Outcome::NotSent,
            end: End::Closed,
        },
        RequestError::TimedOut {
            kind: TimeoutKind::Total,
            sent: false,
        },
    ];
    for error in refused.into_iter().chain(others) {
        let first_round = CallError::of(error.clone(), "s".into(), Generation(1), None);
        assert!(!first_round.may_have_run(), "{first_round:?}");
        let later = CallError::of(error.after_a_round(), "s".into(), Generation(1), None);
        assert!(later.may_have_run(), "{later:?}");
    }
}
