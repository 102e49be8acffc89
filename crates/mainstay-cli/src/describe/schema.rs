//! A JSON schema as lines that a person reads: one for each argument, nested ones below their parent.

use serde_json::Value;

use crate::output::{Text, plain, text};

/// How deep nested arguments are shown. Schemas may be recursive.
const MAX_DEPTH: usize = 6;
/// How many arguments are shown; a server may send any number of them.
const MAX_ARGUMENTS: usize = 500;
/// How long a default or one choice may be.
const MAX_VALUE_CHARS: usize = 60;
/// How many choices of an enumeration are shown.
const MAX_CHOICES: usize = 30;
/// How often one reference leads to another.
const MAX_REFERENCES: usize = 8;

/// One argument.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) depth: usize,
    pub(super) name: Text,
    /// Its type, whether it is required, its default.
    pub(super) kind: Text,
    pub(super) description: Text,
}

/// The arguments that a schema describes, in its order, nested ones behind their parent.
pub(super) fn arguments(schema: &Value) -> Vec<Argument> {
    let mut reader = Reader {
        root: schema,
        arguments: Vec::new(),
    };
    reader.object(schema, 0);
    reader.arguments
}

struct Reader<'a> {
    root: &'a Value,
    arguments: Vec<Argument>,
}

impl<'a> Reader<'a> {
    fn object(&mut self, schema: &'a Value, depth: usize) {
        let schema = self.resolved(schema);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return;
        };
        let required = |name: &str| {
            let names = schema.get("required").and_then(Value::as_array);
            names.is_some_and(|names| names.iter().any(|one| one == name))
        };
        for (name, property) in properties {
            if self.arguments.len() == MAX_ARGUMENTS {
                return;
            }
            let resolved = self.resolved(property);
            let field = |name: &str| property.get(name).or_else(|| resolved.get(name));
            let mut kind = self.kind(property, 0);
            if required(name) {
                kind.push(", required");
            }
            if let Some(default) = field("default").filter(|default| !default.is_null()) {
                kind.push(text!(", default {}", value(default)));
            }
            let description = field("description").and_then(Value::as_str).unwrap_or_default();
            self.arguments.push(Argument {
                depth,
                name: plain(name),
                kind,
                description: plain(description),
            });
            if depth + 1 < MAX_DEPTH {
                self.nested(property, depth + 1);
            }
        }
    }

    /// The members of an object, of the items of an array, or of the alternatives.
    fn nested(&mut self, schema: &'a Value, depth: usize) {
        let schema = self.resolved(schema);
        self.object(schema, depth);
        if let Some(items) = schema.get("items") {
            self.object(items, depth);
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            for one in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
                self.object(one, depth);
            }
        }
    }

    fn kind(&self, schema: &'a Value, depth: usize) -> Text {
        let schema = self.resolved(schema);
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let mut shown: Vec<_> = choices.iter().take(MAX_CHOICES).map(value).collect();
            if choices.len() > MAX_CHOICES {
                shown.push("…".into());
            }
            return text!("one of {}", Text::join(shown, ", "));
        }
        if let Some(constant) = schema.get("const") {
            return value(constant);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(alternatives) = schema.get(key).and_then(Value::as_array)
                && depth < MAX_DEPTH
            {
                let mut kinds: Vec<Text> = Vec::new();
                for one in alternatives.iter().take(MAX_CHOICES) {
                    let kind = self.kind(one, depth + 1);
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                }
                return Text::join(kinds, " or ");
            }
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.named(kind, schema, depth),
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                Text::join(kinds.map(|kind| self.named(kind, schema, depth)), " or ")
            }
            _ if schema.get("properties").is_some() => "object".into(),
            _ => "any".into(),
        }
    }

    fn named(&self, kind: &str, schema: &'a Value, depth: usize) -> Text {
        match (kind, schema.get("items")) {
            ("array", Some(items)) if depth < MAX_DEPTH => text!("array of {}", self.kind(items, depth + 1)),
            _ => plain(kind),
        }
    }

    /// What a reference within the schema leads to.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..MAX_REFERENCES {
            let reference = schema.get("$ref").and_then(Value::as_str);
            let target = reference.and_then(|reference| self.root.pointer(reference.strip_prefix('#')?));
            match target {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

/// A value as JSON, cut.
fn value(value: &Value) -> Text {
    let shown = mainstay::gateway::PlainText::line(&value.to_string()).cut(MAX_VALUE_CHARS);
    shown.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(schema: &Value) -> Vec<String> {
        let line = |argument: &Argument| {
            format!(
                "{}{}: {}; {}",
                "  ".repeat(argument.depth),
                argument.name,
                argument.kind,
                argument.description
            )
        };
        arguments(schema).iter().map(line).collect()
    }

    #[test]
    fn types_choices_defaults_and_nested_arguments_are_shown() {
        let schema = json!({
            "type": "object",
            "required": ["a", "c"],
            "properties": {
                "a": { "type": "string", "description": "What\nto say." },
                "b": { "enum": ["x", 1], "default": "x" },
                "c": { "type": "array", "items": { "$ref": "#/$defs/Point" } },
                "d": { "anyOf": [{ "type": "integer" }, { "type": "null" }], "default": null },
                "e": {},
            },
            "$defs": { "Point": { "type": "object", "required": ["x"], "properties": { "x": { "type": "number" } } } },
        });
        assert_eq!(
            lines(&schema),
            [
                "a: string, required; What to say.",
                "b: one of \"x\", 1, default \"x\"; ",
                "c: array of object, required; ",
                "  x: number, required; ",
                "d: integer or null; ",
                "e: any; ",
            ]
        );
    }

    #[test]
    fn a_schema_without_end_has_one_here() {
        let schema = json!({
            "$ref": "#/$defs/Node",
            "$defs": {
                "Node": { "type": "object", "properties": {
                    "left": { "$ref": "#/$defs/Node" }, "right": { "$ref": "#/$defs/Node" } } },
                "Loop": { "$ref": "#/$defs/Loop" },
            },
        });
        assert!(arguments(&schema).len() <= MAX_ARGUMENTS);
        assert!(
            arguments(&json!({ "$ref": "#/$defs/Loop", "$defs": { "Loop": { "$ref": "#/$defs/Loop" } } }))
                .is_empty()
        );
        for odd in [
            json!(null),
            json!(7),
            json!({ "properties": 3 }),
            json!({ "properties": { "a": 3 } }),
        ] {
            let _ = arguments(&odd);
        }
    }
}
