//! How a scripted server speaks HTTP: its endpoints, its streams, its sessions, where it fails.
//!
//! What it offers and which eras it knows is the [`crate::Script`] beside it.

use serde::{Deserialize, Serialize};

use super::fault::HttpFault;
use super::rule::{HttpRule, HttpStep};

/// The error, with status 400, of a server that keeps sessions as the examples of the TypeScript SDK 1 do: for a request
/// without a session id as for one with an unknown id.
pub(super) const NO_SESSION: &str = "Bad Request: No valid session ID provided";

/// Which endpoints there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Serves {
    /// Streamable HTTP at `/mcp`.
    Streamable,
    /// HTTP+SSE at `/sse` and `/message`.
    Sse,
    /// Both.
    #[default]
    Both,
}

/// The form of an answer to a POST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// One JSON body. What else the server has to say meanwhile goes to the session's standalone stream.
    #[default]
    Json,
    /// A stream of events, the last of which is the answer.
    Stream,
}

/// How a request for a session that does not exist is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownSession {
    /// 404, as the protocol says.
    #[default]
    NotFound,
    /// 400 with a JSON-RPC error that has no id.
    BadRequest,
}

/// The HTTP half of a scripted server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpScript {
    /// Its endpoints.
    pub serves: Serves,
    /// The form of its answers.
    pub reply: AnswerForm,
    /// Whether legacy clients get a session id.
    pub sessions: bool,
    /// Whether sessions have a standalone stream; GET answers 405 otherwise.
    pub standalone: bool,
    /// Whether sessions can be deleted; DELETE answers 405 otherwise.
    pub delete: bool,
    /// Whether the events of legacy streams have ids, by which a stream can be resumed.
    pub event_ids: bool,
    /// Whether a legacy stream begins with an event that has an id and no data.
    pub priming: bool,
    /// The `retry` of that first event (or of one that has nothing else), in milliseconds.
    pub retry_ms: Option<u64>,
    /// How requests for sessions it does not know are answered.
    pub unknown_session: UnknownSession,
    /// The bearer token without which every request is answered with 401.
    pub bearer: Option<String>,
    /// Where it fails.
    pub rules: Vec<HttpRule>,
}

impl Default for HttpScript {
    fn default() -> Self {
        Self {
            serves: Serves::Both,
            reply: AnswerForm::Json,
            sessions: true,
            standalone: true,
            delete: true,
            event_ids: true,
            priming: false,
            retry_ms: None,
            unknown_session: UnknownSession::NotFound,
            bearer: None,
            rules: Vec::new(),
        }
    }
}

impl HttpScript {
    /// All endpoints, JSON answers, sessions with a resumable standalone stream, no fault.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets which endpoints there are.
    #[must_use]
    pub fn serves(mut self, serves: Serves) -> Self {
        self.serves = serves;
        self
    }

    /// Answers with streams.
    #[must_use]
    pub fn streams(mut self) -> Self {
        self.reply = AnswerForm::Stream;
        self
    }

    /// Gives legacy clients no session id.
    #[must_use]
    pub fn without_sessions(mut self) -> Self {
        self.sessions = false;
        self
    }

    /// Has no standalone stream.
    #[must_use]
    pub fn without_standalone_stream(mut self) -> Self {
        self.standalone = false;
        self
    }

    /// Gives events no ids: nothing can be resumed.
    #[must_use]
    pub fn without_event_ids(mut self) -> Self {
        self.event_ids = false;
        self
    }

    /// Begins each legacy stream with an id and this `retry`.
    #[must_use]
    pub fn priming(mut self, retry_ms: u64) -> Self {
        self.priming = true;
        self.retry_ms = Some(retry_ms);
        self
    }

    /// Answers requests for unknown sessions with 400 and an error without id.
    #[must_use]
    pub fn loses_sessions_as_400(mut self) -> Self {
        self.unknown_session = UnknownSession::BadRequest;
        self
    }

    /// Requires this bearer token.
    #[must_use]
    pub fn bearer(mut self, token: &str) -> Self {
        self.bearer = Some(token.to_owned());
        self
    }

    /// Fails with `fault` at every request of this kind.
    #[must_use]
    pub fn at(self, step: HttpStep, fault: HttpFault) -> Self {
        self.rule(HttpRule::new(step, fault))
    }

    /// Fails with `fault` whenever a message of this JSON-RPC method is sent.
    #[must_use]
    pub fn on(self, method: &str, fault: HttpFault) -> Self {
        self.rule(HttpRule::on(method, fault))
    }

    /// Fails as the rule says.
    #[must_use]
    pub fn rule(mut self, rule: HttpRule) -> Self {
        self.rules.push(rule);
        self
    }
}
