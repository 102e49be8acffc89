//! Parked calls: each waits for its client's answer, and a state that only this gateway can write finds it again.
//!
//! A parked call goes on, so that it ends in its own time. Once it has timed out or was lost, it does not keep its server from
//! asking others. Its reply waits for the client, for as long as a person may take to answer.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainstay::gateway::message::{RawJson, RpcError};
use mainstay::server::TransportKind;
use mainstay::{CallError, Outcome, Reply, Server};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until};

use super::RoutedRequest;
use super::forward::{ForwardedCall, Question};
use super::resolve::Upstream;
use super::state::{CallKey, StateSigner};
use crate::budget::{Account, Budget, BudgetLimits, HeldBytes, Spent};
use crate::lock::lock;
use crate::protocol::limit_error;

/// How long a parked call waits for its client's retry: as long as a person may take.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long it waits when others call the same server, and nothing tells whose a question of that server is: while it waits, the
/// gateway declines all of theirs. Enough for a person who is there.
const CONTENDED_RETRY_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// Calls that may be parked at once: of all clients, and of one, so that none keeps the others from parking theirs. Each
/// holds a request open at its server.
const PLACES: BudgetLimits = BudgetLimits {
    all: 1024,
    share: Some(128),
};

/// Bytes that a parked call takes beside its question and its reply: the task that waits for it.
const PARKING_COST: usize = 8 * 1024;

/// The calls that wait for their clients.
pub(super) struct ParkedCalls {
    signer: StateSigner,
    calls: Arc<CallTable>,
    places: Arc<Budget>,
}

type CallTable = Mutex<HashMap<CallKey, ParkedCall>>;

/// A parked call and the question that it waits for.
struct ParkedCall {
    background: BackgroundCall,
    server: Server,
    question: Question,
    since: Instant,
    expiry: ParkedCallTimer,
    /// Its place, and the bytes of its question.
    _held: [HeldBytes; 2],
}

/// Why a state leads to no call.
pub(super) enum NoParkedCall {
    /// It names a call that does not wait any more.
    Gone,
    /// This gateway did not write it for this purpose: the server behind may know it.
    NotOurs,
}

impl ParkedCalls {
    pub(super) fn new() -> Self {
        Self {
            signer: StateSigner::new(),
            calls: Arc::default(),
            places: Arc::new(Budget::new(PLACES)),
        }
    }

    /// Parks a call of a request with these parameters; the state finds it again for a retry of that request.
    ///
    /// Cancel safety: dropping it cancels the call.
    pub(super) async fn put(
        &self,
        call: ForwardedCall,
        question: Question,
        request: &RoutedRequest<'_>,
        params: Option<RawJson>,
        account: Account,
    ) -> Result<String, RpcError> {
        let place = self
            .places
            .account(account.principal())
            .hold(1)
            .map_err(no_place)?;
        let held = account.hold(PARKING_COST + question.bytes())?;
        let named = self.signer.name_call(request.client, request.method, params);
        let (key, state) = named.await?;
        let since = Instant::now();
        let parked = ParkedCall {
            server: call.upstream.server.clone(),
            background: BackgroundCall::start(call, account),
            question,
            since,
            expiry: ParkedCallTimer::at(since + RETRY_TIMEOUT, key, &self.calls),
            _held: [place, held],
        };
        lock(&self.calls).insert(key, parked);
        Ok(state)
    }

    /// Takes out the call that a state names for a retry of this request, with the question that it waits for.
    ///
    /// Cancel safety: dropping it cancels the call.
    pub(super) async fn take(
        &self,
        state: &str,
        request: &RoutedRequest<'_>,
    ) -> Result<(ForwardedCall, Question), NoParkedCall> {
        let params = request.params.as_raw().cloned();
        let found = self
            .signer
            .find_call(state, request.client, request.method, params);
        let key = found.await.ok_or(NoParkedCall::NotOurs)?;
        let parked = lock(&self.calls).remove(&key).ok_or(NoParkedCall::Gone)?;
        let call = parked.background.stop().await.ok_or(NoParkedCall::Gone)?;
        Ok((call, parked.question))
    }

