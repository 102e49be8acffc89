//! Reads a pipe to its end into the ring.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use memchr::memchr2;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{LINE_BYTES_LIMIT, StderrLine, StderrRing};
use crate::PlainText;
use crate::redaction::Redaction;
use crate::turn::Turn;

/// What is read at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// The task that reads one process tree's stderr.
pub(in super::super) struct Drain {
    task: AbortHandle,
    /// Closed when the task ends; carries nothing.
    running: watch::Receiver<()>,
}

/// Starts to read `pipe` until its end: that is when the last process that holds it is gone.
pub(in super::super) fn drain(
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
    pub(in super::super) async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }

    /// Stops reading: for a pipe whose last holder cannot be found.
    pub(in super::super) fn abort(&self) {
        self.task.abort();
    }
}

/// Makes lines of bytes. What was read last is kept however reading ends: it is often the part that matters.
pub(super) struct Intake {
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
