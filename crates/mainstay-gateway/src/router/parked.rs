//! Calls that wait for their clients: each is found again by a state that only this gateway can have written.
//!
//! A call goes on meanwhile, so that it ends in its own time: one that has timed out or was lost keeps its server from
//! asking nobody else. What it ended with waits for the client, for as long as a person may take.

mod parking;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mainstay::Server;
use mainstay::gateway::message::RpcError;
use mainstay::server::TransportKind;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::reaching::Reached;
use super::rounds::{Call, Question};
use super::state::{Key, Opened, Purpose, Seal};
use crate::budget::{Account, Budget, Held, Limits, Spent};
use crate::protocol::SERVER_UNAVAILABLE;
use parking::Parking;
pub(super) use parking::Replying;

/// How long a parked call waits for its client's retry: as long as a person may take.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How long it waits when others call the same server, and nothing would tell whose a question of that server is: while
/// it waits, all of theirs are declined. Enough for a person who is there.
const PATIENCE_OF_OTHERS: Duration = Duration::from_secs(2 * 60);

/// Calls that may be parked at once: of all clients, and of one, so that none keeps the others from parking theirs. Each
/// holds a request open at its server.
const PLACES: Limits = Limits {
    all: 1024,
    share: Some(128),
};

/// What is held for a parked call beside its question and its reply: the task that waits for it.
const PARKING_COST: usize = 8 * 1024;

/// Calls that wait for their clients.
pub(super) struct Parked {
    seal: Seal,
    calls: Arc<Calls>,
    places: Arc<Budget>,
}

type Calls = Mutex<HashMap<Key, Waiting>>;

/// A parked call and the question it is parked for.
struct Waiting {
    parking: Parking,
    server: Server,
    question: Question,
    since: Instant,
    expiry: Expiry,
    /// Its place, and the bytes of its question.
    _held: [Held; 2],
}

/// Why a state leads to no call.
pub(super) enum Missing {
    /// It names a call that does not wait any more.
    Gone,
    /// This gateway did not write it for this purpose: the server behind may know it.
    NotOurs,
}

impl Parked {
    pub(super) fn new() -> Self {
        Self {
            seal: Seal::new(),
            calls: Arc::default(),
            places: Arc::new(Budget::new(PLACES)),
        }
    }

    /// Parks a call; the state is what finds it again for this purpose.
    pub(super) fn put(
        &self,
        call: Call,
        question: Question,
        purpose: Purpose,
        account: Account,
    ) -> Result<String, RpcError> {
        let place = self
            .places
            .account(account.principal())
            .hold(1)
            .map_err(no_place)?;
        let held = account.hold(PARKING_COST + question.bytes())?;
        let (key, state) = self.seal.draw(purpose, PATIENCE)?;
        let since = Instant::now();
        let waiting = Waiting {
            server: call.reached.server.clone(),
            parking: Parking::of(call, account),
            question,
            since,
            expiry: Expiry::at(since + PATIENCE, key, &self.calls),
            _held: [place, held],
        };
        self.calls().insert(key, waiting);
        Ok(state)
    }

    /// The call that a state names for this purpose, and the question that it waits for.
    ///
    /// Cancel safety: dropped, the call is cancelled.
    pub(super) async fn take(
        &self,
        state: &str,
        purpose: impl FnOnce() -> Purpose,
    ) -> Result<(Call, Question), Missing> {
        let key = match self.seal.open(state, purpose) {
            Opened::Key(key) => key,
            Opened::Expired => return Err(Missing::Gone),
            Opened::NotOurs => return Err(Missing::NotOurs),
        };
        let waiting = self.calls().remove(&key);
        let Waiting {
            parking, question, ..
        } = waiting.ok_or(Missing::Gone)?;
        let call = parking.back().await.ok_or(Missing::Gone)?;
        Ok((call, question))
    }

    /// Somebody calls this server: who keeps it waiting must not take too long. Over HTTP a question comes on the stream
    /// of its call, and nobody keeps anybody waiting; nor does anybody at a session's own server.
    pub(super) fn hurry(&self, reached: &Reached) {
        if reached.is_own {
            return;
        }
        let server = &reached.server;
        let mut calls = self.calls();
        let mut here = calls
            .iter_mut()
            .filter(|(_, waiting)| waiting.server.name() == server.name())
            .peekable();
        if here.peek().is_none() || server.status().transport == Some(TransportKind::Http) {
            return;
        }
        for (key, waiting) in here {
            let at = waiting.since + PATIENCE_OF_OTHERS;
            if at < waiting.expiry.at {
                waiting.expiry = Expiry::at(at, *key, &self.calls);
            }
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Key, Waiting>> {
        lock(&self.calls)
    }
}

/// Why a call cannot be parked.
fn no_place(spent: Spent) -> RpcError {
    let what = match spent {
        Spent::Share { share } => {
            format!("{share} calls of this client wait for its answers already: answer one of them first")
        }
        Spent::All { all } => format!("{all} calls wait for their clients already: call again later"),
    };
    RpcError::new(SERVER_UNAVAILABLE, what)
}

fn lock(calls: &Calls) -> MutexGuard<'_, HashMap<Key, Waiting>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a parked call whose client does not come back. It ends with the call: retries leave no timers behind.
struct Expiry {
    at: Instant,
    task: AbortHandle,
}

impl Expiry {
    fn at(at: Instant, key: Key, calls: &Arc<Calls>) -> Self {
        // Its calls end with the gateway.
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

impl Drop for Expiry {
    fn drop(&mut self) {
        self.task.abort();
    }
}
