//! Times, states and events in words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::gateway::PlainText;
use mainstay_control::api::{
    Actor, ActorKind, CatalogChange, EventDetail, EventRecord, FailureDocument, LagMarker, LagReason,
    ReloadReport, StateName, StderrRecord,
};

use crate::log;
use crate::output::{Ink, Paint, Text, count, plain, span, text};

/// How many names of servers one line holds.
const MAX_NAMES: usize = 12;

/// The time now, as the API counts it.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago this was, or how long until then.
pub(super) fn between(one_ms: u64, other_ms: u64) -> Text {
    let time = Duration::from_millis(one_ms.abs_diff(other_ms));
    // Tenths of a second are no news here, and would flicker.
    match time.as_secs() {
        seconds @ 1..=59 => text!("{} s", seconds),
        0 => "a moment".into(),
        _ => span(time),
    }
}

/// A moment as a clock shows it.
pub(super) fn moment(at_ms: u64) -> Text {
    log::stamp(UNIX_EPOCH + Duration::from_millis(at_ms))
}

/// A state as one word.
pub(super) fn word(state: StateName) -> &'static str {
    match state {
        StateName::Disabled => "disabled",
        StateName::Connecting => "connecting",
        StateName::Connected => "connected",
        StateName::Reconnecting => "reconnecting",
        StateName::Disabling => "disabling",
        StateName::Disconnected => "disconnected",
        StateName::PermanentlyFailed => "permanently_failed",
        StateName::Unknown => "unknown",
    }
}

/// The colour of a state.
pub(super) fn ink(state: StateName) -> Ink {
    match state {
        StateName::Connected => Ink::Green,
        StateName::Connecting | StateName::Reconnecting | StateName::Disabling => Ink::Yellow,
        StateName::Disconnected | StateName::PermanentlyFailed => Ink::Red,
        StateName::Disabled | StateName::Unknown => Ink::Dim,
    }
}

/// What went wrong, on one line, with the line of stderr that says best why.
pub(super) fn failure(failure: &FailureDocument) -> Text {
    let message = plain(&failure.message);
    match &failure.stderr_reason {
        Some(reason) if !failure.message.contains(reason.trim()) => {
            text!("{} ({})", message, plain(reason))
        }
        Some(_) | None => message,
    }
}

/// Who did something.
fn actor(by: &Actor) -> Text {
    let via = match by.via {
        ActorKind::Command => "by a command",
        ActorKind::Api => "through the API",
        ActorKind::Dashboard => "in the dashboard",
        ActorKind::Top => "in `mainstay top`",
        ActorKind::File => "because the file changed",
        ActorKind::Signal => "by a signal",
        ActorKind::Unknown => "",
    };
    match &by.agent {
        Some(agent) if by.via == ActorKind::Api => text!("{} ({})", via, plain(agent)),
        Some(_) | None => via.into(),
    }
}

/// One line of a server's stderr.
pub(super) fn stderr_line(line: &StderrRecord, paint: Paint) -> Text {
    // Its author aligned it.
    let said: Text = PlainText::line(&line.text).into();
    text!("{}  {}", paint.dim(moment(line.at_ms)), said)
}

