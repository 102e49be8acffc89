//! The open listens of a connection: the current one, and the one before it until the server has acknowledged the new one.

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

/// How long a listing waits until the server has taken the listen that reports its changes.
const LISTEN_HEAD_START_TIMEOUT: Duration = Duration::from_millis(500);

/// The listens of a modern connection. The old one is cancelled only when the server has acknowledged the new one, so that
/// no change is missed in between.
#[derive(Default)]
pub(super) struct Listens {
    current: Option<Listen>,
    retiring: Option<Listen>,
}

struct Listen {
    task: AbortHandle,
    open: Arc<OpenListen>,
}

/// What is known of an open listen.
#[derive(Default)]
pub(super) struct OpenListen {
    /// The id of its latest request.
    pub(super) number: Arc<AtomicU64>,
    /// The server ended it by `notifications/cancelled`.
    pub(super) cancelled: Notify,
    /// The tasks that it names.
    pub(super) tasks: BTreeSet<String>,
}

impl InboundHandler {
    /// Replaces the current listen, which stays open until the new one is acknowledged.
    pub(super) fn replace_listen(&self, task: AbortHandle, open: Arc<OpenListen>) {
        let mut listens = self.listens();
        let old = listens.current.replace(Listen { task, open });
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

    /// Completes when a listen that is sent from now on was taken, or after a short timeout: a server must acknowledge, but
    /// nothing may depend on it.
    pub(super) fn next_listen(&self) -> impl Future<Output = ()> + use<> {
        let mut taken = self.listens_taken.subscribe();
        let before = *taken.borrow_and_update();
        async move {
            let _ = timeout(LISTEN_HEAD_START_TIMEOUT, taken.wait_for(|taken| *taken > before)).await;
        }
    }

    /// The open listen with this request id.
    pub(super) fn open_listen(&self, number: u64) -> Option<Arc<OpenListen>> {
        let listens = self.listens();
        let mut all = listens.current.iter().chain(&listens.retiring);
        let asked = all.find(|listen| listen.open.number.load(Ordering::Acquire) == number);
        asked.map(|listen| listen.open.clone())
    }

    /// The request id of the current listen.
    pub(super) fn current_listen(&self) -> Option<u64> {
        let listens = self.listens();
        let current = listens.current.as_ref()?;
        Some(current.open.number.load(Ordering::Acquire))
    }

    fn listens(&self) -> MutexGuard<'_, Listens> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all listens.
    pub(super) fn end_listens(&self) {
        let listens = std::mem::take(&mut *self.listens());
        for listen in listens.retiring.into_iter().chain(listens.current) {
            listen.task.abort();
        }
    }

    /// The server ends the listen with this request id.
    pub(super) fn end_listen(&self, request: &RawJson) {
        let Ok(number) = request.parse::<u64>() else {
            return;
        };
        if let Some(open) = self.open_listen(number) {
            open.cancelled.notify_one();
        }
    }
}
