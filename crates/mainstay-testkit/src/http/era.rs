//! What each era asks of a POST, beyond its message.

use serde_json::{Value, json};

use super::wire::ReceivedRequest;
use crate::action::Action;
use crate::responder::Incoming;
use crate::script::{MODERN_VERSION, Speaks};

/// Whether a message is served the modern way.
pub(super) fn is_modern(speaks: Speaks, request: &ReceivedRequest, message: &Incoming) -> bool {
    match speaks {
        Speaks::Legacy => false,
        Speaks::Modern => true,
        Speaks::Both => {
            names_modern_version(request)
                || message.protocol_meta("protocolVersion").is_some()
                || message.method() == "server/discover"
        }
    }
}

pub(super) fn names_modern_version(request: &ReceivedRequest) -> bool {
    request.header("mcp-protocol-version") == Some(MODERN_VERSION)
}

/// The answer to a modern request whose headers do not say what its body says.
pub(super) fn header_mismatch(request: &ReceivedRequest, message: &Incoming) -> Option<Value> {
    // A legacy client knows none of these headers; the answer lists the versions instead.
    if message.method() == "initialize" {
        return None;
    }
    let version = message.protocol_meta("protocolVersion").and_then(Value::as_str);
    let name = match message.method() {
        "tools/call" | "prompts/get" | "resources/read" => message.name(),
        _ => None,
    };
    let wrong = [
        ("MCP-Protocol-Version", version),
        ("Mcp-Method", Some(message.method())),
        ("Mcp-Name", name),
    ]
    .into_iter()
    .find(|(header, expected)| {
        let sent = request.header(header);
        // An encoded value stands for what plain text cannot carry; it is taken on trust.
        let encoded = sent.is_some_and(|sent| sent.starts_with("=?base64?"));
        expected.is_some() && sent != *expected && !encoded
    });
    wrong.map(|(header, _)| {
        let error = json!({ "code": -32020, "message": format!("header mismatch: {header}") });
        json!({ "jsonrpc": "2.0", "id": message.id(), "error": error })
    })
}

/// The status under which the modern era sends what these actions answer.
pub(super) fn modern_status(message: &Incoming, actions: &[Action]) -> u16 {
    let meta_is_missing = ["protocolVersion", "clientCapabilities"]
        .iter()
        .any(|key| message.protocol_meta(key).is_none());
    let code = actions.iter().find_map(|action| match action {
        Action::Write(line) => serde_json::from_slice::<Value>(line).ok()?["error"]["code"].as_i64(),
        _ => None,
    });
    match code {
        Some(-32022..=-32020) => 400,
        Some(-32602) if meta_is_missing => 400,
        Some(-32601) => 404,
        Some(_) | None => 200,
    }
}
