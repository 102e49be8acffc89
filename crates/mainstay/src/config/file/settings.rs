//! Reads the settings of a server: everything but how it is reached and which tools are shown.

use std::time::Duration;

use mainstay_lifecycle::{Backoff, Policy, Probe, WhenLost, WhenSpent};

use super::fields::{Field, FieldSet};
use super::host::Host;
use super::keys::{BACKOFF, BUCKET, OF_OPENCODE, PROBE, RESTART};
use super::syntax::Value;
use crate::config::problem::ProblemText;
use crate::config::server::{CommonSettings, Isolation, Replay};
use crate::protocol::Era;

/// Reads the settings of an entry.
pub(super) fn read(settings: &mut CommonSettings, fields: &FieldSet<'_>) {
    settings.policy = policy(fields);
    settings.enabled = enabled(fields);
    fields.read_into(&mut settings.required, "required", Field::flag);
    fields.read_into(&mut settings.lazy, "lazy", Field::flag);
    fields.read_into(&mut settings.isolation, "isolation", isolation);
    fields.read_into(&mut settings.startup_timeout, "startup_timeout", Field::duration);
    fields.read_into(&mut settings.call_timeout, "call_timeout", Field::duration);
    fields.read_into(
        &mut settings.call_idle_timeout,
        "call_idle_timeout",
        Field::duration,
    );
    fields.read_into(&mut settings.wait_timeout, "wait_timeout", Field::duration);
    settings.era = fields.read("era", era);
    fields.read_into(&mut settings.waiters, "waiters", Field::whole_number);
    fields.read_into(&mut settings.replay, "replay", replay);
}

/// `enabled`, or the `disabled` that other programs write.
fn enabled(fields: &FieldSet<'_>) -> bool {
    let enabled = fields.read("enabled", Field::flag);
    let Some(field) = fields.get("disabled") else {
        return enabled.unwrap_or(true);
    };
    let disabled = field.flag();
    if enabled.is_some() && enabled == disabled {
        field.error(ProblemText::new("contradicts `enabled`", "keep one of the two"));
    }
    !disabled.unwrap_or(false)
}

