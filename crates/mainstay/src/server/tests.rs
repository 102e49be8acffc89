//! What a failed call says of itself: one table of all errors.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Generation, StateKind};

use super::{CallError, CallErrorKind, NotConnected};
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
    let server: Arc<str> = "s".into();
    let generation = Some(Generation(1));
    let not_sent = [
        CallErrorKind::NotConnected(down()),
        CallErrorKind::WaitTimedOut {
            waited: Duration::from_secs(15),
            now: down(),
        },
        CallErrorKind::TooManyWaiting {
            limit: 1,
            now: down(),
        },
        CallErrorKind::Hidden { tool: "t".to_owned() },
        CallErrorKind::NotOffered {
            method: "prompts/get".to_owned(),
            capability: "prompts",
        },
        CallErrorKind::Gone,
        CallErrorKind::NotFound {
            name: "tool t".to_owned(),
        },
        CallErrorKind::KeeperFailed,
        CallErrorKind::TooManySubscriptions { limit: 1 },
        CallErrorKind::BadArguments("a key is no text".to_owned()),
    ];
    let answered = [
        CallErrorKind::Rpc(Box::new(RpcError::new(-32603, "broke half way"))),
        CallErrorKind::Rpc(Box::new(RpcError::new(-32602, "no such tool"))),
        CallErrorKind::BadAnswer(BadAnswer::LongerThan { limit: 1 }),
    ];
    let any = [
        CallErrorKind::Cancelled,
        CallErrorKind::TimedOut {
            timeout: TimeoutKind::Total,
            noise: None,
        },
        CallErrorKind::Lost {
            reason: "end of stream".to_owned(),
            failure: None,
        },
        CallErrorKind::NotCarried {
            reason: "status 500".to_owned(),
        },
        CallErrorKind::AuthRequired {
            challenge: Box::default(),
        },
        CallErrorKind::Throttled { retry_after: None },
        CallErrorKind::Disabled,
    ];
    let with = |generation, outcome, kind| CallError::new(server.clone(), generation, outcome, kind);
    let mut errors: Vec<_> = not_sent.map(|kind| with(None, Outcome::NotSent, kind)).into();
    errors.extend(answered.map(|kind| with(generation, Outcome::Answered, kind)));
    for outcome in ALL {
        errors.extend(any.clone().map(|kind| with(generation, outcome, kind)));
    }
    errors
}

/// A new kind must be put into the table above, and its truth into this one.
fn surely_did_not_run(error: &CallError) -> bool {
    match &error.kind {
        CallErrorKind::NotConnected(_)
        | CallErrorKind::WaitTimedOut { .. }
        | CallErrorKind::TooManyWaiting { .. }
        | CallErrorKind::Hidden { .. }
        | CallErrorKind::NotOffered { .. }
        | CallErrorKind::Gone
        | CallErrorKind::NotFound { .. }
        | CallErrorKind::KeeperFailed
        | CallErrorKind::TooManySubscriptions { .. }
        | CallErrorKind::BadArguments(_) => true,
        CallErrorKind::TimedOut { .. }
        | CallErrorKind::Cancelled
        | CallErrorKind::Lost { .. }
        | CallErrorKind::Disabled
        | CallErrorKind::NotCarried { .. }
        | CallErrorKind::AuthRequired { .. }
        | CallErrorKind::Throttled { .. } => match error.outcome {
            Outcome::NotSent | Outcome::Refused => true,
            Outcome::Unknown | Outcome::Answered => false,
        },
        CallErrorKind::Rpc(error) => error.code() == -32602,
        CallErrorKind::BadAnswer(_) => false,
    }
}

#[test]
fn the_reason_of_an_error_leaves_open_whether_the_call_ran() {
    for error in every_error() {
        let (whole, reason) = (error.to_string(), error.reason());
        assert!(whole.starts_with(&reason), "{whole}");
        assert!(
            !reason.contains("have run") && !reason.contains("not run"),
            "{reason}"
        );
        let says_it = whole.contains("may have run");
        assert!(!says_it || error.outcome() == Outcome::Unknown, "{whole}");
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
        assert!(matches!(error.kind, CallErrorKind::BadAnswer(_)), "{error:?}");
        assert_eq!((error.outcome(), error.may_have_run()), (Outcome::Answered, true));
    }
}

#[test]
fn an_answer_that_cannot_be_read_says_nothing_of_the_call() {
    for what in [
        BadAnswer::Malformed,
        BadAnswer::InvalidUtf8,
        BadAnswer::ResultNotObject,
    ] {
        let error = CallError::of(RequestError::BadAnswer(what), "s".into(), Generation(1), None);
        assert_eq!(
            (error.outcome(), error.may_have_run()),
            (Outcome::Unknown, true),
            "{what:?}"
        );
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

#[test]
fn an_address_is_shown_without_user_query_and_fragment() {
    for (url, shown) in [
        ("https://a.example/mcp", "https://a.example/mcp"),
        (
            "https://user:pw@a.example:8/mcp?key=1#x",
            "https://a.example:8/mcp",
        ),
        ("http://a.example?key=1", "http://a.example"),
        ("http://a.example/a@b", "http://a.example/a@b"),
    ] {
        assert_eq!(super::without_secrets(url), shown);
    }
}
