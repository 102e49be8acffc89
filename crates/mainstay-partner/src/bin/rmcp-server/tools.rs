//! The tools by name and schema, and how their arguments are read.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

pub(crate) const DEFAULT_STEPS: u64 = 4;

pub(crate) fn tools(extra: bool) -> Vec<Tool> {
    let read_only = || ToolAnnotations::new().read_only(true);
    let text = json!({ "text": { "type": "string" } });
    let pause = json!({
        "millis": { "type": "integer", "minimum": 0 },
        "steps": { "type": "integer", "minimum": 1, "default": DEFAULT_STEPS },
    });
    let mut tools = vec![
        Tool::new("echo", "Answers with its text", schema(&text, &["text"])).with_annotations(read_only()),
        Tool::new("pid", "Answers with its process id", schema(&json!({}), &[]))
            .with_annotations(read_only()),
        Tool::new("sleep", "Sleeps, reporting progress", schema(&pause, &["millis"])),
        Tool::new(
            "level",
            "Answers with the level at which it is to log",
            schema(&json!({}), &[]),
        )
        .with_annotations(read_only()),
        Tool::new(
            "touch",
            "Says that the resource has changed",
            schema(&json!({}), &[]),
        ),
        Tool::new(
            "toggle",
            "Offers or withdraws the tool extra",
            schema(&json!({}), &[]),
        ),
    ];
    if extra {
        tools.push(Tool::new(
            "extra",
            "Is only there after toggle",
            schema(&json!({}), &[]),
        ));
    }
    tools
}

fn schema(properties: &Value, required: &[&str]) -> Arc<JsonObject> {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), properties.clone());
    schema.insert("required".to_owned(), json!(required));
    Arc::new(schema)
}

pub(crate) fn text_argument<'a>(arguments: &'a JsonObject, name: &str) -> Result<&'a str, ErrorData> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| ErrorData::invalid_params(format!("the argument {name} must be a string"), None))
}

pub(crate) fn number_argument(arguments: &JsonObject, name: &str) -> Result<Option<u64>, ErrorData> {
    arguments
        .get(name)
        .map(|value| {
            value.as_u64().ok_or_else(|| {
                ErrorData::invalid_params(format!("the argument {name} must be a whole number"), None)
            })
        })
        .transpose()
}
