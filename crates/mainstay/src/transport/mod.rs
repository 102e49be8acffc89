//! How whole messages travel; nothing here knows what is in them.
//!
//! A [`Transport`] is started once. What it receives it hands straight to its [`Inbound`], on the task that read it;
//! what is to be sent goes through its [`Outbound`], a bounded queue. It says when the writing of a frame begins
//! ([`Frame::begin`]), which is what tells a request that never left from one that may have run.
//!
//! Invariants: `Inbound::ended` is called exactly once and is the last call; no task outlives it; `Outbound::close`
//! never waits.

mod end;
mod frame;
pub mod http;
mod lines;
mod receiving;
#[cfg(feature = "http")]
mod sse;

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

#[cfg(any(test, fuzzing))]
pub(crate) use lines::fuzz as fuzz_lines;

pub use end::{End, SendFailure};
pub use frame::{Delivery, Frame, Purpose};
pub use http::HttpFailure;
#[cfg(feature = "http")]
pub use http::{Http, HttpOptions};
pub use lines::{Limits, Lines};
#[cfg(feature = "http")]
pub use sse::Sse;

pub use crate::turn::Turn;

/// A way to carry messages, ready to be started.
pub trait Transport: Send + 'static {
    /// The sending side. What is sent before the start is queued.
    fn outbound(&self) -> Arc<dyn Outbound>;

    /// Starts to carry; called inside a tokio runtime.
    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>);
}

/// A transport being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// Opens a transport, once for each connection.
pub trait Connector: Send + Sync + 'static {
    /// Opens one. A failure is retried as the server's policy says; the policy also bounds how long it may take.
    fn connect(&self) -> Connecting<'_>;
}

/// A closure that opens a transport is a connector.
impl<F, Opening> Connector for F
where
    F: Fn() -> Opening + Send + Sync + 'static,
    Opening: Future<Output = io::Result<Box<dyn Transport>>> + Send + 'static,
{
    fn connect(&self) -> Connecting<'_> {
        Box::pin(self())
    }
}

/// What a stream of messages carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageStream {
    /// Everything: the transport has one stream.
    Only,
    /// What belongs to this request, its answer included.
    OfRequest(u64),
    /// What the remote peer sends unasked, and no answer.
    Unasked,
}

impl MessageStream {
    /// Whether the answer to this request may come on it.
    pub(crate) fn may_answer(self, id: u64) -> bool {
        match self {
            Self::Only => true,
            Self::OfRequest(own) => own == id,
            Self::Unasked => false,
        }
    }
}

/// What a transport tells its owner. Every method returns at once, but for the time that it takes to read a message: one
/// that is large is handed over on a thread that may block. A transport yields when its [`Turn`] is over.
pub trait Inbound: Send + Sync + 'static {
    /// A message came.
    fn message(&self, message: Bytes);

    /// A message came on the stream of this request, which it therefore belongs to; for transports that can tell.
    fn message_of(&self, request: u64, message: Bytes) {
        let _ = request;
        self.message(message);
    }

    /// A message came on a stream that the remote peer has for messages of its own, which carries no answers; for transports that can
    /// tell.
    fn message_unasked(&self, message: Bytes) {
        self.message(message);
    }

    /// A message came that is longer than the limit; it was skipped.
    fn oversized(&self, skipped: Oversized<'_>);

    /// Notifications may have been missed for a while; for transports that can tell.
    fn missed(&self) {}

    /// One request could not be carried, though the connection lives on.
    fn failed(&self, request: u64, failure: SendFailure);

    /// The server takes no new requests on this connection; those under way may still be answered. The owner closes the
    /// connection when they are. Only for a transport without a process, because the next connection is opened meanwhile.
    fn retired(&self, end: End);

    /// Nothing more will come or go.
    fn ended(&self, end: End);
}

/// The sending side of a transport.
pub trait Outbound: Send + Sync + 'static {
    /// Queues a frame, waiting for room. Frames whose purpose is ordered are written in the order they were queued.
    ///
    /// Cancel safety: when the future is dropped before it is ready, the frame is not sent.
    fn send(&self, frame: Frame) -> Sending<'_>;

    /// Queues a frame if there is room for it now.
    fn try_send(&self, frame: Frame) -> Result<(), NotQueued>;

    /// Stops carrying a request whose caller has given up, and frees its place at once. It comes before the frame that
    /// cancels the request, and also where there is no such frame. By default it does nothing, which suits a transport
    /// whose requests hold nothing once they are written.
    fn withdraw(&self, request: u64) {
        let _ = request;
    }

    /// The id of the session that the server opened for this connection, where it did.
    fn session(&self) -> Option<String> {
        None
    }

    /// Closes both directions at once, waiting for nothing; what is queued is dropped. Again is no different.
    fn close(&self);
}

/// The future of [`Outbound::send`].
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), NotQueued>> + Send + 'a>>;

/// Why a frame was not queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotQueued {
    /// There is no room; here is the frame again.
    #[error("the queue is full")]
    Full(Frame),
    /// The transport has ended, or is about to say so.
    #[error("the transport is closed")]
    Closed,
}

/// What is left of a message that was too long to be kept.
#[derive(Clone, Copy, Debug)]
pub struct Oversized<'a> {
    /// Its first bytes.
    pub head: &'a [u8],
    /// Its last bytes.
    pub tail: &'a [u8],
    /// Its length in bytes.
    pub length: u64,
    /// The longest message the transport accepts.
    pub limit: usize,
}
