//! What every transport does with received bytes: it makes room for a message while it comes, and delivers it.
//!
//! Delivery is fair to other tasks: a large message is read on a thread that may block, a batch is delivered message by
//! message, and the reader yields when its turn is over.

use std::sync::Arc;

use bytes::Bytes;

use super::{Inbound, MessageStream, Turn};
use crate::large;
use crate::wire::messages_of_batch;

/// Delivers a message, and yields if the turn is over.
///
/// Cancel safety: when the future is dropped, the message or some of its batch may not have been delivered.
pub(super) async fn deliver(
    inbound: &Arc<dyn Inbound>,
    stream: MessageStream,
    message: Bytes,
    turn: &mut Turn,
) {
    let length = message.len();
    if length > large::INLINE_LIMIT {
        let inbound = inbound.clone();
        large::process(length, move || deliver_one(&*inbound, stream, message)).await;
        turn.count_message();
    } else if let Some(batch) = messages_of_batch(&message) {
        for message in batch {
            deliver_one(&**inbound, stream, message);
            turn.count_message();
            turn.yield_if_over().await;
        }
    } else {
        deliver_one(&**inbound, stream, message);
        turn.count_message();
    }
    turn.yield_if_over().await;
}

fn deliver_one(inbound: &dyn Inbound, stream: MessageStream, message: Bytes) {
    match stream {
        MessageStream::Only => inbound.message(message),
        MessageStream::OfRequest(request) => inbound.message_of(request, message),
        MessageStream::Unasked => inbound.message_unasked(message),
    }
}

/// A message that has come this far gets room for a large one at once, instead of growing by copies of itself.
const LARGE_FROM: usize = 256 * 1024;

/// Room for a large message. Pages that are never written take no memory. The allocator returns a block of more than 32 MiB to the
/// system when it is freed; it may keep a smaller one.
const LARGE_CAPACITY: usize = 33 * 1024 * 1024;

/// How much more room to make for a message that has come this far: the usual, or what a large one needs.
pub(super) fn capacity_to_add(come: usize, usual: usize, limit: usize) -> usize {
    if is_large(come) {
        LARGE_CAPACITY.min(limit).max(usual)
    } else {
        usual
    }
}

/// Whether memory of this size should go with its message.
pub(super) fn is_large(length: usize) -> bool {
    length >= LARGE_FROM
}
