//! The way of a received message to the inbound side, fair to everybody else: a large one is read on a thread that may
//! block, a batch is handed over message by message, and the reader yields when its turn is over.

use std::sync::Arc;

use bytes::Bytes;

use super::{Inbound, Turn};
use crate::large;
use crate::wire::messages_of_batch;

/// Hands a message over, and lets others have a turn if this one is over.
///
/// Cancel safety: when the future is dropped, the message or some of its batch may not have been handed over.
pub(super) async fn hand_over(
    inbound: &Arc<dyn Inbound>,
    request: Option<u64>,
    message: Bytes,
    turn: &mut Turn,
) {
    let length = message.len();
    if length > large::INLINE_LIMIT {
        let inbound = inbound.clone();
        large::process(length, move || tell(&*inbound, request, message)).await;
        turn.count_message();
    } else if let Some(batch) = messages_of_batch(&message) {
        for message in batch {
            tell(&**inbound, request, message);
            turn.count_message();
            turn.yield_if_over().await;
        }
    } else {
        tell(&**inbound, request, message);
        turn.count_message();
    }
    turn.yield_if_over().await;
}

fn tell(inbound: &dyn Inbound, request: Option<u64>, message: Bytes) {
    match request {
        Some(request) => inbound.message_of(request, message),
        None => inbound.message(message),
    }
}
