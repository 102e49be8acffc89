//! The tools, as a client sees them.

use serde_json::{Value, json};

use super::{MAX_COUNT, MAX_INTERVAL_MS, MAX_SLEEP_SECONDS};
use crate::demo::protocol::LOG_LEVELS;

/// The tools, as listed.
pub(in crate::demo) fn definitions() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let reads = json!({ "readOnlyHint": true, "openWorldHint": false });
    json!([
        {
            "name": "echo",
            "title": "Echo",
            "description": "Returns the given text unchanged.",
            "inputSchema": object(&json!({ "text": text("What to return.") }), &["text"]),
            "annotations": reads
        },
        {
            "name": "add",
            "title": "Add two numbers",
            "description": "Returns the sum of two numbers.",
            "inputSchema": object(&json!({ "a": { "type": "number" }, "b": { "type": "number" } }), &["a", "b"]),
            "outputSchema": object(&json!({ "sum": { "type": "number" } }), &["sum"]),
            "annotations": reads
        },
        {
            "name": "time_now",
            "title": "Current time",
            "description": "Returns the current time in UTC, as ISO 8601 and as seconds since 1970.",
            "inputSchema": object(&json!({}), &[]),
            "outputSchema": object(
                &json!({ "utc": text("As ISO 8601."), "unix_seconds": { "type": "integer" } }),
                &["utc", "unix_seconds"]
            ),
            "annotations": reads
        },
        {
            "name": "text_stats",
            "title": "Text statistics",
            "description": "Counts the characters, words and lines of a text.",
            "inputSchema": object(&json!({ "text": text("What to count.") }), &["text"]),
            "outputSchema": object(
                &json!({
                    "characters": { "type": "integer" },
                    "words": { "type": "integer" },
                    "lines": { "type": "integer" }
                }),
                &["characters", "words", "lines"]
            ),
            "annotations": reads
        },
        {
            "name": "sleep",
            "title": "Sleep",
            "description": "Waits, reports progress if asked to, and can be cancelled.",
            "inputSchema": object(
                &json!({ "seconds": { "type": "number", "minimum": 0, "maximum": MAX_SLEEP_SECONDS } }),
                &["seconds"]
            ),
            "annotations": reads
        },
        {
            "name": "count",
            "title": "Count",
            "description": "Counts from 1 to a number and reports each step as progress, if asked to.",
            "inputSchema": object(
                &json!({
                    "to": { "type": "integer", "minimum": 1, "maximum": MAX_COUNT },
                    "interval_ms": { "type": "integer", "minimum": 0, "maximum": MAX_INTERVAL_MS, "default": 100 }
                }),
                &["to"]
            ),
            "annotations": reads
        },
        {
            "name": "log",
            "title": "Log a message",
            "description": "Sends a log message to the client, if it wants messages of that level.",
            "inputSchema": object(
                &json!({
                    "message": text("What to log."),
                    "level": { "type": "string", "enum": LOG_LEVELS, "default": "info" }
                }),
                &["message"]
            ),
            "annotations": {
                "readOnlyHint": false,
                "destructiveHint": false,
                "idempotentHint": false,
                "openWorldHint": false
            }
        },
        {
            "name": "crash",
            "title": "Crash the server",
            "description": "Ends the server's process at once, without an answer.",
            "inputSchema": object(
                &json!({ "code": { "type": "integer", "minimum": 0, "maximum": 255, "default": 1 } }),
                &[]
            ),
            "annotations": {
                "readOnlyHint": false,
                "destructiveHint": true,
                "idempotentHint": false,
                "openWorldHint": false
            }
        }
    ])
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}
