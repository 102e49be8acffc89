//! One message a line, over any pair of byte streams: the pipes of a child process, or memory.
//!
//! Two tasks: the reader hands each line to the inbound side as soon as it is whole, the writer takes frames from two
//! bounded lanes. Neither waits for the other, so a remote peer that stops reading does not keep its answers from being
//! read. Whichever ends first ends both. Closing aborts both tasks, which drops the streams: the remote peer sees the
//! end of its input, and a write that would never return is dropped with its task.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod lane;
mod split;
mod write;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::receiving::deliver;
use super::{
    End, Frame, Inbound, MessageStream, NotQueued, Outbound, Oversized, Purpose, Sending, Transport, Turn,
};
use crate::large;
use crate::lock::Lock;
use lane::Lane;
use split::{Piece, Splitter};

/// Frames in order that may wait for the writer: enough to fill a write, few enough that callers feel a remote peer that
/// does not read.
const ORDERED_LANE: usize = 64;

/// Replies and cancellations that may wait for the writer. They are small, come in bursts, and those over the bound are
/// dropped, so the lane is long.
const URGENT_LANE: usize = 1024;

/// How long the reader goes on when writing has failed: a server may answer, exit, and be written to, in this order.
const LAST_READ_GRACE: Duration = Duration::from_millis(50);

/// What a line transport accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest message in bytes; a longer one is skipped in bounded memory.
    pub message: usize,
}

impl Limits {
    /// The longest message unless set otherwise. Screenshots and file contents run to some tens of megabytes in
    /// base64; what is larger is a mistake, and one connection may not take more memory than this for a line.
    pub const DEFAULT_MESSAGE: usize = 64 * 1024 * 1024;

    /// Limits with the longest message set.
    pub const fn message(message: usize) -> Self {
        Self { message }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::message(Self::DEFAULT_MESSAGE)
    }
}

/// Messages as lines over a reader and a writer.
#[derive(Debug)]
pub struct Lines<R, W> {
    reader: R,
    writer: W,
    limits: Limits,
    urgent: mpsc::Receiver<Frame>,
    shared: Arc<Shared>,
}

impl<R, W> Lines<R, W> {
    /// Lines read from `reader` and written to `writer`.
    pub fn new(reader: R, writer: W, limits: Limits) -> Self {
        let (urgent_in, urgent) = mpsc::channel(URGENT_LANE);
        let shared = Shared {
            ordered: Lane::new(ORDERED_LANE),
            urgent: urgent_in,
            state: Lock::new(LinesState::Ready),
        };
        Self {
            reader,
            writer,
            limits,
            urgent,
            shared: Arc::new(shared),
        }
    }
}

impl<R, W> Transport for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn outbound(&self) -> Arc<dyn Outbound> {
        self.shared.clone()
    }

    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>) {
        let Self {
            reader,
            writer,
            limits,
            urgent,
            shared,
        } = *self;
        let mut state = shared.state.lock();
        if matches!(*state, LinesState::Ended) {
            drop(state);
            return inbound.ended(End::Closed);
        }
        // Running before there are tasks: one that ends at once must be able to end it.
        *state = LinesState::Running {
            inbound: inbound.clone(),
            tasks: None,
        };
        drop(state);
        let reading = read(reader, limits, inbound, EndGuard(shared.clone()));
        let writing = write_all(writer, urgent, EndGuard(shared.clone()));
        // Not under the lock: a runtime that shuts down drops the tasks, and with them the guards, before this returns.
        shared.tie([
            tokio::spawn(reading).abort_handle(),
            tokio::spawn(writing).abort_handle(),
        ]);
    }
}

#[derive(Debug)]
struct Shared {
    ordered: Lane,
    urgent: mpsc::Sender<Frame>,
    state: Lock<LinesState>,
}

enum LinesState {
    Ready,
    Running {
        inbound: Arc<dyn Inbound>,
        tasks: Option<[AbortHandle; 2]>,
    },
    Ended,
}

impl Shared {
    /// Makes the tasks that run abortable, unless all is over already.
    fn tie(&self, running: [AbortHandle; 2]) {
        if let LinesState::Running { tasks, .. } = &mut *self.state.lock() {
            *tasks = Some(running);
            return;
        }
        running.iter().for_each(AbortHandle::abort);
    }

