//! The reader of a stream, which writes it as server-sent events.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, Sleep, sleep};

use super::{ClientStream, ReadPosition, StreamItem};
use crate::door::outgoing::OutgoingMessage;

/// A stream that is silent for this long sends a comment. Proxies close silent connections, but none so soon.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

/// Messages of up to this length are copied into their event. hyper queues some events of each connection, whose copies no budget counts:
/// longer messages are sent from where they lie.
const EVENT_COPY_LIMIT: usize = 2 * 1024;

const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// How long a client waits before it resumes a stream that broke, in milliseconds.
const RETRY_MS: u32 = 1000;

/// Reads a stream for a connected client, as server-sent events.
pub(in crate::door::http) struct EventReader {
    stream: Arc<ClientStream>,
    position: ReadPosition,
    /// Pieces of events that were taken already.
    pieces: VecDeque<Bytes>,
    comment_timer: Pin<Box<Sleep>>,
    /// Dropped when the client leaves.
    _while_connected: Box<dyn Send>,
}

impl EventReader {
    /// Reads a stream from now on: after the event of this number, or after all that was read.
    pub(in crate::door::http) fn open(
        stream: Arc<ClientStream>,
        after: Option<u64>,
        while_connected: Box<dyn Send>,
    ) -> Self {
        Self {
            position: stream.open(after),
            stream,
            pieces: VecDeque::new(),
            comment_timer: Box::pin(sleep(COMMENT_INTERVAL)),
            _while_connected: while_connected,
        }
    }

    /// Begins with a comment, so that the client sees the stream open.
    pub(in crate::door::http) fn with_comment(mut self) -> Self {
        self.pieces.push_back(COMMENT);
        self
    }

    /// Begins with an event without data, whose id tells where to resume the stream if it breaks before the next event.
    pub(in crate::door::http) fn with_resume_point(mut self) -> Self {
        let id = self.stream.event_id(self.position.next - 1);
        let event = format!("id: {id}\nretry: {RETRY_MS}\ndata: \n\n");
        self.pieces.push_back(event.into());
        self
    }

    /// Begins with an event of this name.
    pub(in crate::door::http) fn with_event(mut self, name: &str, data: &str) -> Self {
        self.pieces
            .push_back(format!("event: {name}\ndata: {data}\n\n").into());
        self
    }

    pub(in crate::door::http) fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        match self.stream.poll_next(&mut self.position, context) {
            Poll::Ready(StreamItem::Event(number, message)) => {
                self.reset_comment_timer();
                Poll::Ready(Some(Ok(self.frame(number, &message))))
            }
            Poll::Ready(StreamItem::End) => Poll::Ready(None),
            Poll::Ready(StreamItem::Lost) => {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
                Poll::Ready(Some(Err(error)))
            }
            Poll::Pending => {
                if self.comment_timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.reset_comment_timer();
                // Polled once, so that the timer wakes this task again.
                let _ = self.comment_timer.as_mut().poll(context);
                Poll::Ready(Some(Ok(COMMENT)))
            }
        }
    }

    fn reset_comment_timer(&mut self) {
        self.comment_timer
            .as_mut()
            .reset(Instant::now() + COMMENT_INTERVAL);
    }

    /// Writes an event; returns its first piece and queues the others. A message is one line, and so is its event.
    fn frame(&mut self, number: u64, message: &OutgoingMessage) -> Bytes {
        let is_copied = message.len() <= EVENT_COPY_LIMIT;
        let mut frame = BytesMut::with_capacity(48 + if is_copied { message.len() } else { 0 });
        if self.stream.is_resumable() {
            frame.extend_from_slice(format!("id: {}\n", self.stream.event_id(number)).as_bytes());
        }
        frame.extend_from_slice(b"data: ");
        if is_copied {
            for piece in message.pieces() {
                frame.extend_from_slice(piece);
            }
            frame.extend_from_slice(b"\n\n");
        } else {
            self.pieces.extend(message.pieces().iter().cloned());
            self.pieces.push_back(Bytes::from_static(b"\n\n"));
        }
        frame.freeze()
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.stream.leave(&self.position);
    }
}
