//! Finds the servers in a file.

use std::collections::HashMap;
use std::path::Path;

use super::bounded::FilesRead;
use super::configuration::{ConfigError, Configuration};
use super::entry;
use super::expand::{Lookup, Variables};
use super::fields::{Field, unknown};
use super::host::{self, Host};
use super::layout::{GROUPS, Group, Layout, is_group};
use super::report::{LineIndex, ProblemReport, ValuesOwner};
use super::syntax::{Mapping, Node, Syntax, Value};
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, dotted};

/// Keys at the top of other programs' files that are theirs alone.
pub(super) const FOREIGN: [&str; 10] = [
    "$schema",
    "//",
    "_comment",
    "comment",
    "description",
    "globalShortcut",
    "inputs",
    "preferences",
    "sandbox",
    "version",
];

/// What a file is read against.
pub(super) struct FileContext<'a> {
    /// Where variables are looked up.
    pub(super) lookup: Lookup<'a>,
    /// Reads the files that the file names.
    pub(super) files: &'a FilesRead,
    /// The folder of the file.
    pub(super) folder: &'a Path,
    /// The working directory.
    pub(super) directory: &'a Path,
    /// Which process needs the values that variables and files hold.
    pub(super) values: ValuesOwner,
}

/// Reads a whole text.
pub(super) fn parse(
    text: &str,
    file: &Path,
    context: &FileContext<'_>,
) -> Result<Configuration, ConfigError> {
    // Some editors of Windows begin a text with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = LineIndex::new(text);
    let path = || file.to_owned();
    let (syntax, node) = tree(text, file)?;
    let root = node.as_object().ok_or_else(|| not_an_object(text, file, &node))?;
    let report = ProblemReport::new(text, file, context.values);
    let layout =
        Layout::of(root, syntax, file, context.directory, &report).map_err(|fix| ConfigError::NoServers {
            path: path(),
            position: lines.position(node.start),
            key: host::usual_key(syntax),
            fix,
        })?;
    if let Some(group) = layout.groups.iter().find(|group| !holds_servers(group.node)) {
        return Err(ConfigError::ServersNotAnObject {
            path: path(),
            position: lines.position(group.node.start),
            key: group.shown.clone(),
            found: group.node.value.kind(),
        });
    }
    top_level(root, layout.host, &report);
    let variables = Variables::of(context, &layout);
    let servers = entries(&layout.groups, &report)
        .into_iter()
        .filter_map(|(name, entry)| entry::read(name, entry, &layout, variables))
        .collect();
    let (problems, refused) = report.finish();
    Ok(Configuration {
        servers,
        problems,
        refused,
        host: layout.host,
        source: file.to_owned(),
        other_files: context.files.paths(),
    })
}

/// The value that a text holds, and the syntax that it is written in.
pub(super) fn tree<'t>(text: &'t str, file: &Path) -> Result<(Syntax, Node<'t>), ConfigError> {
    let syntax = Syntax::of(text, file);
    let read = syntax.read(text).map_err(|error| {
        let (path, reason) = (file.to_owned(), error.reason);
        let position = LineIndex::new(text).position(error.at);
        match syntax {
            Syntax::Json => ConfigError::NotJson {
                path,
                position,
                reason,
            },
            Syntax::Toml => ConfigError::NotToml {
                path,
                position,
                reason,
            },
            Syntax::Yaml => ConfigError::NotYaml {
                path,
                position,
                reason,
            },
        }
    })?;
    match read {
        Some(node) if !(syntax == Syntax::Yaml && matches!(node.value, Value::Null)) => Ok((syntax, node)),
        Some(_) | None => Err(ConfigError::Empty {
            path: file.to_owned(),
        }),
    }
}

/// Says that a text holds a value that is no object.
pub(super) fn not_an_object(text: &str, file: &Path, node: &Node<'_>) -> ConfigError {
    ConfigError::NotAnObject {
        path: file.to_owned(),
        position: LineIndex::new(text).position(node.start),
        found: node.value.kind(),
    }
}

