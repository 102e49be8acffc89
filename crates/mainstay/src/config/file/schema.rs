//! The JSON Schema of a configuration, made from the tables that the reader uses.
//!
//! Draft 7, because every editor knows it. The keys that Mainstay documents are `properties`, which editors suggest. Their
//! camelCase twins and the keys of other programs are `patternProperties`, which editors accept and do not suggest.

use serde_json::{Map, Value, json};

use super::entry::{ADDRESSES, COMMANDS};
use super::keys::{Key, Keys, SERVER, Shape, camel_case};
use super::layout::GROUPS;
use super::parse::FOREIGN;

/// The JSON Schema of a configuration file in Mainstay's own form, for editors: a document of draft 7 with a description of
/// each key. [`Configuration`](super::Configuration) checks more than a schema can say.
pub fn json_schema() -> String {
    let schema = schema();
    serde_json::to_string_pretty(&schema).expect("a JSON value has text keys")
}

pub(super) fn schema() -> Value {
    let servers = json!({
        "description": "The servers, by name.",
        "type": "object",
        "propertyNames": { "minLength": 1, "maxLength": 64, "not": { "pattern": "__" } },
        "additionalProperties": { "$ref": "#/definitions/server" },
    });
    let [usual, other @ ..] = GROUPS;
    let beside: Vec<_> = FOREIGN.iter().filter(|key| **key != "$schema").collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Mainstay configuration",
        "description": "The MCP servers that Mainstay keeps connected.",
        "allowComments": true,
        "allowTrailingCommas": true,
        "type": "object",
        "properties": {
            "$schema": { "description": "Where this schema is, for editors.", "type": "string" },
            usual: { "$ref": "#/definitions/servers" },
        },
        "patternProperties": {
            pattern(other): { "$ref": "#/definitions/servers" },
            pattern(beside): true,
        },
        "additionalProperties": false,
        "anyOf": present(GROUPS),
        "definitions": {
            "servers": servers,
            "server": server(),
            "duration": duration(),
        },
    })
}

fn server() -> Value {
    let mut server = object(&SERVER, "#/definitions/server");
    let addresses = spellings(&ADDRESSES);
    let commands = spellings(&COMMANDS);
    let own = json!({
        "description": "A server: a `command` that Mainstay starts, or a `url` that it connects to.",
        "anyOf": present(commands.iter().chain(&addresses)),
        "not": { "allOf": [{ "anyOf": present(&commands) }, { "anyOf": present(&addresses) }] },
    });
    if let (Value::Object(server), Value::Object(own)) = (&mut server, own) {
        server.extend(own);
    }
    server
}

/// An object with these keys; `place` is where its schema is found in the document.
fn object(keys: &Keys, place: &str) -> Value {
    let mut known = Map::new();
    let mut tolerated = Map::new();
    for key in keys.known {
        let inside = format!("{place}/properties/{}", key.name);
        known.insert(key.name.to_owned(), property(key, &inside));
        let twin = camel_case(key.name);
        if twin != key.name {
            tolerated.insert(pattern([twin]), json!({ "$ref": inside }));
        }
    }
    let ignored_with_warning: Vec<_> = keys.ignored_with_warning.iter().map(|(key, _)| *key).collect();
    let foreign = keys.foreign.iter().map(|key| (*key).to_owned());
    let other: Vec<_> = spellings(keys.adopted)
        .into_iter()
        .chain(foreign)
        .chain(spellings(&ignored_with_warning))
        .collect();
    if !other.is_empty() {
        tolerated.insert(pattern(other), Value::Bool(true));
    }
    json!({
        "type": "object",
        "properties": known,
        "patternProperties": tolerated,
        "additionalProperties": false,
    })
}

fn property(key: &Key, place: &str) -> Value {
    // Editors show the first member that fits, so `null` stands last.
    let mut shapes = shapes(key.shape, place);
    shapes.push(json!({ "type": "null" }));
    json!({ "description": key.meaning, "anyOf": shapes })
}

/// The schemas of which a value must fit one; `place` is where the property's schema is found.
fn shapes(shape: Shape, place: &str) -> Vec<Value> {
    match shape {
        Shape::AnyOf(shapes) => {
            let schemas = shapes.iter().enumerate();
            let schemas = schemas.map(|(n, shape)| of_shape(*shape, &format!("{place}/anyOf/{n}")));
            schemas.collect()
        }
        Shape::Text
        | Shape::Flag
        | Shape::Duration
        | Shape::Count
        | Shape::WholeNumber
        | Shape::Choice(_)
        | Shape::Off
        | Shape::Texts
        | Shape::SomeTexts
        | Shape::Scalars
        | Shape::TextsByName
        | Shape::ScalarsByName
        | Shape::Object(_) => vec![of_shape(shape, &format!("{place}/anyOf/0"))],
    }
}

fn of_shape(shape: Shape, place: &str) -> Value {
    let text = json!({ "type": "string" });
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    match shape {
        Shape::Text => text,
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Duration => json!({ "$ref": "#/definitions/duration" }),
        Shape::Count => json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }),
        Shape::WholeNumber => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Shape::Choice(texts) => json!({ "enum": texts }),
        Shape::Off => json!({ "const": false }),
        Shape::Texts => json!({ "type": "array", "items": text }),
        Shape::SomeTexts => json!({ "type": "array", "items": text, "minItems": 1 }),
        Shape::Scalars => json!({ "type": "array", "items": scalar }),
        Shape::TextsByName => json!({ "type": "object", "additionalProperties": text }),
        Shape::ScalarsByName => json!({ "type": "object", "additionalProperties": scalar }),
        Shape::Object(keys) => object(keys, place),
        Shape::AnyOf(_) => json!({ "anyOf": shapes(shape, place) }),
    }
}

/// A number of seconds, or a text with a unit.
fn duration() -> Value {
    json!({
        "anyOf": [
            {
                "description": "A number with a unit: 500ms, 30s, 5m, 1h, 2d.",
                "type": "string",
                "pattern": r"^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|m|h|d)\s*$",
            },
            { "description": "A number of seconds.", "type": "number", "exclusiveMinimum": 0 },
        ],
    })
}

/// Schemas of which each wants one of these keys.
fn present<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Vec<Value> {
    let keys = keys.into_iter();
    keys.map(|key| json!({ "required": [key.as_ref()] })).collect()
}

/// Keys in snake_case and, where it differs, in camelCase.
fn spellings(keys: &[&str]) -> Vec<String> {
    let mut spelled: Vec<_> = keys
        .iter()
        .flat_map(|key| [(*key).to_owned(), camel_case(key)])
        .collect();
    spelled.dedup();
    spelled
}

/// The regular expression of exactly these keys.
fn pattern<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> String {
    // `$` is the only character with a meaning that a key has.
    let keys = keys.into_iter().map(|key| key.as_ref().replace('$', r"\$"));
    format!("^({})$", keys.collect::<Vec<_>>().join("|"))
}
