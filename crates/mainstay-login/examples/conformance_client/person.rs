//! Answers what servers ask, as an agreeable person would.

use mainstay::handler::{Answer, ClientCapabilities, ServerRequest};
use mainstay::{ClientHandler, RawJson, RpcError};
use serde_json::{Value, json};

use crate::sample;

pub(crate) struct Person;

impl ClientHandler for Person {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            sampling: true,
            elicitation: true,
            roots: true,
            ..ClientCapabilities::default()
        }
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            let internal =
                |error: serde_json::Error| RpcError::new(RpcError::INTERNAL_ERROR, error.to_string());
            let params = request.params.as_ref().map(RawJson::parse::<Value>).transpose();
            let params = params.map_err(internal)?.unwrap_or_default();
            RawJson::from_value(&answer(&request.method, &params)).map_err(internal)
        })
    }
}

fn answer(method: &str, params: &Value) -> Value {
    match method {
        "elicitation/create" => {
            json!({ "action": "accept", "content": sample::object(&params["requestedSchema"]) })
        }
        "sampling/createMessage" => json!({
            "role": "assistant",
            "content": { "type": "text", "text": "I see." },
            "model": "none",
        }),
        _roots => json!({ "roots": [] }),
    }
}