/// One event on one line.
pub(super) fn event(event: &EventRecord, paint: Paint) -> Text {
    let time = paint.dim(moment(event.at_ms));
    let server = event.server.as_deref().map(plain).unwrap_or_default();
    let said = match &event.detail {
        EventDetail::Transition {
            from: _,
            to,
            cause,
            attempt,
            next_retry_ms,
            failure: failed,
            ..
        } => {
            let mut said = paint.ink(ink(*to), word(*to));
            match failed {
                Some(failed) => said.push(text!(": {}", failure(failed))),
                None => said.push(text!(" ({})", plain(&cause.replace('_', " ")))),
            }
            if let Some(next) = next_retry_ms {
                said.push(text!(
                    "; attempt {} in {}",
                    attempt.saturating_add(1),
                    between(*next, event.at_ms)
                ));
            }
            said
        }
        EventDetail::Command {
            command,
            by,
            refused,
            outcome,
        } => {
            let mut said = text!("{} {}", plain(command), actor(by));
            let outcome = outcome.as_deref().map(|outcome| outcome.replace('_', " "));
            match (outcome, refused) {
                (None, None) => {}
                (None, Some(refused)) => {
                    said.push(paint.ink(Ink::Red, text!(", refused: {}", plain(refused))));
                }
                (Some(outcome), None) => said.push(text!(": {}", plain(&outcome))),
                (Some(outcome), Some(why)) => {
                    said.push(paint.ink(Ink::Red, text!(": {}: {}", plain(&outcome), plain(why))));
                }
            }
            said
        }
        EventDetail::Reloaded { by, report } => {
            text!("configuration applied {}: {}", actor(by), changes(report))
        }
        EventDetail::ReloadRefused { by, title, remedy } => {
            let remedy = remedy.as_deref().map(|remedy| text!("; {}", plain(remedy)));
            let said = text!(
                "configuration refused {}: {}{}",
                actor(by),
                plain(title),
                remedy.unwrap_or_default()
            );
            paint.ink(Ink::Red, said)
        }
        EventDetail::CatalogChanged { change } => catalog_change(change),
        EventDetail::PageLinkUsed { again: true, .. } => paint.ink(
            Ink::Red,
            "a link to the dashboard was used twice: the page that it opened is logged out",
        ),
        EventDetail::PageLinkUsed { agent, .. } => match agent {
            Some(agent) => text!("a link opened the dashboard, in {}", plain(agent)),
            None => "a link opened the dashboard".into(),
        },
        EventDetail::Added => "added".into(),
        EventDetail::Removed => "removed".into(),
        EventDetail::Lost { count: lost } => {
            let lost = usize::try_from(*lost).unwrap_or(usize::MAX);
            paint.ink(
                Ink::Yellow,
                text!("{} lost: too many came at once", count(lost, "event")),
            )
        }
        EventDetail::Unknown => "something that this version of mainstay does not know".into(),
    };
    let server = match server.is_empty() {
        true => Text::default(),
        false => text!("  {}", paint.ink(Ink::Cyan, server)),
    };
    text!("{}{}  {}", time, server, said)
}

/// Entries of a changed catalog that one line names.
const NAMED_ENTRIES: usize = 5;

fn catalog_change(change: &CatalogChange) -> Text {
    let entry = |sign: &'static str, kind: &str, name: &str| text!("{}{} {}", sign, plain(kind), plain(name));
    let added = change.added.iter().map(|new| entry("+", &new.kind, &new.name));
    let removed = change.removed.iter().map(|old| entry("-", &old.kind, &old.name));
    let changed = change
        .changed
        .iter()
        .map(|changed| entry("~", &changed.kind, &changed.name));
    let all = change.added.len() + change.removed.len() + change.changed.len() + change.left_out;
    let named = Text::join(added.chain(removed).chain(changed).take(NAMED_ENTRIES), ", ");
    match all.saturating_sub(NAMED_ENTRIES) {
        0 => text!("offers changed: {}", named),
        more => text!("offers changed: {} and {} more", named, more),
    }
}

/// Events are missing.
pub(super) fn lag(marker: &LagMarker) -> Text {
    let why = match marker.reason {
        LagReason::Lagged => "no longer kept",
        LagReason::Restarted => "the daemon was restarted",
        LagReason::Unknown => "for an unknown reason",
    };
    match marker.lost {
        Some(lost) => {
            let lost = usize::try_from(lost).unwrap_or(usize::MAX);
            text!("{} missing here: {}", count(lost, "line"), why)
        }
        None => text!("some may be missing here: {}", why),
    }
}

/// What a configuration changed, on one line.
pub(crate) fn changes(report: &ReloadReport) -> Text {
    let parts = [
        ("added", &report.added),
        ("removed", &report.removed),
        ("replaced", &report.replaced),
        ("adjusted", &report.adjusted),
        ("enabled", &report.enabled),
        ("disabled", &report.disabled),
        ("still disabled", &report.still_disabled),
    ];
    let parts = parts.into_iter().filter(|(_, servers)| !servers.is_empty());
    let mut said: Vec<_> = parts
        .map(|(what, servers)| text!("{} {}", what, names(servers)))
        .collect();
    if report.is_empty() {
        said.push("nothing changed".into());
    }
    if !report.unchanged.is_empty() {
        said.push(text!("{} left alone", count(report.unchanged.len(), "server")));
    }
    Text::join(said, "; ")
}

