//! One message by POST: what it is, and in which era.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use mainstay::BadAnswer;
use mainstay::message::{Message, Params, RawJson, RpcError, TooManyMembers};
use serde::de::IgnoredAny;

use super::answering::Accepts;
use super::body::{self, Body};
use super::guard::Caller;
use super::head_timer::HeadTimer;
use super::legacy::SESSION;
use super::modern;
use super::refusal::{Refusal, empty};
use super::service::HttpService;
use crate::protocol::{LEGACY_VERSIONS, MODERN_VERSIONS, RequestMeta};
use crate::scope::Scope;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// What most clients accept and send, word for word: seen at a glance, it need not be taken apart.
const USUALLY_ACCEPTED: &str = "application/json, text/event-stream";
const USUALLY_SENT: &str = "application/json";

/// A request, as it was posted.
pub(super) struct Asked {
    pub(super) id: RawJson,
    pub(super) method: String,
    pub(super) params: Params,
    pub(super) meta: RequestMeta,
}

/// How a message was posted.
#[derive(Clone, Copy)]
pub(super) struct Posted<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) named: Named<'a>,
    pub(super) accepts: Accepts,
    pub(super) head_timer: &'a HeadTimer,
}

/// The version that a client names in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    Nothing,
    Legacy(&'a str),
    Modern(&'a str),
    Unknown(&'a str),
}

impl Asked {
    pub(super) fn new(id: RawJson, method: String, params: Params) -> Self {
        Self {
            meta: RequestMeta::read(&params),
            id,
            method,
            params,
        }
    }
}

impl HttpService {
    pub(super) async fn post(
        self: &Arc<Self>,
        scope: Scope,
        caller: Caller,
        headers: &HeaderMap,
        head_timer: &HeadTimer,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        check_content_type(headers)?;
        let accepts = Accepts::of(headers)?;
        let account = self.account(caller, headers.get(SESSION));
        let body = body::read(body, self.bounds.body, head_timer, &account).await?;
        let named = Named::of(headers);
        let posted = Posted {
            headers,
            named,
            accepts,
            head_timer,
        };
        match Message::read_any(&body).await {
            Message::Request { id, method, params } => {
                let asked = Asked::new(id, method.into_owned(), Params::read(params).await);
                let id = asked.id.clone();
                let answered = self.request(scope, caller, posted, asked).await;
                answered.map_err(|refusal| refusal.of_request(&id))
            }
            Message::Notification { method, params } => {
                if let Named::Modern(_) = named {
                    self.router
                        .hear_stranger(caller.into(), &scope, &method, params.as_ref())
                        .await;
                } else {
                    let session = self.session(&scope, caller, named, headers)?;
                    self.router.hear(&session.client, &method, params.as_ref()).await;
                }
                Ok(empty(StatusCode::ACCEPTED))
            }
            Message::Response { id, result } => {
                if matches!(named, Named::Modern(_)) {
                    let what = "there is nothing to answer: input goes with the request that needs it";
                    return Err(Refusal::new(
                        StatusCode::BAD_REQUEST,
                        RpcError::INVALID_REQUEST,
                        what,
                    ));
                }
                let session = self.session(&scope, caller, named, headers)?;
                session.client.answered(&id, result);
                Ok(empty(StatusCode::ACCEPTED))
            }
            Message::Batch(_) if matches!(named, Named::Modern(_)) => Err(no_batch()),
            Message::Batch(messages) => self.answer_batch(&scope, caller, posted, messages).await,
            Message::Garbage(what) => Err(refuse(what, &body)),
        }
    }

    async fn request(
        self: &Arc<Self>,
        scope: Scope,
        caller: Caller,
        posted: Posted<'_>,
        asked: Asked,
    ) -> Result<Response<Body>, Refusal> {
        self.check_open()?;
        let unreadable = |error: TooManyMembers| Refusal::with(StatusCode::BAD_REQUEST, error.into());
        asked.params.check_members().map_err(unreadable)?;
        match posted.named {
            Named::Modern(_) => self.answer_modern(scope, caller, posted, asked).await,
            _ if asked.meta.version.is_some() => self.answer_modern(scope, caller, posted, asked).await,
            Named::Unknown(version) => Err(modern::unsupported(version)),
            Named::Nothing | Named::Legacy(_) => self.answer_legacy(scope, caller, posted, asked).await,
        }
    }

    /// A message of a client over HTTP+SSE: what comes of it goes to the client's one stream.
    pub(super) async fn post_sse(
        self: &Arc<Self>,
        session: &str,
        caller: Caller,
        head: &Parts,
        head_timer: &HeadTimer,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        check_content_type(&head.headers)?;
        let session = self.sse_session(session, caller)?;
        let body = body::read(body, self.bounds.body, head_timer, &session.account).await?;
        match Message::read_any(&body).await {
            Message::Request { id, method, params } => {
                self.check_open().map_err(|refusal| refusal.of_request(&id))?;
                self.answer_sse(
                    session,
                    Asked::new(id, method.into_owned(), Params::read(params).await),
                );
            }
            Message::Notification { method, params } => {
                self.router.hear(&session.client, &method, params.as_ref()).await;
            }
            Message::Response { id, result } => {
                session.client.answered(&id, result);
            }
            Message::Batch(messages) => self.answer_sse_batch(session, messages).await?,
            Message::Garbage(what) => return Err(refuse(what, &body)),
        }
        Ok(empty(StatusCode::ACCEPTED))
    }
}

fn refuse(what: BadAnswer, body: &Bytes) -> Refusal {
    let (code, what) = if serde_json::from_slice::<IgnoredAny>(body).is_ok() {
        let what = "the body is no JSON-RPC message".to_owned();
        (RpcError::INVALID_REQUEST, what)
    } else {
        (RpcError::PARSE_ERROR, format!("the body cannot be read: {what}"))
    };
    Refusal::new(StatusCode::BAD_REQUEST, code, what)
}

/// A batch where there is no session that could have them.
fn no_batch() -> Refusal {
    let what = "batches are only for sessions of 2025-03-26: send one message by each POST";
    Refusal::new(StatusCode::BAD_REQUEST, RpcError::INVALID_REQUEST, what)
}

impl<'a> Named<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let Some(version) = headers.get(VERSION) else {
            return Self::Nothing;
        };
        let version = version.to_str().unwrap_or("");
        if MODERN_VERSIONS.contains(&version) {
            Self::Modern(version)
        } else if LEGACY_VERSIONS.contains(&version) {
            Self::Legacy(version)
        } else {
            Self::Unknown(version)
        }
    }
}

