//! One kept connection, and one answer on it.
//!
//! A connection has no task of its own: the task that waits for an answer drives it. So an answer costs no switch
//! of tasks, and an idle connection costs nothing at all. Dropping an answer before its end closes the connection, which is
//! how a modern server learns that it was cancelled.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;

use super::coding::Coding;
use super::dialer::{ByteStream, DialledStream};
use super::pool::{ExchangeError, Pool, keep_alive};
use super::socket::SocketCounters;
use crate::transport::Turn;

pub(super) type PoolRequest = http::Request<Full<Bytes>>;
type Wire = http1::Connection<TokioIo<Box<dyn ByteStream>>, Full<Bytes>>;

/// A connection that carries one request at a time.
pub(super) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` when it is over. In a box: it is large, and goes with each request from the pool to its answer and back.
    wire: Option<Box<Wire>>,
    counters: Option<Arc<SocketCounters>>,
}

/// A request on a connection that has no answer.
pub(super) struct Unanswered {
    pub(super) error: ExchangeError,
    /// The request again, if the connection was closed before anything was written.
    pub(super) returned: Option<Box<PoolRequest>>,
}

/// What may come before the head of an answer is complete: more than the longest head, and thousands of interim answers,
/// of which servers send one or two.
pub(super) const HEAD_LIMIT: u64 = 1024 * 1024;

impl HttpConnection {
    pub(super) async fn open(dialled: DialledStream) -> Result<Self, hyper::Error> {
        let DialledStream { stream, counters } = dialled;
        let (sender, wire) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self {
            sender,
            wire: Some(Box::new(wire)),
            counters,
        })
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// Cancel safety: dropping it, and then the connection, closes the connection.
    pub(super) async fn ask(&mut self, request: PoolRequest) -> Result<http::Response<Incoming>, Unanswered> {
        let written = self.written();
        let came =
            |counters: &Option<Arc<SocketCounters>>| counters.as_ref().map_or(0, |counters| counters.read());
        let limit = came(&self.counters) + HEAD_LIMIT;
        let mut answer = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            drive(&mut self.wire, cx);
            match answer.as_mut().poll(cx) {
                Poll::Pending if came(&self.counters) > limit => Poll::Ready(None),
                answer => answer.map(Some),
            }
        });
        let Some(answer) = answer.await else {
            return Err(Unanswered {
                error: ExchangeError::NoHead,
                returned: None,
            });
        };
        answer.map_err(|mut failed: TrySendError<PoolRequest>| {
            let returned = failed.take_message().map(Box::new);
            let was_written = written.is_none() || self.written() != written;
            Unanswered {
                error: if returned.is_none() && was_written {
                    ExchangeError::Broken(failed.into_error())
                } else {
                    ExchangeError::NotWritten(failed.into_error())
                },
                returned,
            }
        })
    }

    /// How many bytes the system has taken so far, where that is known.
    fn written(&self) -> Option<u64> {
        self.counters.as_ref().map(|counters| counters.written())
    }

    /// Whether it can carry another request: the remote peer may have closed it meanwhile. After some idle time the
    /// system itself is asked.
    pub(super) fn is_ready(&mut self, ask_the_system: bool) -> bool {
        if let (Some(counters), true) = (&self.counters, ask_the_system) {
            counters.look();
        }
        self.is_open(&mut Context::from_waker(Waker::noop()))
    }

    /// The same; the task is woken when the remote peer closes it.
    pub(super) fn is_open(&mut self, cx: &mut Context<'_>) -> bool {
        drive(&mut self.wire, cx);
        self.wire.is_some() && self.sender.is_ready()
    }
}

/// Moves a connection on, as far as it goes now.
fn drive(wire: &mut Option<Box<Wire>>, cx: &mut Context<'_>) {
    if let Some(running) = wire
        && Pin::new(running).poll(cx).is_ready()
    {
        *wire = None;
    }
}

/// An answer whose head has come.
pub(in crate::transport) struct Response {
    head: Parts,
    body: Incoming,
    coding: Coding,
    /// What it comes on, until it has come.
    connection: Option<(HttpConnection, Arc<Pool>)>,
    turn: Turn,
    /// The room for the large message that is being received.
    room: Option<OwnedSemaphorePermit>,
    /// Whether its request showed a credential.
    pub(super) had_credential: bool,
}

/// The most that is skipped of an answer that is not read.
const SKIPPED_LIMIT: usize = 64 * 1024;

impl Response {
    pub(super) fn new(answer: http::Response<Incoming>, connection: HttpConnection, pool: Arc<Pool>) -> Self {
        let (head, body) = answer.into_parts();
        let mut response = Self {
            coding: Coding::of(&head.headers),
            head,
            body,
            connection: Some((connection, pool)),
            turn: Turn::new(),
            room: None,
            had_credential: false,
        };
        if response.body.is_end_stream() {
            response.give_back();
        }
        response
    }

    pub(in crate::transport) fn status(&self) -> StatusCode {
        self.head.status
    }

    pub(in crate::transport) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// How long the body will be, where that is known.
    pub(in crate::transport) fn announced(&self) -> Option<u64> {
        match self.coding {
            Coding::Plain => self.body.size_hint().exact(),
            Coding::Compressed(_) | Coding::Unknown(_) => None,
        }
    }

    /// Waits until a message of this length may be received, beside the others that come from the server. The room is kept until
    /// [`leave_room`](Self::leave_room), or until the answer is dropped.
    ///
    /// Cancel safety: dropping it takes no room.
    pub(super) async fn take_room(&mut self, length: usize) {
        // What has come to its end needs no more.
        if let (None, Some((_, pool))) = (&self.room, &self.connection) {
            self.room = pool.receiving_room(length).await;
        }
    }

    /// Gives the room of a message back that was delivered.
    pub(super) fn leave_room(&mut self) {
        self.room = None;
    }

    /// The way in which the body is compressed, where it cannot be read for that.
    pub(in crate::transport) fn unknown_coding(&self) -> Option<&str> {
        match &self.coding {
            Coding::Unknown(name) => Some(name),
            Coding::Plain | Coding::Compressed(_) => None,
        }
    }

    /// The next piece of the body; `None` at its end. It is decompressed where it has to be. The reader
    /// yields after each turn.
    ///
    /// Cancel safety: no piece is lost.
    pub(in crate::transport) async fn chunk(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        self.turn.yield_if_over().await;
        let piece = self.next_piece().await;
        if let Ok(Some(piece)) = &piece {
            self.turn.count_message();
            self.turn.count_bytes(piece.len());
        }
        piece
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        loop {
            if let Coding::Compressed(decoder) = &mut self.coding
                && let Some(piece) = decoder.next().map_err(ExchangeError::Damaged)?
            {
                return Ok(Some(piece));
            }
            let piece = poll_fn(|cx| self.poll_chunk(cx)).await?;
            match (&mut self.coding, piece) {
                (Coding::Compressed(decoder), Some(piece)) => decoder.push(piece),
                (Coding::Plain | Coding::Unknown(_), piece) | (_, piece @ None) => return Ok(piece),
            }
        }
    }

    /// Discards an answer. What has come of it already is skipped, so that the connection may be used again.
    pub(in crate::transport) fn discard(mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let mut skipped = 0;
        while let Poll::Ready(Ok(Some(piece))) = self.poll_chunk(&mut cx) {
            skipped += piece.len();
            if skipped > SKIPPED_LIMIT {
                return;
            }
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, hyper::Error>> {
        loop {
            let mut frame = Pin::new(&mut self.body).poll_frame(cx);
            if frame.is_pending()
                && let Some((connection, _)) = &mut self.connection
            {
                drive(&mut connection.wire, cx);
                frame = Pin::new(&mut self.body).poll_frame(cx);
            }
            match frame {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => match Frame::into_data(frame) {
                    Ok(piece) => return Poll::Ready(Ok(Some(piece))),
                    Err(_trailers) => {}
                },
                Poll::Ready(Some(Err(error))) => {
                    self.connection = None;
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(None) => {
                    self.give_back();
                    return Poll::Ready(Ok(None));
                }
            }
        }
    }

    /// Gives the connection back to the pool: the answer has come.
    fn give_back(&mut self) {
        if let Some((connection, pool)) = self.connection.take() {
            pool.keep(connection, keep_alive(&self.head.headers));
        }
    }
}
