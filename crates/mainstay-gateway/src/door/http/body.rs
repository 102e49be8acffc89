//! The body of a request: collected within limits, or discarded.
//!
//! A request that is refused is answered before its body was read. hyper then reads once more and closes the connection, and the
//! system resets it if bytes are left: a client that still writes would lose the answer. So the rest is read and dropped, within
//! bounds of its own.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use mainstay::gateway::message::RpcError;
use tokio::time::timeout;

use super::response::HttpRefusal;
use crate::budget::Account;

/// Charged for a request beside its body: for its task, and what that needs.
const REQUEST_COST: usize = 8 * 1024;

/// Bytes that are read and dropped of the body of a refused request: more than a client sends by mistake.
const DISCARD_LIMIT: usize = 64 * 1024 * 1024;

/// How long that may take. A client sends so much in a second or two.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a request, as long as there may be something to read of it.
pub(super) struct RequestBody(Option<Incoming>);

impl RequestBody {
    pub(super) fn new(body: Incoming) -> Self {
        Self(Some(body).filter(|body| !body.is_end_stream()))
    }

    /// Collects the pieces of the body, if it is not above the limit and fits into the client's budget. A body of one piece is not
    /// copied, and its end is not awaited.
    ///
    /// Cancel safety: dropping the future loses the pieces so far.
    pub(super) async fn collect(&mut self, limit: usize, account: &Account) -> Result<Bytes, HttpRefusal> {
        let announced = self.0.as_ref().map_or(0, |body| body.size_hint().lower());
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(too_long(limit));
        }
        let mut held = account.hold(REQUEST_COST + announced)?;
        let (mut first, mut all) = (Bytes::new(), BytesMut::new());
        while let Some(piece) = self.next().await? {
            let before = first.len().max(all.len());
            if piece.len() > limit - before {
                return Err(too_long(limit));
            }
            // The announced length is charged already.
            let more = (before + piece.len()).saturating_sub(announced.max(before));
            held.grow(more)?;
            if first.is_empty() && all.is_empty() {
                first = piece;
            } else {
                if all.is_empty() {
                    all.reserve(first.len() + piece.len());
                    all.extend_from_slice(&std::mem::take(&mut first));
                }
                all.extend_from_slice(&piece);
            }
        }
        Ok(held.attach(if all.is_empty() { first } else { all.freeze() }))
    }

    /// The next piece; `None` at the end. Trailers are ignored.
    async fn next(&mut self) -> Result<Option<Bytes>, HttpRefusal> {
        while let Some(body) = &mut self.0 {
            let frame = body.frame().await;
            if frame.is_none() || body.is_end_stream() {
                self.0 = None;
            }
            if let Some(frame) = frame
                && let Ok(piece) = frame.map_err(|error| broken(&error))?.into_data()
            {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// Reads no more of it. The client took its time already.
    pub(super) fn give_up(&mut self) {
        self.0 = None;
    }

    /// Reads and drops what is left, in a task of its own, while the client gets its answer. Above a bound the connection closes.
    pub(super) fn discard(mut self) {
        if self.0.is_none() {
            return;
        }
        tokio::spawn(async move {
            let reading = async {
                let mut bytes = 0;
                while let Ok(Some(piece)) = self.next().await {
                    bytes += piece.len();
                    if bytes > DISCARD_LIMIT {
                        return;
                    }
                }
            };
            let _ = timeout(DISCARD_TIMEOUT, reading).await;
        });
    }
}

fn too_long(limit: usize) -> HttpRefusal {
    let what = format!("the body is longer than {limit} bytes");
    HttpRefusal::invalid(StatusCode::PAYLOAD_TOO_LARGE, what)
}

fn broken(error: &hyper::Error) -> HttpRefusal {
    let what = format!("the body cannot be read: {error}");
    HttpRefusal::new(StatusCode::BAD_REQUEST, RpcError::PARSE_ERROR, what)
}
