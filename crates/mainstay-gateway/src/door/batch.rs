//! Several messages at once: version 2025-03-26 has them, and no other.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::{BufMut, Bytes, BytesMut};
use mainstay::gateway::message::{self, RawJson, RpcError};

use crate::protocol::NoId;

/// The version whose clients may send them.
const VERSION: &str = "2025-03-26";

/// Messages in one batch: far more than clients send, and far fewer than a session may run.
const MAX_MESSAGES: usize = 100;

/// What answering one message of a batch comes to, as one line: `None` when its client has cancelled it.
pub(super) type Answering = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

/// Checks that a client which negotiated this version may send a batch of so many messages.
pub(super) fn check(version: Option<&str>, messages: usize) -> Result<(), RpcError> {
    let what = match version {
        Some(VERSION) if messages == 0 => "the batch is empty".to_owned(),
        Some(VERSION) if messages > MAX_MESSAGES => {
            format!("the batch has {messages} messages, and {MAX_MESSAGES} are the most")
        }
        Some(VERSION) => return Ok(()),
        Some(version) => {
            format!(
                "batches are only for sessions of {VERSION}, and this one speaks {version}: send one message at a time"
            )
        }
        None => format!("batches are only for sessions of {VERSION}: send one message at a time"),
    };
    Err(RpcError::new(RpcError::INVALID_REQUEST, what))
}

/// The answer to a message of a batch that is none.
pub(super) fn no_message() -> Answering {
    let error = RpcError::new(RpcError::INVALID_REQUEST, "this is no JSON-RPC message");
    refused(NoId::in_version(VERSION).refusal(error))
}

/// The answer to a request that must not be in a batch.
pub(super) fn misplaced(id: &RawJson, method: &str) -> Answering {
    let what = format!("{method} must not be part of a batch");
    let error = RpcError::new(RpcError::INVALID_REQUEST, what);
    refused(message::response(id, &Err(error)))
}

/// An answer that is known already.
pub(super) fn refused(line: Bytes) -> Answering {
    Box::pin(std::future::ready(Some(line)))
}

/// The answers to a batch as one line, in the order of its requests; `None` when there are none.
///
/// Cancel safety: dropped, all of them are.
pub(super) async fn answers(mut answering: Vec<Answering>) -> Option<Bytes> {
    let mut lines: Vec<Option<Bytes>> = vec![None; answering.len()];
    let mut is_done = vec![false; answering.len()];
    poll_fn(|context| {
        for (n, answering) in answering.iter_mut().enumerate() {
            if !is_done[n]
                && let Poll::Ready(line) = answering.as_mut().poll(context)
            {
                (lines[n], is_done[n]) = (line, true);
            }
        }
        match is_done.iter().all(|is_done| *is_done) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    let mut batch =
        BytesMut::with_capacity(lines.iter().flatten().map(|line| line.len() + 1).sum::<usize>() + 2);
    for line in lines.iter().flatten() {
        batch.put_u8(if batch.is_empty() { b'[' } else { b',' });
        batch.extend_from_slice(line);
    }
    if batch.is_empty() {
        return None;
    }
    batch.put_u8(b']');
    Some(batch.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_that_has_batches_takes_one_and_only_so_many_messages() {
        assert!(check(Some(VERSION), 1).is_ok() && check(Some(VERSION), MAX_MESSAGES).is_ok());
        for (version, messages) in [
            (Some(VERSION), 0),
            (Some(VERSION), MAX_MESSAGES + 1),
            (Some("2025-06-18"), 1),
            (Some("2024-11-05"), 1),
            (None, 1),
        ] {
            let error = check(version, messages).unwrap_err();
            assert_eq!(error.code(), RpcError::INVALID_REQUEST, "{version:?} {messages}");
        }
    }

    #[tokio::test]
    async fn answers_come_together_in_the_order_of_their_requests() {
        let (later, waits) = tokio::sync::oneshot::channel();
        let slow: Answering = Box::pin(async { waits.await.ok() });
        let cancelled: Answering = Box::pin(std::future::ready(None));
        let quick: Answering = Box::pin(async move {
            let _ = later.send(Bytes::from_static(b"1"));
            Some(Bytes::from_static(b"2"))
        });
        let all = answers(vec![slow, cancelled, quick]).await;
        assert_eq!(all.as_deref(), Some(&b"[1,2]"[..]));
        assert_eq!(answers(Vec::new()).await, None);
    }
}
