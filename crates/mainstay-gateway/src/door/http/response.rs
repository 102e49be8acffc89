//! Responses: their bodies, refusals, and what is logged of them.
//!
//! The log has one line for each refused request, and on request one for every request. It has the path without its query,
//! which may name a session, and no header at all. Text from a client is cleaned first: it cannot end the line or control
//! a terminal.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use mainstay::Outcome;
use mainstay::gateway::PlainText;
use mainstay::gateway::message::{RawJson, RpcError};
use tokio::time::Instant;

use super::limits::ActiveRequest;
use super::mount::MountBody;
use super::stream::EventReader;
use crate::budget::Spent;
use crate::protocol::{NoId, limit_error};

/// The log target of refused requests.
const REFUSED_TARGET: &str = "mainstay_gateway::refused";

/// The log target of all requests.
const ACCESS_TARGET: &str = "mainstay_gateway::access";

/// Characters of a path or a reason that are logged.
const LOGGED_LIMIT: usize = 300;

/// Tells proxies not to buffer events.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// When a client whose request did not fit into the budget may try again.
const SPENT_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The last second that an HTTP date can name: 9999-12-31T23:59:59Z.
const LAST_SECOND: u64 = 253_402_300_799;

/// The date of a response (RFC 9110 section 6.6.1) at this time. A time that has no such date becomes the nearest that has one.
pub(super) fn date(now: SystemTime) -> Option<HeaderValue> {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = UNIX_EPOCH + since.min(Duration::from_secs(LAST_SECOND));
    HeaderValue::try_from(httpdate::fmt_http_date(at)).ok()
}

/// The body of a response.
pub(super) struct ResponseBody {
    content: BodyContent,
    /// Keeps the connection from being idle until the body is sent, if that may take long.
    active: Option<ActiveRequest>,
    /// Logs the request when this is dropped, if requests are logged.
    access: Option<Box<AccessEntry>>,
}

/// What a body holds.
pub(super) enum BodyContent {
    /// All of it, or the rest of it.
    Whole(Bytes),
    /// A few pieces, the last one first. None of them is empty.
    Pieces(Vec<Bytes>),
    /// Events, as they arrive.
    Events(Box<EventReader>),
    /// The body of a mounted service.
    Mounted(MountBody),
}

impl ResponseBody {
    pub(super) fn new(content: BodyContent) -> Self {
        Self {
            content,
            active: None,
            access: None,
        }
    }

    /// Keeps this request active as long as the body is sent, if that may take long.
    pub(super) fn keep_active(&mut self, request: ActiveRequest) {
        match &self.content {
            BodyContent::Whole(_) | BodyContent::Pieces(_) => drop(request),
            BodyContent::Events(_) | BodyContent::Mounted(_) => self.active = Some(request),
        }
    }

