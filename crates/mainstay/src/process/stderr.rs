//! What servers write to stderr: always read, kept in a bounded ring.
//!
//! One ring serves all generations of a server, each line with the number of its own. Memory is bounded whatever a
//! server writes. A server that writes fast is never blocked: old lines make room, and a follower that does not read in
//! time misses pieces and learns how many.

mod drain;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

pub(super) use drain::{Drain, drain};

/// Enough for the longest stack trace a person reads.
const LINES_LIMIT: usize = 200;
/// What a ring holds at most, so that a thousand servers cost 64 MB at their worst.
const BYTES_LIMIT: usize = 64 * 1024;
/// What a line holds at most; the rest of a longer one is dropped.
const LINE_BYTES_LIMIT: usize = 4 * 1024;

/// One line a server wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StderrLine {
    /// The generation whose process wrote it.
    pub generation: u64,
    /// When it was read.
    pub at: SystemTime,
    /// The text: no line end, no control characters, no terminal sequences. Ends in `…` if it was cut.
    pub text: String,
}

/// The last lines a server wrote to stderr.
#[derive(Default)]
pub(crate) struct StderrRing {
    kept: Mutex<Kept>,
    /// Followers of the bytes, as they are written.
    bytes: Followers<Bytes>,
    /// Followers of the lines that are kept.
    lines: Followers<StderrLine>,
}

#[derive(Default)]
struct Kept {
    lines: VecDeque<StderrLine>,
    bytes: usize,
    last_activity: Option<Instant>,
}

impl StderrRing {
    /// The last `n` lines, oldest first.
    pub(crate) fn tail(&self, n: usize) -> Vec<StderrLine> {
        let kept = self.kept();
        let skipped = kept.lines.len().saturating_sub(n);
        kept.lines.iter().skip(skipped).cloned().collect()
    }

    /// The last `n` lines of one generation, oldest first.
    pub(crate) fn tail_of(&self, generation: u64, n: usize) -> Vec<StderrLine> {
        let kept = self.kept();
        let of_it = kept
            .lines
            .iter()
            .rev()
            .filter(|line| line.generation == generation);
        let mut tail: Vec<_> = of_it.take(n).cloned().collect();
        tail.reverse();
        tail
    }

    /// When anything was last written, a whole line or not: a sign of life from a server that is slow to start.
    pub(crate) fn last_activity(&self) -> Option<Instant> {
        self.kept().last_activity
    }

    /// Follows what is written from now on, byte for byte.
    pub(crate) fn follow_bytes(&self) -> StderrFollower<Bytes> {
        self.bytes.join()
    }

    /// Follows the lines that are kept from now on.
    pub(crate) fn follow_lines(&self) -> StderrFollower<StderrLine> {
        self.lines.join()
    }

    fn note_written(&self, bytes: &[u8]) {
        self.kept().last_activity = Some(Instant::now());
        self.bytes.send(|| Bytes::copy_from_slice(bytes));
    }

    fn push(&self, line: StderrLine) {
        self.lines.send(|| line.clone());
        let mut kept = self.kept();
        kept.bytes += line.text.len();
        kept.lines.push_back(line);
        while kept.lines.len() > LINES_LIMIT || kept.bytes > BYTES_LIMIT {
            let Some(oldest) = kept.lines.pop_front() else {
                break;
            };
            kept.bytes -= oldest.text.len();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pieces that wait for a follower: lines, or what was read from the pipe at a time. Together at most 1 MiB of bytes.
const PENDING_LIMIT: usize = 64;

/// A reader of what a server writes to stderr, from the moment of its making, across restarts.
#[derive(Debug)]
pub struct StderrFollower<T>(broadcast::Receiver<T>);

/// What a follower of stderr gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed<T> {
    /// The next that was written.
    Wrote(T),
    /// The follower was too slow and missed so many pieces. The next one follows.
    Missed(u64),
}

impl<T: Clone> StderrFollower<T> {
    /// The next that the server writes; `None` when the server is gone, with every handle of it.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub async fn next(&mut self) -> Option<Followed<T>> {
        match self.0.recv().await {
            Ok(written) => Some(Followed::Wrote(written)),
            Err(RecvError::Lagged(missed)) => Some(Followed::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

/// All followers of one server. Costs nothing until there is one.
struct Followers<T>(OnceLock<broadcast::Sender<T>>);

impl<T: Clone> Followers<T> {
    fn join(&self) -> StderrFollower<T> {
        let sender = self.0.get_or_init(|| broadcast::Sender::new(PENDING_LIMIT));
        StderrFollower(sender.subscribe())
    }

    fn send(&self, written: impl FnOnce() -> T) {
        let sender = self.0.get().filter(|sender| sender.receiver_count() > 0);
        if let Some(sender) = sender {
            // The last follower may just have left.
            let _ = sender.send(written());
        }
    }
}

impl<T> Default for Followers<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

#[cfg(test)]
mod tests;
