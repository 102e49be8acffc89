//! What servers write to stderr: always read, kept in a bounded ring.
//!
//! One ring serves all generations of a server, each line with the number of its own. Memory is bounded whatever a
//! server writes, and a server that writes faster than anyone reads is never blocked: old lines make room.

mod drain;
mod follow;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::time::Instant;

pub(super) use drain::{Drain, drain};
use follow::Followers;
pub use follow::{Followed, StderrFollower};

/// Enough for the longest stack trace a person reads.
const MAX_LINES: usize = 200;
/// What a ring holds at most, so that a thousand servers cost 64 MB at their worst.
const MAX_BYTES: usize = 64 * 1024;
/// What a line holds at most; the rest of a longer one is dropped.
const MAX_LINE_BYTES: usize = 4 * 1024;

/// One line a server wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Who reads along what is written, as it is written.
    bytes: Followers<Bytes>,
    /// Who reads along the lines that are kept.
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

    /// Reads along what is written from now on, byte for byte.
    pub(crate) fn follow_bytes(&self) -> StderrFollower<Bytes> {
        self.bytes.join()
    }

    /// Reads along the lines that are kept from now on.
    pub(crate) fn follow_lines(&self) -> StderrFollower<StderrLine> {
        self.lines.join()
    }

    fn note_written(&self, bytes: &[u8]) {
        self.kept().last_activity = Some(Instant::now());
        self.bytes.tell(|| Bytes::copy_from_slice(bytes));
    }

    fn push(&self, line: StderrLine) {
        self.lines.tell(|| line.clone());
        let mut kept = self.kept();
        kept.bytes += line.text.len();
        kept.lines.push_back(line);
        while kept.lines.len() > MAX_LINES || kept.bytes > MAX_BYTES {
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

#[cfg(test)]
mod tests;
