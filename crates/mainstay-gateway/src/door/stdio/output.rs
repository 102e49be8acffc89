//! What a client on stdout is sent: one bounded queue, in order, half of it reserved for what the client waits for.

use std::sync::Arc;

use bytes::Bytes;
use mainstay::transport::Turn;
use tokio::io::{AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::budget::Account;
use crate::client::Outbox;
use crate::door::outgoing::OutgoingMessage;

/// Messages that wait for the client to read.
const QUEUE_LIMIT: usize = 1024;

/// How many of them may be optional: half, so that a server that logs without end delays no answer.
const OPTIONAL_LIMIT: u32 = 512;

/// Kilobytes of optional messages; a single message may be larger.
const OPTIONAL_KILOBYTES_LIMIT: u32 = 4 * 1024;

/// A message in the queue. An optional one holds its room until it is written.
pub(super) struct QueuedMessage {
    pub(super) message: OutgoingMessage,
    _room: Option<OwnedSemaphorePermit>,
}

/// The queue as an outbox. It drops what does not fit.
pub(super) struct StdioOutbox {
    queue: mpsc::Sender<QueuedMessage>,
    /// Room for optional messages, in kilobytes.
    room: Arc<Semaphore>,
    /// What is in the queue is charged to the client.
    account: Account,
}

/// The queue, and its reading end.
pub(super) fn queue() -> (mpsc::Sender<QueuedMessage>, mpsc::Receiver<QueuedMessage>) {
    mpsc::channel(QUEUE_LIMIT)
}

impl StdioOutbox {
    pub(super) fn new(queue: mpsc::Sender<QueuedMessage>, account: Account) -> Self {
        let room = Arc::new(Semaphore::new(OPTIONAL_KILOBYTES_LIMIT as usize));
        Self { queue, room, account }
    }
}

impl Outbox for StdioOutbox {
    fn send(&self, message: Bytes) -> bool {
        let Ok(message) = self.account.charge_message_if_room(message) else {
            return false;
        };
        self.queue.try_send(OutgoingMessage::from(message).into()).is_ok()
    }

    fn offer(&self, message: Bytes) -> bool {
        let kilobytes = u32::try_from(message.len().div_ceil(1024)).unwrap_or(u32::MAX);
        let needed = kilobytes.clamp(
            OPTIONAL_KILOBYTES_LIMIT / OPTIONAL_LIMIT,
            OPTIONAL_KILOBYTES_LIMIT,
        );
        let Ok(room) = self.room.clone().try_acquire_many_owned(needed) else {
            return false;
        };
        let Ok(message) = self.account.charge_message_if_room(message) else {
            return false;
        };
        let queued = QueuedMessage {
            message: OutgoingMessage::from(message),
            _room: Some(room),
        };
        self.queue.try_send(queued).is_ok()
    }
}

impl From<OutgoingMessage> for QueuedMessage {
    fn from(message: OutgoingMessage) -> Self {
        Self { message, _room: None }
    }
}

/// Writes the queued messages, a line each, until the queue is closed and empty or the client is gone. Messages that wait
/// together are written together. Returns the output, unless the client is gone.
pub(super) async fn write_queued<W: AsyncWrite + Unpin>(
    output: W,
    mut queued: mpsc::Receiver<QueuedMessage>,
) -> Option<W> {
    let mut output = BufWriter::new(output);
    let mut turn = Turn::new();
    while let Some(message) = queued.recv().await {
        let mut next = Some(message);
        while let Some(message) = next {
            turn.yield_if_over().await;
            turn.count_message();
            for piece in message.message.pieces() {
                turn.count_bytes(piece.len());
                if output.write_all(piece).await.is_err() {
                    return None;
                }
            }
            if output.write_all(b"\n").await.is_err() {
                return None;
            }
            next = queued.try_recv().ok();
        }
        if output.flush().await.is_err() {
            return None;
        }
    }
    Some(output.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, MESSAGE_COST};
    use crate::principal::Principal;

    fn account() -> Account {
        Arc::new(Budget::default()).account(Principal::session(1))
    }

    fn message(length: usize) -> Bytes {
        vec![b'x'; length].into()
    }

    #[tokio::test]
    async fn optional_messages_take_half_of_the_queue_and_free_it_when_they_are_written() {
        let (queue, mut queued) = queue();
        let outbox = StdioOutbox::new(queue, account());
        let taken = (0..QUEUE_LIMIT).take_while(|_| outbox.offer(message(1))).count();
        assert_eq!(taken, OPTIONAL_LIMIT as usize);
        let taken = (0..QUEUE_LIMIT).take_while(|_| outbox.send(message(1))).count();
        assert_eq!(
            taken,
            QUEUE_LIMIT - OPTIONAL_LIMIT as usize,
            "the rest is for what the client waits for"
        );
        queued.recv().await.expect("the first");
        assert!(outbox.offer(message(1)));
    }

    #[tokio::test]
    async fn optional_messages_are_bounded_in_bytes_but_for_a_single_one() {
        let (queue, mut queued) = queue();
        let outbox = StdioOutbox::new(queue, account());
        let whole = 1024 * OPTIONAL_KILOBYTES_LIMIT as usize;
        assert!(outbox.offer(message(2 * whole)));
        assert!(!outbox.offer(message(1)));
        queued.recv().await.expect("the large one");
        assert!(outbox.offer(message(whole / 2)) && outbox.offer(message(whole / 2)));
        assert!(!outbox.offer(message(1)));
    }

    #[tokio::test]
    async fn optional_messages_are_charged_until_they_are_written() {
        let budget = Arc::new(Budget::default());
        let (queue, mut queued) = queue();
        let outbox = StdioOutbox::new(queue, budget.account(Principal::session(1)));
        assert!(outbox.offer(message(5000)));
        assert_eq!(budget.held(), 5000 + MESSAGE_COST);
        drop(queued.recv().await);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn other_tasks_run_between_the_turns_of_a_full_queue() {
        let (queue, queued) = queue();
        let outbox = StdioOutbox::new(queue.clone(), account());
        while outbox.send(message(1)) {}
        tokio::spawn(write_queued(tokio::io::sink(), queued));
        let (mut room, mut most) = (queue.capacity(), 0);
        while room < QUEUE_LIMIT {
            tokio::task::yield_now().await;
            let now = queue.capacity();
            most = most.max(now - room);
            room = now;
        }
        // The runtime may run a task twice before another.
        assert!(most <= 4 * Turn::MESSAGES as usize, "{most} messages in a turn");
    }
}