    /// Logs the request when all of the body is sent, or its client is gone.
    pub(super) fn log_at_end(&mut self, entry: AccessEntry) {
        self.access = Some(Box::new(entry));
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { content, access, .. } = self.get_mut();
        let frame = ready!(match content {
            BodyContent::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            BodyContent::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            BodyContent::Pieces(pieces) => Poll::Ready(pieces.pop().map(|piece| Ok(Frame::data(piece)))),
            BodyContent::Events(reader) => reader
                .poll_piece(context)
                .map(|piece| piece.map(|piece| piece.map(Frame::data))),
            BodyContent::Mounted(body) => Pin::new(body).poll_frame(context),
        });
        if let (Some(entry), Some(Ok(frame))) = (access, &frame) {
            entry.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            BodyContent::Whole(bytes) => bytes.is_empty(),
            BodyContent::Pieces(pieces) => pieces.is_empty(),
            BodyContent::Events(_) => false,
            BodyContent::Mounted(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            BodyContent::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyContent::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            BodyContent::Events(_) => SizeHint::default(),
            BodyContent::Mounted(body) => body.size_hint(),
        }
    }
}

/// A response with this body and content type.
fn respond(status: StatusCode, content_type: &'static str, content: BodyContent) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::new(content));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// A JSON body.
pub(super) fn json(status: StatusCode, content: BodyContent) -> Response<ResponseBody> {
    respond(status, "application/json", content)
}

/// Plain text that proxies must not cache.
pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let content = BodyContent::Whole(text.into());
    uncached(respond(status, "text/plain; charset=utf-8", content))
}

/// A stream of events.
pub(super) fn events(reader: EventReader) -> Response<ResponseBody> {
    let content = BodyContent::Events(Box::new(reader));
    let mut response = uncached(respond(StatusCode::OK, "text/event-stream", content));
    response
        .headers_mut()
        .insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

fn uncached(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    response
}

/// No body.
pub(super) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let content = BodyContent::Whole(Bytes::new());
    let mut response = Response::new(ResponseBody::new(content));
    *response.status_mut() = status;
    response
}

/// A request that is refused: with a status for HTTP, and an error for JSON-RPC. Boxed, as it is the rare side of many
/// results.
#[derive(Debug)]
pub(super) struct HttpRefusal(Box<RefusalParts>);

#[derive(Debug)]
struct RefusalParts {
    status: StatusCode,
    /// The id of the refused request, if it could be read.
    id: Option<RawJson>,
    error: RpcError,
    /// The reason to log, if it differs from the one for the client.
    logged: Option<String>,
    header: Option<(HeaderName, HeaderValue)>,
    /// What a person can do about it, where that is said apart.
    remedy: Option<&'static str>,
}

impl HttpRefusal {
    pub(super) fn new(status: StatusCode, code: i64, what: impl Into<String>) -> Self {
        Self::with(status, RpcError::new(code, what))
    }

    /// Refuses a request that breaks a rule of HTTP or of MCP.
    pub(super) fn invalid(status: StatusCode, what: impl Into<String>) -> Self {
        Self::new(status, RpcError::INVALID_REQUEST, what)
    }

    /// Refuses a request for which there is no room, or no more time.
    pub(super) fn limited(status: StatusCode, what: impl Into<String>) -> Self {
        Self::with(status, limit_error(Outcome::NotSent, what))
    }

    pub(super) fn with(status: StatusCode, error: RpcError) -> Self {
        Self(Box::new(RefusalParts {
            status,
            id: None,
            error,
            logged: None,
            header: None,
            remedy: None,
        }))
    }

    /// Refuses a method, and names those that this path has.
    pub(super) fn method_not_allowed(allowed: &str) -> Self {
        let what = format!("the method is not one of {allowed}");
        Self::invalid(StatusCode::METHOD_NOT_ALLOWED, what).header(header::ALLOW, allowed)
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.0.header = HeaderValue::from_str(value).ok().map(|value| (name, value));
        self
    }

    /// Tells the client when to try again.
    pub(super) fn retry_after(self, delay: Duration) -> Self {
        let seconds = delay.as_secs_f64().ceil().max(1.0);
        self.header(header::RETRY_AFTER, &seconds.to_string())
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.0.status
    }

    pub(super) fn of_request(mut self, id: &RawJson) -> Self {
        self.0.id = Some(id.clone());
        self
    }

    /// Logs this in place of the message for the client, which holds a value that may be a secret.
    pub(super) fn logged_as(mut self, what: String) -> Self {
        self.0.logged = Some(what);
        self
    }

    /// The refusal as a response. If the id of the request is unknown, `no_id` says how the client's version writes that.
    pub(super) fn response(self, no_id: NoId) -> Response<ResponseBody> {
        let line = no_id.refusal(self.0.id.as_ref(), self.0.error.clone());
        self.with_body("application/json", line)
    }

    /// Says what a person can do about it.
    pub(super) fn remedy(mut self, remedy: &'static str) -> Self {
        self.0.remedy = Some(remedy);
        self
    }

