//! What was told and has not left yet: so much at most that calls and answers keep room in the queue, however much
//! somebody tells.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Notifications on their way: half of what the shortest queue of a transport holds.
const MOST_TOLD: u32 = 32;

/// Progress on its way. It shares the queue of answers, and each says all that the one before it did.
const MOST_PROGRESS: u32 = 16;

/// Kilobytes on their way; a single message may be larger.
const MOST_KILOBYTES: u32 = 16 * 1024;

/// The room for one kind of message, in kilobytes. What takes less than its share takes its share.
pub(super) struct Telling {
    room: Arc<Semaphore>,
    share: u32,
}

impl Telling {
    pub(super) fn notifications() -> Self {
        Self::of(MOST_TOLD)
    }

    pub(super) fn progress() -> Self {
        Self::of(MOST_PROGRESS)
    }

    fn of(most: u32) -> Self {
        Self {
            room: Arc::new(Semaphore::new(MOST_KILOBYTES as usize)),
            share: MOST_KILOBYTES / most,
        }
    }

    /// Waits for room for a message of this length; the room is taken until the permit goes.
    ///
    /// Cancel safety: dropping it gives the place among those that wait away.
    pub(super) async fn room(&self, length: usize) -> Option<OwnedSemaphorePermit> {
        let kilobytes = u32::try_from(length.div_ceil(1024)).unwrap_or(u32::MAX);
        let taken = kilobytes.clamp(self.share, MOST_KILOBYTES);
        self.room.clone().acquire_many_owned(taken).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The room, if there is any now.
    fn take(telling: &Telling, length: usize) -> Option<OwnedSemaphorePermit> {
        match pin!(telling.room(length)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(room) => room,
            Poll::Pending => None,
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_again_when_one_has_left() {
        let telling = Telling::notifications();
        let mut told: Vec<_> = (0..MOST_TOLD).map_while(|_| take(&telling, 1)).collect();
        assert_eq!(told.len(), MOST_TOLD as usize);
        assert!(take(&telling, 1).is_none());
        told.pop();
        assert!(take(&telling, 1).is_some());
    }

    #[test]
    fn there_is_room_for_so_many_bytes_or_for_one_message() {
        let telling = Telling::progress();
        let large = take(&telling, 2 * 1024 * MOST_KILOBYTES as usize);
        assert!(large.is_some() && take(&telling, 1).is_none());
        drop(large);
        let half = 1024 * MOST_KILOBYTES as usize / 2;
        let (first, second) = (take(&telling, half), take(&telling, half));
        assert!(first.is_some() && second.is_some() && take(&telling, 1).is_none());
    }
}