impl Accepts {
    /// What a client takes. One that does not say takes everything.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let first = headers.get(header::ACCEPT);
        if first.is_none_or(|first| first == USUALLY_ACCEPTED) {
            return Ok(Self {
                json: true,
                events: true,
            });
        }
        let mut accepts = Self {
            json: false,
            events: false,
        };
        let listed = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        for kind in listed.flat_map(|value| value.split(',')) {
            let kind = media_type(kind);
            let is = |name: &str| kind.eq_ignore_ascii_case(name);
            let all = is("*/*");
            accepts.json |= all || is("application/json") || is("application/*");
            accepts.events |= all || is("text/event-stream") || is("text/*");
        }
        if accepts.json || accepts.events {
            return Ok(accepts);
        }
        let what = "accept application/json and text/event-stream: answers are one or the other";
        Err(Refusal::new(
            StatusCode::NOT_ACCEPTABLE,
            RpcError::INVALID_REQUEST,
            what,
        ))
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let named = headers.get(header::CONTENT_TYPE);
    if named.is_some_and(|named| named == USUALLY_SENT) {
        return Ok(());
    }
    let named = named.and_then(|value| value.to_str().ok());
    if named.is_some_and(|named| media_type(named).eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let what = "the body must be application/json";
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        RpcError::INVALID_REQUEST,
        what,
    ))
}

/// A media type without its parameters.
fn media_type(text: &str) -> &str {
    let (kind, _parameters) = text.split_once(';').unwrap_or((text, ""));
    kind.trim()
}
