//! Messages as they come in, and answers as they go out.
//!
//! Params and results stay JSON text, so that what a client sent can be handed back byte for byte.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::action::Action;

/// One JSON-RPC message from the client.
#[derive(Clone, Debug)]
pub struct Incoming {
    id: Value,
    method: Option<String>,
    raw_params: String,
    params: Value,
    outcome: Value,
}

/// The three shapes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request,
    Notification,
    Response,
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    id: Value,
    method: Option<String>,
    params: Option<Box<RawValue>>,
    result: Option<Value>,
    error: Option<Value>,
}

impl Incoming {
    /// Reads a line; the error is the answer such a line deserves.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Action> {
        let envelope: Envelope =
            serde_json::from_slice(line).map_err(|error| refusal(line, &error.to_string()))?;
        if envelope.method.is_none() && envelope.result.is_none() && envelope.error.is_none() {
            return Err(refusal(line, "neither method, result nor error"));
        }
        let raw_params = envelope
            .params
            .map_or_else(|| "{}".to_owned(), |raw| raw.get().to_owned());
        Ok(Self {
            id: envelope.id,
            method: envelope.method,
            params: serde_json::from_str(&raw_params).unwrap_or_default(),
            raw_params,
            outcome: envelope.error.map_or_else(
                || json!({ "result": envelope.result }),
                |error| json!({ "error": error }),
            ),
        })
    }

    /// Its id, `null` for a notification.
    #[must_use]
    pub fn id(&self) -> &Value {
        &self.id
    }

    /// Its method, empty for a response.
    #[must_use]
    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or_default()
    }

    /// Its params, an empty object where there are none.
    #[must_use]
    pub fn params(&self) -> &Value {
        &self.params
    }

    /// The params as the client wrote them.
    #[must_use]
    pub fn raw_params(&self) -> &str {
        &self.raw_params
    }

    /// Of a response: `{"result": …}` or `{"error": …}`.
    #[must_use]
    pub fn outcome(&self) -> &Value {
        &self.outcome
    }

    /// The tool, prompt or resource it names.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.params["name"]
            .as_str()
            .or_else(|| self.params["uri"].as_str())
    }

    /// Whether it waits for an answer.
    pub(crate) fn is_request(&self) -> bool {
        self.kind() == MessageKind::Request
    }

    /// A key of the `_meta` that the protocol owns.
    pub(crate) fn protocol_meta(&self, key: &str) -> Option<&Value> {
        self.params
            .get("_meta")?
            .get(format!("io.modelcontextprotocol/{key}"))
    }

    pub(super) fn kind(&self) -> MessageKind {
        match (&self.method, self.id.is_null()) {
            (Some(_), false) => MessageKind::Request,
            (Some(_), true) => MessageKind::Notification,
            (None, _) => MessageKind::Response,
        }
    }

    /// The arguments of a call as the client wrote them.
    pub(super) fn raw_arguments(&self) -> String {
        #[derive(Deserialize)]
        struct Call {
            arguments: Option<Box<RawValue>>,
        }
        let call: Option<Call> = serde_json::from_str(&self.raw_params).ok();
        call.and_then(|call| call.arguments)
            .map_or_else(|| "{}".to_owned(), |raw| raw.get().to_owned())
    }
}

/// What a request is answered with.
#[derive(Clone, Debug)]
pub(super) enum ScriptedAnswer {
    /// JSON text of an object.
    Result(String),
    Error {
        code: i64,
        message: String,
        data: Option<Value>,
    },
}

impl ScriptedAnswer {
    pub(super) fn error(code: i64, message: impl Into<String>) -> Self {
        Self::Error {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(super) fn to_action(&self, request: &Incoming) -> Action {
        Action::line(&self.text(request.id()))
    }

    /// The whole message, with this id.
    pub(super) fn text(&self, id: &Value) -> String {
        match self {
            Self::Result(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Self::Error { code, message, data } => {
                let mut error = json!({ "code": code, "message": message });
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
            }
        }
    }
}

/// The JSON text of an object with further members put first.
pub(super) fn with_members(object: &str, members: &[(&str, String)]) -> String {
    let body = object
        .strip_prefix('{')
        .expect("a result is the text of an object");
    let mut text = String::with_capacity(object.len() + 128);
    text.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&format!("{}:{value}", Value::from(*name)));
    }
    if !members.is_empty() && body.trim_start() != "}" {
        text.push(',');
    }
    text.push_str(body);
    text
}

/// Text that is no JSON is a parse error; JSON that is no message is an invalid request.
fn refusal(line: &[u8], reason: &str) -> Action {
    let parsed: Option<Value> = serde_json::from_slice(line).ok();
    let (code, id) = match parsed {
        None => (-32700, Value::Null),
        Some(value) => (-32600, value.get("id").cloned().unwrap_or_default()),
    };
    Action::line(&ScriptedAnswer::error(code, reason).text(&id))
}
