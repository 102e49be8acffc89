//! The session of a legacy client: what is kept of it between its requests.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::guard::Caller;
use super::stream::{STANDING, Stream};
use crate::budget::Account;
use crate::client::Client;

/// Streams of requests that a session keeps for a client that lost them; with one more the oldest is forgotten.
const MAX_KEPT: usize = 32;

/// How long a stream is kept after its end.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);

pub(super) struct Session {
    pub(super) id: String,
    pub(super) way: Way,
    pub(super) caller: Caller,
    pub(super) client: Arc<Client>,
    /// What is held for it.
    pub(super) account: Account,
    /// For what belongs to no request.
    pub(super) standing: Arc<Stream>,
    kept: Mutex<VecDeque<Arc<Stream>>>,
    last_stream: AtomicU64,
    /// Its client has named it in a request since it was opened.
    was_used: AtomicBool,
    usage: Mutex<Usage>,
}

/// Who uses a session, and since when nobody does. Under one lock, so that whoever looks between the end of a long use and
/// its note does not take the session for one that nobody has used for as long.
struct Usage {
    /// Requests and open streams.
    uses: usize,
    ended_at: Instant,
}

/// How the client reaches its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE.
    Sse,
}

impl Session {
    pub(super) fn new(
        id: String,
        way: Way,
        caller: Caller,
        client: Arc<Client>,
        account: Account,
    ) -> Arc<Self> {
        let standing = match way {
            Way::Streamable => Stream::standing(account.clone()),
            Way::Sse => Stream::passing(account.clone()),
        };
        let standing = Arc::new(standing);
        client.set_standing_outbox(Some(standing.clone()));
        Arc::new(Self {
            id,
            way,
            caller,
            client,
            account,
            standing,
            kept: Mutex::default(),
            last_stream: AtomicU64::new(STANDING),
            was_used: AtomicBool::new(false),
            usage: Mutex::new(Usage {
                uses: 0,
                ended_at: Instant::now(),
            }),
        })
    }

    /// The number of a new stream.
    pub(super) fn next_stream(&self) -> u64 {
        self.last_stream.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Keeps a stream for a client that loses it.
    pub(super) fn keep(&self, stream: Arc<Stream>) {
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(stream);
    }

    /// The stream of this number, if it is kept.
    pub(super) fn find(&self, number: u64) -> Option<Arc<Stream>> {
        if number == STANDING {
            return Some(self.standing.clone());
        }
        let kept = self.kept();
        kept.iter().find(|stream| stream.number() == number).cloned()
    }

    /// The streams that are kept though nobody reads them: since when they have ended, and how many bytes they have.
    pub(super) fn left_behind(&self) -> Vec<(Instant, usize, u64)> {
        let kept = self.kept();
        kept.iter()
            .filter_map(|stream| {
                let (since, bytes) = stream.left_behind()?;
                Some((since, bytes, stream.number()))
            })
            .collect()
    }

    /// Forgets the stream of this number.
    pub(super) fn forget(&self, number: u64) {
        self.kept().retain(|stream| stream.number() != number);
    }

    /// Forgets streams that ended long ago.
    pub(super) fn forget_old(&self, now: Instant) {
        let is_young = |stream: &Arc<Stream>| {
            let closed = stream.closed_at();
            closed.is_none_or(|closed| now.duration_since(closed) < KEPT_FOR)
        };
        self.kept().retain(is_young);
    }

    /// Notes that its client has named it in a request.
    pub(super) fn note_use(&self) {
        self.was_used.store(true, Ordering::Relaxed);
    }

    /// Whether its client has used it since it was opened.
    pub(super) fn was_used(&self) -> bool {
        self.was_used.load(Ordering::Relaxed)
    }

    /// Since when nobody uses it; `None` when it is in use.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage();
        (usage.uses == 0).then_some(usage.ended_at)
    }

    /// Whether nobody has used it for this long.
    pub(super) fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        let since = self.idle_since();
        since.is_some_and(|since| now.duration_since(since) >= idle)
    }

    /// Ends all its streams.
    pub(super) fn close(&self) {
        self.standing.close();
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Arc<Stream>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that is in use, as long as this lives.
pub(super) struct InUse(Arc<Session>);

impl InUse {
    pub(super) fn new(session: Arc<Session>) -> Self {
        session.usage().uses += 1;
        Self(session)
    }
}

impl Deref for InUse {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Clone for InUse {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut usage = self.0.usage();
        usage.uses -= 1;
        usage.ended_at = Instant::now();
    }
}
