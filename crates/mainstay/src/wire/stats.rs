//! The signs of life of a connection, and counts of what was odd on it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// A reading of a peer's signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerStats {
    /// When the last valid message came.
    pub(crate) last_received: Option<Instant>,
    /// Requests that wait for their answer.
    pub(crate) in_flight: usize,
    /// Callers' requests that were answered, with whatever answer.
    pub(crate) calls_answered: u64,
    /// Answers to requests that no longer waited.
    pub(crate) late_answers: u64,
    /// Answers to nothing that was ever asked.
    pub(crate) unknown_answers: u64,
    /// Answers on the stream of another request, or on a stream that carries none.
    pub(crate) misplaced_answers: u64,
    /// Progress of nothing that was asked with a listener.
    pub(crate) unknown_progress: u64,
    /// Received lines that were no messages, overlong ones included.
    pub(crate) garbage: u64,
    /// Replies, cancellations and notifications dropped because the remote peer did not read.
    pub(crate) dropped: u64,
}

/// Counts as they happen. Each is independent of the others, so the order of their changes does not matter.
pub(super) struct PeerCounters {
    started: Instant,
    /// Nanoseconds from the start to the last message, plus one; zero when there was none.
    last_received: AtomicU64,
    pub(super) calls_answered: Count,
    pub(super) late_answers: Count,
    pub(super) unknown_answers: Count,
    pub(super) misplaced_answers: Count,
    pub(super) unknown_progress: Count,
    pub(super) garbage: Count,
    pub(super) dropped: Count,
}

#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Adds one; whether it is the first.
    pub(super) fn is_first(&self) -> bool {
        self.0.fetch_add(1, Relaxed) == 0
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl PeerCounters {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            last_received: AtomicU64::new(0),
            calls_answered: Count::default(),
            late_answers: Count::default(),
            unknown_answers: Count::default(),
            misplaced_answers: Count::default(),
            unknown_progress: Count::default(),
            garbage: Count::default(),
            dropped: Count::default(),
        }
    }

    pub(super) fn note_message(&self) {
        let nanos = self.started.elapsed().as_nanos();
        self.last_received
            .store(u64::try_from(nanos).unwrap_or(u64::MAX - 1) + 1, Relaxed);
    }

    pub(super) fn read(&self, in_flight: usize) -> PeerStats {
        let last_received = self
            .last_received
            .load(Relaxed)
            .checked_sub(1)
            .map(Duration::from_nanos);
        PeerStats {
            last_received: last_received.map(|since| self.started + since),
            in_flight,
            calls_answered: self.calls_answered.get(),
            late_answers: self.late_answers.get(),
            unknown_answers: self.unknown_answers.get(),
            misplaced_answers: self.misplaced_answers.get(),
            unknown_progress: self.unknown_progress.get(),
            garbage: self.garbage.get(),
            dropped: self.dropped.get(),
        }
    }
}
