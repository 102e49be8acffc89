//! One request of HTTP: who may ask, where it goes, and what becomes of it.

use std::sync::Arc;

use serde_json::Value;

use super::era;
use super::fault::HttpFault;
use super::out::{ConnectionEnd, Out};
use super::plan::{Instead, Plan};
use super::post;
use super::reply::{EventStreamOptions, Replier, event_id, parse_event_id};
use super::rule::HttpStep;
use super::script::{HttpScript, NO_SESSION, Serves, UnknownSession};
use super::server::HttpServerCore;
use super::session::{ScriptedSession, SessionKind};
use super::stream::AnswerStream;
use super::wire::{ReceivedRequest, ResponseHead};
use crate::responder::Incoming;
use crate::script::{LEGACY_VERSIONS, Speaks};

pub(super) const SESSION_ID: &str = "Mcp-Session-Id";

/// Answers one request, as the script says.
pub(super) async fn answer(
    server: &Arc<HttpServerCore>,
    out: &mut Out,
    request: &ReceivedRequest,
) -> Result<(), ConnectionEnd> {
    let message = Incoming::parse(&request.body);
    let readable = message.as_ref().ok();
    server.count(|traffic| traffic.arrived(request, readable));
    let http = server.http();
    let route = if authorized(&http, request) {
        Route::of(&http, request).map_err(ResponseHead::new)
    } else {
        Err(challenge(request))
    };
    let route = match route {
        Ok(route) => route,
        Err(head) => return out.whole(head, b"", &Plan::default()).await,
    };
    let plan = plan(server, route, request, readable);
    if plan.forget_session {
        server.forget(session_id(route, request));
    }
    let mut exchange = Exchange {
        server,
        request,
        http,
        replier: Replier {
            server,
            out,
            plan: &plan,
        },
    };
    let id = readable.map_or(Value::Null, |message| message.id().clone());
    if let Some(instead) = plan.instead.as_ref().filter(|instead| !instead.performs()) {
        return exchange.replier.instead(instead, &id, &request.path).await;
    }
    match route {
        Route::Post => exchange.post(message).await,
        Route::Message => exchange.message(message).await,
        Route::Get => exchange.get().await,
        Route::Delete => exchange.delete().await,
        Route::Sse => exchange.sse().await,
    }
}

/// One request under way.
pub(super) struct Exchange<'a> {
    pub(super) server: &'a Arc<HttpServerCore>,
    pub(super) request: &'a ReceivedRequest,
    pub(super) http: HttpScript,
    pub(super) replier: Replier<'a>,
}

impl Exchange<'_> {
    /// The fault that takes the place of the answer to what was just performed.
    pub(super) fn instead(&self) -> Option<Instead> {
        self.replier.plan.instead.clone()
    }

    /// Refuses the request outside of its message: an error without an id.
    pub(super) async fn refuse(
        &mut self,
        status: u16,
        code: i64,
        message: &str,
    ) -> Result<(), ConnectionEnd> {
        let body = error_without_id(code, message);
        self.replier
            .json(ResponseHead::new(status), body.as_bytes())
            .await
    }

    /// The session a legacy request names, or the status, code and text with which the TypeScript SDK refuses a request
    /// that names none of this server's.
    pub(super) fn session(&self) -> Result<Arc<ScriptedSession>, (u16, i64, String)> {
        if !self.http.sessions {
            return Ok(self.server.stateless());
        }
        let refused = |status, code, message: &str| (status, code, message.to_owned());
        let id = self.request.header(SESSION_ID);
        let known = id
            .and_then(|id| self.server.session(id))
            .filter(|session| session.kind() == SessionKind::Streamable);
        let session = known.ok_or_else(|| match (self.http.unknown_session, id) {
            (UnknownSession::BadRequest, _) => refused(400, -32000, NO_SESSION),
            (UnknownSession::NotFound, None) => {
                refused(400, -32000, "Bad Request: Mcp-Session-Id header is required")
            }
            (UnknownSession::NotFound, Some(_)) => refused(404, -32001, "Session not found"),
        })?;
        match self.request.header("mcp-protocol-version") {
            Some(version) if !LEGACY_VERSIONS.contains(&version) => {
                let newest_first: Vec<_> = LEGACY_VERSIONS.into_iter().rev().collect();
                let supported = newest_first.join(", ");
                let message = format!(
                    "Bad Request: Unsupported protocol version: {version} (supported versions: {supported})"
                );
                Err((400, -32000, message))
            }
            Some(_) | None => Ok(session),
        }
    }

    /// What comes before the first message of a legacy stream.
    pub(super) fn opening(&self, stream: &AnswerStream, from: usize) -> String {
        let retry = self.http.retry_ms.map(|ms| format!("retry: {ms}\n"));
        let retry = retry.unwrap_or_default();
        if self.http.priming && self.http.event_ids {
            return format!("id: {}\n{retry}data: \n\n", event_id(stream, from));
        }
        if retry.is_empty() { retry } else { retry + "\n" }
    }

    /// The standalone stream of a session, or any stream of it that is resumed.
    async fn get(&mut self) -> Result<(), ConnectionEnd> {
        if !self.http.standalone || self.is_modern_only() {
            return self
                .replier
                .bare(ResponseHead::new(405).with("Allow", "POST"))
                .await;
        }
        let accept = self.request.header("accept");
        if !accept.is_some_and(|accept| accept.contains("text/event-stream")) {
            let message = "Not Acceptable: Client must accept text/event-stream";
            return self.refuse(406, -32000, message).await;
        }
        let session = match self.session() {
            Ok(session) => session,
            Err((status, code, message)) => return self.refuse(status, code, &message).await,
        };
        if let Some(instead) = self.instead() {
            return self
                .replier
                .instead(&instead, &Value::Null, &self.request.path)
                .await;
        }
        let standalone = session.standalone().clone();
        let found = match self.request.header("last-event-id") {
            None => Some((standalone.len(), standalone)),
            Some(id) => parse_event_id(id)
                .filter(|_| self.http.event_ids)
                .and_then(|(number, from)| Some((from, session.stream(number)?))),
        };
        let Some((from, stream)) = found else {
            return self.refuse(400, -32000, "Invalid event ID format").await;
        };
        let options = EventStreamOptions {
            headers: vec![(SESSION_ID.to_owned(), session.id().to_owned())],
            from,
            ids: self.http.event_ids,
            opening: self.opening(&stream, from),
        };
        self.replier.events(&stream, &options).await
    }

    async fn delete(&mut self) -> Result<(), ConnectionEnd> {
        if !self.http.delete || self.is_modern_only() {
            return self
                .replier
                .bare(ResponseHead::new(405).with("Allow", "POST"))
                .await;
        }
        let session = match self.session() {
            Ok(session) => session,
            Err((status, code, message)) => return self.refuse(status, code, &message).await,
        };
        if self.server.forget(session.id()) {
            self.server.count(|traffic| traffic.sessions_deleted += 1);
        }
        match self.instead() {
            Some(instead) => {
                self.replier
                    .instead(&instead, &Value::Null, &self.request.path)
                    .await
            }
            None => self.replier.bare(ResponseHead::new(200)).await,
        }
    }

    /// An HTTP+SSE session, which lives as long as its stream.
    async fn sse(&mut self) -> Result<(), ConnectionEnd> {
        if let Some(instead) = self.instead() {
            return self
                .replier
                .instead(&instead, &Value::Null, &self.request.path)
                .await;
        }
        let session = self.server.open_session(SessionKind::Sse);
        let _ends = SessionEnd {
            server: self.server,
            id: session.id(),
        };
        let options = EventStreamOptions {
            opening: format!("event: endpoint\ndata: /message?sessionId={}\n\n", session.id()),
            ..EventStreamOptions::default()
        };
        self.replier.events(session.standalone(), &options).await
    }

    fn is_modern_only(&self) -> bool {
        match self.server.speaks() {
            Speaks::Legacy => false,
            Speaks::Modern => true,
            Speaks::Both => era::names_modern_version(self.request),
        }
    }
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Post,
    Get,
    Delete,
    Sse,
    Message,
}

