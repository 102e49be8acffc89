//! The envelope: JSON-RPC messages, the two eras, and the errors of both.

use serde_json::{Map, Value, json};

/// Protocol versions with an `initialize` handshake, newest first.
const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The protocol version without a handshake.
const MODERN_VERSION: &str = "2026-07-28";

/// The offers never change while the process lives, so a client may keep them for a while.
const CACHE_MS: u64 = 300_000;

/// The severities of a log message, least first.
pub(super) const LOG_LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// A request to be answered.
#[derive(Clone, Debug)]
pub(super) struct DemoRequest {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// One message from the client.
#[derive(Debug)]
pub(super) enum DemoMessage {
    Request(DemoRequest),
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// A response. The demo sends no requests, so it is ignored.
    Response,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DemoError {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl DemoError {
    pub(super) fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, message)
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, message)
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("method not found: {method}"))
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(-32000, message)
    }

    /// The eras disagree about the code of a resource that is not there.
    pub(super) fn no_such_resource(era: DemoEra, uri: &str) -> Self {
        let code = match era {
            DemoEra::Legacy => -32002,
            DemoEra::Modern => -32602,
        };
        Self {
            code,
            message: format!("no such resource: {uri}"),
            data: Some(json!({ "uri": uri })),
        }
    }

    fn unsupported_version(requested: &Value) -> Self {
        let data = json!({ "requested": requested, "supported": supported_versions() });
        Self {
            code: -32022,
            message: "unsupported protocol version".to_owned(),
            data: Some(data),
        }
    }

    fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

/// How a request is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DemoEra {
    /// Within a session opened by `initialize`.
    Legacy,
    /// On its own, by the metadata it carries.
    Modern,
}

impl DemoEra {
    /// The era of a request, or why it can be served in neither.
    pub(super) fn of(request: &DemoRequest) -> Result<Self, DemoError> {
        let Some(version) = protocol_meta(&request.params, "protocolVersion") else {
            return match request.method.as_str() {
                "server/discover" => Err(DemoError::invalid_params("_meta must carry the protocol version")),
                _ => Ok(Self::Legacy),
            };
        };
        if version != MODERN_VERSION {
            return Err(DemoError::unsupported_version(version));
        }
        match protocol_meta(&request.params, "clientCapabilities") {
            Some(Value::Object(_)) => Ok(Self::Modern),
            Some(_) | None => Err(DemoError::invalid_params(
                "_meta must carry the client's capabilities",
            )),
        }
    }
}

/// Reads one message. The error comes with the id it must be answered with.
pub(super) fn read(line: &[u8]) -> Result<DemoMessage, (Value, DemoError)> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| (Value::Null, DemoError::parse(error.to_string())))?;
    let Value::Object(mut message) = value else {
        return Err((
            Value::Null,
            DemoError::invalid_request("a message is a JSON object"),
        ));
    };
    let id = message.remove("id");
    let invalid = |reason: &str| {
        let known = id.clone().filter(is_id).unwrap_or_default();
        Err((known, DemoError::invalid_request(reason)))
    };
    if message.get("jsonrpc") != Some(&json!("2.0")) {
        return invalid("jsonrpc must be \"2.0\"");
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return invalid("method must be a string"),
        None if message.contains_key("result") || message.contains_key("error") => {
            return Ok(DemoMessage::Response);
        }
        None => return invalid("method is missing"),
    };
    let params = match message.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return invalid("params must be an object"),
    };
    match id {
        None => Ok(DemoMessage::Notification { method, params }),
        Some(id) if is_id(&id) => Ok(DemoMessage::Request(DemoRequest { id, method, params })),
        Some(_) => Err((
            Value::Null,
            DemoError::invalid_request("id must be a string or an integer"),
        )),
    }
}