/// Whether a value can be a collection of servers: an object, or a list whose items have names.
fn holds_servers(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Object(_) => true,
        Value::Array(items) => {
            let named = |item: &Node<'_>| {
                let item = item.as_object();
                item.is_some_and(|item| item.has("name") || item.has("uses"))
            };
            !items.is_empty() && items.iter().any(named)
        }
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => false,
    }
}

fn top_level(root: &Mapping<'_>, host: Host, report: &ProblemReport<'_>) {
    if host.has_other_settings() || (host == Host::VsCode && !root.has("servers")) {
        return;
    }
    for property in &root.properties {
        let key = &*property.name;
        if !is_group(key) && !FOREIGN.contains(&key) {
            report.warning(&dotted("", key), property.name_at, unknown(nearest(key, GROUPS)));
        }
    }
}

/// One server as it stands in a group.
struct FoundServer<'a> {
    name: &'a str,
    entry: Field<'a>,
    overrides: bool,
}

/// The entries of all groups, in order. A name that is written twice is refused: neither can be known to be meant.
fn entries<'a>(groups: &[Group<'a>], report: &'a ProblemReport<'a>) -> Vec<(&'a str, Field<'a>)> {
    let mut all: Vec<FoundServer<'a>> = Vec::new();
    for group in groups {
        all.extend(found(group, report));
    }
    let overriding: Vec<&str> = all
        .iter()
        .filter(|found| found.overrides)
        .map(|found| found.name)
        .collect();
    let mut written: HashMap<&str, Vec<usize>> = HashMap::new();
    all.retain(|found| {
        let is_replaced = !found.overrides && overriding.contains(&found.name);
        if is_replaced {
            found
                .entry
                .note("the server of the same name in this project is used instead");
        } else {
            written.entry(found.name).or_default().push(found.entry.at);
        }
        !is_replaced
    });
    let mut entries = Vec::new();
    for found in all {
        match written[found.name].as_slice() {
            [first, second, ..] => {
                if found.entry.at == *second {
                    report.begin(found.name);
                    found.entry.error(duplicate(report, *first, *second));
                }
            }
            [_] | [] => entries.push((found.name, found.entry)),
        }
    }
    entries
}

/// The servers of a group.
fn found<'a>(group: &Group<'a>, report: &'a ProblemReport<'a>) -> Vec<FoundServer<'a>> {
    let overrides = group.overrides;
    match &group.node.value {
        Value::Object(servers) => {
            let servers = servers.properties.iter().map(|property| {
                let shown = dotted(&group.shown, &property.name);
                FoundServer {
                    name: &property.name,
                    entry: Field::entry(shown, property.name_at, &property.node, report),
                    overrides,
                }
            });
            servers.collect()
        }
        Value::Array(servers) => {
            let named = servers.iter().enumerate().filter_map(|(n, node)| {
                let shown = format!("{}[{n}]", group.shown);
                let name = node.as_object().and_then(|server| server.get("name"));
                if node.as_object().is_some_and(|server| server.has("uses")) {
                    let problem = ProblemText::new(
                        "Continue takes this block from its hub, so it is not used here",
                        "write the server out, with its `command` or `url`",
                    );
                    report.warning(&shown, node.start, problem);
                    return None;
                }
                let Some(text) = name.and_then(Node::as_text) else {
                    let problem =
                        ProblemText::new("this server has no name, so it is not used", "give it a `name`");
                    report.warning(&shown, node.start, problem);
                    return None;
                };
                let name_at = name.map_or(node.start, |name| name.start);
                let entry = Field::entry(dotted(&group.shown, text), name_at, node, report);
                Some(FoundServer {
                    name: text,
                    entry,
                    overrides,
                })
            });
            named.collect()
        }
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => Vec::new(),
    }
}

fn duplicate(report: &ProblemReport<'_>, first: usize, second: usize) -> ProblemText {
    let (first, second) = (report.line(first), report.line(second));
    ProblemText::new(
        format!("two servers have this name, on lines {first} and {second}, so neither is used"),
        "rename or remove one",
    )
}
