//! The time limits of other programs, each in its own unit.

use std::time::Duration;

use super::builder::ServerBuilder;
use super::document::Value;
use super::fields::{Field, Fields, Keys};
use super::host::Host;
use super::report::{Fault, Report};
use super::target::Target;

const SECOND: f64 = 1.0;
const MILLISECOND: f64 = 0.001;

/// opencode's limits, in milliseconds.
const OF_OPENCODE: Keys = Keys::only(&["startup", "request"]);

/// The shortest limit that Claude Code uses.
const SHORTEST_OF_CLAUDE_CODE: Duration = Duration::from_secs(1);

/// Puts the limits of an entry on its server.
pub(super) fn limits<T: Into<Target>>(
    mut server: ServerBuilder<T>,
    fields: &Fields<'_>,
    host: Host,
    report: &mut Report<'_>,
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
                let fault = Fault::new(
                    "Claude Code ignores a limit below 1000 ms, and so does Mainstay",
                    r#"set "call_timeout""#,
                );
                field.warning(report, fault);
                server
            }
            Some(limit) => calls(server, limit, fields),
            None => server,
        },
        (Some(field), None) => {
            let fault = Fault::new(
                "ignored, since programs count it in seconds or in milliseconds",
                r#"set "call_timeout", such as "30s""#,
            );
            field.warning(report, fault);
            server
        }
    }
}

/// A limit of calls, with and without progress: other programs know no difference.
fn calls<T: Into<Target>>(
    server: ServerBuilder<T>,
    limit: Duration,
    fields: &Fields<'_>,
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
    fields: &Fields<'_>,
    report: &mut Report<'_>,
) -> ServerBuilder<T> {
    let Value::Object(object) = field.value() else {
        let fault = Fault::from("opencode's limit for listing tools; Mainstay has a limit of its own");
        field.note(report, fault);
        return server;
    };
    let limits = Fields::of(field, object, &OF_OPENCODE, report);
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

fn limit(field: &Field<'_>, unit: f64, report: &mut Report<'_>) -> Option<Duration> {
    let limit = field.duration_in(unit, report)?;
    if limit.is_zero() {
        field.error(report, "must be longer than zero");
        return None;
    }
    Some(limit)
}