/// The text of an answer.
pub(super) fn answer(id: &Value, outcome: Result<Value, DemoError>) -> String {
    let message = match outcome {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(DemoError { code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    };
    message.to_string()
}

/// The text of a notification.
pub(super) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// A result with what its era requires of it.
pub(super) fn dress(era: DemoEra, cacheable: bool, mut result: Value) -> Value {
    match era {
        DemoEra::Legacy => {}
        DemoEra::Modern => {
            result["resultType"] = json!("complete");
            result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": server_info() });
            if cacheable {
                result["cacheScope"] = json!("public");
                result["ttlMs"] = json!(CACHE_MS);
            }
        }
    }
    result
}

/// The answer to `initialize`: the version asked for where it is known, else the newest with a handshake.
pub(super) fn initialize(params: &Map<String, Value>) -> Result<Value, DemoError> {
    let Some(Value::String(requested)) = params.get("protocolVersion") else {
        return Err(DemoError::invalid_params("protocolVersion must be a string"));
    };
    let known = LEGACY_VERSIONS.iter().find(|version| *version == requested);
    Ok(json!({
        "protocolVersion": known.unwrap_or(&LEGACY_VERSIONS[0]),
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS
    }))
}

/// The answer to `server/discover`.
pub(super) fn discover() -> Value {
    json!({
        "supportedVersions": supported_versions(),
        "capabilities": capabilities(),
        "instructions": INSTRUCTIONS
    })
}

/// A key of the `_meta` that the protocol owns.
pub(super) fn protocol_meta<'a>(params: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    params.get("_meta")?.get(format!("io.modelcontextprotocol/{key}"))
}

const INSTRUCTIONS: &str = "A demo. Try `echo` first, `sleep` or `count` to see progress and cancellation, \
and `crash` to see how a client takes the loss of a server.";

fn supported_versions() -> Vec<&'static str> {
    [MODERN_VERSION].into_iter().chain(LEGACY_VERSIONS).collect()
}

fn capabilities() -> Value {
    json!({ "tools": {}, "prompts": {}, "resources": {}, "logging": {} })
}

fn server_info() -> Value {
    json!({ "name": "mainstay-demo", "title": "Mainstay demo server", "version": env!("CARGO_PKG_VERSION") })
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> i64 {
        read(line.as_bytes()).expect_err("refused").1.code
    }

    #[test]
    fn what_is_no_json_and_what_is_no_message_are_told_apart() {
        assert_eq!(code("{oops"), -32700);
        assert_eq!(code("\u{7f}"), -32700);
        for line in [
            "[]",
            "1",
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        ] {
            assert_eq!(code(line), -32600, "{line}");
        }
    }

    #[test]
    fn a_refusal_carries_the_id_where_there_is_one() {
        let (id, _) = read(br#"{"jsonrpc":"2.0","id":"a","method":7}"#).expect_err("refused");
        assert_eq!(id, "a");
    }

    #[test]
    fn a_request_with_a_version_is_modern_or_refused_with_the_versions_there_are() {
        let request = |meta: Value| DemoRequest {
            id: json!(1),
            method: "tools/list".to_owned(),
            params: Map::from_iter([("_meta".to_owned(), meta)]),
        };
        let version = "io.modelcontextprotocol/protocolVersion";
        assert_eq!(DemoEra::of(&request(json!({}))), Ok(DemoEra::Legacy));
        let whole = json!({ version: MODERN_VERSION, "io.modelcontextprotocol/clientCapabilities": {} });
        assert_eq!(DemoEra::of(&request(whole)), Ok(DemoEra::Modern));
        assert_eq!(
            DemoEra::of(&request(json!({ version: MODERN_VERSION })))
                .unwrap_err()
                .code,
            -32602
        );
        let unknown = DemoEra::of(&request(json!({ version: "1999-01-01" }))).unwrap_err();
        assert_eq!(unknown.code, -32022);
        assert_eq!(unknown.data.unwrap()["requested"], "1999-01-01");
    }
}
