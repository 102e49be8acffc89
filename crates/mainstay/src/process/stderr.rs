//! What servers write to stderr: always read, kept in a bounded ring.
//!
//! One ring serves all generations of a server, each line with the number of its own. Memory is bounded whatever a
//! server writes. A server that writes fast is never blocked: old lines make room, and a follower that does not read in
//! time misses pieces and learns how many.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::Bytes;
use futures_core::Stream;
use memchr::memchr2;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::PlainText;
use crate::broadcast_reader::{BroadcastReader, ValueOrLag};
use crate::lock::Lock;
use crate::redaction::Redaction;
use crate::turn::Turn;

/// Enough for the longest stack trace a person reads.
const LINES_LIMIT: usize = 200;
/// How many first lines of a process stay, however much it writes after them. They take at most half of the bytes.
const FIRST_LINES_LIMIT: usize = 8;
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
    kept: Lock<Kept>,
    /// Followers of the bytes, as they are written.
    bytes: Followers<Bytes>,
    /// Followers of the lines that are kept.
    lines: Followers<StderrLine>,
}

#[derive(Default)]
struct Kept {
    lines: VecDeque<StderrLine>,
    /// The first lines of the newest generation, once newer ones have pushed them out: many programs print their error first.
    first: Vec<StderrLine>,
    /// Of all lines that are kept.
    bytes: usize,
    last_activity: Option<Instant>,
}

impl StderrRing {
    /// The last `n` lines, oldest first.
    pub(crate) fn tail(&self, n: usize) -> Vec<StderrLine> {
        let kept = self.kept.lock();
        let skipped = kept.lines.len().saturating_sub(n);
        kept.lines.iter().skip(skipped).cloned().collect()
    }

    /// The lines of one generation that are kept, oldest first.
    pub(crate) fn lines_of(&self, generation: u64) -> Vec<String> {
        let kept = self.kept.lock();
        let all = kept.first.iter().chain(&kept.lines);
        let of_it = all.filter(|line| line.generation == generation);
        of_it.map(|line| line.text.clone()).collect()
    }

    /// When anything was last written, a whole line or not: a sign of life from a server that is slow to start.
    pub(crate) fn last_activity(&self) -> Option<Instant> {
        self.kept.lock().last_activity
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
        self.kept.lock().last_activity = Some(Instant::now());
        self.bytes.send(|| Bytes::copy_from_slice(bytes));
    }

    fn push(&self, line: StderrLine) {
        self.lines.send(|| line.clone());
        self.kept.lock().push(line);
    }
}

impl Kept {
    fn push(&mut self, line: StderrLine) {
        let newest = self
            .first
            .first()
            .map_or(0, |line| line.generation)
            .max(line.generation);
        self.bytes += line.text.len();
        self.lines.push_back(line);
        let old = self.first.extract_if(.., |line| line.generation != newest);
        self.bytes -= old.map(|line| line.text.len()).sum::<usize>();
        while self.lines.len() > LINES_LIMIT || self.bytes > BYTES_LIMIT {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            if oldest.generation == newest && self.first.len() < FIRST_LINES_LIMIT {
                self.first.push(oldest);
            } else {
                self.bytes -= oldest.text.len();
            }
        }
    }
}

/// Pieces that wait for a follower: lines, or what was read from the pipe at a time. Together at most 1 MiB of bytes.
const PENDING_LIMIT: usize = 64;

/// A reader of what a server writes to stderr, from the moment of its making, across restarts. It is a [`Stream`], and has
/// [`next`](Self::next).
#[derive(Debug)]
pub struct StderrFollower<T>(BroadcastReader<T>);

/// What a follower of stderr gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed<T> {
    /// The next that was written.
    Wrote(T),
    /// The follower was too slow and missed so many pieces. The next one follows.
    Missed(u64),
}

impl<T: Clone + Send + 'static> StderrFollower<T> {
    /// The next that the server writes; `None` when the server is gone, with every handle of it.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub async fn next(&mut self) -> Option<Followed<T>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T: Clone + Send + 'static> Stream for StderrFollower<T> {
    type Item = Followed<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Followed<T>>> {
        let next = ready!(self.0.poll_next(context));
        Poll::Ready(next.map(|next| match next {
            ValueOrLag::Value(written) => Followed::Wrote(written),
            ValueOrLag::Lagged(missed) => Followed::Missed(missed),
        }))
    }
}

