//! What a server sends of its own accord, on one generation: requests, and notifications.
//!
//! Runs on the connection's reader, so it never waits: requests are answered by tasks of bounded number and bounded
//! patience, changes of lists are told to the keeper once until it looks.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mainstay_lifecycle::Generation;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::answering::Answering;
use super::callers::{CallOrigin, InFlight};
use super::standing::Listens;
use super::subscriptions::Interests;
use super::tasks::Agreed;
use crate::handler::{ClientHandler, ServerNotification};
use crate::keeper::Report;
use crate::protocol::Introduction;
use crate::server::Slot;
use crate::wire::{Handler, MessageOrigin, PROGRESS, Peer, RawJson, RpcError};

/// How long a person may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Who made a call: the fleet, or the one behind a handler of its own, which a call that is over does not keep.
pub(super) type Caller = Option<Weak<dyn ClientHandler>>;

pub(crate) struct InboundHandler {
    slot: Arc<Slot>,
    generation: Generation,
    pub(super) callers: InFlight,
    detached: AtomicBool,
    /// The keeper was told of a change and has not looked yet.
    change_told: AtomicBool,
    answering: Mutex<Answering>,
    pub(super) listens: Mutex<Listens>,
    /// Held from the look at what is wanted until it is asked for.
    pub(super) listen_turn: Mutex<()>,
    /// How many listens the server has acknowledged, or ended.
    pub(super) listens_taken: watch::Sender<u64>,
    /// The tasks that the server agreed to tell of.
    pub(super) agreed: watch::Sender<Agreed>,
}

impl InboundHandler {
    pub(crate) fn new(slot: Arc<Slot>, generation: Generation) -> Self {
        Self {
            slot,
            generation,
            callers: InFlight::default(),
            detached: AtomicBool::new(false),
            change_told: AtomicBool::new(false),
            answering: Mutex::default(),
            listens: Mutex::default(),
            listen_turn: Mutex::default(),
            listens_taken: watch::Sender::new(0),
            agreed: watch::Sender::default(),
        }
    }

    /// What callers want of every generation.
    pub(super) fn interests(&self) -> Interests {
        self.slot.interests()
    }

    pub(super) fn with_interests<T>(&self, look: impl FnOnce(&Interests) -> T) -> T {
        self.slot.with_interests(look)
    }

    pub(super) fn change_interests(&self, change: impl FnOnce(&mut Interests)) {
        self.slot.change_interests(change);
    }

    /// Has the keeper show anew how much of the interests is restored.
    pub(super) fn show_restoring(&self) {
        self.slot.inbox.restoring();
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
        self.slot.log_level()
    }

    /// Ends every task of this connection. One that is noted down while this happens is ended by whoever notes it.
    pub(super) fn detach(&self) {
        self.detached.store(true, Ordering::Release);
        let withdrawn = self.answering().withdraw_all();
        for running in withdrawn {
            running.abort();
        }
        self.end_listens();
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
    pub(super) async fn with_answer_timeout<T>(
        &self,
        answer: impl Future<Output = Result<T, RpcError>>,
        otherwise: impl FnOnce() -> RpcError,
    ) -> Result<T, RpcError> {
        timeout(ANSWER_TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(otherwise()))
    }

    /// Tells the keeper, once until it looks.
    pub(super) fn list_changed(&self) {
        if !self.change_told.swap(true, Ordering::AcqRel) {
            self.slot.inbox.report(Report::ListChanged(self.generation));
        }
    }

    pub(super) fn answering(&self) -> MutexGuard<'_, Answering> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// On the `Arc`, because the handler hands itself to the tasks that it starts.
impl Handler for Arc<InboundHandler> {
    fn request(&self, peer: &Peer, id: RawJson, method: &str, params: Option<RawJson>, cause: MessageOrigin) {
        if self.detached.load(Ordering::Acquire) {
            return self.slot.count_stale();
        }
        match method {
            "ping" => {
                peer.respond(&id, Ok(RawJson::EMPTY_OBJECT));
            }
            _ => self.answer(peer, &id, method.to_owned(), params, &cause),
        }
    }

    fn notification(&self, method: &str, params: Option<RawJson>, cause: MessageOrigin) {
        let this = self;
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
        self.list_changed();
    }

    fn noise(&self, text: &[u8]) {
        let this = self;
        this.slot.noise.hear(&this.slot.name, this.generation, text);
    }
}

impl InboundHandler {
    fn cancelled(&self, params: Option<&RawJson>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: RawJson,
        }
        let Some(Ok(cancelled)) = params.map(RawJson::parse::<Cancelled>) else {
            return;
        };
        let withdrawn = self.answering().withdraw(&cancelled.request_id);
        match withdrawn {
            Some(running) => running.abort(),
            // A modern server has asked nothing that it could cancel: it ends a listen.
            None => self.end_listen(&cancelled.request_id),
        }
    }

    fn tell(&self, method: &str, params: Option<RawJson>, cause: &MessageOrigin) {
        // Subscriptions belong to the fleet, whoever calls meanwhile.
        let is_subscribed = matches!(method, "notifications/resources/updated" | "notifications/tasks");
        let fleets = || self.fleet_handler().clone();
        let hearer = match self.callers.origin_of(cause) {
            _ if is_subscribed => fleets(),
            CallOrigin::Ones(handler, _) | CallOrigin::OneOf(handler) | CallOrigin::Left(handler) => handler,
            CallOrigin::Fleets(_) | CallOrigin::Gone | CallOrigin::Unknown => fleets(),
        };
        hearer.notification(self.told(method, params));
    }

    /// Progress of a call that has been answered, such as that of the task which it began: its caller's alone, whoever
    /// calls meanwhile.
    pub(super) fn late_progress(&self, caller: &Caller, params: RawJson) {
        let hearer = match caller {
            None => Some(self.fleet_handler().clone()),
            Some(handler) => handler.upgrade(),
        };
        if let Some(hearer) = hearer {
            hearer.notification(self.told(PROGRESS, Some(params)));
        }
    }

    fn told(&self, method: &str, params: Option<RawJson>) -> ServerNotification {
        ServerNotification {
            server: self.server(),
            generation: self.generation,
            method: method.to_owned(),
            params,
        }
    }
}
