//! Reads the settings of a server: everything but how it is reached and which tools are shown.

use std::time::Duration;

use mainstay_lifecycle::{Backoff, Policy, Probe, WhenLost, WhenSpent};

use super::fields::{Field, FieldSet};
use super::host::Host;
use super::keys::{BACKOFF, BUCKET, OF_OPENCODE, PROBE, RESTART, TOOLS};
use super::report::ProblemReport;
use super::syntax::Value;
use crate::config::builder::ServerBuilder;
use crate::config::problem::ProblemText;
use crate::config::server::{Isolation, Replay};
use crate::config::target::Target;
use crate::config::tool_view::ToolView;
use crate::protocol::Era;

/// Puts the settings of an entry on its server.
pub(super) fn settings<T: Into<Target>>(
    mut server: ServerBuilder<T>,
    fields: &FieldSet<'_>,
    report: &mut ProblemReport<'_>,
) -> ServerBuilder<T> {
    server = server
        .policy(policy(fields, report))
        .enabled(enabled(fields, report));
    if let Some(required) = fields.read("required", Field::flag, report) {
        server = server.required(required);
    }
    if let Some(lazy) = fields.read("lazy", Field::flag, report) {
        server = server.lazy(lazy);
    }
    if let Some(isolation) = fields.read("isolation", isolation, report) {
        server = server.isolation(isolation);
    }
    if let Some(timeout) = fields.read("startup_timeout", Field::duration, report) {
        server = server.startup_timeout(timeout);
    }
    if let Some(timeout) = fields.read("call_timeout", Field::duration, report) {
        server = server.call_timeout(timeout);
    }
    if let Some(timeout) = fields.read("call_idle_timeout", Field::duration, report) {
        server = server.call_idle_timeout(timeout);
    }
    if let Some(timeout) = fields.read("wait_timeout", Field::duration, report) {
        server = server.wait_timeout(timeout);
    }
    if let Some(era) = fields.read("era", era, report) {
        server = server.era(era);
    }
    if let Some(waiters) = fields.read("waiters", Field::whole_number, report) {
        server = server.waiters(waiters);
    }
    if let Some(replay) = fields.read("replay", replay, report) {
        server = server.replay(replay);
    }
    server
}

/// `enabled`, or the `disabled` that other programs write.
fn enabled(fields: &FieldSet<'_>, report: &mut ProblemReport<'_>) -> bool {
    let enabled = fields.read("enabled", Field::flag, report);
    let Some(field) = fields.get("disabled") else {
        return enabled.unwrap_or(true);
    };
    let disabled = field.flag(report);
    if enabled.is_some() && enabled == disabled {
        field.error(
            report,
            ProblemText::new("contradicts `enabled`", "keep one of the two"),
        );
    }
    !disabled.unwrap_or(false)
}

