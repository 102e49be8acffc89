//! A call that goes on while its client is away.

use std::future::Future;
use std::pin::Pin;

use mainstay::{CallError, Reply};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Call;

/// Where a call is parked. Dropped, the call is cancelled.
pub(super) struct Parking {
    /// Gone when the client is back.
    away: Option<oneshot::Sender<()>>,
    call: JoinHandle<Call>,
}

impl Parking {
    pub(super) fn of(mut call: Call) -> Self {
        let (away, back) = oneshot::channel();
        let call = tokio::spawn(async move {
            call.reply.go_on_until(back).await;
            call
        });
        Self {
            away: Some(away),
            call,
        }
    }

    /// The client is back.
    pub(super) async fn back(mut self) -> Option<Call> {
        drop(self.away.take());
        (&mut self.call).await.ok()
    }
}

impl Drop for Parking {
    fn drop(&mut self) {
        self.call.abort();
    }
}

/// The reply to a call, which can come while nobody waits for it.
pub(in crate::desk) enum Replying {
    Running(Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send>>),
    Came(Result<Reply, CallError>),
    Taken,
}

impl Replying {
    pub(in crate::desk) fn new(
        reply: impl Future<Output = Result<Reply, CallError>> + Send + 'static,
    ) -> Self {
        Self::Running(Box::pin(reply))
    }

    /// The reply. There is only one: after it nothing ever comes.
    ///
    /// Cancel safety: dropped, the reply is still to come.
    pub(in crate::desk) async fn take(&mut self) -> Result<Reply, CallError> {
        self.come().await;
        match std::mem::replace(self, Self::Taken) {
            Self::Came(reply) => reply,
            Self::Running(_) | Self::Taken => std::future::pending().await,
        }
    }

    /// Lets the call go on until the client is back.
    async fn go_on_until(&mut self, mut back: oneshot::Receiver<()>) {
        tokio::select! {
            biased;
            _gone = &mut back => return,
            () = self.come() => {}
        }
        let _gone = back.await;
    }

    async fn come(&mut self) {
        if let Self::Running(reply) = self {
            let reply = reply.await;
            *self = Self::Came(reply);
        }
    }
}