/// All followers of one server. Costs nothing until there is one.
struct Followers<T>(OnceLock<broadcast::Sender<T>>);

impl<T: Clone + Send + 'static> Followers<T> {
    fn join(&self) -> StderrFollower<T> {
        let sender = self.0.get_or_init(|| broadcast::Sender::new(PENDING_LIMIT));
        StderrFollower(BroadcastReader::of(sender))
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

/// What is read at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// The task that reads one process tree's stderr.
pub(super) struct Drain {
    task: AbortHandle,
    /// Closed when the task ends; carries nothing.
    running: watch::Receiver<()>,
}

/// Starts to read `pipe` until its end: that is when the last process that holds it is gone.
pub(super) fn drain(
    pipe: impl AsyncRead + Unpin + Send + 'static,
    generation: u64,
    ring: Arc<StderrRing>,
    redaction: Arc<Redaction>,
) -> Drain {
    let (running_guard, running) = watch::channel(());
    let task = tokio::spawn(async move {
        let _running = running_guard;
        let intake = Intake {
            ring,
            redaction,
            generation,
            chunk: vec![0; CHUNK_BYTES],
            unread: 0..0,
            line: Vec::new(),
            cut: false,
        };
        intake.read(pipe).await;
    });
    Drain {
        task: task.abort_handle(),
        running,
    }
}

impl Drain {
    /// Waits until the pipe was read to its end, or reading was aborted.
    ///
    /// Cancel safety: safe.
    pub(super) async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }

    /// Stops reading: for a pipe whose last holder cannot be found.
    pub(super) fn abort(&self) {
        self.task.abort();
    }
}

/// Makes lines of bytes. What was read last is kept however reading ends: it is often the part that matters.
struct Intake {
    ring: Arc<StderrRing>,
    redaction: Arc<Redaction>,
    generation: u64,
    /// What was read last.
    chunk: Vec<u8>,
    /// The part of it that is in no line yet.
    unread: Range<usize>,
    line: Vec<u8>,
    cut: bool,
}

impl Intake {
    async fn read(mut self, mut pipe: impl AsyncRead + Unpin) {
        let mut turn = Turn::new();
        while let Ok(read @ 1..) = pipe.read(&mut self.chunk).await {
            self.ring.note_written(&self.chunk[..read]);
            self.unread = 0..read;
            turn.count_bytes(read);
            while self.next_line() {
                turn.count_message();
                turn.yield_if_over().await;
            }
            turn.yield_if_over().await;
        }
    }

    /// Makes the next line of what was read; `false` when the rest has no end of a line.
    fn next_line(&mut self) -> bool {
        let bytes = &self.chunk[self.unread.clone()];
        // Progress bars return the carriage to write over themselves; each state they show is a line here.
        let end = memchr2(b'\n', b'\r', bytes);
        let length = end.unwrap_or(bytes.len());
        self.extend(self.unread.start..self.unread.start + length);
        match end {
            Some(end) => {
                self.unread.start += end + 1;
                self.end_line();
                true
            }
            None => {
                self.unread = 0..0;
                false
            }
        }
    }

    fn extend(&mut self, from_chunk: Range<usize>) {
        let bytes = &self.chunk[from_chunk];
        let room = LINE_BYTES_LIMIT - self.line.len();
        self.cut |= bytes.len() > room;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        let mut text = PlainText::line(&String::from_utf8_lossy(&self.line)).into_string();
        if std::mem::take(&mut self.cut) {
            text = self.redaction.apply_to_cut(text);
            text.push('…');
        } else {
            text = self.redaction.apply(text);
        }
        self.line.clear();
        // An empty line would push one that says something out of the ring.
        if !text.trim().is_empty() {
            self.ring.push(StderrLine {
                generation: self.generation,
                at: SystemTime::now(),
                text,
            });
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        while self.next_line() {}
        self.end_line();
    }
}

#[cfg(test)]
mod tests;
