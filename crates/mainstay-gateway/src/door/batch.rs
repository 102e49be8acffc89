//! Batches: several messages in one JSON array. Only version 2025-03-26 has them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{BufMut, Bytes, BytesMut};
use mainstay::Era;
use mainstay::gateway::message::{self, Message, RpcError};

use super::request::ClientRequest;
use crate::client::Client;
use crate::protocol::NoId;
use crate::router::Router;

/// The version whose clients may send batches.
const BATCH_VERSION: &str = "2025-03-26";

/// Messages in one batch: far more than clients send, and far fewer than a session may run.
const MESSAGES_LIMIT: usize = 100;

/// The answer to one message of a batch, as one line. `None` if its client has cancelled it.
pub(super) type PendingLine = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

/// Checks that a client which negotiated this version may send a batch of so many messages.
pub(super) fn check(version: Option<&str>, messages: usize) -> Result<(), RpcError> {
    let what = match version {
        Some(BATCH_VERSION) if messages == 0 => "the batch is empty".to_owned(),
        Some(BATCH_VERSION) if messages > MESSAGES_LIMIT => {
            format!("the batch has {messages} messages; the limit is {MESSAGES_LIMIT}")
        }
        Some(BATCH_VERSION) => return Ok(()),
        Some(version) => {
            format!(
                "only sessions of version {BATCH_VERSION} may send batches, and this session has version {version}: send \
                 one message at a time"
            )
        }
        None => {
            format!("only sessions of version {BATCH_VERSION} may send batches: send one message at a time")
        }
    };
    Err(RpcError::new(RpcError::INVALID_REQUEST, what))
}

/// Takes the messages of a batch in their order; the answers to its requests, if it has any. `answer` begins to answer a request.
///
/// Cancel safety: dropping the future loses the messages that were not taken, and drops all requests of the batch.
pub(super) async fn take(
    router: &Router,
    client: &Arc<Client>,
    messages: &[Bytes],
    mut answer: impl FnMut(ClientRequest) -> PendingLine,
) -> Option<PendingLine> {
    let mut pending = Vec::new();
    for message in messages {
        match Message::read_any(message).await {
            Message::Request { id, method, params } => {
                let request = ClientRequest::read(id, &method, params).await;
                pending.push(match must_be_alone(&request) {
                    true => not_in_a_batch(&request),
                    false => answer(request),
                });
            }
            Message::Notification { method, params } => {
                let handled = router.handle_notification(client, &method, params.as_ref());
                if let Err(error) = handled.await {
                    pending.push(refused(error));
                }
            }
            Message::Response { id, result } => {
                client.answered(&id, result);
            }
            Message::Batch(_) | Message::Garbage(_) => pending.push(not_a_message()),
        }
    }
    (!pending.is_empty()).then(|| Box::pin(join(pending)) as PendingLine)
}

/// Whether a request must not be in a batch. A listen never ends, and would keep the other answers back.
fn must_be_alone(request: &ClientRequest) -> bool {
    let is_modern = request.meta.era() == Era::Modern;
    is_modern || matches!(request.method.as_str(), "initialize" | "subscriptions/listen")
}

/// The answer to an element of a batch that is not a message.
fn not_a_message() -> PendingLine {
    refused(RpcError::new(
        RpcError::INVALID_REQUEST,
        "this is not a JSON-RPC message",
    ))
}

/// The answer to an element of a batch that has no id.
fn refused(error: RpcError) -> PendingLine {
    ready(NoId::in_version(BATCH_VERSION).refusal(None, error))
}

/// The answer to a request that must not be in a batch.
fn not_in_a_batch(request: &ClientRequest) -> PendingLine {
    let what = format!("{} must not be part of a batch", request.method);
    let error = RpcError::new(RpcError::INVALID_REQUEST, what);
    ready(message::response(&request.id, &Err(error)))
}

/// An answer that is known already.
pub(super) fn ready(line: Bytes) -> PendingLine {
    Box::pin(std::future::ready(Some(line)))
}

/// Waits for all answers and joins them to one line, in the order of the requests. `None` if there are none.
///
/// Cancel safety: dropping the future drops all requests of the batch.
async fn join(mut pending: Vec<PendingLine>) -> Option<Bytes> {
    let mut lines: Vec<Option<Bytes>> = vec![None; pending.len()];
    let mut is_done = vec![false; pending.len()];
    poll_fn(|context| {
        for (n, pending) in pending.iter_mut().enumerate() {
            if !is_done[n]
                && let Poll::Ready(line) = pending.as_mut().poll(context)
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
    let length = lines.iter().flatten().map(|line| line.len() + 1).sum::<usize>();
    let mut batch = BytesMut::with_capacity(length + 1);
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
    fn only_the_version_that_has_batches_may_send_one_and_only_so_many_messages() {
        assert!(check(Some(BATCH_VERSION), 1).is_ok() && check(Some(BATCH_VERSION), MESSAGES_LIMIT).is_ok());
        for (version, messages) in [
            (Some(BATCH_VERSION), 0),
            (Some(BATCH_VERSION), MESSAGES_LIMIT + 1),
            (Some("2025-06-18"), 1),
            (Some("2024-11-05"), 1),
            (None, 1),
        ] {
            let error = check(version, messages).unwrap_err();
            assert_eq!(error.code(), RpcError::INVALID_REQUEST, "{version:?} {messages}");
        }
    }

    #[tokio::test]
    async fn answers_are_joined_in_the_order_of_their_requests() {
        let (later, waits) = tokio::sync::oneshot::channel();
        let slow: PendingLine = Box::pin(async { waits.await.ok() });
        let cancelled: PendingLine = Box::pin(std::future::ready(None));
        let quick: PendingLine = Box::pin(async move {
            let _ = later.send(Bytes::from_static(b"1"));
            Some(Bytes::from_static(b"2"))
        });
        let all = join(vec![slow, cancelled, quick]).await;
        assert_eq!(all.as_deref(), Some(&b"[1,2]"[..]));
        assert_eq!(join(Vec::new()).await, None);
    }
}
