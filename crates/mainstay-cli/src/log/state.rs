//! A change of a server's state in one line: what happened, why, and what happens next.

use std::time::Duration;

use super::record::Record;
use crate::output::{Text, span, text};

/// A pause that is not worth a word.
const SOON: Duration = Duration::from_millis(10);

/// The line, without time and server.
pub(super) fn words(record: &Record) -> Text {
    let word = |name: &str| record.text(name).unwrap_or_default();
    let (from, to, cause, reason) = (word("from"), word("to"), word("cause"), word("reason"));
    let what = match to.as_str() {
        "connecting" => starting(cause.as_str()),
        "connected" if cause.as_str() == "listing_refused" => "connected, and not listed",
        "connected" => "connected",
        "reconnecting" if from.as_str() == "connected" => "connection lost",
        "reconnecting" => "start failed",
        "disconnected" => match reason.as_str() {
            "idle" if cause.as_str() == "went_idle" => "stopped: not used for its idle time",
            "idle" => "not started",
            "auth_required" => "login required",
            _ => "down",
        },
        "permanently_failed" => "failed for good",
        "disabling" => "stopping",
        "disabled" => "stopped",
        _ => return text!("{} ({})", to, cause),
    };
    let mut line = Text::from(what);
    if let Some(error) = record.text("error") {
        line.push(text!(": {}", error));
        if let Some(stderr) = record
            .text("stderr")
            .filter(|stderr| !error.as_str().contains(stderr.as_str()))
        {
            line.push(text!("; it wrote: {}", stderr));
        }
    }
    if let Some(next) = next(record, to.as_str(), reason.as_str()) {
        line.push(text!("; {}", next));
    }
    line
}

/// Whether the server cannot be had: its first start failed, or it is down until its next slow attempt, or for good.
pub(super) fn is_given_up(record: &Record) -> bool {
    let is = |name: &str, words: &[&str]| {
        let word = record.text(name).unwrap_or_default();
        words.contains(&word.as_str())
    };
    is("from", &["connecting"]) || is("to", &["disconnected", "permanently_failed"])
}

fn starting(cause: &str) -> &'static str {
    match cause {
        "demanded" => "starting: a call needs it",
        "restarted" => "restarting: a person asked for it",
        "replaced" => "starting with its new configuration",
        "slow_probe" => "trying again",
        "reachable" => "trying again: its address answers",
        "logged_in" => "trying again after the login",
        "keeper_failed" => "starting again after an internal error",
        _ => "starting",
    }
}

/// What happens next, where that is not plain from the state.
fn next(record: &Record, to: &str, reason: &str) -> Option<Text> {
    let failures = match (record.number("attempt"), record.number("budget")) {
        (Some(attempt @ 1..), Some(budget)) if attempt <= budget => {
            text!(" (failure {} of {})", attempt, budget)
        }
        (Some(attempt @ 1..), Some(_)) => text!(" (failure {})", attempt),
        _ => Text::default(),
    };
    let pause = record.number("next_retry_ms").map(Duration::from_millis);
    match (to, reason) {
        ("reconnecting" | "connecting", _) => match pause {
            Some(pause) if pause < SOON => Some(text!("starting it again now{}", failures)),
            Some(pause) => Some(text!("next attempt in {}{}", span(pause), failures)),
            None if to == "reconnecting" => Some(text!("starting it again now{}", failures)),
            None => None,
        },
        ("disconnected", "idle") => Some("the next call starts it".into()),
        ("disconnected", "auth_required") => Some(match pause {
            Some(pause) => text!("the next attempt with this token is in {}", span(pause)),
            None => "it is tried again after a login".into(),
        }),
        ("disconnected", _) => pause.map(|pause| text!("next attempt in {}{}", span(pause), failures)),
        ("permanently_failed", _) => {
            Some("it is not tried again: correct its configuration, then restart it".into())
        }
        _ => None,
    }
}
