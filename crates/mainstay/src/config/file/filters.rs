//! Which tools other programs show: their lists of tools become the view of the server.

use super::entry::EntryContext;
use super::fields::{Field, FieldSet};
use super::host::Host;
use super::report::ProblemReport;
use super::settings;
use crate::config::problem::ProblemText;
use crate::config::tool_view::{Glob, ToolView};

/// Lists of the only tools that are shown.
const SHOWN: [&str; 3] = ["enabled_tools", "include_tools", "available_tools"];

/// Lists of tools that are hidden, shown ones too.
const HIDDEN: [&str; 2] = ["disabled_tools", "exclude_tools"];

/// How the tools of a server are shown.
pub(super) fn tools(
    server: &str,
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> ToolView {
    let own = fields
        .get("tools")
        .filter(|field| !is_approval(field, context.host()));
    let mut view = own
        .and_then(|field| settings::tools(field, report))
        .unwrap_or_default();
    let mut hidden: Vec<Glob> = patterns_after(server, context);
    match granted(server, context) {
        None => {}
        // Two lists of what is shown cannot both be honoured, so nothing is shown.
        Some(names) if names.is_empty() || view.hides() => hidden.push(Glob::new("*")),
        Some(names) => view = names.into_iter().fold(view, ToolView::include),
    }
    for field in HIDDEN.iter().filter_map(|key| fields.get(key)) {
        report.saw("tools.exclude", &field.shown, field.at);
        hidden.extend(names(field, report).into_iter().map(Glob::new));
    }
    if let Some(field) = SHOWN.iter().find_map(|key| fields.get(key)) {
        view = shown(view, field, own, &hidden, context, report);
    }
    hidden
        .into_iter()
        .fold(view, |view, pattern| view.exclude(pattern.as_str()))
}

fn shown(
    mut view: ToolView,
    field: &Field<'_>,
    own: Option<&Field<'_>>,
    hidden: &[Glob],
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> ToolView {
    if own.is_some() && view.hides() {
        let problem = ProblemText::new(
            "contradicts `tools`, which says what is shown, too",
            "keep one of the two",
        );
        field.error(report, problem);
        return view;
    }
    report.saw("tools.include", &field.shown, field.at);
    let names = names(field, report);
    // An empty list means all tools to Goose, and none to the others.
    if names.is_empty() && context.host() == Host::Goose {
        return view;
    }
    view = view.include_none();
    // In every program, a list of hidden tools counts more than a list of shown ones.
    let is_hidden = |name: &str| hidden.iter().any(|pattern| pattern.covers(&Glob::new(name)));
    for name in names.into_iter().filter(|name| !is_hidden(name)) {
        view = view.include(name);
    }
    view
}

fn names<'a>(field: &Field<'a>, report: &mut ProblemReport<'_>) -> Vec<&'a str> {
    let items = field.items(report).unwrap_or_default();
    items.iter().filter_map(|item| item.text(report)).collect()
}

/// Whether `tools` says which calls a person is asked about, as in Codex' files, and nothing of what is shown.
fn is_approval(field: &Field<'_>, host: Host) -> bool {
    let shows = |key: &str| ["include", "exclude", "rename", "describe"].contains(&key);
    let object = field.as_object();
    host == Host::Codex && object.is_some_and(|tools| !tools.properties.iter().any(|tool| shows(&tool.name)))
}

/// The tools of a server that an agent of Amazon Q or Kiro sees; `None` for all of them.
fn granted<'a>(server: &str, context: &EntryContext<'a>) -> Option<Vec<&'a str>> {
    let granted = context.granted_tools()?;
    let of_server = granted
        .iter()
        .filter_map(|tool| tool.strip_prefix('@')?.strip_prefix(server));
    let mut tools = Vec::new();
    for tool in of_server {
        match tool.strip_prefix('/') {
            Some("*") => return None,
            Some(name) => tools.push(name),
            None if tool.is_empty() => return None,
            // A server whose name begins with this one's.
            None => {}
        }
    }
    let all = granted.contains(&"*");
    (!all).then_some(tools)
}

/// The patterns that opencode hides tools by, as patterns of this server's own tools.
///
/// opencode calls a tool `SERVER_TOOL`, with `_` for what is no letter, digit, `_` or `-`. Its `?` stands for one
/// character; a `*` in its place hides at least as much.
fn patterns_after(server: &str, context: &EntryContext<'_>) -> Vec<Glob> {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = server.chars().map(plain).collect();
    let prefix = format!("{name}_");
    let mut hidden = Vec::new();
    for pattern in context.hidden_tools() {
        if *pattern == name {
            hidden.push(Glob::new("*"));
        }
        hidden.extend(Glob::new(pattern.replace('?', "*")).after(&prefix));
    }
    hidden
}
