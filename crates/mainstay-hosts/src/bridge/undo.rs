//! Moves the command of an entry back out of its arguments.

use mainstay::config::source::{Node, Property, Syntax};

use super::Parts;
use crate::text::lines::{begins_line, is_blank, line_end, line_start};
use crate::text::splice::Splice;
use crate::text::{comma, is_flow, lines_of};

/// The replacements that turn an entry back.
pub(super) fn splices(
    text: &str,
    syntax: Syntax,
    parts: &Parts<'_, '_>,
    list: &[Node<'_>],
    moved: usize,
) -> Vec<Splice> {
    let command = &parts.command.node;
    let written = &text[list[moved].start..list[moved].end];
    let mut splices = vec![Splice::replace(command.start..command.end, written)];
    if let Some(args) = parts.args {
        splices.push(arguments(text, syntax, parts, args, list, moved));
    }
    splices
}

fn arguments(
    text: &str,
    syntax: Syntax,
    parts: &Parts<'_, '_>,
    args: &Property<'_>,
    list: &[Node<'_>],
    moved: usize,
) -> Splice {
    let (start, end) = (args.node.start, list[moved].end);
    if !text[start..].starts_with('[') {
        return items(text, args, list, moved);
    }
    if let Some(next) = list.get(moved + 1) {
        let behind = comma(text, end, next.start).map_or(end, |comma| comma + 1);
        return Splice::delete(start + 1..behind);
    }
    let rest = &text[end..args.node.end];
    // Nothing behind the command: there was no list. A space: there was an empty one.
    match added_key(text, syntax, parts, args).filter(|_| rest == "]") {
        Some(key) => key,
        None if rest.starts_with(' ') => Splice::delete(start + 1..end + 1),
        // The host has rewritten its file, so the original form is no longer known.
        None => {
            let blank = rest.len() - rest.trim_start().len();
            Splice::delete(start + 1..end + blank)
        }
    }
}

/// The lines of the first items of a list of YAML.
fn items(text: &str, args: &Property<'_>, list: &[Node<'_>], moved: usize) -> Splice {
    if list.len() == moved + 1 {
        return Splice::delete(lines_of(text, args));
    }
    let first = line_start(text, list[0].start);
    let last = line_end(text, list[moved].end);
    Splice::delete(first..last)
}

/// The key `args` as a whole, if it can be taken away without touching anything else.
fn added_key(text: &str, syntax: Syntax, parts: &Parts<'_, '_>, args: &Property<'_>) -> Option<Splice> {
    if !is_flow(text, syntax, parts.node) {
        let lines = lines_of(text, args);
        let rest = text[args.node.end..].split('\n').next().unwrap_or_default();
        let is_alone = is_blank(rest.trim_end_matches('\r'));
        let is_own_line = syntax == Syntax::Toml || begins_line(text, args.name_at).is_some();
        return (is_alone && is_own_line).then(|| Splice::delete(lines));
    }
    let at = parts
        .object
        .properties
        .iter()
        .position(|property| property.name == "args")?;
    let before = &parts.object.properties[at.checked_sub(1)?];
    let between = &text[before.node.end..args.name_at];
    (between.trim() == ",").then(|| Splice::delete(before.node.end..args.node.end))
}
