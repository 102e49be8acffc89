//! Variables of a host's file in Mainstay's own spelling, and the variables that a server needs from its host.

use std::collections::BTreeMap;
use std::path::Path;

use mainstay::config::source::{Node, SourceInput, SourceTree, Value};

/// What stands between a variable and its default.
pub(super) const DEFAULT: &str = ":-";

/// The variables of a text with defaults: `${NAME:-default}` by name.
#[derive(Default)]
pub(super) struct Defaults(BTreeMap<String, String>);

impl Defaults {
    pub(super) fn of(node: &Node<'_>) -> Self {
        let mut defaults = Self::default();
        defaults.collect(node);
        defaults
    }

    fn collect(&mut self, node: &Node<'_>) {
        match &node.value {
            Value::Text(text) => self.scan(text),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(object) => object
                .properties
                .iter()
                .for_each(|property| self.collect(&property.node)),
            Value::Null | Value::Flag(_) | Value::Number(_) => {}
        }
    }

    fn scan(&mut self, text: &str) {
        for (at, _) in text.match_indices("${") {
            let Some(inside) = braced(&text[at..]) else {
                continue;
            };
            if let Some((name, _)) = inside.split_once(DEFAULT) {
                let name = name.strip_prefix("env:").unwrap_or(name);
                let written = inside.strip_prefix("env:").unwrap_or(inside);
                self.0
                    .entry(name.to_owned())
                    .or_insert_with(|| format!("${{{written}}}"));
            }
        }
    }

    /// A variable with its default, if it has one.
    pub(super) fn written(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| as_variable(name))
    }
}

/// A variable as Mainstay's file has it. The library puts it in the place of whatever spelling the host uses.
pub(super) fn as_variable(name: &str) -> String {
    format!("${{{name}}}")
}

/// The inputs of a file of VS Code, as variables with their defaults.
pub(super) struct Inputs(Vec<SourceInput>);

impl Inputs {
    pub(super) fn of(tree: &SourceTree<'_>) -> Self {
        Self(tree.inputs.clone())
    }

    /// A text with the default of each variable that stands for an input.
    pub(super) fn with_defaults(&self, text: &str) -> String {
        self.replaced(text, |input| as_variable(&input.variable))
    }

    /// A text with each `${input:ID}` as the variable that stands for it, with its default.
    pub(super) fn as_variables(&self, text: &str) -> String {
        self.replaced(text, |input| format!("${{input:{}}}", input.id))
    }

    fn replaced(&self, text: &str, spelling: impl Fn(&SourceInput) -> String) -> String {
        self.0.iter().fold(text.to_owned(), |text, input| {
            let default = input.default.as_deref().and_then(as_default);
            let written = match default {
                Some(default) => format!("${{{}{DEFAULT}{default}}}", input.variable),
                None => as_variable(&input.variable),
            };
            text.replace(&spelling(input), &written)
        })
    }
}

/// A text as the default of a variable. `None` for one that ends in `$$`: with the `}` behind it, that would be a plain `}`.
fn as_default(text: &str) -> Option<String> {
    let written = text.replace("${", "$${").replace('}', "$$}");
    (!text.ends_with("$$")).then_some(written)
}

/// The home directory in a spelling that no person writes. The reader takes it for the same directory; in what was read, it is told
/// from a path that stands in the host's file.
pub(super) struct MarkedHome(String);

impl MarkedHome {
    pub(super) fn of(home: &Path) -> Self {
        Self(format!("/.{}", home.display()))
    }

    pub(super) fn path(&self) -> &str {
        &self.0
    }

    /// The text with the variable in the place of its value.
    pub(super) fn as_variable(&self, text: &str) -> String {
        text.replace(&self.0, "${HOME}")
    }
}

/// The text with each `$NAME` as `${NAME}`, which alone is a variable in Mainstay's file.
pub(super) fn with_braces(text: &str) -> String {
    let mut braced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        braced.push_str(before);
        let behind = &from[1..];
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = behind.find(|c| !is_in_name(c)).unwrap_or(behind.len());
        let (name, after) = behind.split_at(end);
        let literal = behind.strip_prefix("${");
        rest = if let Some(after) = literal {
            braced.push_str("$${");
            after
        } else if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            braced.push('$');
            behind
        } else {
            braced.push_str(&format!("${{{name}}}"));
            after
        };
    }
    braced + rest
}

/// What stands between `${` and its `}`. `$${` and `$$}` are no braces of a variable.
fn braced(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (depth_after, length) = if depth > 0 && (rest.starts_with("$${") || rest.starts_with("$$}")) {
            (depth, 3)
        } else if rest.starts_with("${") {
            (depth + 1, 2)
        } else if rest.starts_with('}') {
            (depth.checked_sub(1)?, 1)
        } else {
            (depth, rest.chars().next().map_or(1, char::len_utf8))
        };
        if depth_after == 0 {
            return text.get(2..at);
        }
        (depth, at) = (depth_after, at + length);
    }
    None
}

/// The names of the variables that a server gets from its host beside a small default set, as far as its entry names them.
pub(super) fn needed(entry: &Node<'_>) -> Vec<String> {
    let Some(object) = entry.as_object() else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for property in &object.properties {
        match (&*property.name, &property.node.value) {
            ("env" | "environment" | "envs", Value::Object(env)) => {
                names.extend(
                    env.properties
                        .iter()
                        .map(|variable| variable.name.clone().into_owned()),
                );
            }
            ("env_keys" | "env_vars", Value::Array(items)) => {
                let name = |item: &Node<'_>| {
                    let named = item.as_object().and_then(|item| item.text("name"));
                    item.as_text().or(named).map(str::to_owned)
                };
                names.extend(items.iter().filter_map(name));
            }
            // The older form of Zed.
            ("command", Value::Object(_)) => names.extend(needed(&property.node)),
            ("args", Value::Array(items)) => {
                let command = ["command", "cmd", "path"].iter().find_map(|key| object.text(key));
                if command.is_some_and(is_container_runner) {
                    let words: Vec<&str> = items.iter().filter_map(Node::as_text).collect();
                    names.extend(passed_to_container(&words));
                }
            }
            _ => {}
        }
    }
    names
}

fn is_container_runner(command: &str) -> bool {
    let name = Path::new(command).file_name().and_then(|name| name.to_str());
    matches!(name, Some("docker" | "podman" | "nerdctl"))
}

/// The variables that a container takes from the environment of its runner: `-e NAME` without a value.
fn passed_to_container(words: &[&str]) -> Vec<String> {
    let is_name = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(plain)
    };
    let mut names = Vec::new();
    for (n, word) in words.iter().enumerate() {
        let name = match *word {
            "-e" | "--env" => words.get(n + 1).copied(),
            word => word.strip_prefix("--env=").or_else(|| word.strip_prefix("-e")),
        };
        names.extend(name.filter(|name| is_name(name)).map(str::to_owned));
    }
    names
}

/// Whether a name can stand behind `--env`.
pub(super) fn is_passable(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(['=', '\0', ','])
}
