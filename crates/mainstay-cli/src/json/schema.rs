//! The JSON Schemas of the documents, published in `docs/schemas`.
//!
//! They are made from the types of the documents, and take nothing else: each key must be there, and no other may be.

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::{
    AnswerDocument, AuthStatusDocument, CheckDocument, ConfiguredDocument, DaemonDocument, DescribedDocument,
    DoctorDocument, EventLine, LogLine, LoggedInDocument, LogoutDocument, PingDocument, ReloadDocument,
    ReplayDocument, SessionsDocument, StatusDocument, ToolsDocument,
};

/// The keys that a document leaves out, where another would have `null`. There, `null` is a value that was compared.
const MAY_BE_ABSENT: [(&str, &str); 2] = [("DifferenceDocument", "recorded"), ("DifferenceDocument", "now")];

/// An output that has a schema: a command with `--json`, by its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputName {
    /// `mainstay check --json`, with and without `--no-start`
    Check,
    /// `mainstay tools --json`
    Tools,
    /// `mainstay describe --json`, with and without an answer of the server
    Describe,
    /// `mainstay call --json`
    Call,
    /// `mainstay read --json`
    Read,
    /// `mainstay prompt --json`
    Prompt,
    /// `mainstay ping --json`
    Ping,
    /// `mainstay status --json`
    Status,
    /// `mainstay reload --json`
    Reload,
    /// A line of `mainstay logs --json`
    Logs,
    /// A line of `mainstay events --json`
    Events,
    /// `mainstay sessions --json`
    Sessions,
    /// `mainstay replay --json`
    Replay,
    /// `mainstay login --json`
    Login,
    /// `mainstay logout --json`
    Logout,
    /// `mainstay auth status --json`
    AuthStatus,
    /// `mainstay daemon status --json`
    DaemonStatus,
    /// `mainstay doctor --json`
    Doctor,
}

