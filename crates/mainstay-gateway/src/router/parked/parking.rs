//! A call that goes on while its client is away.

use std::future::Future;
use std::pin::Pin;

use mainstay::{CallError, Reply};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Call;
use crate::budget::{Account, Held, Spent};

/// Where a call is parked. Dropped, the call is cancelled.
pub(super) struct Parking {
    /// Gone when the client is back.
    away: Option<oneshot::Sender<()>>,
    call: JoinHandle<Call>,
}

impl Parking {
    /// Parks a call; a reply that comes meanwhile is held in this account.
    pub(super) fn of(mut call: Call, account: Account) -> Self {
        let (away, back) = oneshot::channel();
        let call = tokio::spawn(async move {
            call.reply.go_on_until(back, &account).await;
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
pub(in crate::router) enum Replying {
    Running(Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send>>),
    Came(Result<Reply, CallError>),
    /// It came while the client was away, and could not be held for it.
    GivenUp(Spent),
    Taken,
}

impl Replying {
    pub(in crate::router) fn new(
        reply: impl Future<Output = Result<Reply, CallError>> + Send + 'static,
    ) -> Self {
        Self::Running(Box::pin(reply))
    }

    /// The reply. There is only one: after it nothing ever comes.
    ///
    /// Cancel safety: dropped, the reply is still to come.
    pub(in crate::router) async fn take(&mut self) -> Result<Result<Reply, CallError>, Spent> {
        self.come().await;
        match std::mem::replace(self, Self::Taken) {
            Self::Came(reply) => Ok(reply),
            Self::GivenUp(spent) => Err(spent),
            Self::Running(_) | Self::Taken => std::future::pending().await,
        }
    }

    /// Lets the call go on until the client is back.
    async fn go_on_until(&mut self, mut back: oneshot::Receiver<()>, account: &Account) {
        tokio::select! {
            biased;
            _gone = &mut back => return,
            () = self.come() => {}
        }
        let _held = self.hold(account);
        let _gone = back.await;
    }

    /// Holds the reply that came, or gives it up.
    fn hold(&mut self, account: &Account) -> Option<Held> {
        let Self::Came(Ok(reply)) = self else {
            return None;
        };
        match account.hold(reply.result.as_bytes().len()) {
            Ok(held) => Some(held),
            Err(spent) => {
                *self = Self::GivenUp(spent);
                None
            }
        }
    }

    async fn come(&mut self) {
        if let Self::Running(reply) = self {
            let reply = reply.await;
            *self = Self::Came(reply);
        }
    }
}
