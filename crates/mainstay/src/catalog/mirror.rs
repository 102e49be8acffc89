//! The arguments that a tool wants mirrored in headers, so that what stands between can route by them: `x-mcp-header` in
//! its schema.
//!
//! A schema is read once, with its item, and only if it names the word at all. Whatever breaks a rule of the protocol
//! breaks the tool, but only where calls go over HTTP: other transports have no headers, and ignore the word.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use serde_json::{Map, Value};

use super::{Kind, ServerCatalog};
use crate::transport::http::ParamHeaders;
use crate::wire::{Object, RawJson};

const WORD: &str = "x-mcp-header";

/// Headers of one tool. HTTP servers take about a hundred in all, and refuse the request that has more.
const MAX_HEADERS: usize = 64;

/// Keywords whose values are data, where the word means nothing.
const DATA: [&str; 4] = ["default", "const", "enum", "examples"];

/// Keywords whose keys are names of the author's choice, each with a schema.
const NAMED: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];

/// One argument that is mirrored: in which header, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    /// What follows `Mcp-Param-`.
    header: String,
    /// The properties that lead to it, from the arguments down.
    path: Vec<String>,
}

/// The mirrors of a tool with this schema, or the rule that it breaks.
pub(super) fn read(schema: &str) -> Result<Vec<Mirror>, String> {
    if memchr::memmem::find(schema.as_bytes(), WORD.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let schema: Map<String, Value> =
        serde_json::from_str(schema).map_err(|error| format!("`inputSchema` cannot be read: {error}"))?;
    let mut reader = SchemaReader::default();
    reader.root(&schema)?;
    Ok(reader.mirrors)
}

/// The headers of the calls to one server, from the catalog that it was last listed with.
pub(crate) struct CallHeaders(Arc<ArcSwapOption<ServerCatalog>>);

impl CallHeaders {
    pub(crate) fn of(catalog: Arc<ArcSwapOption<ServerCatalog>>) -> Self {
        Self(catalog)
    }
}

impl ParamHeaders for CallHeaders {
    fn of_call(&self, tool: &str, arguments: &str) -> Vec<(String, String)> {
        let catalog = self.0.load();
        let tool = catalog
            .as_ref()
            .and_then(|catalog| catalog.item(Kind::Tool, tool));
        let Some(tool) = tool.filter(|tool| tool.is_mirrored()) else {
            return Vec::new();
        };
        let Ok(arguments) = RawJson::from_text(arguments) else {
            return Vec::new();
        };
        let header = |(name, value): (String, RawJson)| Some((name, text(&value)?));
        tool.mirrored(&arguments).into_iter().filter_map(header).collect()
    }
}

impl Mirror {
    /// The header of a call with these arguments, and what it holds; `None` where there is nothing that a header could
    /// hold.
    pub(super) fn of(&self, arguments: &Object) -> Option<(String, RawJson)> {
        let (first, rest) = self.path.split_first()?;
        let mut value = arguments.get(first)?.clone();
        for name in rest {
            value = Object::parse(&value)?.get(name)?.clone();
        }
        let is_plain = !matches!(value.as_bytes().first()?, b'n' | b'{' | b'[');
        is_plain.then(|| (self.header.clone(), value))
    }
}

/// The text of a value that a header can hold.
fn text(value: &RawJson) -> Option<String> {
    match value.parse::<Value>().ok()? {
        Value::String(text) => Some(text),
        // As it stands in the body: a server may compare the two as text.
        Value::Bool(_) | Value::Number(_) => Some(value.as_str().to_owned()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[derive(Default)]
struct SchemaReader {
    mirrors: Vec<Mirror>,
    /// In lower case, as headers are compared.
    names: BTreeSet<String>,
    path: Vec<String>,
}

impl SchemaReader {
    fn root(&mut self, schema: &Map<String, Value>) -> Result<(), String> {
        if schema.contains_key(WORD) {
            return Err(format!(
                "`{WORD}` belongs to a single argument, not to all of them"
            ));
        }
        self.inside(schema)
    }

    /// What lies below a schema that is reached by properties alone.
    fn inside(&mut self, schema: &Map<String, Value>) -> Result<(), String> {
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        self.path.push(name.clone());
                        self.property(property)?;
                        self.path.pop();
                    }
                }
                (keyword, value) => no_mirror_below(keyword, value)?,
            }
        }
        Ok(())
    }

    fn property(&mut self, property: &Value) -> Result<(), String> {
        let Value::Object(schema) = property else {
            return Ok(());
        };
        if let Some(header) = schema.get(WORD) {
            self.mirror(header, schema.get("type"))?;
        }
        self.inside(schema)
    }

    fn mirror(&mut self, header: &Value, its_type: Option<&Value>) -> Result<(), String> {
        let argument = self.path.join(".");
        let broken = |rule: &str| Err(format!("`{WORD}` of `{argument}` {rule}"));
        let Value::String(header) = header else {
            return broken("is no text");
        };
        if !is_token(header) {
            return broken("is no name of a header");
        }
        if !its_type.is_some_and(is_plain) {
            return broken("is on an argument that is neither string, integer nor boolean");
        }
        if !self.names.insert(header.to_ascii_lowercase()) {
            return broken("names a header that another argument has");
        }
        if self.mirrors.len() == MAX_HEADERS {
            return Err(format!("asks for more than {MAX_HEADERS} headers"));
        }
        self.mirrors.push(Mirror {
            header: header.clone(),
            path: self.path.clone(),
        });
        Ok(())
    }
}

/// Below any other keyword there may be no mirror: which argument it means would depend on the call.
fn no_mirror_below(keyword: &str, value: &Value) -> Result<(), String> {
    match value {
        _data if DATA.contains(&keyword) => Ok(()),
        Value::Object(schemas) if NAMED.contains(&keyword) => schemas
            .values()
            .try_for_each(|schema| no_mirror_below("", schema)),
        Value::Object(schema) if schema.contains_key(WORD) => Err(format!(
            "`{WORD}` is on something other than an argument of a fixed place"
        )),
        Value::Object(schema) => schema
            .iter()
            .try_for_each(|(keyword, value)| no_mirror_below(keyword, value)),
        Value::Array(schemas) => schemas.iter().try_for_each(|schema| no_mirror_below("", schema)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Whether values of this type have one text. `null` may stand beside: it has no header.
fn is_plain(its_type: &Value) -> bool {
    let plain = |name: &Value| matches!(name.as_str(), Some("string" | "integer" | "boolean"));
    match its_type {
        Value::Array(types) => {
            types.iter().any(plain)
                && types
                    .iter()
                    .all(|name| plain(name) || name.as_str() == Some("null"))
        }
        one => plain(one),
    }
}

/// Whether a header may have this name: RFC 9110's `token`.
fn is_token(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

#[cfg(test)]
mod tests;
