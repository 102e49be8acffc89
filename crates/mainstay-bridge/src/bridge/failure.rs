//! What a host is answered when the daemon that had its request is gone: in the form of the gateway's own failures.

use serde_json::{Value, json};

/// The code of an error that says that a server cannot be had.
const SERVER_UNAVAILABLE: i64 = -32000;

/// What is known of a request that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The daemon did not read it.
    NotSent,
    /// The daemon may have read it.
    Unknown,
    /// The daemon may have read it, and it may be sent again all the same.
    Repeatable,
}

/// The answer to a request with this id (as it is written), with the end of the line.
pub(super) fn answer(
    id: &str,
    method: &str,
    is_modern: bool,
    fate: Fate,
    why: &str,
    server: Option<&str>,
) -> Vec<u8> {
    let (outcome, ran) = match fate {
        Fate::NotSent => ("not_sent", "The call did not run. Call it again in a moment."),
        Fate::Unknown => (
            "unknown",
            "The call may have run: check its effects before you call it again.",
        ),
        Fate::Repeatable => (
            "unknown",
            "The request may have run. It can be sent again in a moment.",
        ),
    };
    let text = format!("{why} {ran}");
    let mut facts = json!({ "outcome": outcome });
    if let Some(server) = server {
        facts["server"] = json!(server);
    }
    let (member, value) = if method == "tools/call" {
        ("result", tool_result(&text, &facts, is_modern))
    } else {
        let data = json!({ "mainstay": facts });
        (
            "error",
            json!({ "code": SERVER_UNAVAILABLE, "message": text, "data": data }),
        )
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":{value}}}\n").into_bytes()
}

/// A result, since that is what reaches the model.
fn tool_result(text: &str, facts: &Value, is_modern: bool) -> Value {
    let mut result = json!({
        "content": [{ "type": "text", "text": text }],
        "isError": true,
        "_meta": { "mainstay": facts },
    });
    if is_modern {
        result["resultType"] = json!("complete");
    }
    result
}

/// Tells the host that an open question of the daemon needs no answer any more.
pub(super) fn cancelled(id: &str) -> Vec<u8> {
    let reason = json!("the daemon that asked has ended");
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":{reason}}}}}\n"
    )
    .into_bytes()
}
