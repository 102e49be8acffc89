//! How a caller wants its call made. The same options travel from the caller to the connection: the server fills in
//! what the caller left open, once.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Settings;
use crate::TraceContext;
use crate::config::Replay;
use crate::deadline;
use crate::handler::ClientHandler;
use crate::wire::{LineKeeper, RawJson, SentNote};

/// How one call is made. The defaults are the server's configuration.
#[derive(Clone, Default)]
pub struct CallOptions {
    pub(crate) waiting: Waiting,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) replay: Option<Replay>,
    pub(crate) progress: Option<mpsc::Sender<RawJson>>,
    pub(crate) meta: Vec<(String, RawJson)>,
    pub(crate) handler: Option<Arc<dyn ClientHandler>>,
    pub(crate) trace: Option<TraceContext>,
    /// Whether the caller itself answers a modern server's request for input.
    pub(crate) hand_on_input: bool,
    /// Whether it is a request of the modern era, for a server that takes these beside its session.
    pub(crate) is_modern: bool,
    /// Where a caller that drops the call finds its outcome.
    pub(crate) sent: Option<SentNote>,
    /// Where the id of the request is noted, for its span.
    pub(crate) number: Option<Arc<AtomicU64>>,
    /// Sees each line that is written for the call.
    pub(crate) keeps_line: Option<LineKeeper>,
    /// The end of `total_timeout`, known once the call begins.
    pub(crate) deadline: Option<Instant>,
}

/// What a call does while its server is not connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// It waits for the server: at most [`CallOptions::wait_timeout`], inside the call's own deadline.
    #[default]
    Wait,
    /// It fails at once.
    FailFast,
}

impl CallOptions {
    /// Fails at once if the server is not connected.
    #[must_use]
    pub fn fail_fast(mut self) -> Self {
        self.waiting = Waiting::FailFast;
        self
    }

    /// The longest silence. Progress restarts it.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.idle_timeout = Some(limit);
        self
    }

    /// The longest time for all of it: waiting for the server, the call, and its replay.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.total_timeout = Some(limit);
        self
    }

    /// The longest wait for a connection, inside the call's own deadline. If the server's next attempt is known to come
    /// later, the call fails at once.
    #[must_use]
    pub fn wait_timeout(mut self, limit: Duration) -> Self {
        self.wait_timeout = Some(limit);
        self
    }

    /// Whether a call that may have run can be made a second time.
    #[must_use]
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = Some(replay);
        self
    }

    /// Where the parameters of each progress notification go. A reader that is too slow misses some.
    #[must_use]
    pub fn progress(mut self, to: mpsc::Sender<RawJson>) -> Self {
        self.progress = Some(to);
        self
    }

    /// An entry for the request's `_meta`.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: RawJson) -> Self {
        self.meta.push((key.into(), value));
        self
    }

    /// The handler of what the server asks because of this call.
    #[must_use]
    pub fn handler(mut self, handler: Arc<dyn ClientHandler>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// The span that the call belongs to. The server gets it in `_meta`; if spans are recorded, it gets the span of the attempt, which
    /// is a child of this one.
    #[must_use]
    pub fn trace(mut self, caller: TraceContext) -> Self {
        self.trace = Some(caller);
        self
    }

    /// Options with this deadline, for requests that Mainstay makes itself.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            deadline: Some(deadline),
            ..Self::default()
        }
    }

    /// Starts the clock, and fills in the timeouts that the caller left open. Returns the deadline.
    pub(super) fn begin(&mut self, settings: &Settings) -> Instant {
        let deadline = deadline::within(self.total_timeout.unwrap_or(settings.call_timeout()));
        self.deadline = Some(deadline);
        self.idle_timeout.get_or_insert(settings.call_idle_timeout());
        self.wait_timeout.get_or_insert(settings.wait_timeout());
        self.replay.get_or_insert(settings.replay());
        deadline
    }
}

impl std::fmt::Debug for CallOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallOptions")
            .field("waiting", &self.waiting)
            .field("idle_timeout", &self.idle_timeout)
            .field("total_timeout", &self.total_timeout)
            .field("wait_timeout", &self.wait_timeout)
            .field("replay", &self.replay)
            .finish_non_exhaustive()
    }
}
