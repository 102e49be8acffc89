//! The session of a legacy server: its id and version, and whether the server still knows it.
//!
//! The protocol has 404 for a lost session. Some servers answer 400 instead, and 400 has many other reasons. A session that
//! is given up fails every call in it, so after a 400 the transport first sends a ping. Calls that are refused together
//! share one ping.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::answer::{Relation, lacks_method};
use super::body_headers::BodyHeaders;
use super::refusal::{Refusal, read_error};
use super::streamable::StreamableHttp;
use crate::lock::Lock;

const ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How long the server may take to answer the ping. The refused call waits for it.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Pings are numbered from here on, far beyond the requests of any connection. JSON numbers are exact up to 2^53.
const FIRST_PING: u64 = 1 << 52;

pub(super) struct TransportSession(Lock<SessionState>);

struct SessionState {
    /// The headers of every message of the session, as far as they are known.
    headers: HeaderMap,
    /// All headers of a message that is posted: made when those of the session change, not for each message.
    posted: Arc<HeaderMap>,
    is_agreed: bool,
    lost: bool,
}

impl TransportSession {
    /// A session that is not open yet, whose messages have these headers beside its own.
    pub(super) fn new(posted: Arc<HeaderMap>) -> Self {
        Self(Lock::new(SessionState {
            headers: HeaderMap::new(),
            posted,
            is_agreed: false,
            lost: false,
        }))
    }

    /// Keeps the number that came with the answer to `initialize`.
    pub(super) fn open(&self, headers: &HeaderMap) {
        if let Some(id) = headers.get(ID) {
            self.state().insert(ID, id.clone());
        }
    }

    /// Keeps the version that was agreed on.
    pub(super) fn agree(&self, version: &str) {
        if let Ok(version) = HeaderValue::from_str(version) {
            let mut state = self.state();
            state.insert(VERSION, version);
            state.is_agreed = true;
        }
    }

    /// Whether the server was initialized in the old way.
    pub(super) fn is_agreed(&self) -> bool {
        self.state().is_agreed
    }

    /// Whether the server gave it a number.
    pub(super) fn has_id(&self) -> bool {
        self.state().headers.contains_key(ID)
    }

    /// The number that the server gave it, as text.
    pub(super) fn id(&self) -> Option<String> {
        let state = self.state();
        let id = state.headers.get(ID)?;
        Some(String::from_utf8_lossy(id.as_bytes()).into_owned())
    }

    /// Marks it as lost; `true` when it was not known before.
    pub(super) fn lose(&self) -> bool {
        !std::mem::replace(&mut self.state().lost, true)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state().lost
    }

    /// Puts the headers of this session to those of a message.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        let state = self.state();
        for (name, value) in &state.headers {
            headers.insert(name, value.clone());
        }
    }

    /// All headers of a message that is posted.
    pub(super) fn posted(&self) -> Arc<HeaderMap> {
        self.state().posted.clone()
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.0.lock()
    }
}

impl SessionState {
    fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.insert(name.clone(), value.clone());
        Arc::make_mut(&mut self.posted).insert(name, value);
    }
}

/// The pings of one session.
#[derive(Default)]
pub(super) struct SessionCheck {
    /// Pings begun so far.
    begun: AtomicU64,
    /// One ping at a time: those that wait for it share what it finds.
    last: tokio::sync::Mutex<Finding>,
}

/// What the last ping found.
#[derive(Default)]
struct Finding {
    /// Its number, from 1.
    ping: u64,
    /// Whether the session is lost, which is final.
    is_lost: bool,
}

impl StreamableHttp {
    /// Whether a refusal with this status means that the server no longer knows the session. 404 says so; after 400 the
    /// server is asked. A server that cannot be asked is not taken to have lost it.
    ///
    /// Cancel safety: dropping it drops the ping; the next call that is refused sends its own.
    pub(super) async fn has_lost_session(&self, status: u16) -> bool {
        self.session.has_id()
            && match status {
                404 => true,
                400 => self.ask_by_ping().await,
                _other => false,
            }
    }

    async fn ask_by_ping(&self) -> bool {
        let begun_before = self.check.begun.load(Ordering::Acquire);
        let mut last = self.check.last.lock().await;
        // A ping that was begun before this refusal came may have met the session just before its end.
        if last.is_lost || last.ping > begun_before {
            return last.is_lost;
        }
        let ping = self.check.begun.fetch_add(1, Ordering::AcqRel) + 1;
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
        let mut response = self.endpoint.send(&request, Some(PING_TIMEOUT)).await?;
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