fn era(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<Era> {
    let eras = [("legacy", Era::Legacy), ("modern", Era::Modern)];
    field.one_of(&eras, r#"write "legacy" or "modern", or leave it out"#, report)
}

fn isolation(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<Isolation> {
    let kinds = [("shared", Isolation::Shared), ("session", Isolation::Session)];
    let fix = r#"write "shared", or "session" for a server of its own for each client"#;
    field.one_of(&kinds, fix, report)
}

fn replay(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<Replay> {
    let choices = [("safe", Replay::Safe), ("never", Replay::Never)];
    field.one_of(&choices, r#"write "safe" or "never""#, report)
}

/// Which tools are shown, and how.
pub(super) fn tools(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<ToolView> {
    let view = ToolView::default();
    if matches!(field.value(), Value::Array(_)) {
        return Some(included(view, field, report));
    }
    let fields = FieldSet::of(field, field.object(report)?, &TOOLS, report);
    let mut view = match fields.get("include") {
        Some(field) => included(view, field, report),
        None => view,
    };
    for item in fields.items("exclude", report) {
        if let Some(pattern) = item.text(report) {
            view = view.exclude(pattern);
        }
    }
    for (tool, field) in fields.entries("rename", report) {
        if let Some(name) = field.text(report) {
            view = view.rename(tool, name);
        }
    }
    for (tool, field) in fields.entries("describe", report) {
        if let Some(text) = field.text(report) {
            view = view.describe_as(tool, text);
        }
    }
    Some(view)
}

fn included(mut view: ToolView, field: &Field<'_>, report: &mut ProblemReport<'_>) -> ToolView {
    let Some(items) = field.items(report) else {
        return view;
    };
    view = view.include_none();
    for item in items {
        if let Some(pattern) = item.text(report) {
            view = view.include(pattern);
        }
    }
    view
}

const SECOND: f64 = 1.0;
const MILLISECOND: f64 = 0.001;

/// The shortest limit that Claude Code uses.
const SHORTEST_OF_CLAUDE_CODE: Duration = Duration::from_secs(1);

/// Puts the limits of an entry on its server.
pub(super) fn foreign_timeouts<T: Into<Target>>(
    mut server: ServerBuilder<T>,
    fields: &FieldSet<'_>,
    host: Host,
    report: &mut ProblemReport<'_>,
) -> ServerBuilder<T> {
    let startup = [
        ("startup_timeout_ms", MILLISECOND),
        ("connection_timeout", MILLISECOND),
        ("startup_timeout_sec", SECOND),
    ];
    for (key, unit) in startup {
        if let Some(limit) = fields.get(key).and_then(|field| limit(field, unit, report)) {
            server = server.startup_timeout(limit);
        }
    }
    let tool = fields.get("tool_timeout_sec");
    if let Some(limit) = tool.and_then(|field| limit(field, SECOND, report)) {
        server = calls(server, limit, fields);
    }
    match (fields.get("timeout"), host.timeout_unit()) {
        (None, _) => server,
        (Some(field), _) if host == Host::OpenCode => opencode(server, field, fields, report),
        (Some(field), Some(unit)) => match limit(field, unit, report) {
            Some(limit) if host == Host::ClaudeCode && limit < SHORTEST_OF_CLAUDE_CODE => {
                let problem = ProblemText::new(
                    "Claude Code ignores a limit below 1000 ms, and so does Mainstay",
                    r#"set "call_timeout""#,
                );
                field.warning(report, problem);
                server
            }
            Some(limit) => calls(server, limit, fields),
            None => server,
        },
        (Some(field), None) => {
            let problem = ProblemText::new(
                "ignored, since programs count it in seconds or in milliseconds",
                r#"set "call_timeout", such as "30s""#,
            );
            field.warning(report, problem);
            server
        }
    }
}

/// A limit of calls, with and without progress: other programs know no difference.
fn calls<T: Into<Target>>(
    server: ServerBuilder<T>,
    limit: Duration,
    fields: &FieldSet<'_>,
) -> ServerBuilder<T> {
    // What is written for Mainstay counts.
    if fields.get("call_timeout").is_some() || fields.get("call_idle_timeout").is_some() {
        return server;
    }
    server.call_timeout(limit).call_idle_timeout(limit)
}

/// A number bounds the listing of tools; an object has a limit for the start and one for requests.
fn opencode<T: Into<Target>>(
    mut server: ServerBuilder<T>,
    field: &Field<'_>,
    fields: &FieldSet<'_>,
    report: &mut ProblemReport<'_>,
) -> ServerBuilder<T> {
    let Value::Object(object) = field.value() else {
        let problem =
            ProblemText::from("opencode's limit for listing tools; Mainstay has a limit of its own");
        field.note(report, problem);
        return server;
    };
    let limits = FieldSet::of(field, object, &OF_OPENCODE, report);
    let mut read = |key| {
        limits
            .get(key)
            .and_then(|field| limit(field, MILLISECOND, report))
    };
    if let Some(startup) = read("startup") {
        server = server.startup_timeout(startup);
    }
    match read("request") {
        Some(request) => calls(server, request, fields),
        None => server,
    }
}

fn limit(field: &Field<'_>, unit: f64, report: &mut ProblemReport<'_>) -> Option<Duration> {
    let limit = field.duration_in(unit, report)?;
    if limit.is_zero() {
        field.error(report, "must be longer than zero");
        return None;
    }
    Some(limit)
}

/// The policy of a server, from its fields.
pub(super) fn policy(fields: &FieldSet<'_>, report: &mut ProblemReport<'_>) -> Policy {
    let mut policy = Policy::default();
    if let Some(field) = fields.get("restart") {
        restart(field, &mut policy, report);
    }
    if let Some(field) = fields.get("probe") {
        policy.probe = probe(field, report);
    }
    if let Some(field) = fields.get("idle_stop") {
        policy.idle_stop = match field.value() {
            Value::Flag(false) => None,
            _ => field.duration(report),
        };
    }
    if let Some(field) = fields.get("refresh_interval") {
        policy.expiry.every = field.duration(report);
    }
    policy
}

fn restart(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>) {
    if let Value::Text(text) = field.value() {
        if text.as_ref() == "never" {
            policy.when_lost = WhenLost::StayDisconnected;
        } else {
            when_spent(field, policy, report, r#"write "probe", "give_up" or "never""#);
        }
        return;
    }
    let Some(object) = field.object(report) else {
        return;
    };
    let fields = FieldSet::of(field, object, &RESTART, report);
    if let Some(budget) = fields.read("budget", Field::count, report) {
        policy.budget = budget;
    }
    if let Some(field) = fields.get("backoff") {
        backoff(field, policy, report);
    }
    if let Some(field) = fields.get("when_spent") {
        when_spent(field, policy, report, r#"write "probe" or "give_up""#);
    }
    if let Some(field) = fields.get("slow_probe") {
        let period = field.duration(report);
        match (&mut policy.when_spent, period) {
            (WhenSpent::ProbeEvery(every), Some(period)) => *every = period,
            (WhenSpent::ProbeEvery(_), None) => {}
            (WhenSpent::GiveUp, _) => {
                let problem = ProblemText::new(
                    r#"has no effect, since when_spent is "give_up""#,
                    "remove one of the two",
                );
                field.warning(report, problem);
            }
        }
    }
    if let Some(field) = fields.get("bucket") {
        bucket(field, policy, report);
    }
    if let Some(stable_after) = fields.read("stable_after", Field::duration, report) {
        policy.stable_after = stable_after;
    }
}

fn when_spent(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>, fix: &str) {
    match field.text(report) {
        None | Some("probe") => {}
        Some("give_up" | "giveUp") => policy.when_spent = WhenSpent::GiveUp,
        Some("never") => field.error(
            report,
            ProblemText::new(
                "says nothing of a budget that is spent",
                r#"for a server that only a call or a person starts again, write "restart": "never""#,
            ),
        ),
        Some(other) => field.not_understood(other, fix, report),
    }
}

fn backoff(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>) {
    let Some(object) = field.object(report) else {
        return;
    };
    let fields = FieldSet::of(field, object, &BACKOFF, report);
    let first = fields.read("first", Field::duration, report);
    let ceiling = fields.read("ceiling", Field::duration, report);
    let usual = Backoff::default();
    policy.backoff = match (first, ceiling) {
        (Some(first), Some(ceiling)) => {
            if ceiling < first
                && !ceiling.is_zero()
                && let Some(field) = fields.get("ceiling")
            {
                let problem = ProblemText::new(
                    "the longest pause is shorter than the first",
                    "raise it, or lower `first`",
                );
                field.error(report, problem);
            }
            // A zero ceiling stays what it is, so that it is reported as such.
            Backoff::new(first.min(ceiling), ceiling)
        }
        (Some(first), None) => Backoff::new(first, usual.ceiling()),
        (None, Some(ceiling)) => Backoff::new(usual.first().min(ceiling), ceiling),
        (None, None) => usual,
    };
}

fn bucket(field: &Field<'_>, policy: &mut Policy, report: &mut ProblemReport<'_>) {
    let Some(object) = field.object(report) else {
        return;
    };
    let fields = FieldSet::of(field, object, &BUCKET, report);
    if let Some(size) = fields.read("size", Field::count, report) {
        policy.bucket.size = size;
    }
    if let Some(refill_every) = fields.read("refill_every", Field::duration, report) {
        policy.bucket.refill_every = refill_every;
    }
}

fn probe(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<Probe> {
    let mut probe = Probe::default();
    if let Value::Flag(flag) = field.value() {
        return flag.then_some(probe);
    }
    let fields = FieldSet::of(field, field.object(report)?, &PROBE, report);
    if let Some(after_silence) = fields.read("after_silence", Field::duration, report) {
        probe.after_silence = after_silence;
    }
    if let Some(timeout) = fields.read("timeout", Field::duration, report) {
        probe.timeout = timeout;
    }
    if let Some(misses) = fields.read("misses", Field::count, report) {
        probe.misses = misses;
    }
    Some(probe)
}
