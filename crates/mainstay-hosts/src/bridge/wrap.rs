//! Moves the command of an entry into its arguments.

use mainstay::config::source::{Node, Syntax};

use super::{BridgeError, Parts};
use crate::text::lines::{begins_line, is_blank, line_break, line_start};
use crate::text::literal::{quoted, quoted_list};
use crate::text::splice::Splice;
use crate::text::{is_flow, line_after};

const NOT_MOVABLE: BridgeError =
    BridgeError::Unsuitable("its command is written in a way that cannot be moved; put it in double quotes");

pub(super) fn splices(
    text: &str,
    syntax: Syntax,
    parts: &Parts<'_, '_>,
    program: &str,
    words: &[&str],
) -> Result<Vec<Splice>, BridgeError> {
    let command = &parts.command.node;
    let written = &text[command.start..command.end];
    if !is_movable(written, syntax) {
        return Err(NOT_MOVABLE);
    }
    let start = match parts.args {
        Some(args) if text[args.node.start..].starts_with('[') => {
            let is_empty = args.node.as_array().is_none_or(<[_]>::is_empty);
            let behind = if is_empty { ' ' } else { ',' };
            let list = format!(
                "{}, {}{behind}",
                quoted_list(words.iter().copied()),
                in_flow(written, syntax)?
            );
            Splice::insert(args.node.start + 1, list)
        }
        Some(args) => before_items(text, &args.node, words, written)?,
        None => new_list(text, syntax, parts, words, written)?,
    };
    let command = Splice::replace(command.start..command.end, quoted(program));
    Ok(vec![command, start])
}

/// Whether a text may stand in a list as it is written.
fn is_movable(written: &str, syntax: Syntax) -> bool {
    let is_quoted = written.starts_with(['"', '\'']);
    let is_plain =
        syntax == Syntax::Yaml && !written.starts_with(['&', '*', '!', '|', '>', '%', '@', '`', '-', '?']);
    !written.contains('\n') && (is_quoted || is_plain)
}

/// In brackets, a text of YAML without quotes may hold less than elsewhere.
fn in_flow(written: &str, syntax: Syntax) -> Result<&str, BridgeError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '~' | '@' | '+');
    if syntax != Syntax::Yaml || written.starts_with(['"', '\'']) || written.chars().all(plain) {
        return Ok(written);
    }
    Err(NOT_MOVABLE)
}

/// Lines before the first item of a list of YAML, each with its dash.
fn before_items(text: &str, list: &Node<'_>, words: &[&str], written: &str) -> Result<Splice, BridgeError> {
    let first = list.as_array().and_then(<[_]>::first);
    let first = first.ok_or(BridgeError::Unsuitable("its args are written in an unusual way"))?;
    let start = line_start(text, first.start);
    let before = &text[start..first.start];
    let dash = before
        .find('-')
        .filter(|&dash| is_blank(&before[..dash]) && is_blank(&before[dash + 1..]))
        .ok_or(BridgeError::Unsuitable("its args are written in an unusual way"))?;
    let indent = &before[..dash];
    let line_break = line_break(text);
    let mut lines = String::new();
    for word in words.iter().map(|word| quoted(word)).chain([written.to_owned()]) {
        lines += &format!("{indent}- {word}{line_break}");
    }
    Ok(Splice::insert(start, lines))
}

/// A list of arguments behind the command.
fn new_list(
    text: &str,
    syntax: Syntax,
    parts: &Parts<'_, '_>,
    words: &[&str],
    written: &str,
) -> Result<Splice, BridgeError> {
    let list = format!(
        "[{}, {}]",
        quoted_list(words.iter().copied()),
        in_flow(written, syntax)?
    );
    let (name_at, end) = (parts.command.name_at, parts.command.node.end);
    let property = match syntax {
        Syntax::Json => format!("\"args\": {list}"),
        Syntax::Toml => format!("args = {list}"),
        Syntax::Yaml => format!("args: {list}"),
    };
    if is_flow(text, syntax, parts.node) {
        let between = match begins_line(text, name_at) {
            Some(indent) => format!(",{}{indent}", line_break(text)),
            None => ", ".to_owned(),
        };
        return Ok(Splice::insert(end, format!("{between}{property}")));
    }
    let before = &text[line_start(text, name_at)..name_at];
    let before = match syntax {
        // The keys before a dotted one.
        Syntax::Json | Syntax::Toml => before.to_owned(),
        // The dash of a list stands in the place of the indentation.
        Syntax::Yaml => " ".repeat(before.len()),
    };
    Ok(line_after(text, end, &format!("{before}{property}")))
}
