//! Clients of every kind, each of which keeps one session through all of it.

mod old;
mod piped;
mod received;
mod single_stream;
mod stateless;
mod streamable;

use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use old::Old;
pub(crate) use piped::Piped;
pub(crate) use received::ReceivedMessages;
pub(crate) use stateless::Stateless;
pub(crate) use streamable::Streamable;

/// The resource that clients subscribe to.
pub(crate) const URI: &str = "mem://one";

/// A client, by the way it comes in.
pub(crate) enum Client {
    /// Streamable HTTP of the legacy era.
    Streamable(Streamable),
    /// Streamable HTTP of the modern era.
    Stateless(Stateless),
    /// HTTP+SSE.
    Old(Old),
    /// A pair of pipes.
    Piped(Piped),
}

/// How a client waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    Waits,
    /// Says after a while that it does not want the answer any more.
    Cancels(Duration),
    /// Is gone after a while, without a word.
    Leaves(Duration),
    /// Breaks its connection at each event, and takes the stream up again.
    Breaks,
    /// Answers nothing that it is asked; a modern client never makes the request again.
    IsMute,
}

impl Client {
    /// Makes a request, and answers what it is asked meanwhile. The whole answer; `None` when the client did not wait for
    /// it, or the gateway gave none.
    pub(crate) async fn ask(&mut self, method: &str, params: Value, kind: ClientKind) -> Option<Value> {
        match self {
            Self::Streamable(client) => client.ask(method, params, kind).await,
            Self::Stateless(client) => client.ask(method, params, kind).await,
            Self::Old(client) => client.ask(method, params, kind).await,
            Self::Piped(client) => client.ask(method, params, kind).await,
        }
    }

    pub(crate) fn received(&self) -> &ReceivedMessages {
        match self {
            Self::Streamable(client) => client.received(),
            Self::Stateless(client) => client.received(),
            Self::Old(client) => client.received(),
            Self::Piped(client) => client.received(),
        }
    }

    /// Whether it subscribes by requests; a modern one listens instead.
    pub(crate) fn subscribes(&self) -> bool {
        match self {
            Self::Streamable(_) | Self::Old(_) | Self::Piped(_) => true,
            Self::Stateless(_) => false,
        }
    }

    /// Goes away for good.
    pub(crate) async fn leave(self) {
        match self {
            Self::Streamable(client) => client.leave().await,
            Self::Stateless(client) => client.leave().await,
            Self::Old(_) => {}
            Self::Piped(client) => client.leave().await,
        }
    }
}

/// The parameters of the retry that a modern client makes of a request that wants input.
fn retry(params: &Value, response: &Value, received: &ReceivedMessages) -> Option<Value> {
    let result = &response["result"];
    if result["resultType"] != "input_required" {
        return None;
    }
    let questions = result["inputRequests"].as_object().expect("questions");
    let answers: serde_json::Map<String, Value> = questions
        .iter()
        .map(|(name, question)| (name.clone(), received.answer(question)))
        .collect();
    let mut retry = params.clone();
    retry["inputResponses"] = Value::Object(answers);
    if let Some(state) = result.get("requestState") {
        retry["requestState"] = state.clone();
    }
    Some(retry)
}

fn cancelled(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}
