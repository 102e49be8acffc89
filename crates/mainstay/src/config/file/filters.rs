//! Which tools are shown, and how: as Mainstay's own `tools` says, and as the lists of other programs say.

use super::entry::ServerEntry;
use super::fields::Field;
use super::host::Host;
use super::keys::TOOLS;
use super::syntax::Value;
use crate::config::problem::ProblemText;
use crate::config::tool_view::{Glob, ToolView};

/// Lists of the only tools that are shown.
const SHOWN: [&str; 3] = ["enabled_tools", "include_tools", "available_tools"];

/// Lists of tools that are hidden, shown ones too.
const HIDDEN: [&str; 2] = ["disabled_tools", "exclude_tools"];

/// How the tools of a server are shown.
pub(super) fn tools(entry: &ServerEntry<'_>) -> ToolView {
    let fields = &entry.fields;
    let own = fields
        .get("tools")
        .filter(|field| !is_approval(field, entry.layout.host));
    let mut view = own.and_then(own_view).unwrap_or_default();
    let mut hidden: Vec<Glob> = patterns_after(entry);
    match granted(entry) {
        None => {}
        // Two lists of what is shown cannot both be honoured, so nothing is shown.
        Some(names) if names.is_empty() || view.hides() => hidden.push(Glob::new("*")),
        Some(names) => view = names.into_iter().fold(view, ToolView::include),
    }
    for field in HIDDEN.iter().filter_map(|key| fields.get(key)) {
        field.stands_for("tools.exclude");
        hidden.extend(names(field).unwrap_or_default().into_iter().map(Glob::new));
    }
    if let Some(field) = fields.first_of(&SHOWN) {
        view = shown(view, field, own, &hidden, entry.layout.host);
    }
    hidden
        .into_iter()
        .fold(view, |view, pattern| view.exclude(pattern.as_str()))
}

/// What Mainstay's own `tools` says.
fn own_view(field: &Field<'_>) -> Option<ToolView> {
    if matches!(field.value(), Value::Array(_)) {
        return Some(included(ToolView::default(), field));
    }
    let fields = field.fields(&TOOLS)?;
    let mut view = ToolView::default();
    if let Some(field) = fields.get("include") {
        view = included(view, field);
    }
    let excluded = fields.read("exclude", names).unwrap_or_default();
    view = excluded.into_iter().fold(view, ToolView::exclude);
    for (tool, field) in fields.entries("rename") {
        if let Some(name) = field.text() {
            view = view.rename(tool, name);
        }
    }
    for (tool, field) in fields.entries("describe") {
        if let Some(text) = field.text() {
            view = view.describe_as(tool, text);
        }
    }
    Some(view)
}

fn included(view: ToolView, field: &Field<'_>) -> ToolView {
    match names(field) {
        Some(names) => names.into_iter().fold(view.include_none(), ToolView::include),
        None => view,
    }
}

fn shown(
    view: ToolView,
    field: &Field<'_>,
    own: Option<&Field<'_>>,
    hidden: &[Glob],
    host: Host,
) -> ToolView {
    if own.is_some() && view.hides() {
        field.error(ProblemText::new(
            "contradicts `tools`, which says what is shown, too",
            "keep one of the two",
        ));
        return view;
    }
    field.stands_for("tools.include");
    let names = names(field).unwrap_or_default();
    // An empty list means all tools to Goose, and none to the others.
    if names.is_empty() && host == Host::Goose {
        return view;
    }
    // In every program, a list of hidden tools counts more than a list of shown ones.
    let is_hidden = |name: &str| hidden.iter().any(|pattern| pattern.covers(&Glob::new(name)));
    let names = names.into_iter().filter(|name| !is_hidden(name));
    names.fold(view.include_none(), ToolView::include)
}

/// The texts of a list.
fn names<'a>(field: &Field<'a>) -> Option<Vec<&'a str>> {
    Some(field.items()?.iter().filter_map(Field::text).collect())
}

/// Whether `tools` says which calls a person is asked about, as in Codex' files, and nothing of what is shown.
fn is_approval(field: &Field<'_>, host: Host) -> bool {
    let shows = |key: &str| ["include", "exclude", "rename", "describe"].contains(&key);
    let object = field.as_object();
    host == Host::Codex && object.is_some_and(|tools| !tools.properties.iter().any(|tool| shows(&tool.name)))
}

/// The tools of a server that an agent of Amazon Q or Kiro sees; `None` for all of them.
fn granted<'a>(entry: &ServerEntry<'a>) -> Option<Vec<&'a str>> {
    let granted = entry.layout.granted.as_ref()?;
    let of_server = granted
        .iter()
        .filter_map(|tool| tool.strip_prefix('@')?.strip_prefix(entry.name));
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
fn patterns_after(entry: &ServerEntry<'_>) -> Vec<Glob> {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let name: String = entry.name.chars().map(plain).collect();
    let prefix = format!("{name}_");
    let mut hidden = Vec::new();
    for pattern in &entry.layout.hidden {
        if *pattern == name {
            hidden.push(Glob::new("*"));
        }
        hidden.extend(Glob::new(pattern.replace('?', "*")).after(&prefix));
    }
    hidden
}
