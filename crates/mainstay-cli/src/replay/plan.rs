//! What is to be played: the client's side of a recording, in its order.
//!
//! A message is sent when everything has been answered that had been answered before it in the recording. So requests overlap
//! exactly where they did then.

use std::collections::HashMap;

use bytes::Bytes;
use mainstay::RawJson;
use mainstay::gateway::message::{Message, Params, RpcError};
use mainstay_control::api::MessageRecord;
use serde_json::{Map, Value};

use super::handler::RecordedQuestion;

/// The client's side of a recording.
#[derive(Default)]
pub(super) struct PlayPlan {
    pub(super) steps: Vec<PlayStep>,
    /// What the server asked, and what it was answered.
    pub(super) questions: Vec<RecordedQuestion>,
    /// How the recorded client introduced itself.
    pub(super) introduction: Option<RecordedClient>,
    /// Requests whose payloads were not recorded, by the numbers of their lines.
    pub(super) without_payload: Vec<usize>,
}

/// The capabilities and the information in a recorded introduction.
pub(super) struct RecordedClient {
    pub(super) capabilities: RawJson,
    pub(super) client_info: Option<RawJson>,
    pub(super) version: Option<String>,
}

/// One message of the client.
pub(super) enum PlayStep {
    Request(Box<PlayedRequest>),
    Notification {
        position: usize,
        method: String,
        params: Option<RawJson>,
    },
    /// The request with this line was cancelled.
    Cancel {
        position: usize,
        line: usize,
    },
}

/// A request, and what it was answered.
pub(super) struct PlayedRequest {
    pub(super) position: usize,
    /// The line of the file.
    pub(super) line: usize,
    pub(super) method: String,
    pub(super) params: Params,
    pub(super) answer: Option<RecordedAnswer>,
}

/// An answer of the server in the recording.
pub(super) struct RecordedAnswer {
    pub(super) position: usize,
    pub(super) result: Result<RawJson, RpcError>,
}

impl PlayStep {
    pub(super) fn position(&self) -> usize {
        match self {
            Self::Request(request) => request.position,
            Self::Notification { position, .. } | Self::Cancel { position, .. } => *position,
        }
    }
}

impl PlayedRequest {
    /// The method with the tool or prompt that it names.
    pub(super) fn shown(&self) -> String {
        let name = self
            .params
            .get("name")
            .and_then(|name| name.parse::<String>().ok());
        match name {
            Some(name) => format!("{} {name}", self.method),
            None => self.method.clone(),
        }
    }
}

impl PlayPlan {
    pub(super) fn of(messages: &[(usize, MessageRecord)]) -> Self {
        let mut plan = Self::default();
        // Where the step of each request stands, by its connection and its id.
        let mut requests: HashMap<(u64, String), usize> = HashMap::new();
        let mut asked: HashMap<(u64, String), (String, Option<RawJson>)> = HashMap::new();
        for (position, (line, record)) in messages.iter().enumerate() {
            let is_sent = record.direction == "to_server";
            let Some(payload) = &record.payload else {
                if is_sent && record.kind == "request" {
                    plan.without_payload.push(*line);
                }
                continue;
            };
            let bytes = Bytes::from(payload.as_str().to_owned());
            let generation = record.generation;
            match (Message::read(&bytes), is_sent) {
                (Message::Request { id, method, params }, true) => {
                    if method == "initialize" {
                        plan.introduction = introduced(params.as_ref());
                    }
                    if !is_own(&method) {
                        requests.insert((generation, id.to_string()), plan.steps.len());
                        plan.steps.push(PlayStep::Request(Box::new(PlayedRequest {
                            position,
                            line: *line,
                            method: method.into_owned(),
                            params: without_own_meta(params),
                            answer: None,
                        })));
                    }
                }
                (Message::Notification { method, params }, true) if method == "notifications/cancelled" => {
                    let id = params.and_then(|params| Params::new(Some(params)).get("requestId").cloned());
                    let step = id.and_then(|id| requests.get(&(generation, id.to_string())));
                    if let Some(PlayStep::Request(request)) = step.and_then(|step| plan.steps.get(*step)) {
                        let line = request.line;
                        plan.steps.push(PlayStep::Cancel { position, line });
                    }
                }
                (Message::Notification { method, params }, true) if !is_own(&method) => {
                    plan.steps.push(PlayStep::Notification {
                        position,
                        method: method.into_owned(),
                        params,
                    });
                }
                (Message::Response { id, result }, true) => {
                    if let Some((method, params)) = asked.remove(&(generation, id.to_string())) {
                        plan.questions
                            .push(RecordedQuestion::new(method, params.as_ref(), result));
                    }
                }
                (Message::Request { id, method, params }, false) => {
                    asked.insert((generation, id.to_string()), (method.into_owned(), params));
                }
                (Message::Response { id, result }, false) => {
                    let step = requests.get(&(generation, id.to_string()));
                    if let Some(PlayStep::Request(request)) = step.and_then(|step| plan.steps.get_mut(*step))
                    {
                        request.answer.get_or_insert(RecordedAnswer { position, result });
                    }
                }
                (Message::Notification { .. } | Message::Batch(_) | Message::Garbage(_), _) => {}
            }
        }
        plan
    }
}

/// What Mainstay sends of its own accord, and sends again when it is played: introductions, probes and listening.
fn is_own(method: &str) -> bool {
    matches!(
        method,
        "initialize" | "notifications/initialized" | "server/discover" | "ping" | "subscriptions/listen"
    )
}

fn introduced(params: Option<&RawJson>) -> Option<RecordedClient> {
    let params = Params::new(params.cloned());
    Some(RecordedClient {
        capabilities: params.get("capabilities")?.clone(),
        client_info: params.get("clientInfo").cloned(),
        version: params
            .get("protocolVersion")
            .and_then(|version| version.parse().ok()),
    })
}

/// The parameters without what belongs to the recorded connection: its progress token, and what a modern client says of itself.
fn without_own_meta(params: Option<RawJson>) -> Params {
    let mut params = Params::new(params);
    let meta: Map<String, Value> = params
        .get("_meta")
        .and_then(|meta| meta.parse().ok())
        .unwrap_or_default();
    let own = meta.keys().map(String::as_str);
    let own = own.filter(|key| *key == "progressToken" || key.starts_with("io.modelcontextprotocol/"));
    params.remove_from_meta(&own.collect::<Vec<_>>());
    params
}
