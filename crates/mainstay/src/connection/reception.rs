//! What a server sends of its own accord, on one generation: requests, and notifications.
//!
//! Runs on the connection's reader, so it never waits: requests are answered by tasks of bounded number and bounded
//! patience, changes of lists are told to the keeper once until it looks.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mainstay_lifecycle::Generation;
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::callers::{Callers, Whose};
use super::subscriptions::Interests;
use super::tasks::Agreed;
use crate::handler::{ClientHandler, Occasion, ServerNotification};
use crate::keeper::Report;
use crate::protocol::Introduction;
use crate::server::Slot;
use crate::wire::{Cause, Handler, PROGRESS, Peer, RawJson, RpcError};

/// How long a person may take to answer.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// How long a listing waits for the listen that would tell of its changes.
const HEAD_START: Duration = Duration::from_millis(500);

/// Who made a call: the fleet, or the one behind a handler of its own, which a call that is over does not keep.
pub(super) type Caller = Option<Weak<dyn ClientHandler>>;

pub(crate) struct Reception {
    slot: Arc<Slot>,
    generation: Generation,
    pub(super) callers: Callers,
    detached: AtomicBool,
    /// The keeper was told of a change and has not looked yet.
    change_told: AtomicBool,
    answering: Mutex<HashMap<RawJson, Option<AbortHandle>>>,
    listens: Mutex<Listens>,
    /// Held from the look at what is wanted until it is asked for.
    listen_turn: Mutex<()>,
    /// How many listens the server has acknowledged, or ended.
    listens_taken: watch::Sender<u64>,
    /// The tasks that the server agreed to tell of.
    pub(super) agreed: watch::Sender<Agreed>,
}

/// The long requests that carry a modern server's notifications. The one before the last is cancelled only when the
/// server has acknowledged the last: between the two no change may go unheard.
#[derive(Default)]
struct Listens {
    current: Option<Listen>,
    retiring: Option<Listen>,
}

/// One of them.
struct Listen {
    task: AbortHandle,
    standing: Arc<Standing>,
}

/// What is known of a listen while it stands.
#[derive(Default)]
pub(super) struct Standing {
    /// The number of the request by which it was asked for last.
    pub(super) number: Arc<AtomicU64>,
    /// The server ended it by `notifications/cancelled`.
    pub(super) cancelled: Notify,
    /// The tasks that it asks the server to tell of.
    pub(super) tasks: BTreeSet<String>,
}

impl Reception {
    pub(crate) fn new(slot: Arc<Slot>, generation: Generation) -> Self {
        Self {
            slot,
            generation,
            callers: Callers::default(),
            detached: AtomicBool::new(false),
            change_told: AtomicBool::new(false),
            answering: Mutex::new(HashMap::new()),
            listens: Mutex::default(),
            listen_turn: Mutex::default(),
            listens_taken: watch::Sender::new(0),
            agreed: watch::Sender::default(),
        }
    }

    /// Puts a new listen in the place of the old one, which goes on until the new one is acknowledged.
    pub(super) fn replace_listen(&self, task: AbortHandle, standing: Arc<Standing>) {
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

    fn listen_acknowledged(&self, params: Option<&RawJson>) {
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
            let _ = timeout(HEAD_START, taken.wait_for(|taken| *taken > before)).await;
        }
    }

    /// The standing listen that was asked for by this number.
    pub(super) fn standing(&self, number: u64) -> Option<Arc<Standing>> {
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

    /// What callers want of every generation.
    pub(super) fn interests(&self) -> Interests {
        self.slot.interests()
    }

    pub(super) fn change_interests(&self, change: impl FnOnce(&mut Interests)) {
        self.slot.change_interests(change);
    }

    fn listens(&self) -> MutexGuard<'_, Listens> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn server(&self) -> Arc<str> {
        self.slot.name.clone()
    }

    pub(super) fn introduction(&self) -> &Introduction {
        &self.slot.shared.introduction
    }

    pub(super) fn fleet_handler(&self) -> &Arc<dyn ClientHandler> {
        &self.slot.shared.handler
    }

    pub(super) fn log_level(&self) -> Option<RawJson> {
        self.slot.interests().log_level
    }

    /// Ends every task of this connection. One that is noted down while this happens is ended by whoever notes it.
    pub(super) fn detach(&self) {
        self.detached.store(true, Ordering::Release);
        let answering = std::mem::take(&mut *self.answering());
        for task in answering.into_values().flatten() {
            task.abort();
        }
        let listens = std::mem::take(&mut *self.listens());
        for listen in listens.retiring.into_iter().chain(listens.current) {
            listen.task.abort();
        }
    }

    /// Ends a task that was noted down too late for `detach` to find it.
    pub(super) fn none_after_the_end(&self) {
        if self.detached.load(Ordering::Acquire) {
            self.detach();
        }
    }