    /// The refusal as a response to a client that speaks no JSON-RPC, in the form of RFC 9457.
    pub(super) fn problem(self) -> Response<ResponseBody> {
        let kind = match self.0.status {
            StatusCode::TOO_MANY_REQUESTS => "too_many",
            StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
            _other => "refused",
        };
        let problem = serde_json::json!({
            "kind": kind,
            "title": self.0.error.message(),
            "status": self.0.status.as_u16(),
            "where": null,
            "remedy": self.0.remedy,
            "nearest": [],
            "problems": [],
        });
        self.with_body("application/problem+json", problem.to_string().into())
    }

    fn with_body(self, content_type: &'static str, body: Bytes) -> Response<ResponseBody> {
        let RefusalParts {
            status,
            error,
            logged,
            header,
            ..
        } = *self.0;
        let mut response = respond(status, content_type, BodyContent::Whole(body));
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        let reason = logged.unwrap_or_else(|| error.message().to_owned());
        response.extensions_mut().insert(RefusalReason(reason));
        response
    }
}

impl From<Spent> for HttpRefusal {
    fn from(spent: Spent) -> Self {
        let status = match spent {
            Spent::Share { .. } => StatusCode::TOO_MANY_REQUESTS,
            Spent::Address { .. } | Spent::All { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::with(status, spent.into()).retry_after(SPENT_RETRY_DELAY)
    }
}

/// Why a request was refused: an extension of the response, until it is logged.
#[derive(Clone)]
pub(super) struct RefusalReason(pub(super) String);

/// Logs a refused request; whether this response is a refusal.
pub(super) fn log_refusal(peer: IpAddr, head: &Parts, response: &mut Response<ResponseBody>) -> bool {
    let Some(RefusalReason(reason)) = response.extensions_mut().remove() else {
        return false;
    };
    tracing::info!(
        target: REFUSED_TARGET,
        address = %peer,
        method = %head.method,
        path = %clean(head.uri.path()),
        status = response.status().as_u16(),
        reason = %clean(&reason),
        "refused"
    );
    true
}

/// Logs a message that was refused on stdin.
pub(in crate::door) fn log_refused_line(reason: &str) {
    tracing::info!(target: REFUSED_TARGET, address = "stdin", reason = %clean(reason), "refused");
}

/// A request whose response is being sent. Dropping this writes the line of the request.
pub(super) struct AccessEntry {
    peer: IpAddr,
    method: Method,
    path: PlainText,
    began: Instant,
    status: StatusCode,
    /// Bytes of the response's body that were sent.
    bytes: u64,
}

impl AccessEntry {
    pub(super) fn new(peer: IpAddr, head: &Parts, began: Instant, status: StatusCode) -> Self {
        Self {
            peer,
            method: head.method.clone(),
            path: clean(head.uri.path()),
            began,
            status,
            bytes: 0,
        }
    }

    /// The server in the path; `-` for all servers.
    fn server(&self) -> &str {
        let named = ["/mcp/", "/sse/"]
            .iter()
            .find_map(|place| self.path.strip_prefix(place));
        match named.map(|name| name.trim_end_matches('/')) {
            None | Some("") => "-",
            Some(name) => name,
        }
    }
}

impl Drop for AccessEntry {
    fn drop(&mut self) {
        tracing::info!(
            target: ACCESS_TARGET,
            address = %self.peer,
            method = %self.method,
            path = %self.path,
            status = self.status.as_u16(),
            server = %self.server(),
            duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            bytes = self.bytes,
            "request"
        );
    }
}

/// The text on one line, without control characters.
fn clean(text: &str) -> PlainText {
    PlainText::line(text).cut(LOGGED_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_client_cannot_end_the_line_or_control_a_terminal() {
        assert_eq!(clean("a\nb\u{1b}[2Jc\u{202e}d").as_str(), "a bcd");
        assert_eq!(clean(&"x".repeat(1000)).chars().count(), LOGGED_LIMIT);
    }

    #[test]
    fn a_clock_that_is_far_off_gives_the_nearest_date() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        for far in [LAST_SECOND, LAST_SECOND + 1, 1 << 40] {
            assert_eq!(at(far), "Fri, 31 Dec 9999 23:59:59 GMT", "{far}");
        }
        let before = date(UNIX_EPOCH - Duration::from_secs(1)).unwrap();
        assert_eq!(before, "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
