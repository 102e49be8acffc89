//! What a server may ask of its client: the embedder answers, or the request is declined.
//!
//! A handler can be given to the fleet and to a single call. A request that a server makes while a call with its own
//! handler runs goes to that handler only if no other call can have caused it. Otherwise it is declined, so that no
//! agent answers for another.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_lifecycle::Generation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::wire::{RawJson, RpcError};

/// The future of a handler's answer. It is boxed so that the trait stays object-safe.
pub type Answer<'a, T = RawJson> = Pin<Box<dyn Future<Output = Result<T, RpcError>> + Send + 'a>>;

/// Answers what servers ask of their client (elicitation, sampling, roots) and receives their notifications.
///
/// Implement the typed methods for what [`capabilities`](Self::capabilities) advertises, or
/// [`request`](Self::request) to answer every method from its raw parameters.
pub trait ClientHandler: Send + Sync + 'static {
    /// The capabilities that the servers see. A server must not ask for anything else.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// The least severe log message wanted of a modern server, sent with each request. Without it, the level set by
    /// [`Server::set_log_level`](crate::Server::set_log_level) applies.
    fn log_level(&self) -> Option<&str> {
        None
    }

    /// A number that all handlers of one client share, where it has several. A notification that arrives while only
    /// calls of that client run goes to one of its handlers. A request is still declined: it belongs to one call.
    fn client(&self) -> Option<u64> {
        None
    }

    /// The client that a request or notification of this method names by itself in its parameters, such as the owner of a task.
    /// Mainstay asks the fleet's handler, before it looks at the calls that run. Runs on the connection's reader and must return at
    /// once.
    fn named_client(&self, server: &str, method: &str, params: Option<&RawJson>) -> NamedClient {
        let _ = (server, method, params);
        NamedClient::None
    }

    /// Answers one request. By default it calls the typed method for its kind, and declines any other method.
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        match request.method.as_str() {
            "elicitation/create" => typed(&request, |asked| self.elicit(asked)),
            "sampling/createMessage" => typed(&request, |asked| self.sample(asked)),
            "roots/list" => {
                let roots = self.roots(request.server);
                Box::pin(async move { to_raw(&Roots { roots: roots.await? }) })
            }
            _ => Box::pin(async move { Err(decline(&request.method)) }),
        }
    }

    /// Answers `elicitation/create`: a question to the person.
    fn elicit(&self, question: Elicitation) -> Answer<'_, ElicitationAnswer> {
        let _ = question;
        Box::pin(async { Err(decline("elicitation/create")) })
    }

    /// Answers `sampling/createMessage`: a completion by the client's model.
    fn sample(&self, request: Sampling) -> Answer<'_, SamplingAnswer> {
        let _ = request;
        Box::pin(async { Err(decline("sampling/createMessage")) })
    }

    /// Answers `roots/list`: the directories that the server may work in.
    fn roots(&self, server: Arc<str>) -> Answer<'_, Vec<Root>> {
        let _ = server;
        Box::pin(async { Err(decline("roots/list")) })
    }

    /// Receives a notification that Mainstay does not act on itself: log messages, resource updates, late progress and
    /// unknown ones. The handler of a call receives what arrives while that call runs, if no other call can have caused
    /// it. The fleet's handler receives everything else. Runs on the connection's reader and must return at once.
    fn notification(&self, notification: ServerNotification) {
        let _ = notification;
    }
}

/// The client that a server's request or notification names by itself.
pub enum NamedClient {
    /// It names none: the calls that run decide.
    None,
    /// It is for the client of this handler.
    Here(Arc<dyn ClientHandler>),
    /// It is for a client that is gone: no other may have it.
    Gone,
}

/// What a client can answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// `sampling/createMessage`.
    pub sampling: bool,
    /// `elicitation/create`.
    pub elicitation: bool,
    /// `roots/list`.
    pub roots: bool,
    /// The whole object as the protocol has it, in place of the above. A gateway passes on what its client said.
    pub raw: Option<RawJson>,
}

/// A request that a server made.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    /// The server that asks.
    pub server: Arc<str>,
    /// The connection that it asks on.
    pub generation: Generation,
    /// The method, such as `sampling/createMessage`.
    pub method: String,
    /// The parameters, as they came.
    pub params: Option<RawJson>,
}

/// A notification that a server sent.
#[derive(Clone, Debug)]
pub struct ServerNotification {
    /// The server that sent it.
    pub server: Arc<str>,
    /// The connection that it arrived on.
    pub generation: Generation,
    /// The method, such as `notifications/message`.
    pub method: String,
    /// The parameters, as they came. Progress carries the token of its call.
    pub params: Option<RawJson>,
}