fn era(field: &Field<'_>) -> Option<Era> {
    let eras = [("legacy", Era::Legacy), ("modern", Era::Modern)];
    field.one_of(&eras, r#"write "legacy" or "modern", or leave it out"#)
}

fn isolation(field: &Field<'_>) -> Option<Isolation> {
    let kinds = [("shared", Isolation::Shared), ("session", Isolation::Session)];
    let fix = r#"write "shared", or "session" for a server of its own for each client"#;
    field.one_of(&kinds, fix)
}

fn replay(field: &Field<'_>) -> Option<Replay> {
    let choices = [("safe", Replay::Safe), ("never", Replay::Never)];
    field.one_of(&choices, r#"write "safe" or "never""#)
}

const SECOND: f64 = 1.0;
const MILLISECOND: f64 = 0.001;

/// The shortest limit that Claude Code uses.
const SHORTEST_OF_CLAUDE_CODE: Duration = Duration::from_secs(1);

/// Reads the limits that other programs write.
pub(super) fn foreign_timeouts(settings: &mut CommonSettings, fields: &FieldSet<'_>, host: Host) {
    let startup = [
        ("startup_timeout_ms", MILLISECOND),
        ("connection_timeout", MILLISECOND),
        ("startup_timeout_sec", SECOND),
    ];
    for (key, unit) in startup {
        fields.read_into(&mut settings.startup_timeout, key, |field| limit(field, unit));
    }
    if let Some(limit) = fields.read("tool_timeout_sec", |field| limit(field, SECOND)) {
        limit_calls(settings, limit, fields);
    }
    let Some(field) = fields.get("timeout") else {
        return;
    };
    if host == Host::OpenCode {
        return opencode(settings, field, fields);
    }
    let Some(unit) = host.timeout_unit() else {
        return field.warning(ProblemText::new(
            "ignored, since programs count it in seconds or in milliseconds",
            r#"set "call_timeout", such as "30s""#,
        ));
    };
    match limit(field, unit) {
        Some(limit) if host == Host::ClaudeCode && limit < SHORTEST_OF_CLAUDE_CODE => {
            field.warning(ProblemText::new(
                "Claude Code ignores a limit below 1000 ms, and so does Mainstay",
                r#"set "call_timeout""#,
            ));
        }
        Some(limit) => limit_calls(settings, limit, fields),
        None => {}
    }
}

/// Limits calls, with and without progress: other programs know no difference.
fn limit_calls(settings: &mut CommonSettings, limit: Duration, fields: &FieldSet<'_>) {
    // What is written for Mainstay counts.
    if fields.get("call_timeout").is_none() && fields.get("call_idle_timeout").is_none() {
        settings.call_timeout = limit;
        settings.call_idle_timeout = limit;
    }
}

/// A number bounds the listing of tools; an object has a limit for the start and one for requests.
fn opencode(settings: &mut CommonSettings, field: &Field<'_>, fields: &FieldSet<'_>) {
    if field.as_object().is_none() {
        return field.note("opencode's limit for listing tools; Mainstay has a limit of its own");
    }
    let Some(limits) = field.fields(&OF_OPENCODE) else {
        return;
    };
    let read = |field: &Field<'_>| limit(field, MILLISECOND);
    limits.read_into(&mut settings.startup_timeout, "startup", read);
    if let Some(request) = limits.read("request", read) {
        limit_calls(settings, request, fields);
    }
}

fn limit(field: &Field<'_>, unit: f64) -> Option<Duration> {
    let limit = field.duration_in(unit)?;
    if limit.is_zero() {
        field.error("must be longer than zero");
        return None;
    }
    Some(limit)
}

/// The policy of a server.
fn policy(fields: &FieldSet<'_>) -> Policy {
    let mut policy = Policy::default();
    if let Some(field) = fields.get("restart") {
        restart(field, &mut policy);
    }
    if let Some(field) = fields.get("probe") {
        policy.probe = probe(field);
    }
    if let Some(field) = fields.get("idle_stop") {
        policy.idle_stop = match field.value() {
            Value::Flag(false) => None,
            _ => field.duration(),
        };
    }
    if let Some(field) = fields.get("refresh_interval") {
        policy.expiry.every = field.duration();
    }
    policy
}

fn restart(field: &Field<'_>, policy: &mut Policy) {
    if let Value::Text(text) = field.value() {
        if text.as_ref() == "never" {
            policy.when_lost = WhenLost::StayDisconnected;
        } else {
            when_spent(field, policy, r#"write "probe", "give_up" or "never""#);
        }
        return;
    }
    let Some(fields) = field.fields(&RESTART) else {
        return;
    };
    fields.read_into(&mut policy.budget, "budget", Field::count);
    fields.read_into(&mut policy.backoff, "backoff", backoff);
    if let Some(field) = fields.get("when_spent") {
        when_spent(field, policy, r#"write "probe" or "give_up""#);
    }
    if let Some(field) = fields.get("slow_probe") {
        match (&mut policy.when_spent, field.duration()) {
            (WhenSpent::ProbeEvery(every), Some(period)) => *every = period,
            (WhenSpent::ProbeEvery(_), None) => {}
            (WhenSpent::GiveUp, _) => field.warning(ProblemText::new(
                r#"has no effect, since when_spent is "give_up""#,
                "remove one of the two",
            )),
        }
    }
    if let Some(bucket) = fields.read("bucket", |field| field.fields(&BUCKET)) {
        bucket.read_into(&mut policy.bucket.size, "size", Field::count);
        bucket.read_into(&mut policy.bucket.refill_every, "refill_every", Field::duration);
    }
    fields.read_into(&mut policy.stable_after, "stable_after", Field::duration);
}

fn when_spent(field: &Field<'_>, policy: &mut Policy, fix: &str) {
    match field.text() {
        None | Some("probe") => {}
        Some("give_up" | "giveUp") => policy.when_spent = WhenSpent::GiveUp,
        Some("never") => field.error(ProblemText::new(
            "says nothing of a budget that is spent",
            r#"for a server that only a call or a person starts again, write "restart": "never""#,
        )),
        Some(other) => field.not_understood(other, fix),
    }
}

fn backoff(field: &Field<'_>) -> Option<Backoff> {
    let fields = field.fields(&BACKOFF)?;
    let first = fields.read("first", Field::duration);
    let ceiling = fields.read("ceiling", Field::duration);
    let usual = Backoff::default();
    Some(match (first, ceiling) {
        (Some(first), Some(ceiling)) => {
            if ceiling < first
                && !ceiling.is_zero()
                && let Some(field) = fields.get("ceiling")
            {
                field.error(ProblemText::new(
                    "the longest pause is shorter than the first",
                    "raise it, or lower `first`",
                ));
            }
            // A zero ceiling stays what it is, so that it is reported as such.
            Backoff::new(first.min(ceiling), ceiling)
        }
        (Some(first), None) => Backoff::new(first, usual.ceiling()),
        (None, Some(ceiling)) => Backoff::new(usual.first().min(ceiling), ceiling),
        (None, None) => usual,
    })
}

fn probe(field: &Field<'_>) -> Option<Probe> {
    let mut probe = Probe::default();
    if let Value::Flag(flag) = field.value() {
        return flag.then_some(probe);
    }
    let fields = field.fields(&PROBE)?;
    fields.read_into(&mut probe.after_silence, "after_silence", Field::duration);
    fields.read_into(&mut probe.timeout, "timeout", Field::duration);
    fields.read_into(&mut probe.misses, "misses", Field::count);
    Some(probe)
}
