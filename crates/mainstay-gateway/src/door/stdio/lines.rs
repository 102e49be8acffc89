//! Lines in, lines out.

use bytes::{Bytes, BytesMut};
use mainstay::transport::Turn;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::mpsc;

use super::queue::Queued;

/// How much is read at once.
const PIECE: usize = 16 * 1024;

/// The lines of an input. What is longer than the limit is skipped in bounded memory.
pub(super) struct Lines<R> {
    input: R,
    /// The longest line that is not skipped.
    longest: usize,
    read: BytesMut,
    /// How far `read` was searched for a line's end.
    searched: usize,
    /// Bytes of the line that is being skipped.
    skipped: Option<usize>,
    /// A client that never stops writing must not keep the thread to itself.
    turn: Turn,
}

pub(super) enum Read {
    Outbox(Bytes),
    /// A line of so many bytes was skipped.
    TooLong(usize),
    End,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, longest: usize) -> Self {
        Self {
            input,
            longest,
            read: BytesMut::new(),
            searched: 0,
            skipped: None,
            turn: Turn::new(),
        }
    }

    /// The next line that is not blank. An input that fails is at its end.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub(super) async fn next(&mut self) -> Read {
        loop {
            self.turn.yield_if_over().await;
            if let Some(read) = self.whole() {
                self.turn.count_message();
                return read;
            }
            self.read.reserve(PIECE);
            match self.input.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return Read::End,
                Ok(bytes) => self.turn.count_bytes(bytes),
            }
        }
    }

    fn whole(&mut self) -> Option<Read> {
        loop {
            let Some(at) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.read.len();
                self.skip_if_too_long();
                return None;
            };
            let line = self.read.split_to(self.searched + at + 1);
            self.searched = 0;
            if let Some(skipped) = self.skipped.take() {
                return Some(Read::TooLong(skipped + line.len()));
            }
            if !line.trim_ascii().is_empty() {
                return Some(Read::Outbox(line.freeze()));
            }
        }
    }

    fn skip_if_too_long(&mut self) {
        if self.skipped.is_some() || self.read.len() > self.longest {
            *self.skipped.get_or_insert(0) += self.read.len();
            self.read.clear();
            self.searched = 0;
        }
    }
}

/// Writes what is queued, a line each, until the queue is closed and empty or the far side is gone. What waits together
/// is written together.
pub(super) async fn write(output: impl AsyncWrite + Unpin, mut queued: mpsc::Receiver<Queued>) {
    let mut output = BufWriter::new(output);
    let mut turn = Turn::new();
    while let Some(message) = queued.recv().await {
        let mut next = Some(message);
        while let Some(message) = next {
            turn.yield_if_over().await;
            turn.count_message();
            for piece in message.message.pieces() {
                turn.count_bytes(piece.len());
                if output.write_all(piece).await.is_err() {
                    return;
                }
            }
            if output.write_all(b"\n").await.is_err() {
                return;
            }
            next = queued.try_recv().ok();
        }
        if output.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
