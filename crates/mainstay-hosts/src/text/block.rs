//! Inserts and removes keys that have lines of their own: tables of TOML, block mappings of YAML.

use std::ops::Range;

use mainstay::config::source::{Mapping, Node, Property, Syntax, Value};

use super::lines::{begins_line, line_break, line_end, line_start};
use super::literal;
use super::splice::Splice;
use super::value::ConfigValue;

/// Puts a key among those of a table; `None` where there is no safe place.
pub(super) fn insert(
    text: &str,
    syntax: Syntax,
    node: &Node<'_>,
    object: &Mapping<'_>,
    name: &str,
    value: &ConfigValue,
) -> Option<Vec<Splice>> {
    match syntax {
        Syntax::Toml => {
            let line = format!("{} = {}", literal::toml_key(name), literal::toml(value));
            let own = object
                .properties
                .iter()
                .rfind(|property| !is_table(text, &property.node));
            match own {
                Some(last) => {
                    let before = &text[line_start(text, last.name_at)..last.name_at];
                    Some(vec![line_after(text, last.node.end, &format!("{before}{line}"))])
                }
                None if text[node.start..].starts_with('[') => {
                    Some(vec![line_after(text, node.start, &line)])
                }
                None => None,
            }
        }
        Syntax::Yaml => {
            let first = object.properties.first()?;
            let line = format!("{}: {}", literal::yaml_key(name), literal::json_flow(value));
            match begins_line(text, first.name_at) {
                Some(indent) => Some(vec![Splice::insert(
                    line_start(text, first.name_at),
                    format!("{indent}{line}{}", line_break(text)),
                )]),
                None => {
                    let column = first.name_at - line_start(text, first.name_at);
                    let line = format!("{}{line}", " ".repeat(column));
                    Some(vec![line_after(text, last_byte(text, first), &line)])
                }
            }
        }
        Syntax::Json => None,
    }
}

/// A new line behind the one that `at` stands in.
pub(crate) fn line_after(text: &str, at: usize, line: &str) -> Splice {
    let line_break = line_break(text);
    let end = line_end(text, at);
    if text[..end].ends_with('\n') {
        Splice::insert(end, format!("{line}{line_break}"))
    } else {
        Splice::insert(end, format!("{line_break}{line}"))
    }
}

/// Removes a key with all of its lines.
pub(super) fn remove(text: &str, property: &Property<'_>) -> Vec<Splice> {
    vec![Splice::delete(lines_of(text, property))]
}

/// The lines of a key and its value. The last line of a text that has no line break at its end takes the one before it.
pub(crate) fn lines_of(text: &str, property: &Property<'_>) -> Range<usize> {
    let start = line_start(text, property.name_at);
    let end = line_end(text, last_byte(text, property));
    if end == text.len() && !text.ends_with('\n') {
        let before = text[..start].trim_end_matches('\n').trim_end_matches('\r');
        return before.len()..end;
    }
    start..end
}

/// The last byte that a key and its value take up.
fn last_byte(text: &str, property: &Property<'_>) -> usize {
    last_of_node(text, &property.node).max(property.name_at)
}

/// Where a block of YAML ends is not asked of the parser, which may count the comments behind it.
fn last_of_node(text: &str, node: &Node<'_>) -> usize {
    let last = node.end.saturating_sub(1);
    let bracket = |open| text[node.start..].starts_with(open);
    match &node.value {
        Value::Object(object) => {
            let inner = object
                .properties
                .iter()
                .map(|property| last_byte(text, property))
                .max();
            let own = if bracket('{') { last } else { node.start };
            inner.unwrap_or(node.start).max(own)
        }
        Value::Array(items) => {
            let inner = items.iter().map(|item| last_of_node(text, item)).max();
            let own = if bracket('[') { last } else { node.start };
            inner.unwrap_or(node.start).max(own)
        }
        // A key of YAML without a value: the parser may place it on a later line.
        Value::Null if last <= node.start => 0,
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => last,
    }
}

/// Whether a value of TOML is a table under its own heading.
fn is_table(text: &str, node: &Node<'_>) -> bool {
    match &node.value {
        Value::Object(_) => !text[node.start..].starts_with('{'),
        Value::Array(items) => {
            items.iter().any(|item| is_table(text, item)) && text[node.start..].starts_with("[[")
        }
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => false,
    }
}
