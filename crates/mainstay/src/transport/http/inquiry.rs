//! Whether the server still knows the session, asked by a ping where a refusal leaves it open.
//!
//! The protocol has 404 for a lost session. Some servers answer 400 instead, and 400 has many other reasons. A session that
//! is given up fails every call in it, so the server is asked first. Calls that are refused together share one ping.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;

use super::answer::{Relation, lacks_method};
use super::body_headers::BodyHeaders;
use super::courier::Courier;
use super::refusal::{Refusal, read_error};

/// How long the server may take to answer the ping. The refused call waits for it.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Pings are numbered from here on, far beyond the requests of any connection. JSON numbers are exact up to 2^53.
const FIRST_PING: u64 = 1 << 52;

/// The pings of one session.
#[derive(Default)]
pub(super) struct Inquiry {
    /// Pings begun so far.
    begun: AtomicU64,
    /// One ping at a time: those that wait for it share what it finds.
    last: Mutex<Finding>,
}

/// What the last ping found.
#[derive(Default)]
struct Finding {
    /// Its number, from 1.
    ping: u64,
    /// Whether the session is lost, which is final.
    is_lost: bool,
}

impl Courier {
    /// Whether a refusal with this status means that the server no longer knows the session. 404 says so; after 400 the
    /// server is asked. A server that cannot be asked is not taken to have lost it.
    ///
    /// Cancel safety: dropping it drops the ping; the next call that is refused sends its own.
    pub(super) async fn has_lost_session(&self, status: u16) -> bool {
        self.session.has_id()
            && match status {
                404 => true,
                400 => self.inquire().await,
                _other => false,
            }
    }

    async fn inquire(&self) -> bool {
        let begun_before = self.inquiry.begun.load(Ordering::Acquire);
        let mut last = self.inquiry.last.lock().await;
        // A ping that was begun before this refusal came may have met the session just before its end.
        if last.is_lost || last.ping > begun_before {
            return last.is_lost;
        }
        let ping = self.inquiry.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let is_lost = self.ping(FIRST_PING + ping).await.unwrap_or_else(|refusal| {
            tracing::debug!(failure = %refusal.failure, "the session could not be asked after");
            false
        });
        *last = Finding { ping, is_lost };
        is_lost
    }

    /// Sends one ping; `true` when the answer says that the session is lost.
    async fn ping(&self, id: u64) -> Result<bool, Refusal> {
        let ping = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let request = self.post(&ping, BodyHeaders::default()).await;
        let request = request.map_err(Refusal::not_sent)?;
        let mut response = self.send(request, Some(PING_TIMEOUT)).await?;
        let status = response.status();
        if status.is_success() {
            response.discard();
            return Ok(false);
        }
        let body = read_error(&mut response).await;
        Ok(match status.as_u16() {
            404 => !lacks_method(&body),
            // A server that names the ping in its error has read it in this session.
            400 => Relation::of(&body, id) != Relation::Answer,
            _other => false,
        })
    }
}
