//! Finds the servers in a file.

use std::collections::HashMap;
use std::path::Path;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, ParseStringErrorKind, parse_to_ast};

use super::configuration::Configuration;
use super::entry::{self, Scope};
use super::error::ConfigError;
use super::fields::{Field, kind, unknown};
use super::nearest::nearest;
use super::problem::{dotted, quoted};
use super::report::{Fault, Lines, Report};

/// The keys that hold servers: most programs write the first, VS Code the second.
const GROUPS: [&str; 2] = ["mcpServers", "servers"];

/// Keys at the top of other programs' files that are theirs alone.
const FOREIGN: [&str; 9] = [
    "$schema",
    "//",
    "_comment",
    "comment",
    "description",
    "globalShortcut",
    "inputs",
    "preferences",
    "version",
];

/// JSON with comments and trailing commas, and not a liberty more: what is read here is read elsewhere too.
const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads a whole text.
pub(super) fn parse(text: &str, file: &Path, scope: &Scope<'_>) -> Result<Configuration, ConfigError> {
    // Some editors of Windows begin a text with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = Lines::new(text);
    let parsed =
        parse_to_ast(text, &CollectOptions::default(), &SYNTAX).map_err(|error| ConfigError::NotJson {
            path: file.to_owned(),
            place: lines.place(error.range().start),
            reason: reason(error.kind()),
        })?;
    let root = match &parsed.value {
        Some(Value::Object(root)) => root,
        Some(other) => {
            return Err(ConfigError::NotAnObject {
                path: file.to_owned(),
                place: lines.place(other.start()),
                found: kind(other),
            });
        }
        None => {
            return Err(ConfigError::Empty {
                path: file.to_owned(),
            });
        }
    };
    let groups = groups(root, file, &lines)?;
    let mut report = Report::new(text, file);
    top_level(root, &mut report);
    let servers = entries(&groups, &mut report)
        .into_iter()
        .filter_map(|(name, entry)| entry::read(name, &entry, scope, &mut report))
        .collect();
    let (problems, refused) = report.finish();
    Ok(Configuration {
        servers,
        problems,
        refused,
        source: file.to_owned(),
    })
}

/// The objects that hold servers. There may be several; a person who pastes a second one means both.
fn groups<'a>(
    root: &'a Object<'a>,
    file: &Path,
    lines: &Lines<'_>,
) -> Result<Vec<(&'a str, &'a Object<'a>)>, ConfigError> {
    let mut groups = Vec::new();
    for property in root.properties.iter().filter(|property| is_group(property)) {
        match &property.value {
            Value::Object(group) => groups.push((property.name.as_str(), group)),
            other => {
                return Err(ConfigError::ServersNotAnObject {
                    path: file.to_owned(),
                    place: lines.place(other.start()),
                    key: property.name.as_str().to_owned(),
                    found: kind(other),
                });
            }
        }
    }
    if groups.is_empty() {
        return Err(ConfigError::NoServers {
            path: file.to_owned(),
            place: lines.place(root.start()),
            mend: mend_missing_servers(root),
        });
    }
    Ok(groups)
}

fn mend_missing_servers(root: &Object<'_>) -> String {
    let misspelt = root
        .properties
        .iter()
        .find(|property| nearest(property.name.as_str(), GROUPS).is_some());
    if let Some(property) = misspelt {
        return format!(r#"rename {} to "mcpServers""#, quoted(property.name.as_str()));
    }
    let is_server = |object: &Object<'_>| object.get("command").or(object.get("url")).is_some();
    if root
        .properties
        .iter()
        .any(|property| property.value.as_object().is_some_and(is_server))
    {
        return r#"put the servers inside of it: {"mcpServers": {…}}"#.to_owned();
    }
    r#"write {"mcpServers": {"name": {"command": "program"}}}"#.to_owned()
}

fn top_level(root: &Object<'_>, report: &mut Report<'_>) {
    for property in &root.properties {
        let key = property.name.as_str();
        if !is_group(property) && !FOREIGN.contains(&key) {
            report.warning(
                &dotted("", key),
                property.name.start(),
                unknown(nearest(key, GROUPS)),
            );
        }
    }
}

/// The entries of all groups, in order. A name that is written twice is refused: neither can be known to be meant.
fn entries<'a>(groups: &[(&str, &'a Object<'a>)], report: &mut Report<'_>) -> Vec<(&'a str, Field<'a>)> {
    let all: Vec<(&str, &'a ObjectProp<'a>)> = groups
        .iter()
        .flat_map(|(group, object)| object.properties.iter().map(|property| (*group, property)))
        .collect();
    let mut written: HashMap<&str, Vec<usize>> = HashMap::new();
    for (_, property) in &all {
        written
            .entry(property.name.as_str())
            .or_default()
            .push(property.name.start());
    }
    let mut entries = Vec::new();
    for (group, property) in all {
        let name = property.name.as_str();
        let shown = dotted(group, name);
        match written[name].as_slice() {
            [first, second, ..] => {
                if property.name.start() == *second {
                    report.begin(name);
                    report.error(&shown, *second, duplicate(report, *first, *second));
                }
            }
            [_] | [] => entries.push((name, Field::entry(shown, property))),
        }
    }
    entries
}

fn duplicate(report: &Report<'_>, first: usize, second: usize) -> Fault {
    let (first, second) = (report.line(first), report.line(second));
    Fault::new(
        format!("two servers have this name, on lines {first} and {second}, so neither is used"),
        "rename or remove one",
    )
}

fn is_group(property: &ObjectProp<'_>) -> bool {
    GROUPS.contains(&property.name.as_str())
}

/// What is wrong with the JSON, and how to mend it. The parser's own words would quote the file.
fn reason(kind: &ParseErrorKind) -> &'static str {
    match kind {
        ParseErrorKind::ExpectedComma => "a comma is missing here",
        ParseErrorKind::ExpectedColonAfterObjectKey => "a key must be followed by a colon",
        ParseErrorKind::ExpectedObjectValue => "a key has no value",
        ParseErrorKind::ExpectedStringObjectProperty => "a key must be in double quotes",
        ParseErrorKind::SingleQuotedStringsNotAllowed => "a string must be in double quotes",
        ParseErrorKind::MultipleRootJsonValues => "there is more after the end of the object; remove it",
        ParseErrorKind::UnterminatedArray => "this array has no closing `]`",
        ParseErrorKind::UnterminatedObject => "this object has no closing `}`",
        ParseErrorKind::UnterminatedCommentBlock => "this comment has no closing `*/`",
        ParseErrorKind::NestingDepthExceeded => "nested too deeply",
        ParseErrorKind::String(ParseStringErrorKind::UnterminatedStringLiteral) => {
            "this string has no closing quote"
        }
        ParseErrorKind::String(_) => "this escape is unknown to JSON; write `\\\\` for `\\`",
        ParseErrorKind::UnexpectedWord => "expected a value; a string must be in double quotes",
        _ => "something here is not allowed in JSON",
    }
}
