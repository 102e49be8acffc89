//! How a request is to be made.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::params::MetaEntries;
use super::progress::ProgressSink;
use super::sent_note::SentNote;
use crate::deadline;
use crate::lock::Lock;

/// How long a request may take, and what is wanted of it on the way.
#[derive(Clone)]
pub(crate) struct RequestOptions {
    /// When it has failed at the latest, waiting for room in the queue included.
    pub(crate) total: Instant,
    /// How long it may be silent; progress restarts this time. Only a request that asks for progress gets any.
    pub(crate) idle: Option<Duration>,
    /// What stops the idle time while it is held.
    pub(crate) hold: Option<Arc<IdlePause>>,
    pub(crate) progress: ProgressMode,
    /// What is added to the `_meta` of its parameters.
    pub(crate) meta: Option<Arc<MetaEntries>>,
    /// Whether it is of the modern era on a connection that has a session.
    pub(crate) is_sessionless: bool,
    /// Whether to send a cancellation when the caller gives up. The protocol forbids it for `initialize`.
    pub(crate) cancellable: bool,
    /// Where its number is noted, before it is sent.
    pub(crate) number: Option<Arc<AtomicU64>>,
    /// Whether it stands for as long as the connection does, and is answered at its end.
    pub(crate) is_standing: bool,
    /// Where the caller looks for the outcome if it drops the request.
    pub(crate) sent: Option<SentNote>,
    /// Sees each line that is written for it.
    pub(crate) keeps_line: Option<LineKeeper>,
}

/// Takes the line of a request before it is queued, and returns the same bytes, to which it may attach what it holds for them.
pub(crate) type LineKeeper = Arc<dyn Fn(Bytes) -> Bytes + Send + Sync>;

/// What is wanted of a request's progress.
#[derive(Clone)]
pub(crate) enum ProgressMode {
    /// It is not asked for.
    NotRequested,
    /// It is a sign of life.
    Counted,
    /// It is a sign of life, and is reported to the caller.
    Reported(ProgressSink),
}

impl ProgressMode {
    /// Whether to request progress, and where it goes.
    pub(super) fn sink(self) -> (bool, Option<ProgressSink>) {
        match self {
            Self::NotRequested => (false, None),
            Self::Counted => (true, None),
            Self::Reported(sink) => (true, Some(sink)),
        }
    }
}

impl RequestOptions {
    /// A cancellable request with no more than a last moment.
    pub(crate) fn until(total: Instant) -> Self {
        Self {
            total,
            idle: None,
            hold: None,
            progress: ProgressMode::NotRequested,
            meta: None,
            is_sessionless: false,
            cancellable: true,
            number: None,
            is_standing: false,
            sent: None,
            keeps_line: None,
        }
    }

    /// A cancellable request that may take this long from now.
    pub(crate) fn within(time: Duration) -> Self {
        Self::until(deadline::within(time))
    }

    pub(crate) fn idle(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    pub(crate) fn progress(mut self, sink: ProgressSink) -> Self {
        self.progress = ProgressMode::Reported(sink);
        self
    }

    /// Asks for progress that is not reported: it keeps the idle timeout from ending a request that works.
    pub(crate) fn progress_counts(mut self) -> Self {
        self.progress = ProgressMode::Counted;
        self
    }
    pub(crate) fn number(mut self, number: Arc<AtomicU64>) -> Self {
        self.number = Some(number);
        self
    }

    pub(crate) fn standing(mut self) -> Self {
        self.is_standing = true;
        self
    }

    /// A request of the modern era on a connection that has a session. Over HTTP the end of its stream cancels it.
    pub(crate) fn sessionless(mut self) -> Self {
        self.is_sessionless = true;
        self.not_cancellable()
    }

    pub(crate) fn not_cancellable(mut self) -> Self {
        self.cancellable = false;
        self
    }
}

/// Stops the idle time of the requests that share it for as long as a [`IdlePauseGuard`] of it lives. Their total time runs on.
#[derive(Debug, Default)]
pub(crate) struct IdlePause(Lock<IdleState>);

#[derive(Debug, Default)]
struct IdleState {
    holders: usize,
    released: Option<Instant>,
}

/// Keeps the idle time stopped until it is dropped; then that time restarts.
#[derive(Debug)]
pub(crate) struct IdlePauseGuard(Arc<IdlePause>);

impl IdlePause {
    pub(crate) fn hold(self: &Arc<Self>) -> IdlePauseGuard {
        self.state().holders += 1;
        IdlePauseGuard(self.clone())
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state().holders > 0
    }

    /// Since when it is held no more: now, as long as it is.
    pub(super) fn released(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        if state.holders > 0 {
            Some(now)
        } else {
            state.released
        }
    }

    fn state(&self) -> MutexGuard<'_, IdleState> {
        self.0.lock()
    }
}

impl Drop for IdlePauseGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.holders -= 1;
        state.released = Some(Instant::now());
    }
}
