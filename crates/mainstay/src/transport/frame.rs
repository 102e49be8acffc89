//! One message on its way out, and the record of whether it left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

/// A whole message to be sent.
#[derive(Clone, Debug)]
pub struct Frame {
    bytes: Bytes,
    purpose: Purpose,
    delivery: Option<Arc<Delivery>>,
    is_sessionless: bool,
    /// Room that is free again when the frame is gone.
    _room: Option<Arc<OwnedSemaphorePermit>>,
}

/// What a frame is for: as much as a transport needs to know to carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Asks for an answer. In order.
    Request {
        /// The number it is answered by.
        id: u64,
    },
    /// A notification. In order.
    Notification,
    /// Answers a request of the remote peer. May overtake what is in order, so that calls that wait for room cannot
    /// keep a ping from being answered.
    Reply,
    /// Cancels a request whose writing has begun. May overtake what is in order.
    Cancel {
        /// That request.
        id: u64,
    },
}

/// Whether the writing of a frame has begun. It begins at most once, and never after it was withdrawn.
#[derive(Debug, Default)]
pub struct Delivery(AtomicU8);

impl Frame {
    /// A frame whose delivery is not tracked.
    pub fn new(bytes: Bytes, purpose: Purpose) -> Self {
        Self {
            bytes,
            purpose,
            delivery: None,
            is_sessionless: false,
            _room: None,
        }
    }

    /// The same frame, its writing recorded.
    #[must_use]
    pub fn tracked_by(mut self, delivery: Arc<Delivery>) -> Self {
        self.delivery = Some(delivery);
        self
    }

    /// The same frame, as a request of the modern era on a connection that has a session: it belongs to no session.
    #[must_use]
    pub(crate) fn sessionless(mut self, is_sessionless: bool) -> Self {
        self.is_sessionless = is_sessionless;
        self
    }

    /// Whether it is a request of the modern era on a connection that has a session.
    pub(crate) fn is_sessionless(&self) -> bool {
        self.is_sessionless
    }

    /// The same frame, which takes this room until it is gone.
    #[must_use]
    pub(crate) fn taking(mut self, room: OwnedSemaphorePermit) -> Self {
        self._room = Some(Arc::new(room));
        self
    }

    /// The message: no line end, and no raw line break inside.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What it is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// To be called just before the first byte is handed on. When it says `false` the frame was withdrawn, and must
    /// not be written.
    #[must_use]
    pub fn begin(&self) -> bool {
        self.delivery.as_ref().is_none_or(|delivery| delivery.begin())
    }
}

impl Delivery {
    const WAITING: u8 = 0;
    const BEGUN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    fn begin(&self) -> bool {
        self.settle(Self::BEGUN)
    }

    /// Whether the writing of the frame has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::BEGUN
    }

    /// Keeps the frame from being written; `true` when no byte of it was or will be.
    pub(crate) fn withdraw(&self) -> bool {
        self.settle(Self::WITHDRAWN)
    }

    /// Decides between the two, once; `true` when it is, or already was, decided this way.
    fn settle(&self, to: u8) -> bool {
        let settled = self
            .0
            .compare_exchange(Self::WAITING, to, Ordering::AcqRel, Ordering::Acquire);
        settled.is_ok() || settled == Err(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_either_written_or_withdrawn() {
        let delivery = Arc::new(Delivery::default());
        let frame = Frame::new(Bytes::new(), Purpose::Notification).tracked_by(delivery.clone());
        assert!(frame.begin());
        assert!(frame.begin(), "written twice is still written");
        assert!(!delivery.withdraw());

        let delivery = Arc::new(Delivery::default());
        let frame = Frame::new(Bytes::new(), Purpose::Notification).tracked_by(delivery.clone());
        assert!(delivery.withdraw());
        assert!(delivery.withdraw());
        assert!(!frame.begin());
    }
}
