//! A stream on its way to a client: events as HTTP carries them.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, Sleep, sleep};

use super::peers::Exchange;
use super::stream::{Place, Stream, Taken};
use crate::door::outgoing::Outgoing;

/// How long a stream is silent before the client is told that it is still there: shorter than any proxy's patience.
const SILENCE: Duration = Duration::from_secs(15);

/// Messages up to this size are copied into one piece with their frame; longer ones are sent as they are.
const SMALL: usize = 16 * 1024;

/// What a client waits before it comes back for a stream that broke, in milliseconds.
const RETRY_MS: u32 = 1000;

/// Reads a stream for a client that is connected.
pub(super) struct Reading {
    stream: Arc<Stream>,
    place: Place,
    /// Pieces of events that are taken already.
    pieces: VecDeque<Bytes>,
    silence: Pin<Box<Sleep>>,
    /// What lives as long as the client stays.
    _while_read: Box<dyn Send>,
    /// The connection is in use while the client stays.
    exchange: Option<Exchange>,
}

impl Reading {
    pub(super) fn new(stream: Arc<Stream>, place: Place, while_read: Box<dyn Send>) -> Self {
        Self {
            stream,
            place,
            pieces: VecDeque::new(),
            silence: Box::pin(sleep(SILENCE)),
            _while_read: while_read,
            exchange: None,
        }
    }

    /// Keeps the connection in use as long as the client stays.
    pub(super) fn keep_while_read(&mut self, exchange: Exchange) {
        self.exchange = Some(exchange);
    }

    /// Begins with a comment, so that the client sees the stream open.
    pub(super) fn opened(mut self) -> Self {
        self.pieces.push_back(COMMENT);
        self
    }

    /// Begins with an event that says where to take the stream up, should it break before there is another.
    pub(super) fn primed(mut self) -> Self {
        let name = self.stream.name(self.place.after());
        let prime = format!("id: {name}\nretry: {RETRY_MS}\ndata: \n\n");
        self.pieces.push_back(prime.into());
        self
    }

    /// Begins with an event of this name.
    pub(super) fn introduced(mut self, event: &str, data: &str) -> Self {
        self.pieces
            .push_back(format!("event: {event}\ndata: {data}\n\n").into());
        self
    }

    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(piece)));
        }
        match self.stream.poll_take(&mut self.place, context) {
            Poll::Ready(Taken::Event(number, message)) => {
                self.silence.as_mut().reset(Instant::now() + SILENCE);
                Poll::Ready(Some(Ok(self.frame(number, &message))))
            }
            Poll::Ready(Taken::End) => Poll::Ready(None),
            Poll::Ready(Taken::Lost) => {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
                Poll::Ready(Some(Err(error)))
            }
            Poll::Pending => {
                if self.silence.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.silence.as_mut().reset(Instant::now() + SILENCE);
                // Armed again, so that the next silence wakes this task too.
                let _ = self.silence.as_mut().poll(context);
                Poll::Ready(Some(Ok(COMMENT)))
            }
        }
    }

    /// The first piece of an event; the others wait. A message is one line, so its event is too.
    fn frame(&mut self, number: u64, message: &Outgoing) -> Bytes {
        let mut frame = BytesMut::with_capacity(48 + if message.len() <= SMALL { message.len() } else { 0 });
        if self.stream.resumes() {
            frame.extend_from_slice(format!("id: {}\n", self.stream.name(number)).as_bytes());
        }
        frame.extend_from_slice(b"data: ");
        if message.len() <= SMALL {
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

impl Drop for Reading {
    fn drop(&mut self) {
        self.stream.leave(&self.place);
    }
}

const COMMENT: Bytes = Bytes::from_static(b":\n\n");
