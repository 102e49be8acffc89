//! Inserts and removes keys of an object in braces: all objects of JSON, inline tables of TOML, flow mappings of YAML.

use mainstay::config::source::{Mapping, Node, Syntax};

use super::lines::{begins_line, indent_unit, indentation, is_blank, line_break, whole_lines};
use super::literal::{self, LineLayout};
use super::splice::Splice;
use super::value::ConfigValue;

/// Puts a key behind the last one.
pub(super) fn insert(
    text: &str,
    syntax: Syntax,
    node: &Node<'_>,
    object: &Mapping<'_>,
    name: &str,
    value: &ConfigValue,
) -> Vec<Splice> {
    let closing = node.end - 1;
    let Some(last) = object.properties.last() else {
        return insert_first(text, syntax, node, name, value);
    };
    let comma = comma(text, last.node.end, closing);
    let behind = comma.map_or(last.node.end, |at| at + 1);
    let (lead, trail) = if comma.is_some() { ("", ",") } else { (",", "") };
    match begins_line(text, last.name_at).filter(|_| syntax == Syntax::Json) {
        Some(indent) => {
            let line_break = line_break(text);
            let property = property(text, syntax, name, value, Some(indent));
            let line = format!("{line_break}{indent}{property}{trail}");
            vec![
                Splice::insert(last.node.end, lead),
                Splice::insert(rest_of_line(text, behind), line),
            ]
        }
        None => {
            let property = property(text, syntax, name, value, None);
            vec![Splice::insert(behind, format!("{lead} {property}{trail}"))]
        }
    }
}

fn insert_first(text: &str, syntax: Syntax, node: &Node<'_>, name: &str, value: &ConfigValue) -> Vec<Splice> {
    let open = node.start + 1;
    let inside = &text[open..node.end - 1];
    if syntax != Syntax::Json {
        let property = property(text, syntax, name, value, None);
        return vec![Splice::insert(open, format!(" {property} "))];
    }
    let outer = indentation(text, node.start);
    let indent = format!("{outer}{}", indent_unit(text));
    let line_break = line_break(text);
    let property = property(text, syntax, name, value, Some(&indent));
    let line = format!("{line_break}{indent}{property}");
    if is_blank(inside) {
        return vec![Splice::replace(
            open..node.end - 1,
            format!("{line}{line_break}{outer}"),
        )];
    }
    vec![Splice::insert(open, line)]
}

fn property(text: &str, syntax: Syntax, name: &str, value: &ConfigValue, indent: Option<&str>) -> String {
    match (syntax, indent) {
        (Syntax::Toml, _) => format!("{} = {}", literal::toml_key(name), literal::toml(value)),
        (Syntax::Json, Some(indent)) => {
            let layout = LineLayout {
                indent,
                unit: indent_unit(text),
                line_break: line_break(text),
            };
            format!("{}: {}", literal::quoted(name), literal::json(value, layout))
        }
        (Syntax::Json | Syntax::Yaml, _) => {
            format!("{}: {}", literal::quoted(name), literal::json_flow(value))
        }
    }
}

/// Removes a key, its value, and the comma that is then too many. Comments stay.
pub(super) fn remove(text: &str, node: &Node<'_>, object: &Mapping<'_>, index: usize) -> Vec<Splice> {
    let property = &object.properties[index];
    let (from, to) = (property.name_at, property.node.end);
    let next = object.properties.get(index + 1);
    let comma_behind = comma(text, to, next.map_or(node.end - 1, |next| next.name_at));
    let before = index.checked_sub(1).map(|index| &object.properties[index]);
    match (comma_behind, before) {
        (Some(at), _) if is_blank(&text[to..at]) => vec![removed(text, from, at + 1)],
        (Some(at), _) => vec![removed(text, from, to), Splice::delete(at..at + 1)],
        (None, None) => vec![removed(text, from, to)],
        // The last key: the comma before it goes, too.
        (None, Some(before)) => match comma(text, before.node.end, from) {
            Some(at) if text[at + 1..from].trim().is_empty() && begins_line(text, from).is_none() => {
                vec![Splice::delete(at..to)]
            }
            Some(at) => vec![Splice::delete(at..at + 1), removed(text, from, to)],
            None => vec![removed(text, from, to)],
        },
    }
}

/// The whole lines if nothing else stands on them; otherwise the bytes and the spaces behind them.
fn removed(text: &str, from: usize, to: usize) -> Splice {
    if let Some(lines) = whole_lines(text, from, to) {
        return Splice::delete(lines);
    }
    let rest = &text[to..];
    let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    Splice::delete(from..to + spaces)
}

/// The comma between `from` and `to` that is not in a comment.
pub(crate) fn comma(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut at = from;
    while at < to {
        let rest = &text[at..to];
        if rest.starts_with(',') {
            return Some(at);
        }
        at += comment(rest).unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
    }
    None
}

/// Where the spaces and comments behind `from` end that end on the same line.
fn rest_of_line(text: &str, from: usize) -> usize {
    let mut end = from;
    let mut at = from;
    while let Some(c) = text[at..].chars().next() {
        match comment(&text[at..]) {
            Some(length) if !text[at..at + length].contains('\n') => {
                at += length;
                end = at;
            }
            Some(_) => return end,
            None if c == ' ' || c == '\t' => at += 1,
            None => return end,
        }
    }
    end
}

/// The length of the comment that a text begins with, without the line break behind it.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") || text.starts_with('#') {
        let line = text.split('\n').next().unwrap_or(text);
        return Some(line.trim_end_matches('\r').len());
    }
    let inside = text.strip_prefix("/*")?;
    Some(inside.find("*/").map_or(text.len(), |end| end + "/**/".len()))
}
