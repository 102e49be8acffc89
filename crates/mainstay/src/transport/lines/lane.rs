//! The frames that wait for the writer, in the order they were queued.
//!
//! Unlike a channel, a lane gives a request back whose caller has given up. A remote peer that does not read would
//! otherwise make every cancelled request keep its bytes, and its place.

use std::collections::VecDeque;

use tokio::sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError};

use crate::lock::Lock;
use crate::transport::{Frame, NotQueued, Purpose};

#[derive(Debug)]
pub(super) struct Lane {
    frames: Lock<VecDeque<Frame>>,
    /// The free places; closed when the lane is.
    places: Semaphore,
    /// Notified when a frame was queued, for the one writer.
    queued: Notify,
}

impl Lane {
    pub(super) fn new(places: usize) -> Self {
        Self {
            frames: Lock::default(),
            places: Semaphore::new(places),
            queued: Notify::new(),
        }
    }

    /// Cancel safety: when the future is dropped before it is ready, the frame is not queued.
    pub(super) async fn send(&self, frame: Frame) -> Result<(), NotQueued> {
        let place = self.places.acquire().await;
        self.queue(frame, place.map_err(|_closed| NotQueued::Closed)?)
    }

    pub(super) fn try_send(&self, frame: Frame) -> Result<(), NotQueued> {
        match self.places.try_acquire() {
            Ok(place) => self.queue(frame, place),
            Err(TryAcquireError::NoPermits) => Err(NotQueued::Full(frame)),
            Err(TryAcquireError::Closed) => Err(NotQueued::Closed),
        }
    }

    fn queue(&self, frame: Frame, place: SemaphorePermit<'_>) -> Result<(), NotQueued> {
        let mut frames = self.frames.lock();
        // Under the lock: what is queued before the close is dropped by it.
        if self.places.is_closed() {
            return Err(NotQueued::Closed);
        }
        place.forget();
        frames.push_back(frame);
        drop(frames);
        self.queued.notify_one();
        Ok(())
    }

    /// Waits for the next frame.
    ///
    /// Cancel safety: dropping the future takes nothing.
    pub(super) async fn next(&self) -> Frame {
        loop {
            if let Some(frame) = self.try_next() {
                return frame;
            }
            self.queued.notified().await;
        }
    }

    pub(super) fn try_next(&self) -> Option<Frame> {
        let frame = self.frames.lock().pop_front()?;
        self.places.add_permits(1);
        Some(frame)
    }

    /// Takes a request out that still waits.
    pub(super) fn withdraw(&self, request: u64) {
        let wanted = Purpose::Request { id: request };
        let mut frames = self.frames.lock();
        let place = frames.iter().position(|frame| frame.purpose() == wanted);
        let withdrawn = place.and_then(|place| frames.remove(place));
        drop(frames);
        if withdrawn.is_some() {
            self.places.add_permits(1);
        }
    }

    /// Drops what waits, and takes nothing more.
    pub(super) fn close(&self) {
        self.places.close();
        drop(std::mem::take(&mut *self.frames.lock()));
    }
}
