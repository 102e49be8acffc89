//! What a server may ask of its client: the embedder answers, or the request is declined.
//!
//! A handler can be given to the fleet, and to a single call. A request that a server makes while a call with its own
//! handler runs goes to that handler only if no other call could have caused it; otherwise it is declined, so that no
//! agent ever answers for another.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mainstay_lifecycle::Generation;
use serde::Serialize;

use crate::wire::{RawJson, RpcError};

/// JSON-RPC's "method not found": the proper way to decline what was not advertised.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// What a handler's answer takes: a boxed future, so that the trait stays object-safe.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<RawJson, RpcError>> + Send + 'a>>;

/// Answers what servers ask of their client: sampling, elicitation, roots; and hears their notifications.
pub trait ClientHandler: Send + Sync + 'static {
    /// What is advertised to the servers. A server must not ask for anything else.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// The least severe log message that is wanted of a modern server, which is told with each request. Without it, what
    /// was wished of the server as a whole counts.
    fn log_level(&self) -> Option<&str> {
        None
    }

    /// A number that all handlers of one client share, where it has several: what a server tells while calls of several of
    /// them run is told one of them, as nobody else can be concerned. What it asks is still declined: it is for one call.
    fn client(&self) -> Option<u64> {
        None
    }

    /// Answers one request. The default declines it properly.
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move { Err(decline(&request.method)) })
    }

    /// Hears one notification that Mainstay does not act on itself: log messages, resource updates, late progress, and
    /// unknown ones. The handler of a call hears what comes while that call runs, if no other call could have caused it. The
    /// fleet's handler hears everything else, so it may be about a call of any caller. Called on the connection's reader: must
    /// return at once.
    fn notification(&self, notification: ServerNotification) {
        let _ = notification;
    }
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
    /// The whole object as the protocol has it, in place of the above: for whoever passes on what another client said.
    pub raw: Option<RawJson>,
}

/// A request that a server made.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    /// Which server asks.
    pub server: Arc<str>,
    /// On which connection.
    pub generation: Generation,
    /// What it asks for, such as `sampling/createMessage`.
    pub method: String,
    /// With which parameters, as they came.
    pub params: Option<RawJson>,
}

/// A notification that a server sent.
#[derive(Clone, Debug)]
pub struct ServerNotification {
    /// Which server speaks.
    pub server: Arc<str>,
    /// On which connection.
    pub generation: Generation,
    /// What it speaks of, such as `notifications/message`.
    pub method: String,
    /// The parameters, as they came; progress comes under the token of the call that it is of.
    pub params: Option<RawJson>,
}

/// The handler of an embedder that has none: everything is declined, and nothing is advertised.
pub(crate) struct DeclineAll;

impl ClientHandler for DeclineAll {}

pub(crate) fn decline(method: &str) -> RpcError {
    RpcError::new(METHOD_NOT_FOUND, format!("this client does not answer {method}"))
}

impl ClientCapabilities {
    pub(crate) fn to_json(&self) -> RawJson {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        #[derive(Serialize)]
        struct Empty {}
        #[derive(Serialize)]
        struct Roots {
            #[serde(rename = "listChanged")]
            list_changed: bool,
        }
        #[derive(Serialize)]
        struct Written {
            #[serde(skip_serializing_if = "Option::is_none")]
            roots: Option<Roots>,
            #[serde(skip_serializing_if = "Option::is_none")]
            sampling: Option<Empty>,
            #[serde(skip_serializing_if = "Option::is_none")]
            elicitation: Option<Empty>,
        }
        let written = Written {
            roots: self.roots.then_some(Roots { list_changed: true }),
            sampling: self.sampling.then_some(Empty {}),
            elicitation: self.elicitation.then_some(Empty {}),
        };
        RawJson::from_value(&written).unwrap_or(RawJson::EMPTY_OBJECT)
    }
}