    /// Ends both tasks and tells the owner; only the first end counts.
    fn finish(&self, end: End) {
        let before = std::mem::replace(&mut *self.state.lock(), LinesState::Ended);
        match before {
            LinesState::Running { inbound, tasks } => {
                tasks.iter().flatten().for_each(AbortHandle::abort);
                inbound.ended(end);
            }
            LinesState::Ready | LinesState::Ended => {}
        }
        self.ordered.close();
    }

    fn has_ended(&self) -> bool {
        matches!(*self.state.lock(), LinesState::Ended)
    }

    fn is_urgent(purpose: Purpose) -> bool {
        match purpose {
            Purpose::Request { .. } | Purpose::Notification => false,
            Purpose::Reply | Purpose::Cancel { .. } => true,
        }
    }
}

impl Outbound for Shared {
    fn send(&self, frame: Frame) -> Sending<'_> {
        Box::pin(async move {
            if Self::is_urgent(frame.purpose()) {
                let sent = self.urgent.send(frame).await;
                return sent.map_err(|_closed| NotQueued::Closed);
            }
            self.ordered.send(frame).await
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), NotQueued> {
        if !Self::is_urgent(frame.purpose()) {
            return self.ordered.try_send(frame);
        }
        self.urgent.try_send(frame).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(frame) => NotQueued::Full(frame),
            mpsc::error::TrySendError::Closed(_) => NotQueued::Closed,
        })
    }

    fn withdraw(&self, request: u64) {
        self.ordered.withdraw(request);
    }

    fn close(&self) {
        self.finish(End::Closed);
    }
}

/// Ends the transport when one of its tasks ends, by a panic too.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.finish(End::Aborted);
    }
}

async fn read<R: AsyncRead + Unpin>(
    mut reader: R,
    limits: Limits,
    inbound: Arc<dyn Inbound>,
    guard: EndGuard,
) {
    let shared = &guard.0;
    let mut splitter = Splitter::new(limits.message);
    let mut turn = Turn::new();
    let end = loop {
        match reader.read_buf(splitter.buffer()).await {
            Ok(0) => {
                if let Some(rest) = splitter.rest() {
                    let last = rest.clone();
                    if large::process(rest.len(), move || is_whole(&last)).await {
                        deliver(&inbound, MessageStream::Only, rest, &mut turn).await;
                    }
                }
                break End::EndOfStream;
            }
            Ok(bytes) => turn.count_bytes(bytes),
            Err(error) => break error.into(),
        }
        while let Some(piece) = splitter.next() {
            match piece {
                Piece::Line(line) => deliver(&inbound, MessageStream::Only, line, &mut turn).await,
                Piece::Skipped(skipped) => {
                    inbound.oversized(Oversized {
                        head: skipped.head(),
                        tail: skipped.tail(),
                        length: skipped.length(),
                        limit: limits.message,
                    });
                    turn.count_message();
                }
                Piece::Empty => turn.count_message(),
            }
            turn.yield_if_over().await;
            if shared.has_ended() {
                return;
            }
        }
        turn.yield_if_over().await;
        if splitter.line_never_ends() {
            break End::Oversized;
        }
    };
    shared.finish(end);
}

/// Whether the end of a stream is all of a last line. A message that breaks off is none: it is lost with its connection.
fn is_whole(rest: &[u8]) -> bool {
    match rest.trim_ascii_start().first() {
        Some(b'{' | b'[') => serde_json::from_slice::<serde::de::IgnoredAny>(rest).is_ok(),
        Some(_) | None => true,
    }
}

async fn write_all<W: AsyncWrite + Unpin>(writer: W, urgent: mpsc::Receiver<Frame>, guard: EndGuard) {
    let Err(error) = write::run(writer, &guard.0.ordered, urgent).await;
    tokio::time::sleep(LAST_READ_GRACE).await;
    guard.0.finish(error.into());
}

impl std::fmt::Debug for LinesState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready => "Ready",
            Self::Running { .. } => "Running",
            Self::Ended => "Ended",
        })
    }
}

#[cfg(test)]
mod tests;
