//! Reads a broadcast channel by polling, so that a reader of events or of stderr is a `Stream`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver};

/// A reader of a broadcast channel, from the moment of its making.
pub(crate) struct BroadcastReader<T>(Option<Receiving<T>>);

/// The receiver. It is inside the future while the reader waits.
enum Receiving<T> {
    Idle(Receiver<T>),
    Waiting(Pin<Box<dyn Future<Output = Received<T>> + Send + Sync>>),
}

/// What a wait ends with: the next value, and the receiver back.
type Received<T> = (Result<T, RecvError>, Receiver<T>);

/// What a reader gets from the channel.
pub(crate) enum ValueOrLag<T> {
    Value(T),
    /// The reader was too slow and missed this many values. The next one follows.
    Lagged(u64),
}

impl<T: Clone + Send + 'static> BroadcastReader<T> {
    pub(crate) fn of(sender: &broadcast::Sender<T>) -> Self {
        Self(Some(Receiving::Idle(sender.subscribe())))
    }

    /// The next value; `None` when the sender is gone.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ValueOrLag<T>>> {
        let mut waiting = match self.0.take() {
            None => return Poll::Ready(None),
            Some(Receiving::Waiting(waiting)) => waiting,
            Some(Receiving::Idle(mut receiver)) => Box::pin(async move { (receiver.recv().await, receiver) }),
        };
        let Poll::Ready((received, receiver)) = waiting.as_mut().poll(context) else {
            self.0 = Some(Receiving::Waiting(waiting));
            return Poll::Pending;
        };
        self.0 = Some(Receiving::Idle(receiver));
        Poll::Ready(match received {
            Ok(value) => Some(ValueOrLag::Value(value)),
            Err(RecvError::Lagged(missed)) => Some(ValueOrLag::Lagged(missed)),
            Err(RecvError::Closed) => None,
        })
    }
}

impl<T> std::fmt::Debug for BroadcastReader<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BroadcastReader").finish_non_exhaustive()
    }
}
