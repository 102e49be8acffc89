//! The quota of notifications that are queued and not yet sent. It keeps room in the queue for requests and answers.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Notifications on their way: half of what the shortest queue of a transport holds.
const NOTIFICATION_LIMIT: u32 = 32;

/// Progress on its way. It shares the queue of answers, and each says all that the one before it did.
const PROGRESS_LIMIT: u32 = 16;

/// Kilobytes on their way; a single message may be larger.
const KILOBYTE_LIMIT: u32 = 16 * 1024;

/// The room for one kind of message, in kilobytes. What takes less than its share takes its share.
pub(super) struct SendQuota {
    room: Arc<Semaphore>,
    share: u32,
}

impl SendQuota {
    pub(super) fn notifications() -> Self {
        Self::of(NOTIFICATION_LIMIT)
    }

    pub(super) fn progress() -> Self {
        Self::of(PROGRESS_LIMIT)
    }

    fn of(most: u32) -> Self {
        Self {
            room: Arc::new(Semaphore::new(KILOBYTE_LIMIT as usize)),
            share: KILOBYTE_LIMIT / most,
        }
    }

    /// Waits for room for a message of this length; the room is taken until the permit goes.
    ///
    /// Cancel safety: dropping it gives the place among those that wait away.
    pub(super) async fn room(&self, length: usize) -> Option<OwnedSemaphorePermit> {
        let kilobytes = u32::try_from(length.div_ceil(1024)).unwrap_or(u32::MAX);
        let taken = kilobytes.clamp(self.share, KILOBYTE_LIMIT);
        self.room.clone().acquire_many_owned(taken).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The room, if there is any now.
    fn take(notification_quota: &SendQuota, length: usize) -> Option<OwnedSemaphorePermit> {
        match pin!(notification_quota.room(length)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(room) => room,
            Poll::Pending => None,
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_again_when_one_has_left() {
        let notification_quota = SendQuota::notifications();
        let mut told: Vec<_> = (0..NOTIFICATION_LIMIT)
            .map_while(|_| take(&notification_quota, 1))
            .collect();
        assert_eq!(told.len(), NOTIFICATION_LIMIT as usize);
        assert!(take(&notification_quota, 1).is_none());
        told.pop();
        assert!(take(&notification_quota, 1).is_some());
    }

    #[test]
    fn there_is_room_for_so_many_bytes_or_for_one_message() {
        let notification_quota = SendQuota::progress();
        let large = take(&notification_quota, 2 * 1024 * KILOBYTE_LIMIT as usize);
        assert!(large.is_some() && take(&notification_quota, 1).is_none());
        drop(large);
        let half = 1024 * KILOBYTE_LIMIT as usize / 2;
        let (first, second) = (take(&notification_quota, half), take(&notification_quota, half));
        assert!(first.is_some() && second.is_some() && take(&notification_quota, 1).is_none());
    }
}
