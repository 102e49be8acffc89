//! How a request is to be made.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::time::Instant;

use super::hold::Hold;
use super::meta::Meta;
use super::progress::ProgressSink;
use crate::deadline;

/// How long a request may take, and what is wanted of it on the way.
#[derive(Clone)]
pub(crate) struct RequestOptions {
    /// When it has failed at the latest, waiting for room in the queue included.
    pub(crate) total: Instant,
    /// How long it may be silent; progress starts this time anew. Only a request that asks for progress gets any.
    pub(crate) idle: Option<Duration>,
    /// What stops the idle time while it is held.
    pub(crate) hold: Option<Arc<Hold>>,
    pub(crate) progress: Progress,
    /// What is added to the `_meta` of its parameters.
    pub(crate) meta: Option<Arc<Meta>>,
    /// Whether the far side is told when the answer is no longer wanted. The protocol forbids it for `initialize`.
    pub(crate) cancellable: bool,
    /// Where its number is noted, before it is sent.
    pub(crate) number: Option<Arc<AtomicU64>>,
    /// Whether it stands for as long as the connection does, and is answered at its end.
    pub(crate) is_standing: bool,
}

/// What is wanted of a request's progress.
#[derive(Clone)]
pub(crate) enum Progress {
    /// It is not asked for.
    Unasked,
    /// It is a sign of life.
    Counted,
    /// It is a sign of life, and somebody listens.
    Heard(ProgressSink),
}

impl Progress {
    /// Whether it is asked for, and who listens.
    pub(super) fn sink(self) -> (bool, Option<ProgressSink>) {
        match self {
            Self::Unasked => (false, None),
            Self::Counted => (true, None),
            Self::Heard(sink) => (true, Some(sink)),
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
            progress: Progress::Unasked,
            meta: None,
            cancellable: true,
            number: None,
            is_standing: false,
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
        self.progress = Progress::Heard(sink);
        self
    }

    /// Asks for progress that nobody listens to: it keeps the idle time from ending a request that works.
    pub(crate) fn progress_counts(mut self) -> Self {
        self.progress = Progress::Counted;
        self
    }

    pub(crate) fn meta(mut self, meta: Arc<Meta>) -> Self {
        self.meta = Some(meta);
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

    pub(crate) fn not_cancellable(mut self) -> Self {
        self.cancellable = false;
        self
    }
}