/// A question to the person, from `elicitation/create`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Elicitation {
    /// The text to show.
    pub message: String,
    /// The JSON Schema of the answer, where the server asks for a form.
    pub requested_schema: Option<RawJson>,
    /// The address to open, where the server sends the person to a page.
    pub url: Option<String>,
}

/// The person's answer to an [`Elicitation`].
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "action", content = "content", rename_all = "lowercase")]
pub enum ElicitationAnswer {
    /// The person answered; the content follows the requested schema.
    Accept(RawJson),
    /// The person declined.
    Decline,
    /// The person dismissed the question.
    Cancel,
}

/// A request for a completion by the client's model, from `sampling/createMessage`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sampling {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// The system prompt that the server proposes.
    pub system_prompt: Option<String>,
    /// The longest completion that the server wants.
    pub max_tokens: u64,
    /// The models that the server prefers, as the protocol has them.
    pub model_preferences: Option<RawJson>,
    /// The sampling temperature that the server proposes.
    pub temperature: Option<f64>,
    /// The texts at which the completion ends.
    #[serde(default)]
    pub stop_sequences: Vec<String>,
}

/// A message of a [`Sampling`] conversation.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// A content block, or a list of them, as the protocol has them.
    pub content: RawJson,
}

/// A completion, for [`ClientHandler::sample`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingAnswer {
    /// The name of the model.
    pub model: String,
    /// `assistant`, as a rule.
    pub role: String,
    /// A content block, or a list of them, as the protocol has them.
    pub content: RawJson,
    /// Why the completion ended, such as `endTurn` or `maxTokens`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

/// A directory or file that a server may work in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Root {
    /// Its address, such as `file:///home/ada/project`.
    pub uri: String,
    /// A name to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl SamplingMessage {
    /// The text of the message, where its content is one block of text.
    pub fn text(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Block {
            text: String,
        }
        self.content.parse::<Block>().ok().map(|block| block.text)
    }
}

impl SamplingAnswer {
    /// A completion that is plain text.
    pub fn text(model: impl Into<String>, text: &str) -> Self {
        let block = serde_json::json!({ "type": "text", "text": text });
        Self {
            model: model.into(),
            role: "assistant".to_owned(),
            content: RawJson::from_value(&block).unwrap_or(RawJson::NULL),
            stop_reason: Some("endTurn".to_owned()),
        }
    }
}

impl Root {
    /// A root with this address and no name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: None,
        }
    }
}

/// The result of `roots/list`.
#[derive(Serialize)]
struct Roots {
    roots: Vec<Root>,
}

/// Reads the parameters of a request as `P`, has them answered, and writes the answer.
fn typed<'a, P: DeserializeOwned, T: Serialize + 'a>(
    request: &ServerRequest,
    answer: impl FnOnce(P) -> Answer<'a, T>,
) -> Answer<'a> {
    let params = request.params.clone().unwrap_or(RawJson::EMPTY_OBJECT);
    let answer = match params.parse::<P>() {
        Ok(params) => answer(params),
        Err(error) => {
            let message = format!("the parameters of {} cannot be read: {error}", request.method);
            Box::pin(async move { Err(RpcError::new(RpcError::INVALID_PARAMS, message)) })
        }
    };
    Box::pin(async move { to_raw(&answer.await?) })
}

fn to_raw(answer: &impl Serialize) -> Result<RawJson, RpcError> {
    RawJson::from_value(answer).map_err(|error| RpcError::new(RpcError::INTERNAL_ERROR, error.to_string()))
}

/// The default handler: it advertises nothing and declines every request.
pub(crate) struct DeclineAll;

impl ClientHandler for DeclineAll {}

/// The error that declines a request which was not advertised.
pub(crate) fn decline(method: &str) -> RpcError {
    let message = format!("this client does not answer {method}");
    RpcError::new(RpcError::METHOD_NOT_FOUND, message)
}

impl ClientCapabilities {
    /// The object as the protocol has it.
    pub fn to_json(&self) -> RawJson {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let mut members = serde_json::Map::new();
        if self.roots {
            members.insert("roots".to_owned(), serde_json::json!({ "listChanged": true }));
        }
        if self.sampling {
            members.insert("sampling".to_owned(), serde_json::json!({}));
        }
        if self.elicitation {
            members.insert("elicitation".to_owned(), serde_json::json!({}));
        }
        RawJson::from_value(&members).unwrap_or(RawJson::EMPTY_OBJECT)
    }
}