    /// The keeper starts a listing: a change from now on is a new one.
    pub(crate) fn listing_starts(&self) {
        self.change_told.store(false, Ordering::Release);
    }

    /// A person's answer, within a person's time.
    pub(super) async fn with_patience<T>(
        &self,
        answer: impl Future<Output = Result<T, RpcError>>,
        otherwise: impl FnOnce() -> RpcError,
    ) -> Result<T, RpcError> {
        timeout(PATIENCE, answer)
            .await
            .unwrap_or_else(|_| Err(otherwise()))
    }

    /// Tells the keeper, once until it looks.
    pub(super) fn list_changed(&self) {
        if !self.change_told.swap(true, Ordering::AcqRel) {
            self.slot.inbox.report(Report::ListChanged(self.generation));
        }
    }

    /// The requests that are being answered, by their ids, with the tasks that answer them.
    pub(super) fn answering(&self) -> MutexGuard<'_, HashMap<RawJson, Option<AbortHandle>>> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader's side of the reception: it must be able to hand itself to the tasks it starts.
pub(crate) struct FrontDesk(pub(crate) Arc<Reception>);

impl Handler for FrontDesk {
    fn request(&self, peer: &Peer, id: RawJson, method: &str, params: Option<RawJson>, cause: Cause) {
        if self.0.detached.load(Ordering::Acquire) {
            return self.0.slot.count_stale();
        }
        match method {
            "ping" => {
                peer.respond(&id, Ok(RawJson::EMPTY_OBJECT));
            }
            _ => self.0.answer(peer, &id, method.to_owned(), params, &cause),
        }
    }

    fn notification(&self, method: &str, params: Option<RawJson>, cause: Cause) {
        let this = &self.0;
        if this.detached.load(Ordering::Acquire) {
            return this.slot.count_stale();
        }
        match method {
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => this.list_changed(),
            "notifications/cancelled" => this.cancelled(params.as_ref()),
            "notifications/subscriptions/acknowledged" => this.listen_acknowledged(params.as_ref()),
            "notifications/tasks" | "notifications/tasks/status" => {
                this.task_changed(params.as_ref());
                this.tell(method, params, &cause);
            }
            _ => this.tell(method, params, &cause),
        }
    }

    fn missed(&self) {
        self.0.list_changed();
    }
}

impl Reception {
    fn cancelled(&self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: RawJson,
        }
        let Some(Ok(cancelled)) = params.map(RawJson::parse::<Cancelled>) else {
            return;
        };
        let task = self.answering().remove(&cancelled.request_id);
        match task {
            Some(Some(task)) => task.abort(),
            // Its task is about to be noted, and finds that it is not wanted.
            Some(None) => {}
            // A modern server has asked nothing that it could cancel: it ends a listen.
            None => self.end_listen(&cancelled.request_id),
        }
    }

    /// The server ends the listen that was asked for by this number, and no other.
    fn end_listen(&self, request: &RawJson) {
        let Ok(number) = request.parse::<u64>() else {
            return;
        };
        if let Some(standing) = self.standing(number) {
            standing.cancelled.notify_one();
        }
    }

    fn tell(&self, method: &str, params: Option<RawJson>, cause: &Cause) {
        // Subscriptions belong to the fleet, whoever calls meanwhile.
        let is_subscribed = matches!(method, "notifications/resources/updated" | "notifications/tasks");
        let fleets = || self.fleet_handler().clone();
        let (hearer, occasion) = match self.callers.whose(cause) {
            _ if is_subscribed => (fleets(), Occasion::NoCall),
            Whose::Ones(handler, _) | Whose::OneOf(handler) | Whose::Left(handler) => {
                (handler, Occasion::Call)
            }
            Whose::Fleets(_) => (fleets(), Occasion::NoCall),
            Whose::Gone | Whose::Unknown => (fleets(), Occasion::Unclear),
        };
        hearer.notification(self.told(method, params, occasion));
    }

    /// Progress of a call that has been answered, such as that of the task which it began: its caller's alone, whoever
    /// calls meanwhile.
    pub(super) fn late_progress(&self, caller: &Caller, params: RawJson) {
        let (hearer, occasion) = match caller {
            None => (Some(self.fleet_handler().clone()), Occasion::NoCall),
            Some(handler) => (handler.upgrade(), Occasion::Call),
        };
        if let Some(hearer) = hearer {
            hearer.notification(self.told(PROGRESS, Some(params), occasion));
        }
    }

    fn told(&self, method: &str, params: Option<RawJson>, occasion: Occasion) -> ServerNotification {
        ServerNotification {
            server: self.server(),
            generation: self.generation,
            method: method.to_owned(),
            params,
            occasion,
        }
    }
}
