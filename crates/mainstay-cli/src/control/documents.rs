//! What a script sees of the daemon, and the JSON Schemas of it.
//!
//! The documents carry the types of the control API as they are. The schemas are made from the same types as its OpenAPI
//! document, and are published in `docs/schemas`.

use clap::ValueEnum;
use mainstay_control::api::{
    EventRecord, LagMarker, LagReason, ProgramStatus, ReloadReport, ServerStatus, SessionStatus, StderrRecord,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The version of every document.
const VERSION: u32 = 1;

/// `status --json`.
#[derive(Serialize)]
pub(super) struct StatusDocument<'a> {
    version: u32,
    at_ms: u64,
    program: &'a ProgramStatus,
    servers: &'a [ServerStatus],
}

impl<'a> StatusDocument<'a> {
    pub(super) fn new(program: &'a ProgramStatus, at_ms: u64, servers: &'a [ServerStatus]) -> Self {
        Self {
            version: VERSION,
            at_ms,
            program,
            servers,
        }
    }
}

/// `sessions --json`.
#[derive(Serialize)]
pub(super) struct SessionsDocument<'a> {
    version: u32,
    sessions: &'a [SessionStatus],
}

impl<'a> SessionsDocument<'a> {
    pub(super) fn new(sessions: &'a [SessionStatus]) -> Self {
        Self {
            version: VERSION,
            sessions,
        }
    }
}

/// `reload --json`.
#[derive(Serialize)]
pub(super) struct ReloadDocument<'a> {
    version: u32,
    #[serde(flatten)]
    report: &'a ReloadReport,
}

impl<'a> ReloadDocument<'a> {
    pub(super) fn new(report: &'a ReloadReport) -> Self {
        Self {
            version: VERSION,
            report,
        }
    }
}

/// A line of `events --json`.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct EventLine<'a>(&'a EventRecord);

impl<'a> EventLine<'a> {
    pub(super) fn new(event: &'a EventRecord) -> Self {
        Self(event)
    }
}

/// A line of `events --json` and `logs --json` where some are missing.
#[derive(Serialize)]
pub(super) struct LagLine {
    r#type: &'static str,
    lost: Option<u64>,
    reason: LagReason,
}

impl LagLine {
    pub(super) fn new(marker: &LagMarker) -> Self {
        Self {
            r#type: "lagged",
            lost: marker.lost,
            reason: marker.reason,
        }
    }
}

/// A line of `logs --json`.
#[derive(Serialize)]
pub(super) struct LogLine<'a> {
    r#type: &'static str,
    server: &'a str,
    #[serde(flatten)]
    line: &'a StderrRecord,
}

impl<'a> LogLine<'a> {
    pub(super) fn new(server: &'a str, line: &'a StderrRecord) -> Self {
        Self {
            r#type: "line",
            server,
            line,
        }
    }
}

/// An output that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputName {
    /// `mainstay status --json`
    Status,
    /// A line of `mainstay events --json`
    Events,
    /// A line of `mainstay logs --json`
    Logs,
    /// `mainstay sessions --json`
    Sessions,
    /// `mainstay reload --json`
    Reload,
}

/// The JSON Schema of an output.
pub(crate) fn schema_of(output: OutputName) -> Value {
    let version = json!({ "const": VERSION });
    let reference = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    let list = |name: &str| json!({ "type": "array", "items": reference(name) });
    let object = |properties: Value| {
        let required: Vec<_> = properties.as_object().into_iter().flat_map(Map::keys).collect();
        json!({ "type": "object", "required": required, "properties": properties })
    };
    let lagged = {
        let kind = object(json!({ "type": { "const": "lagged" } }));
        json!({ "allOf": [kind, reference("LagMarker")] })
    };
    let (title, schema) = match output {
        OutputName::Status => (
            "mainstay status --json",
            object(json!({
                "version": version,
                "at_ms": { "type": "integer", "minimum": 0 },
                "program": reference("ProgramStatus"),
                "servers": list("ServerStatus"),
            })),
        ),
        OutputName::Events => (
            "A line of mainstay events --json",
            json!({ "anyOf": [reference("EventRecord"), lagged] }),
        ),
        OutputName::Logs => {
            let kind = object(json!({ "type": { "const": "line" }, "server": { "type": "string" } }));
            let line = json!({ "allOf": [kind, reference("StderrRecord")] });
            (
                "A line of mainstay logs --json",
                json!({ "anyOf": [line, lagged] }),
            )
        }
        OutputName::Sessions => (
            "mainstay sessions --json",
            object(json!({ "version": version, "sessions": list("SessionStatus") })),
        ),
        OutputName::Reload => {
            let versioned = object(json!({ "version": version }));
            (
                "mainstay reload --json",
                json!({ "allOf": [versioned, reference("ReloadReport")] }),
            )
        }
    };
    let mut document = Map::new();
    document.insert(
        "$schema".into(),
        "https://json-schema.org/draft/2020-12/schema".into(),
    );
    document.insert("title".into(), title.into());
    document.extend(schema.as_object().cloned().unwrap_or_default());
    let mut definitions = Map::new();
    add_definitions(&schema, &api_schemas(), &mut definitions);
    document.insert("$defs".into(), definitions.into());
    Value::Object(document)
}

/// The schemas of the control API, each with its references as they are in a document of ours.
fn api_schemas() -> Map<String, Value> {
    let document = mainstay_control::openapi_document().to_json().unwrap_or_default();
    let document = document.replace("#/components/schemas/", "#/$defs/");
    let document: Value = serde_json::from_str(&document).unwrap_or_default();
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    schemas.cloned().unwrap_or_default()
}

/// Adds what a schema refers to, and what that refers to.
fn add_definitions(schema: &Value, known: &Map<String, Value>, definitions: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                let name = value.as_str().and_then(|value| value.strip_prefix("#/$defs/"));
                if let (Some(name), "$ref") = (name, key.as_str())
                    && !definitions.contains_key(name)
                    && let Some(definition) = known.get(name)
                {
                    definitions.insert(name.to_owned(), definition.clone());
                    add_definitions(definition, known, definitions);
                }
                add_definitions(value, known, definitions);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| add_definitions(item, known, definitions)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published schemas are those of this program. `UPDATE_SCHEMAS=1` writes them.
    #[test]
    fn the_published_schemas_are_those_of_the_program() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");
        for output in OutputName::value_variants() {
            let name = output
                .to_possible_value()
                .expect("not skipped")
                .get_name()
                .to_owned();
            let path = format!("{directory}/{name}.json");
            let schema = serde_json::to_string_pretty(&schema_of(*output)).unwrap() + "\n";
            assert!(!schema.contains("components/schemas"));
            if std::env::var_os("UPDATE_SCHEMAS").is_some() {
                std::fs::create_dir_all(directory).unwrap();
                std::fs::write(&path, &schema).unwrap();
            }
            let published = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                published == schema,
                "{path} is out of date: run the test with UPDATE_SCHEMAS=1"
            );
        }
    }

    #[test]
    fn every_reference_of_a_schema_is_defined() {
        for output in OutputName::value_variants() {
            let schema = schema_of(*output);
            let text = schema.to_string();
            for (at, _) in text.match_indices("#/$defs/") {
                let name: String = text[at + 8..].chars().take_while(|c| *c != '"').collect();
                assert!(schema["$defs"].get(&name).is_some(), "{name} of {output:?}");
            }
            jsonschema::validator_for(&schema).expect("a schema");
        }
    }
}