impl Route {
    /// The route, or the status for a request that has none.
    fn of(http: &HttpScript, request: &ReceivedRequest) -> Result<Self, u16> {
        let (streamable, sse) = match http.serves {
            Serves::Streamable => (true, false),
            Serves::Sse => (false, true),
            Serves::Both => (true, true),
        };
        match (&request.path[..], &request.method[..]) {
            ("/mcp" | "/moved", "POST") if streamable => Ok(Self::Post),
            ("/mcp" | "/moved", "GET") if streamable => Ok(Self::Get),
            ("/mcp" | "/moved", "DELETE") if streamable => Ok(Self::Delete),
            ("/sse", "GET") if sse => Ok(Self::Sse),
            ("/message", "POST") if sse => Ok(Self::Message),
            ("/mcp" | "/moved", _) if streamable => Err(405),
            ("/sse" | "/message", _) if sse => Err(405),
            ("/either", "GET") if !streamable => Ok(Self::Sse),
            ("/either", "POST") if streamable => Ok(Self::Post),
            ("/either", "GET") => Ok(Self::Get),
            ("/either", "DELETE") if streamable => Ok(Self::Delete),
            ("/either", _) => Err(405),
            _ => Err(404),
        }
    }

    fn step(self, request: &ReceivedRequest) -> HttpStep {
        match self {
            Self::Post | Self::Message => HttpStep::Post,
            Self::Get if request.header("last-event-id").is_some() => HttpStep::Resume,
            Self::Get => HttpStep::Get,
            Self::Delete => HttpStep::Delete,
            Self::Sse => HttpStep::Sse,
        }
    }
}

fn plan(
    server: &HttpServerCore,
    route: Route,
    request: &ReceivedRequest,
    message: Option<&Incoming>,
) -> Plan {
    let mut faults = server.fired(route.step(request), message);
    if request.path == "/moved" {
        faults.retain(|fault| !matches!(fault, HttpFault::Redirect { .. }));
    }
    Plan::of(faults)
}

fn authorized(http: &HttpScript, request: &ReceivedRequest) -> bool {
    http.bearer.as_ref().is_none_or(|token| {
        let expected = format!("Bearer {token}");
        request.header("authorization") == Some(&expected[..])
    })
}

fn challenge(request: &ReceivedRequest) -> ResponseHead {
    let host = request.header("host").unwrap_or("127.0.0.1");
    let metadata = format!("http://{host}/.well-known/oauth-protected-resource");
    let challenge = format!(r#"Bearer resource_metadata="{metadata}", scope="mcp""#);
    ResponseHead::new(401).with("WWW-Authenticate", challenge)
}

fn session_id(route: Route, request: &ReceivedRequest) -> &str {
    match route {
        Route::Message => post::message_session(request),
        Route::Post | Route::Get | Route::Delete | Route::Sse => {
            request.header(SESSION_ID).unwrap_or_default()
        }
    }
}

/// A JSON-RPC error without an id, in the bytes of the TypeScript SDK.
pub(super) fn error_without_id(code: i64, message: &str) -> String {
    let message = Value::from(message);
    format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":{message}}},"id":null}}"#)
}

struct SessionEnd<'a> {
    server: &'a HttpServerCore,
    id: &'a str,
}

impl Drop for SessionEnd<'_> {
    fn drop(&mut self) {
        self.server.forget(self.id);
    }
}
