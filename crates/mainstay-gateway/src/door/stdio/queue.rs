//! The one queue to a client: bounded, in order, and most of it for what the client waits for.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::budget::Account;
use crate::client::Outbox;
use crate::door::outgoing::Outgoing;

/// Messages that wait for a client to read.
const QUEUE: usize = 1024;

/// Messages among them that it can miss: half, so that a server that logs without end makes no answer wait.
const MOST_SPARE: u32 = 512;

/// Kilobytes of them; a single one may be larger.
const MOST_KILOBYTES: u32 = 4 * 1024;

/// A message that waits. What can be missed has taken room for itself, which is free again when it is written.
pub(super) struct Queued {
    pub(super) message: Outgoing,
    _room: Option<OwnedSemaphorePermit>,
}

/// The queue as a line: what does not fit is dropped.
pub(super) struct Queue {
    messages: mpsc::Sender<Queued>,
    /// In kilobytes.
    spare: Arc<Semaphore>,
    /// What waits is held for the client.
    account: Account,
}

/// A queue, and what comes out of it.
pub(super) fn queue() -> (mpsc::Sender<Queued>, mpsc::Receiver<Queued>) {
    mpsc::channel(QUEUE)
}

impl Queue {
    pub(super) fn new(messages: mpsc::Sender<Queued>, account: Account) -> Self {
        let spare = Arc::new(Semaphore::new(MOST_KILOBYTES as usize));
        Self {
            messages,
            spare,
            account,
        }
    }
}

impl Outbox for Queue {
    fn send(&self, message: Bytes) -> bool {
        let Ok(message) = self.account.charge_if_room(message) else {
            return false;
        };
        self.messages.try_send(Outgoing::from(message).into()).is_ok()
    }

    fn offer(&self, message: Bytes) -> bool {
        let kilobytes = u32::try_from(message.len().div_ceil(1024)).unwrap_or(u32::MAX);
        let taken = kilobytes.clamp(MOST_KILOBYTES / MOST_SPARE, MOST_KILOBYTES);
        let Ok(room) = self.spare.clone().try_acquire_many_owned(taken) else {
            return false;
        };
        let queued = Queued {
            message: message.into(),
            _room: Some(room),
        };
        self.messages.try_send(queued).is_ok()
    }
}

impl From<Outgoing> for Queued {
    fn from(message: Outgoing) -> Self {
        Self { message, _room: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::principal::Principal;

    fn account() -> Account {
        Arc::new(Budget::default()).account(Principal::session(1))
    }

    fn message(length: usize) -> Bytes {
        vec![b'x'; length].into()
    }

    #[tokio::test]
    async fn what_can_be_missed_takes_half_of_the_queue_and_gives_it_back() {
        let (messages, mut queued) = queue();
        let line = Queue::new(messages, account());
        let taken = (0..QUEUE).take_while(|_| line.offer(message(1))).count();
        assert_eq!(taken, MOST_SPARE as usize);
        let taken = (0..QUEUE).take_while(|_| line.send(message(1))).count();
        assert_eq!(taken, QUEUE - MOST_SPARE as usize, "the rest is for what counts");
        queued.recv().await.expect("the first");
        assert!(line.offer(message(1)));
    }

    #[tokio::test]
    async fn what_can_be_missed_is_bounded_in_bytes_but_for_one_message() {
        let (messages, mut queued) = queue();
        let line = Queue::new(messages, account());
        let whole = 1024 * MOST_KILOBYTES as usize;
        assert!(line.offer(message(2 * whole)));
        assert!(!line.offer(message(1)));
        queued.recv().await.expect("the large one");
        assert!(line.offer(message(whole / 2)) && line.offer(message(whole / 2)));
        assert!(!line.offer(message(1)));
    }
}
