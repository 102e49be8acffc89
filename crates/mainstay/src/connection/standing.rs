//! The listens of a connection that stand: the one in use, and the one before it until the server has taken the new one.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::inbound::InboundHandler;
use crate::wire::RawJson;

/// How long a listing waits for the listen that would tell of its changes.
const LISTEN_HEAD_START_TIMEOUT: Duration = Duration::from_millis(500);

/// The long requests that carry a modern server's notifications. The one before the last is cancelled only when the
/// server has acknowledged the last: between the two no change may go unheard.
#[derive(Default)]
pub(super) struct Listens {
    current: Option<Listen>,
    retiring: Option<Listen>,
}

/// One of them.
struct Listen {
    task: AbortHandle,
    standing: Arc<OpenListen>,
}

/// What is known of a listen while it stands.
#[derive(Default)]
pub(super) struct OpenListen {
    /// The number of the request by which it was asked for last.
    pub(super) number: Arc<AtomicU64>,
    /// The server ended it by `notifications/cancelled`.
    pub(super) cancelled: Notify,
    /// The tasks that it asks the server to tell of.
    pub(super) tasks: BTreeSet<String>,
}

impl InboundHandler {
    /// Puts a new listen in the place of the old one, which goes on until the new one is acknowledged.
    pub(super) fn replace_listen(&self, task: AbortHandle, standing: Arc<OpenListen>) {
        let mut listens = self.listens();
        let old = listens.current.replace(Listen { task, standing });
        let older = std::mem::replace(&mut listens.retiring, old);
        drop(listens);
        if let Some(older) = older {
            older.task.abort();
        }
        self.none_after_the_end();
    }

    pub(super) fn listen_turn(&self) -> MutexGuard<'_, ()> {
        self.listen_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listen_acknowledged(&self, params: Option<&RawJson>) {
        self.tasks_agreed(params);
        self.listen_taken();
        let old = self.listens().retiring.take();
        if let Some(old) = old {
            old.task.abort();
        }
    }

    /// A listen was acknowledged, or came to its end.
    pub(super) fn listen_taken(&self) {
        self.listens_taken.send_modify(|taken| *taken += 1);
    }

    /// Comes back when a listen that is asked for from now on was taken, or soon: a server owes an acknowledgement, but
    /// nothing may depend on it.
    pub(super) fn next_listen(&self) -> impl Future<Output = ()> + use<> {
        let mut taken = self.listens_taken.subscribe();
        let before = *taken.borrow_and_update();
        async move {
            let _ = timeout(LISTEN_HEAD_START_TIMEOUT, taken.wait_for(|taken| *taken > before)).await;
        }
    }

    /// The standing listen that was asked for by this number.
    pub(super) fn standing(&self, number: u64) -> Option<Arc<OpenListen>> {
        let listens = self.listens();
        let mut all = listens.current.iter().chain(&listens.retiring);
        let asked = all.find(|listen| listen.standing.number.load(Ordering::Acquire) == number);
        asked.map(|listen| listen.standing.clone())
    }

    /// The number by which the latest listen was asked for.
    pub(super) fn current_listen(&self) -> Option<u64> {
        let listens = self.listens();
        let current = listens.current.as_ref()?;
        Some(current.standing.number.load(Ordering::Acquire))
    }

    fn listens(&self) -> MutexGuard<'_, Listens> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends them all.
    pub(super) fn end_listens(&self) {
        let listens = std::mem::take(&mut *self.listens());
        for listen in listens.retiring.into_iter().chain(listens.current) {
            listen.task.abort();
        }
    }

    /// The server ends the listen that was asked for by this number, and no other.
    pub(super) fn end_listen(&self, request: &RawJson) {
        let Ok(number) = request.parse::<u64>() else {
            return;
        };
        if let Some(standing) = self.standing(number) {
            standing.cancelled.notify_one();
        }
    }
}
