//! What the server offers, and the answers that are always the same, as the suite words them.

use rmcp::ErrorData;
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One grey pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";

/// Two samples of silence.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA==";

/// The tool that comes and goes with `test_trigger_tool_change`.
pub(crate) const EXTRA_TOOL: &str = "test_extra_tool";

/// The prompt that comes and goes with `test_trigger_prompt_change`.
const EXTRA_PROMPT: &str = "test_extra_prompt";

/// The tools without arguments, with what they do.
const PLAIN_TOOLS: [(&str, &str); 23] = [
    ("test_simple_text", "Answers with a text"),
    ("test_image_content", "Answers with an image"),
    ("test_audio_content", "Answers with a sound"),
    ("test_embedded_resource", "Answers with a resource"),
    (
        "test_multiple_content_types",
        "Answers with a text, an image and a resource",
    ),
    ("test_error_handling", "Fails"),
    ("test_tool_with_logging", "Logs while it runs"),
    ("test_logging_tool", "Logs while it runs"),
    ("test_tool_with_progress", "Reports progress while it runs"),
    (
        "test_elicitation_sep1034_defaults",
        "Asks a person, with a default for every kind of value",
    ),
    (
        "test_elicitation_sep1330_enums",
        "Asks a person, with every kind of choice",
    ),
    ("test_missing_capability", "Needs a client that can sample"),
    ("test_streaming_elicitation", "Asks a person"),
    ("test_trigger_tool_change", "Offers or withdraws a tool"),
    ("test_trigger_prompt_change", "Offers or withdraws a prompt"),
    ("test_input_required_result_elicitation", "Asks a person"),
    ("test_input_required_result_sampling", "Asks a model"),
    ("test_input_required_result_list_roots", "Asks for the roots"),
    (
        "test_input_required_result_request_state",
        "Asks a person and keeps a state",
    ),
    (
        "test_input_required_result_multiple_inputs",
        "Asks three things at once",
    ),
    (
        "test_input_required_result_multi_round",
        "Asks two things, one after the other",
    ),
    (
        "test_input_required_result_tampered_state",
        "Asks a person and guards its state",
    ),
    (
        "test_input_required_result_capabilities",
        "Asks what the client can answer",
    ),
];

pub(crate) fn tools(with_extra: bool) -> Result<Vec<Tool>, ErrorData> {
    let text = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let none = || json!({ "type": "object", "properties": {} });
    let plain = PLAIN_TOOLS.map(|(name, description)| (name, description, none()));
    let mut tools = Vec::from(plain);
    tools.push(("test_sampling", "Asks a model", text("prompt")));
    tools.push(("test_elicitation", "Asks a person", text("message")));
    tools.push((
        "json_schema_2020_12_tool",
        "Has a schema with every keyword",
        rich_schema(),
    ));
    if with_extra {
        tools.push((EXTRA_TOOL, "Is only there at times", none()));
    }
    let tool = |(name, description, schema)| {
        typed(json!({ "name": name, "description": description, "inputSchema": schema }))
    };
    tools.into_iter().map(tool).collect()
}

fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// The answer of a tool that needs neither arguments nor its client.
pub(crate) fn plain_result(tool: &str) -> Option<Value> {
    let content = match tool {
        "test_simple_text" => json!([text("This is a simple text response for testing.")]),
        "test_image_content" => json!([image()]),
        "test_audio_content" => json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]),
        "test_embedded_resource" => json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content."
        )]),
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            image(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#
            ),
        ]),
        "test_error_handling" => {
            let content = [text("This tool intentionally returns an error for testing")];
            return Some(json!({ "isError": true, "content": content }));
        }
        "json_schema_2020_12_tool" | EXTRA_TOOL => json!([text("done")]),
        _ => return None,
    };
    Some(json!({ "content": content }))
}

pub(crate) fn prompts(with_extra: bool) -> Result<Vec<Prompt>, ErrorData> {
    let argument = |name: &str| json!({ "name": name, "description": "a text", "required": true });
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments: Vec<_> = arguments.iter().map(|name| argument(name)).collect();
        json!({ "name": name, "description": "A prompt of the conformance suite", "arguments": arguments })
    };
    let mut prompts = vec![
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
        prompt("test_input_required_result_prompt", &[]),
    ];
    if with_extra {
        prompts.push(prompt(EXTRA_PROMPT, &[]));
    }
    prompts.into_iter().map(typed).collect()
}

/// The messages of a prompt that does not need its client.
pub(crate) fn messages(prompt: &str, argument: impl Fn(&str) -> String) -> Option<Vec<Value>> {
    let messages = match prompt {
        "test_simple_prompt" | EXTRA_PROMPT => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![text(&format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => vec![
            resource(
                &argument("resourceUri"),
                "text/plain",
                "Embedded resource content for testing.",
            ),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        _ => return None,
    };
    Some(messages.iter().map(said_by_user).collect())
}

pub(crate) fn said_by_user(content: &Value) -> Value {
    json!({ "role": "user", "content": content })
}

pub(crate) fn resources() -> Result<Vec<Resource>, ErrorData> {
    let resource = |(uri, name, mime_type): (&str, &str, &str)| {
        typed(json!({ "uri": uri, "name": name, "description": name, "mimeType": mime_type }))
    };
    let resources = [
        ("test://static-text", "A text", "text/plain"),
        ("test://static-binary", "An image", "image/png"),
        ("test://watched-resource", "A text to subscribe to", "text/plain"),
    ];
    resources.into_iter().map(resource).collect()
}

pub(crate) fn templates() -> Result<Vec<ResourceTemplate>, ErrorData> {
    let template = json!({
        "uriTemplate": "test://template/{id}/data",
        "name": "Data by id",
        "description": "Data by id",
        "mimeType": "application/json",
    });
    Ok(vec![typed(template)?])
}

/// What is at a URI.
pub(crate) fn contents(uri: &str) -> Option<Value> {
    let text = |mime_type: &str, text: &str| json!({ "uri": uri, "mimeType": mime_type, "text": text });
    let id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"));
    match (uri, id) {
        ("test://static-text", _) => Some(text(
            "text/plain",
            "This is the content of the static text resource.",
        )),
        ("test://static-binary", _) => Some(json!({ "uri": uri, "mimeType": "image/png", "blob": PNG })),
        ("test://watched-resource", _) => Some(text("text/plain", "This resource can be subscribed to.")),
        (_, Some(id)) => {
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            Some(text("application/json", &data.to_string()))
        }
        (_, None) => None,
    }
}

/// A fixture in the type that rmcp has for it.
pub(crate) fn typed<T: DeserializeOwned>(fixture: Value) -> Result<T, ErrorData> {
    serde_json::from_value(fixture)
        .map_err(|error| ErrorData::internal_error(format!("a fixture is malformed: {error}"), None))
}

pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } })
}
