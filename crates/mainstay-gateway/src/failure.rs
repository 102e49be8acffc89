//! A server's failure, in words that a model can act on: which server, how it is, when it is tried again, and whether
//! the call may have run.

use std::time::Duration;

use mainstay::message::{RawJson, RpcError};
use mainstay::{CallError, NotConnected, Outcome};
use serde_json::{Value, json};

use crate::protocol::{SERVER_UNAVAILABLE, invalid_params};

/// What a failed call is answered with. What a server itself said is passed on as it came.
pub(crate) fn answer(error: &CallError) -> RpcError {
    match error {
        CallError::Rpc { error, .. } => error.clone(),
        CallError::Hidden { .. } | CallError::NotFound { .. } | CallError::BadArguments(_) => {
            invalid_params(error.to_string())
        }
        other => {
            let failed = RpcError::new(SERVER_UNAVAILABLE, words(other));
            match RawJson::from_value(&json!({ "mainstay": facts(other) })) {
                Ok(data) => failed.with_data(data),
                Err(_) => failed,
            }
        }
    }
}

/// What a failed call of a tool is answered with, where it was not the server that answered: a result that says so, since
/// that is what reaches the model.
pub(crate) fn tool_result(error: &CallError) -> Result<RawJson, RpcError> {
    let answered = answer(error);
    if answered.code() != SERVER_UNAVAILABLE || matches!(error, CallError::Rpc { .. }) {
        return Err(answered);
    }
    let result = json!({
        "content": [{ "type": "text", "text": words(error) }],
        "isError": true,
        "_meta": { "mainstay": facts(error) },
    });
    RawJson::from_value(&result).map_err(|_| answered)
}

fn words(error: &CallError) -> String {
    let mut words = error.to_string();
    let advice = match (error.outcome(), error.retry_after()) {
        (Outcome::NotSent | Outcome::Refused, Some(pause)) => {
            format!(
                "It did not run and can be called again, best in {}.",
                seconds(pause)
            )
        }
        (Outcome::NotSent | Outcome::Refused, None) => "It did not run and can be called again.".to_owned(),
        (Outcome::Unknown, _) => "It may have run: check its effects before calling it again.".to_owned(),
        // An answer says for itself what became of the call.
        _answered => return words,
    };
    words.push_str(". ");
    words.push_str(&advice);
    words
}

/// The same for programs.
fn facts(error: &CallError) -> Value {
    let mut facts = json!({ "outcome": outcome(error.outcome()) });
    if let Some(pause) = error.retry_after() {
        facts["retryAfterMs"] = json!(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
    }
    if let Some(now) = not_connected(error) {
        facts["server"] = json!(now.server);
        facts["state"] = json!(now.state.to_string());
        facts["attempt"] = json!(now.attempt);
        facts["reason"] = json!(now.reason.map(mainstay::Reason::as_str));
    }
    facts
}

fn not_connected(error: &CallError) -> Option<&NotConnected> {
    match error {
        CallError::NotConnected(now)
        | CallError::WaitTimedOut { now, .. }
        | CallError::TooManyWaiting { now, .. } => Some(now),
        _other => None,
    }
}

const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent => "not_sent",
        Outcome::Refused => "refused",
        Outcome::Unknown => "unknown",
        _answered => "answered",
    }
}

fn seconds(pause: Duration) -> String {
    format!("{:.1} s", pause.as_secs_f64().max(0.1))
}
