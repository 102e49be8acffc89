//! A call that waits for its client to come back.
//!
//! It goes on meanwhile, so that it ends in its own time: a call that nobody comes back for is over when it has timed out
//! or was lost, and its server can ask others again. Its end waits for the client, for as long as a person may take.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use mainstay::{CallError, Reply};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::rounds::Call;

/// How long a parked call waits for its client's retry: as long as a person may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// Where a call is parked. Dropped, the call is cancelled.
pub(super) struct Parking {
    /// Gone when the client is back.
    away: Option<oneshot::Sender<()>>,
    call: JoinHandle<Call>,
}

impl Parking {
    /// Parks a call; `expired` is done when nobody came back for it.
    pub(super) fn of(mut call: Call, expired: impl FnOnce() + Send + 'static) -> Self {
        let (away, back) = oneshot::channel();
        let call = tokio::spawn(async move {
            if timeout(PATIENCE, call.reply.go_on_until(back)).await.is_err() {
                expired();
            }
            call
        });
        Self {
            away: Some(away),
            call,
        }
    }

    /// The client is back: the call, unless its time has just run out.
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
pub(super) enum Replying {
    Running(Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send>>),
    Came(Result<Reply, CallError>),
    Taken,
}

impl Replying {
    pub(super) fn new(reply: impl Future<Output = Result<Reply, CallError>> + Send + 'static) -> Self {
        Self::Running(Box::pin(reply))
    }

    /// The reply. There is only one: after it nothing ever comes.
    ///
    /// Cancel safety: dropped, the reply is still to come.
    pub(super) async fn take(&mut self) -> Result<Reply, CallError> {
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