/// Names of servers, as many as a line holds.
pub(crate) fn names(servers: &[impl AsRef<str>]) -> Text {
    let mut names: Vec<_> = servers
        .iter()
        .take(MAX_NAMES)
        .map(|name| plain(name.as_ref()))
        .collect();
    if servers.len() > MAX_NAMES {
        names.push(text!("and {} more", servers.len() - MAX_NAMES));
    }
    Text::join(names, ", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const AT: u64 = 1_800_000_000_000;

    fn shown(server: Option<&str>, detail: Value) -> String {
        let mut record = json!({ "sequence": 1, "at_ms": AT, "node": null, "server": server });
        let Value::Object(detail) = detail else {
            panic!("an object")
        };
        for (key, value) in detail {
            record[key] = value;
        }
        let record: EventRecord = serde_json::from_value(record).expect("an event");
        event(&record, Paint::PLAIN).as_str().to_owned()
    }

    #[test]
    fn each_kind_of_event_is_one_line_with_its_time_its_server_and_what_happened() {
        let by = |via: &str| json!({ "via": via, "agent": "curl/8" });
        let failure = json!({ "message": "it exited with status 1", "generation": 7, "exit_code": 1, "signal": null,
            "stderr": ["Error: no database"], "stderr_reason": "Error: no\u{1b}[2J database", "login": null });
        let report = json!({ "added": ["a", "b"], "removed": ["c"], "unchanged": ["d", "e"] });
        let lines = [
            shown(
                Some("web"),
                json!({ "type": "transition", "from": "connected", "to": "reconnecting", "cause": "lost",
                    "generation": 7, "attempt": 1, "next_retry_ms": AT + 12_000, "failure": failure }),
            ),
            shown(
                Some("web"),
                json!({ "type": "transition", "from": "reconnecting", "to": "connected", "cause": "opened_again",
                    "generation": 8, "attempt": 0, "next_retry_ms": null, "failure": null }),
            ),
            shown(
                Some("web"),
                json!({ "type": "command", "command": "restart", "by": by("api"), "refused": "it is disabled" }),
            ),
            shown(
                Some("web"),
                json!({ "type": "command", "command": "call echo", "by": by("dashboard"), "refused": null, "outcome": "not_sent" }),
            ),
            shown(
                Some("web"),
                json!({ "type": "command", "command": "login", "by": by("dashboard"), "refused": "it was \u{1b}[2Jrefused",
                    "outcome": "failed" }),
            ),
            shown(
                None,
                json!({ "type": "reloaded", "by": by("file"), "report": report }),
            ),
            shown(
                None,
                json!({ "type": "reload_refused", "by": by("signal"), "title": "mcp.json:2:3: not JSON",
                    "remedy": "correct the file" }),
            ),
            shown(
                Some("web"),
                json!({ "type": "catalog_changed", "revision": 4, "added": [{ "kind": "tool", "name": "new" }],
                    "removed": [{ "kind": "prompt", "name": "old" }], "left_out": 4,
                    "changed": [{ "kind": "tool", "name": "other", "members": [] }] }),
            ),
            shown(Some("web"), json!({ "type": "added" })),
            shown(Some("web"), json!({ "type": "removed" })),
            shown(None, json!({ "type": "lost", "count": 3 })),
            shown(None, json!({ "type": "something_new" })),
        ];
        let expected = "\
2027-01-15T08:00:00.000Z  web  reconnecting: it exited with status 1 (Error: no database); attempt 2 in 12 s
2027-01-15T08:00:00.000Z  web  connected (opened again)
2027-01-15T08:00:00.000Z  web  restart through the API (curl/8), refused: it is disabled
2027-01-15T08:00:00.000Z  web  call echo in the dashboard: not sent
2027-01-15T08:00:00.000Z  web  login in the dashboard: failed: it was refused
2027-01-15T08:00:00.000Z  configuration applied because the file changed: added a, b; removed c; 2 servers left alone
2027-01-15T08:00:00.000Z  configuration refused by a signal: mcp.json:2:3: not JSON; correct the file
2027-01-15T08:00:00.000Z  web  offers changed: +tool new, -prompt old, ~tool other and 2 more
2027-01-15T08:00:00.000Z  web  added
2027-01-15T08:00:00.000Z  web  removed
2027-01-15T08:00:00.000Z  3 events lost: too many came at once
2027-01-15T08:00:00.000Z  something that this version of mainstay does not know";
        let shown = lines.join("\n");
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn a_line_of_stderr_has_its_time_and_no_control_characters_and_missing_ones_are_said() {
        let line = StderrRecord {
            at_ms: AT + 1_250,
            generation: 7,
            text: "\u{1b}[31mcannot find my database".to_owned(),
        };
        assert_eq!(
            stderr_line(&line, Paint::PLAIN).as_str(),
            "2027-01-15T08:00:01.250Z  cannot find my database"
        );
        let marker = |lost, reason| lag(&LagMarker { lost, reason }).as_str().to_owned();
        assert_eq!(
            marker(Some(1), LagReason::Lagged),
            "1 line missing here: no longer kept"
        );
        assert_eq!(
            marker(None, LagReason::Restarted),
            "some may be missing here: the daemon was restarted"
        );
    }
}
