//! Reads a text into a tree, in the syntax that it is written in: JSON, TOML or YAML.
//!
//! What a text looks like decides; its file name counts only where that leaves a choice. Messages never repeat the text,
//! which may hold secrets.

mod json;
mod toml;
mod yaml;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// A syntax that configurations are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// Why a text cannot be read, and at which of its bytes.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) reason: String,
}

impl Syntax {
    /// The syntax of a text.
    pub(super) fn of(text: &str, file: &Path) -> Self {
        if begins_like_json(text) {
            return Self::Json;
        }
        let extension = file.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("toml") => return Self::Toml,
            Some("yaml" | "yml") => return Self::Yaml,
            Some(_) | None => {}
        }
        text.lines().find_map(by_line).unwrap_or(Self::Json)
    }

    /// Reads a text; `None` where it holds no value.
    pub(super) fn read(self, text: &str) -> Result<Option<Node<'_>>, SyntaxError> {
        match self {
            Self::Json => json::read(text),
            Self::Toml => toml::read(text).map(Some),
            Self::Yaml => yaml::read(text),
        }
    }
}

impl fmt::Display for Syntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        })
    }
}

/// Whether a text begins with an object or a comment of JSON.
fn begins_like_json(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('{') || text.starts_with("//") || text.starts_with("/*")
}

/// The syntax that a line belongs to and no other: a table or an assignment of TOML, a key or an item of YAML.
fn by_line(line: &str) -> Option<Syntax> {
    let line = line.trim_end();
    let is_key = |key: &str| {
        let key = key.trim().trim_matches(['"', '\'']);
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'' | '/' | ' ');
        !key.is_empty() && key.chars().all(plain)
    };
    if line.starts_with("---") || line.starts_with("- ") || line.starts_with("%YAML") {
        return Some(Syntax::Yaml);
    }
    if let Some(table) = line.strip_prefix('[') {
        let table = table.split('#').next().unwrap_or_default().trim_end();
        return table
            .strip_suffix(']')
            .is_some_and(|name| {
                is_key(name.trim_matches(['[', ']'])) && !name.trim_start().starts_with(['"', '{'])
            })
            .then_some(Syntax::Toml);
    }
    if line.starts_with(['#', '"', ' ', '\t', '{']) {
        return None;
    }
    match line.find([':', '=']) {
        Some(at) if line[at..].starts_with('=') && is_key(&line[..at]) => Some(Syntax::Toml),
        Some(at) if is_key(&line[..at]) && (line.len() == at + 1 || line[at + 1..].starts_with(' ')) => {
            Some(Syntax::Yaml)
        }
        Some(_) | None => None,
    }
}

/// A value, and the bytes of the text that it takes up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Node<'t> {
    /// The first byte of the value.
    pub start: usize,
    /// The byte after the value. A block of YAML may end before the blank lines and comments behind it, or after them.
    pub end: usize,
    /// The value.
    pub value: Value<'t>,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Value<'t> {
    /// `null`, or nothing in YAML.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// The digits, as JSON would write them.
    Number(Cow<'t, str>),
    /// A text, without its quotes and escapes.
    Text(Cow<'t, str>),
    /// A list.
    Array(Vec<Node<'t>>),
    /// An object, a table or a mapping.
    Object(Mapping<'t>),
}

/// The keys of an object, in the order of the text. A key may be there twice.
#[derive(Clone, Debug, Default)]
pub struct Mapping<'t> {
    /// The keys with their values.
    pub properties: Vec<Property<'t>>,
}

/// A key with its value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Property<'t> {
    /// The key, without its quotes and escapes.
    pub name: Cow<'t, str>,
    /// The first byte of the key, its quote included.
    pub name_at: usize,
    /// The value.
    pub node: Node<'t>,
}

impl<'t> Mapping<'t> {
    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<&Node<'t>> {
        let property = self.properties.iter().find(|property| property.name == key)?;
        Some(&property.node)
    }

    /// The first value of a key, if it is an object.
    pub fn object(&self, key: &str) -> Option<&Mapping<'t>> {
        self.get(key)?.as_object()
    }

    /// The first value of a key, if it is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl<'t> Node<'t> {
    /// The value, if it is an object.
    pub fn as_object(&self) -> Option<&Mapping<'t>> {
        match &self.value {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The value, if it is a list.
    pub fn as_array(&self) -> Option<&[Node<'t>]> {
        match &self.value {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The value, if it is a text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Value<'_> {
    /// What a value is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Flag(_) => "a boolean",
            Self::Object(_) => "an object",
            Self::Array(_) => "an array",
            Self::Null => "null",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Syntax;

    #[test]
    fn a_text_is_recognised_by_what_it_looks_like_and_only_then_by_its_name() {
        for (text, name, expected) in [
            ("{}", "a.json", Syntax::Json),
            ("{}", "a.toml", Syntax::Json),
            ("  // servers\n{}", "a.yaml", Syntax::Json),
            ("", "a.json", Syntax::Json),
            ("[]", "a", Syntax::Json),
            ("[1, 2]", "a", Syntax::Json),
            ("[\"a\"]", "a", Syntax::Json),
            ("nonsense", "a", Syntax::Json),
            ("\"mcpServers\": {}", "a.json", Syntax::Json),
            ("nonsense", "a.toml", Syntax::Toml),
            ("[mcp_servers.files]\ncommand = \"x\"", "config", Syntax::Toml),
            (
                "# mine\n[mcp_servers.\"my files\"] # x\n",
                "config.json",
                Syntax::Toml,
            ),
            ("model = \"o5\"\n", "config", Syntax::Toml),
            ("[[rules]]\n", "config", Syntax::Toml),
            ("GOOSE_MODEL: x\nextensions:\n", "config", Syntax::Yaml),
            ("---\nname: x\n", "config", Syntax::Yaml),
            ("mcpServers:\n  - name: x\n", "config.json", Syntax::Yaml),
            ("url: a=b\n", "config", Syntax::Yaml),
            ("x = \"a: b\"\n", "config", Syntax::Toml),
        ] {
            assert_eq!(Syntax::of(text, Path::new(name)), expected, "{text:?} in {name}");
        }
    }
}
