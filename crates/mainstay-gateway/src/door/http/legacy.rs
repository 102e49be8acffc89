//! Clients of the legacy era: sessions, their requests and their streams.

use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use mainstay::gateway::message::RpcError;

use super::answering::{Accepts, Answer, Asker, Work, answer, events};
use super::body::Body;
use super::guard::Caller;
use super::modern;
use super::post::{Asked, Named, Posted};
use super::reading::Reading;
use super::refusal::{Refusal, empty};
use super::route::not_allowed;
use super::service::HttpService;
use super::session::{InUse, Way};
use super::stream::Stream;
use crate::client::{Busy, Outbox, Run};
use crate::door::outgoing::Answered;
use crate::protocol::SERVER_UNAVAILABLE;
use crate::router::{Request, is_shared};
use crate::scope::Scope;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The version whose clients know events without data, which say where to take up a stream.
const PRIMES_SINCE: &str = "2025-11-25";

/// A session that is not there: the client must initialize again.
const SESSION_NOT_FOUND: i64 = -32001;

impl HttpService {
    pub(super) async fn answer_legacy(
        self: &Arc<Self>,
        scope: Scope,
        caller: Caller,
        posted: Posted<'_>,
        asked: Asked,
    ) -> Result<Response<Body>, Refusal> {
        let Posted {
            headers,
            named,
            accepts,
            head_timer,
        } = posted;
        if asked.method == "initialize" && !headers.contains_key(SESSION) {
            return self.initialize(scope, caller, asked).await;
        }
        let session = self.session(&scope, caller, named, headers)?;
        let run = begin(&session, &asked)?;
        let primes = matches!(named, Named::Legacy(version) if version >= PRIMES_SINCE);
        let stream = session.stream(accepts);
        let work = self.work(session.clone(), stream.clone(), run, asked);
        Ok(answer(
            work,
            stream,
            Asker::Legacy { session, primes },
            accepts,
            head_timer,
        )
        .await)
    }

    /// Opens a session, if the client is welcome in it.
    async fn initialize(
        self: &Arc<Self>,
        scope: Scope,
        caller: Caller,
        asked: Asked,
    ) -> Result<Response<Body>, Refusal> {
        let session = self.sessions.open(scope, Way::Streamable, caller)?;
        let mut opened = Opened {
            service: self,
            session: Some(session.clone()),
        };
        let run = begin(&session, &asked)?;
        let account = session.account.clone();
        let stream = Arc::new(Stream::passing(account.clone()));
        let answered = self.work(session.clone(), stream, run, asked).await;
        let Some(mut answered) = answered else {
            return Ok(empty(StatusCode::NO_CONTENT));
        };
        if let Some(error) = answered.error() {
            // Clients show the message of an answer, and of a refusal only its status.
            if error.code() != SERVER_UNAVAILABLE {
                answered.status = StatusCode::BAD_REQUEST;
            }
            return Ok(answered.response(&account));
        }
        let mut response = answered.response(&account);
        opened.session = None;
        if let Ok(id) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION, id);
        }
        Ok(response)
    }

    /// Opens the standing stream of a session, or takes up one that broke.
    pub(super) fn listen(
        self: &Arc<Self>,
        scope: &Scope,
        caller: Caller,
        head: &Parts,
    ) -> Result<Response<Body>, Refusal> {
        let named = refuse_modern(head)?;
        if !Accepts::of(&head.headers)?.events {
            let what = "accept text/event-stream: this is a stream";
            return Err(Refusal::new(
                StatusCode::NOT_ACCEPTABLE,
                RpcError::INVALID_REQUEST,
                what,
            ));
        }
        self.check_open()?;
        let session = self.session(scope, caller, named, &head.headers)?;
        let last = head.headers.get("last-event-id");
        let Some(last) = last else {
            // Whoever comes last reads: the one before may be a connection that nobody has closed.
            let place = session.standing.open(None);
            let reading = Reading::new(session.standing.clone(), place, Box::new(session));
            return Ok(events(reading.opened()));
        };
        let named = last.to_str().ok().and_then(Stream::named);
        let found = named.and_then(|(stream, event)| Some((session.find(stream)?, event)));
        let Some((stream, event)) = found else {
            let what = "there is nothing after this event any more";
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                RpcError::INVALID_REQUEST,
                what,
            ));
        };
        let place = stream.open(Some(event));
        Ok(events(Reading::new(stream, place, Box::new(session)).opened()))
    }

    /// Ends a session because its client says so.
    pub(super) fn end(&self, scope: &Scope, caller: Caller, head: &Parts) -> Result<Response<Body>, Refusal> {
        let named = refuse_modern(head)?;
        let session = self.session(scope, caller, named, &head.headers)?;
        self.sessions.end(&session.id);
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// The session that a request names.
    pub(super) fn session(
        &self,
        scope: &Scope,
        caller: Caller,
        named: Named<'_>,
        headers: &HeaderMap,
    ) -> Result<InUse, Refusal> {
        if let Named::Unknown(version) = named {
            return Err(modern::unsupported(version));
        }
        let Some(id) = headers.get(SESSION) else {
            let what = "the Mcp-Session-Id header is missing: initialize first";
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                RpcError::INVALID_REQUEST,
                what,
            ));
        };
        let id = id.to_str().unwrap_or_default();
        let session = self.sessions.find(id, scope, Way::Streamable, caller);
        session.ok_or_else(no_session)
    }

    /// The work of answering a request of a session.
    pub(super) fn work(
        self: &Arc<Self>,
        session: InUse,
        stream: Arc<Stream>,
        run: Run,
        asked: Asked,
    ) -> Work {
        let (service, job) = (self.clone(), self.busy.begin());
        Box::pin(async move {
            let line: Arc<dyn Outbox> = stream;
            let Asked {
                id,
                method,
                params,
                meta,
            } = asked;
            let request = Request {
                client: &session.client,
                line: &line,
                run: &run,
                method: &method,
                params,
                meta,
            };
            let result = service.router.answer(request).await?;
            drop(job);
            let answered = Answered {
                id,
                result,
                is_shared: is_shared(&method),
            };
            Some(Answer::new(StatusCode::OK, answered))
        })
    }
}

pub(super) fn no_session() -> Refusal {
    let what = "there is no such session: initialize again";
    Refusal::new(StatusCode::NOT_FOUND, SESSION_NOT_FOUND, what)
}

/// Notes a request of a session, which can answer so many at the same time, each under an id of its own.
fn begin(session: &InUse, asked: &Asked) -> Result<Run, Refusal> {
    session.client.running.begin(asked.id.clone()).map_err(|busy| {
        let status = match busy {
            Busy::IdInUse => StatusCode::BAD_REQUEST,
            Busy::TooMany => StatusCode::TOO_MANY_REQUESTS,
        };
        Refusal::with(status, busy.into())
    })
}

/// Modern clients have no sessions, and so no streams to open and none to end.
fn refuse_modern(head: &Parts) -> Result<Named<'_>, Refusal> {
    match Named::of(&head.headers) {
        Named::Modern(_) => Err(not_allowed("POST")),
        named @ (Named::Nothing | Named::Legacy(_) | Named::Unknown(_)) => Ok(named),
    }
}

/// A session that is ended again unless its client is welcome.
struct Opened<'a> {
    service: &'a HttpService,
    session: Option<InUse>,
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.service.sessions.end(&session.id);
        }
    }
}
