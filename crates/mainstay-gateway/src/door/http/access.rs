//! What is logged of requests: each that is refused, and on request each that is answered.
//!
//! One line a request. The path is logged without its query, which may name a session; no header is logged at all. What a
//! client wrote is cleaned first: nothing of it can end the line, or do anything to a terminal.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as _, Frame};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use mainstay::gateway::PlainText;
use tokio::time::Instant;

use super::body::Body;

/// The target of the lines on requests that were refused.
const REFUSED: &str = "mainstay_gateway::refused";

/// The target of the lines on all requests.
const ACCESS: &str = "mainstay_gateway::access";

/// Characters of a path or a reason that are logged.
const MAX_LOGGED: usize = 300;

/// Why a request was refused. It travels with its response, up to where the line is written.
#[derive(Clone)]
pub(super) struct Why(pub(super) String);

/// Writes the line on a request that was refused, if this response is a refusal.
pub(super) fn note_refusal(peer: IpAddr, head: &Parts, response: &mut Response<Body>) {
    let Some(Why(why)) = response.extensions_mut().remove() else {
        return;
    };
    tracing::info!(
        target: REFUSED,
        address = %peer,
        method = %head.method,
        path = %cleaned(head.uri.path()),
        status = response.status().as_u16(),
        reason = %cleaned(&why),
        "refused"
    );
}

/// Writes the line on a message that was refused on stdin.
pub(in crate::door) fn note_refused_line(why: &str) {
    tracing::info!(target: REFUSED, address = "stdin", reason = %cleaned(why), "refused");
}

/// A request that is to be logged when all of its response is sent, or its client has gone.
pub(super) struct Access {
    peer: IpAddr,
    method: Method,
    path: PlainText,
    began: Instant,
}

impl Access {
    pub(super) fn begin(peer: IpAddr, head: &Parts) -> Self {
        Self {
            peer,
            method: head.method.clone(),
            path: cleaned(head.uri.path()),
            began: Instant::now(),
        }
    }

    /// Follows a response to its end.
    pub(super) fn follow(self, response: Response<Body>) -> Response<Body> {
        let status = response.status();
        response.map(|body| {
            Body::Followed(Box::new(Followed {
                body,
                access: self,
                status,
                bytes: 0,
            }))
        })
    }

    /// The server that the path names; `-` where it names all.
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

/// A body whose bytes are counted; the line is written when it is dropped.
pub(super) struct Followed {
    pub(super) body: Body,
    access: Access,
    status: StatusCode,
    bytes: u64,
}

impl Followed {
    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.bytes += data.len() as u64;
        }
        Poll::Ready(frame)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let access = &self.access;
        tracing::info!(
            target: ACCESS,
            address = %access.peer,
            method = %access.method,
            path = %access.path,
            status = self.status.as_u16(),
            server = %access.server(),
            duration_ms = u64::try_from(access.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            bytes = self.bytes,
            "request"
        );
    }
}

/// A text on one line, without anything that a terminal would act on.
fn cleaned(text: &str) -> PlainText {
    PlainText::line(text).cut(MAX_LOGGED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_client_wrote_ends_the_line_or_acts_on_a_terminal() {
        assert_eq!(cleaned("a\nb\u{1b}[2Jc\u{202e}d").as_str(), "a bcd");
        assert_eq!(cleaned(&"x".repeat(1000)).chars().count(), MAX_LOGGED);
    }
}