    /// Another client calls this server: calls that are parked there wait less long. Over HTTP, and at a session's own server,
    /// parked calls are in no other client's way: there a question comes on the stream of its call, or to the only client.
    pub(super) fn shorten_waits_at(&self, upstream: &Upstream) {
        if upstream.is_own {
            return;
        }
        let server = &upstream.server;
        let mut calls = lock(&self.calls);
        let mut parked_here = calls
            .iter_mut()
            .filter(|(_, parked)| parked.server.name() == server.name())
            .peekable();
        if parked_here.peek().is_none() || server.status().transport == Some(TransportKind::Http) {
            return;
        }
        for (key, parked) in parked_here {
            let at = parked.since + CONTENDED_RETRY_TIMEOUT;
            if at < parked.expiry.at {
                parked.expiry = ParkedCallTimer::at(at, *key, &self.calls);
            }
        }
    }
}

/// Why a call cannot be parked.
fn no_place(spent: Spent) -> RpcError {
    let what = match spent {
        Spent::Share { share } => {
            format!("{share} calls of this client wait for its answers already: answer one of them first")
        }
        Spent::Address { most } => format!(
            "too many calls of clients at this address wait for their answers ({most} at most, and no more of one client than it \
             leaves to the others): answer one of them first"
        ),
        Spent::All { all } => format!("{all} calls wait for their clients already: call again later"),
    };
    // Its server has the call, and has asked a question about it.
    limit_error(Outcome::Unknown, what)
}

/// Ends a parked call whose client does not come back. Dropped with the call, it leaves no timer behind.
struct ParkedCallTimer {
    at: Instant,
    task: AbortHandle,
}

impl ParkedCallTimer {
    fn at(at: Instant, key: CallKey, calls: &Arc<CallTable>) -> Self {
        // The calls end with the gateway, and not with their timers.
        let calls = Arc::downgrade(calls);
        let task = tokio::spawn(async move {
            sleep_until(at).await;
            let expired = calls.upgrade().and_then(|calls| lock(&calls).remove(&key));
            drop(expired);
        });
        Self {
            at,
            task: task.abort_handle(),
        }
    }
}

impl Drop for ParkedCallTimer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A call that goes on while its client is away. Dropping it cancels the call.
struct BackgroundCall {
    /// Dropped when the client is back.
    away: Option<oneshot::Sender<()>>,
    call: JoinHandle<ForwardedCall>,
}

impl BackgroundCall {
    /// Lets a call go on; its reply counts as this account's while it waits.
    fn start(mut call: ForwardedCall, account: Account) -> Self {
        let (away, back) = oneshot::channel();
        let call = tokio::spawn(async move {
            call.reply.hold_until(back, &account).await;
            call
        });
        Self {
            away: Some(away),
            call,
        }
    }

    /// Gives the call back to its client.
    async fn stop(mut self) -> Option<ForwardedCall> {
        drop(self.away.take());
        (&mut self.call).await.ok()
    }
}

impl Drop for BackgroundCall {
    fn drop(&mut self) {
        self.call.abort();
    }
}

/// The reply to a call, which may come while the client is away.
pub(super) enum PendingReply {
    Running(Pin<Box<dyn Future<Output = Result<Reply, CallError>> + Send>>),
    Ready(Result<Reply, CallError>),
    /// It came while the client was away, and did not fit into the client's share.
    Dropped(Spent),
    Taken,
}

impl PendingReply {
    pub(super) fn new(reply: impl Future<Output = Result<Reply, CallError>> + Send + 'static) -> Self {
        Self::Running(Box::pin(reply))
    }

    /// Waits for the reply. There is only one: a second call never returns.
    ///
    /// Cancel safety: dropping it loses nothing.
    pub(super) async fn take(&mut self) -> Result<Result<Reply, CallError>, Spent> {
        self.finish().await;
        match std::mem::replace(self, Self::Taken) {
            Self::Ready(reply) => Ok(reply),
            Self::Dropped(spent) => Err(spent),
            Self::Running(_) | Self::Taken => std::future::pending().await,
        }
    }

    /// Lets the call go on until the client is back.
    async fn hold_until(&mut self, mut back: oneshot::Receiver<()>, account: &Account) {
        tokio::select! {
            biased;
            _gone = &mut back => return,
            () = self.finish() => {}
        }
        let _held = self.hold(account);
        let _gone = back.await;
    }

    /// Charges the account for the reply, or drops it.
    fn hold(&mut self, account: &Account) -> Option<HeldBytes> {
        let Self::Ready(Ok(reply)) = self else {
            return None;
        };
        match account.hold(reply.result.as_bytes().len()) {
            Ok(held) => Some(held),
            Err(spent) => {
                *self = Self::Dropped(spent);
                None
            }
        }
    }

    async fn finish(&mut self) {
        if let Self::Running(reply) = self {
            let reply = reply.await;
            *self = Self::Ready(reply);
        }
    }
}
