//! Reads the settings of a server: everything but how it is reached and which tools are shown.

use super::builder::ServerBuilder;
use super::document::Value;
use super::fields::{Field, Fields, Keys};
use super::problem::quoted;
use super::report::{Fault, Report};
use super::restart;
use super::server::{Isolation, Replay};
use super::target::Target;
use super::view::ToolView;
use crate::protocol::Era;

const TOOLS: Keys = Keys::only(&["include", "exclude", "rename", "describe"]);

/// Puts the settings of an entry on its server.
pub(super) fn settings<T: Into<Target>>(
    mut server: ServerBuilder<T>,
    fields: &Fields<'_>,
    report: &mut Report<'_>,
) -> ServerBuilder<T> {
    server = server
        .policy(restart::policy(fields, report))
        .enabled(enabled(fields, report));
    if let Some(required) = fields.get("required").and_then(|field| field.flag(report)) {
        server = server.required(required);
    }
    if let Some(lazy) = fields.get("lazy").and_then(|field| field.flag(report)) {
        server = server.lazy(lazy);
    }
    if let Some(isolation) = fields.get("isolation").and_then(|field| isolation(field, report)) {
        server = server.isolation(isolation);
    }
    if let Some(timeout) = fields
        .get("startup_timeout")
        .and_then(|field| field.duration(report))
    {
        server = server.startup_timeout(timeout);
    }
    if let Some(timeout) = fields
        .get("call_timeout")
        .and_then(|field| field.duration(report))
    {
        server = server.call_timeout(timeout);
    }
    if let Some(timeout) = fields
        .get("call_idle_timeout")
        .and_then(|field| field.duration(report))
    {
        server = server.call_idle_timeout(timeout);
    }
    if let Some(timeout) = fields
        .get("wait_timeout")
        .and_then(|field| field.duration(report))
    {
        server = server.wait_timeout(timeout);
    }
    if let Some(era) = fields.get("era").and_then(|field| era(field, report)) {
        server = server.era(era);
    }
    if let Some(waiters) = fields.get("waiters").and_then(|field| field.whole_number(report)) {
        server = server.waiters(waiters);
    }
    if let Some(replay) = fields.get("replay").and_then(|field| replay(field, report)) {
        server = server.replay(replay);
    }
    server
}

/// `enabled`, or the `disabled` that other programs write.
fn enabled(fields: &Fields<'_>, report: &mut Report<'_>) -> bool {
    let enabled = fields.get("enabled").and_then(|field| field.flag(report));
    let Some(field) = fields.get("disabled") else {
        return enabled.unwrap_or(true);
    };
    let disabled = field.flag(report);
    if enabled.is_some() && enabled == disabled {
        field.error(report, Fault::new("contradicts `enabled`", "keep one of the two"));
    }
    !disabled.unwrap_or(false)
}

fn era(field: &Field<'_>, report: &mut Report<'_>) -> Option<Era> {
    match field.text(report)? {
        "legacy" => Some(Era::Legacy),
        "modern" => Some(Era::Modern),
        other => {
            let fault = Fault::new(
                format!("{} is not understood", quoted(other)),
                r#"write "legacy" or "modern", or leave it out"#,
            );
            field.error(report, fault);
            None
        }
    }
}

fn isolation(field: &Field<'_>, report: &mut Report<'_>) -> Option<Isolation> {
    match field.text(report)? {
        "shared" => Some(Isolation::Shared),
        "session" => Some(Isolation::Session),
        other => {
            let fault = Fault::new(
                format!("{} is not understood", quoted(other)),
                r#"write "shared", or "session" for a server of its own for each client"#,
            );
            field.error(report, fault);
            None
        }
    }
}

fn replay(field: &Field<'_>, report: &mut Report<'_>) -> Option<Replay> {
    match field.text(report)? {
        "safe" => Some(Replay::Safe),
        "never" => Some(Replay::Never),
        other => {
            let fault = Fault::new(
                format!("{} is not understood", quoted(other)),
                r#"write "safe" or "never""#,
            );
            field.error(report, fault);
            None
        }
    }
}

/// Which tools are shown, and how.
pub(super) fn tools(field: &Field<'_>, report: &mut Report<'_>) -> Option<ToolView> {
    let view = ToolView::default();
    if matches!(field.value(), Value::Array(_)) {
        return Some(included(view, field, report));
    }
    let fields = Fields::of(field, field.object(report)?, &TOOLS, report);
    let mut view = match fields.get("include") {
        Some(field) => included(view, field, report),
        None => view,
    };
    for item in fields
        .get("exclude")
        .and_then(|field| field.items(report))
        .unwrap_or_default()
    {
        if let Some(pattern) = item.text(report) {
            view = view.exclude(pattern);
        }
    }
    for (tool, field) in fields
        .get("rename")
        .and_then(|field| field.entries(report))
        .unwrap_or_default()
    {
        if let Some(name) = field.text(report) {
            view = view.rename(tool, name);
        }
    }
    for (tool, field) in fields
        .get("describe")
        .and_then(|field| field.entries(report))
        .unwrap_or_default()
    {
        if let Some(text) = field.text(report) {
            view = view.describe_as(tool, text);
        }
    }
    Some(view)
}

fn included(mut view: ToolView, field: &Field<'_>, report: &mut Report<'_>) -> ToolView {
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
