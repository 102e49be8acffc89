//! The prompt, the resource and the resource template.

use serde_json::{Map, Value, json};

use super::protocol::{DemoEra, DemoError};

const ABOUT_URI: &str = "demo://about";
const SQUARE_PREFIX: &str = "demo://square/";

const ABOUT: &str = "This is the demo server of Mainstay. It offers tools that are quick, slow or deadly, \
so that you can watch a client keep its connection.";

pub(super) fn prompts() -> Value {
    json!([{
        "name": "summarize",
        "title": "Summarize a text",
        "description": "Asks for a summary of a text in a given number of sentences.",
        "arguments": [
            { "name": "text", "description": "What to summarize.", "required": true },
            { "name": "sentences", "description": "How many sentences; one when left out.", "required": false }
        ]
    }])
}

pub(super) fn resources() -> Value {
    json!([{
        "uri": ABOUT_URI,
        "name": "about",
        "title": "About this server",
        "description": "What this server is for.",
        "mimeType": "text/plain"
    }])
}

pub(super) fn templates() -> Value {
    json!([{
        "uriTemplate": format!("{SQUARE_PREFIX}{{number}}"),
        "name": "square",
        "title": "The square of a number",
        "description": "The square of a whole number, in decimal digits.",
        "mimeType": "text/plain"
    }])
}

pub(super) fn get_prompt(params: &Map<String, Value>) -> Result<Value, DemoError> {
    match params.get("name").and_then(Value::as_str) {
        Some("summarize") => {}
        Some(other) => return Err(DemoError::invalid_params(format!("no such prompt: {other}"))),
        None => return Err(DemoError::invalid_params("name must be a string")),
    }
    let argument = |name: &str| params.get("arguments")?.get(name)?.as_str();
    let text = argument("text").ok_or_else(|| DemoError::invalid_params("the argument text is required"))?;
    let sentences = match argument("sentences") {
        None | Some("1") => "one sentence".to_owned(),
        Some(number) => format!("{number} sentences"),
    };
    let content = json!({ "type": "text", "text": format!("Summarize this text in {sentences}:\n\n{text}") });
    Ok(json!({
        "description": "A request for a summary.",
        "messages": [{ "role": "user", "content": content }]
    }))
}

pub(super) fn read_resource(era: DemoEra, params: &Map<String, Value>) -> Result<Value, DemoError> {
    let Some(uri) = params.get("uri").and_then(Value::as_str) else {
        return Err(DemoError::invalid_params("uri must be a string"));
    };
    let square = || {
        let number: i64 = uri.strip_prefix(SQUARE_PREFIX)?.parse().ok()?;
        Some((i128::from(number) * i128::from(number)).to_string())
    };
    let text = if uri == ABOUT_URI {
        Some(ABOUT.to_owned())
    } else {
        square()
    };
    let text = text.ok_or_else(|| DemoError::no_such_resource(era, uri))?;
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] }))
}