/// The JSON Schema of an output.
pub(crate) fn schema_of(output: OutputName) -> Value {
    match output {
        OutputName::Check => document::<CheckDocument>().or(document::<ConfiguredDocument>()),
        OutputName::Tools => document::<ToolsDocument>(),
        // Where the server cannot be asked, it is answered as a call of the tool is.
        OutputName::Describe => document::<DescribedDocument>().or(document::<AnswerDocument<'_>>()),
        OutputName::Call | OutputName::Read | OutputName::Prompt => document::<AnswerDocument<'_>>(),
        OutputName::Ping => document::<PingDocument>(),
        OutputName::Status => document::<StatusDocument<'_>>(),
        OutputName::Reload => document::<ReloadDocument<'_>>(),
        OutputName::Logs => document::<LogLine<'_>>(),
        OutputName::Events => document::<EventLine<'_>>(),
        OutputName::Sessions => document::<SessionsDocument<'_>>(),
        OutputName::Replay => document::<ReplayDocument<'_>>(),
        OutputName::Login => document::<LoggedInDocument>(),
        OutputName::Logout => document::<LogoutDocument>(),
        OutputName::AuthStatus => document::<AuthStatusDocument>(),
        OutputName::DaemonStatus => document::<DaemonDocument<'_>>(),
        OutputName::Doctor => document::<DoctorDocument<'_>>(),
    }
    .closed(title(output))
}

/// What the help of `--output` says of it.
fn title(output: OutputName) -> String {
    let value = output.to_possible_value();
    let help = value.and_then(|value| value.get_help().map(ToString::to_string));
    help.unwrap_or_default().replace('`', "")
}

/// A schema as the types give it.
struct OpenSchema {
    root: Value,
    definitions: Map<String, Value>,
}

fn document<T: ToSchema>() -> OpenSchema {
    let mut referred = Vec::new();
    T::schemas(&mut referred);
    OpenSchema {
        root: as_json(&T::schema()),
        definitions: referred
            .iter()
            .map(|(name, schema)| (name.clone(), as_json(schema)))
            .collect(),
    }
}

/// References of an OpenAPI document become those of a JSON Schema.
fn as_json(schema: &RefOr<Schema>) -> Value {
    let text = serde_json::to_string(schema).unwrap_or_default();
    let text = text.replace("#/components/schemas/", "#/$defs/");
    serde_json::from_str(&text).unwrap_or_default()
}

impl OpenSchema {
    /// Either of two documents.
    fn or(mut self, other: Self) -> Self {
        self.definitions.extend(other.definitions);
        self.root = json!({ "oneOf": [self.root, other.root] });
        self
    }

    fn closed(&self, title: String) -> Value {
        let mut root = self.close(&self.root, "");
        let mut needed = Map::new();
        self.add_definitions(&root, &mut needed);
        root["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        root["title"] = title.into();
        root["$defs"] = needed.into();
        root
    }

    /// The same schema, whose objects have all of their keys and no other.
    fn close(&self, schema: &Value, name: &str) -> Value {
        let is_object = schema.get("properties").is_some() || schema.get("allOf").is_some();
        if is_object {
            let mut object = self.merged(schema, name);
            // The alternatives add keys to those of the object.
            let others = match object.get("oneOf") {
                Some(_) => "unevaluatedProperties",
                None => "additionalProperties",
            };
            object.insert(others.into(), false.into());
            return object.into();
        }
        match schema {
            Value::Object(members) => {
                let members = members.iter();
                members
                    .map(|(key, value)| (key.clone(), self.close(value, "")))
                    .collect()
            }
            Value::Array(items) => items.iter().map(|item| self.close(item, "")).collect(),
            other => other.clone(),
        }
    }

    /// One object of the parts of an object: flattened members are parts of it.
    fn merged(&self, schema: &Value, name: &str) -> Map<String, Value> {
        let mut object = Map::from_iter([("type".to_owned(), "object".into())]);
        let mut properties = Map::new();
        let mut required = Vec::new();
        let own = schema.get("properties").and_then(Value::as_object);
        for (key, property) in own.into_iter().flatten() {
            properties.insert(key.clone(), self.close(property, ""));
            if !MAY_BE_ABSENT.contains(&(name, key)) {
                required.push(Value::from(key.as_str()));
            }
        }
        let parts = schema.get("allOf").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            let (name, part) = self.resolve(part);
            let mut part = self.merged(part, name);
            if let Some(Value::Object(more)) = part.remove("properties") {
                properties.extend(more);
            }
            if let Some(Value::Array(more)) = part.remove("required") {
                required.extend(more);
            }
            object.extend(
                part.remove("oneOf")
                    .map(|variants| ("oneOf".to_owned(), variants)),
            );
        }
        if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
            let variants = variants.iter().map(|variant| {
                let (name, variant) = self.resolve(variant);
                Value::Object(self.merged(variant, name))
            });
            object.insert("oneOf".into(), variants.collect());
        }
        let description = schema.get("description").cloned();
        object.extend(description.map(|description| ("description".to_owned(), description)));
        object.insert("properties".into(), properties.into());
        object.insert("required".into(), required.into());
        object
    }

    /// What a reference refers to, with its name.
    fn resolve<'a>(&'a self, schema: &'a Value) -> (&'a str, &'a Value) {
        let name = referred(schema).unwrap_or_default();
        self.definitions
            .get(name)
            .map_or(("", schema), |found| (name, found))
    }

    /// Adds what a closed schema refers to, and what that refers to.
    fn add_definitions(&self, schema: &Value, needed: &mut Map<String, Value>) {
        if let Some(name) = referred(schema)
            && !needed.contains_key(name)
            && let Some(definition) = self.definitions.get(name)
        {
            let definition = self.close(definition, name);
            needed.insert(name.to_owned(), definition.clone());
            self.add_definitions(&definition, needed);
        }
        match schema {
            Value::Object(members) => members
                .values()
                .for_each(|member| self.add_definitions(member, needed)),
            Value::Array(items) => items.iter().for_each(|item| self.add_definitions(item, needed)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The name that a schema refers to.
fn referred(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory as _};
    use mainstay_control::api::{LagMarker, LagReason};

    use super::*;
    use crate::args::CommandLine;

    const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");

    fn name(output: OutputName) -> String {
        let value = output.to_possible_value().expect("not skipped");
        value.get_name().to_owned()
    }

    fn every_output() -> BTreeSet<String> {
        OutputName::value_variants()
            .iter()
            .map(|output| name(*output))
            .collect()
    }

    /// The published schemas are those of this program. `UPDATE_SCHEMAS=1` writes them.
    #[test]
    fn the_published_schemas_are_those_of_the_program() {
        for output in OutputName::value_variants() {
            let path = format!("{PUBLISHED}/{}.json", name(*output));
            let schema = serde_json::to_string_pretty(&schema_of(*output)).unwrap() + "\n";
            assert!(!schema.contains("components/schemas"));
            if std::env::var_os("UPDATE_SCHEMAS").is_some() {
                std::fs::create_dir_all(PUBLISHED).unwrap();
                std::fs::write(&path, &schema).unwrap();
            }
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                published == schema,
                "{path} is out of date: run the test with UPDATE_SCHEMAS=1"
            );
        }
        let files = std::fs::read_dir(PUBLISHED).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<_> = files.map(|file| file.replace(".json", "")).collect();
        assert_eq!(files, every_output(), "a published schema belongs to a command");
    }

    #[test]
    fn every_command_with_json_has_a_schema_and_every_schema_a_command() {
        /// The commands below this one that have `--json`, by their words.
        fn with_json(command: &Command, words: &str, found: &mut BTreeSet<String>) {
            for command in command.get_subcommands() {
                let words = format!("{words}{}", command.get_name());
                if command
                    .get_arguments()
                    .any(|argument| argument.get_long() == Some("json"))
                {
                    found.insert(words.clone());
                }
                with_json(command, &format!("{words}-"), found);
            }
        }
        let mut commands = BTreeSet::new();
        with_json(&CommandLine::command(), "", &mut commands);
        assert_eq!(commands, every_output());
    }

    #[test]
    fn every_reference_of_a_schema_is_defined_and_every_object_closed() {
        fn look(schema: &Value, root: &Value, is_part: bool) {
            if let Some(name) = referred(schema) {
                assert!(root["$defs"].get(name).is_some(), "{name} in {root}");
            }
            let is_closed = ["additionalProperties", "unevaluatedProperties"]
                .iter()
                .any(|key| schema.get(key) == Some(&Value::Bool(false)));
            let is_object = schema.get("properties").is_some_and(Value::is_object);
            assert!(!is_object || is_closed || is_part, "{schema:#}");
            match schema {
                Value::Object(members) => {
                    for (key, member) in members {
                        let is_part = key == "oneOf" && is_object;
                        let parts = member.as_array().filter(|_| is_part);
                        match parts {
                            Some(parts) => parts.iter().for_each(|part| look(part, root, true)),
                            None => look(member, root, false),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| look(item, root, false)),
                _leaf => {}
            }
        }
        for output in OutputName::value_variants() {
            let schema = schema_of(*output);
            look(&schema, &schema, false);
            jsonschema::validator_for(&schema).expect("a schema");
        }
    }

    #[test]
    fn a_key_that_may_be_absent_is_a_key_of_a_schema() {
        let schema = schema_of(OutputName::Replay);
        for (name, key) in MAY_BE_ABSENT {
            assert!(
                schema["$defs"][name]["properties"].get(key).is_some(),
                "{name}.{key}"
            );
        }
    }

    #[test]
    fn every_kind_of_line_fits_its_schema_and_nothing_else_does() {
        let at = |detail: Value| {
            let mut record = json!({ "sequence": 1, "at_ms": 2, "node": null, "server": "a" });
            for (key, value) in detail.as_object().unwrap() {
                record[key] = value.clone();
            }
            record
        };
        let by = json!({ "via": "file", "agent": null, "who": null });
        let offer = json!({ "kind": "tool", "name": "echo" });
        let member = json!({ "member": "title", "before": null, "after": "\"b\"" });
        let events = [
            at(json!({ "type": "reload_refused", "by": by, "title": "t", "remedy": null })),
            at(json!({ "type": "command", "command": "reload", "by": by, "refused": null, "outcome": null })),
            at(
                json!({ "type": "catalog_changed", "revision": 1, "added": [offer], "removed": [], "left_out": 0,
                       "changed": [{ "kind": "tool", "name": "x", "members": [member] }] }),
            ),
            at(json!({ "type": "added" })),
            at(json!({ "type": "removed" })),
            at(json!({ "type": "lost", "count": 3 })),
            at(json!({ "type": "unknown" })),
        ];
        let events = events.map(|event| serde_json::from_value(event).expect("an event"));
        let marker = LagMarker {
            lost: None,
            reason: LagReason::Restarted,
        };
        let mut lines: Vec<_> = events
            .iter()
            .map(|event| (OutputName::Events, json!(EventLine::Event(event))))
            .collect();
        lines.push((OutputName::Events, json!(EventLine::missing(&marker))));
        lines.push((OutputName::Logs, json!(LogLine::Lagged(&marker))));
        for (output, line) in lines {
            let validator = jsonschema::validator_for(&schema_of(output)).unwrap();
            assert!(validator.is_valid(&line), "{line}");
            let mut surplus = line.clone();
            surplus["surplus"] = Value::Null;
            assert!(!validator.is_valid(&surplus), "{surplus}");
            for key in line.as_object().unwrap().keys() {
                let mut missing = line.clone();
                missing.as_object_mut().unwrap().remove(key);
                assert!(!validator.is_valid(&missing), "without {key}: {missing}");
            }
        }
    }
}
