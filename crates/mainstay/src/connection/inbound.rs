//! What a server sends of its own accord, on one generation: requests, and notifications.
//!
//! It runs on the connection's reader, so it never waits. Requests are answered by a bounded number of tasks, each with a
//! timeout. A changed list is reported to the keeper once until the keeper starts a listing.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay_lifecycle::Generation;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

use super::answering::Answering;
use super::callers::{CallOrigin, InFlight};
use super::listening::Listens;
use super::subscriptions::Interests;
use super::tasks::Agreed;
use crate::handler::{ClientHandler, NamedClient, ServerNotification};
use crate::keeper::Report;
use crate::lock::Lock;
use crate::protocol::Introduction;
use crate::server::Slot;
use crate::wire::{Handler, IdlePause, MessageOrigin, PROGRESS, Peer, RawJson, RpcError};

/// How long a person may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Who made a call: the fleet (`None`), or a handler of its own. The reference is weak: a call that is over keeps no handler.
pub(super) type Caller = Option<Weak<dyn ClientHandler>>;

pub(crate) struct InboundHandler {
    slot: Arc<Slot>,
    generation: Generation,
    pub(super) callers: InFlight,
    detached: AtomicBool,
    /// A change was reported, and the keeper has not started a listing since.
    change_reported: AtomicBool,
    pub(super) answering: Lock<Answering>,
    pub(super) listens: Lock<Listens>,
    /// Held from the reading of the interests until the listen is queued.
    pub(super) listen_turn: Lock<()>,
    /// How many listens the server has acknowledged, or ended.
    pub(super) listens_taken: watch::Sender<u64>,
    /// The tasks that the server agreed to push.
    pub(super) agreed: watch::Sender<Agreed>,
}

impl InboundHandler {
    pub(crate) fn new(slot: Arc<Slot>, generation: Generation) -> Self {
        Self {
            slot,
            generation,
            callers: InFlight::default(),
            detached: AtomicBool::new(false),
            change_reported: AtomicBool::new(false),
            answering: Lock::default(),
            listens: Lock::default(),
            listen_turn: Lock::default(),
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

    /// Has the keeper update the status of restored interests.
    pub(super) fn show_restoring(&self) {
        self.slot.inbox.show();
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn server(&self) -> Arc<str> {
        self.slot.name.clone()
    }

    pub(super) fn introduction(&self) -> Introduction {
        self.slot.introduction()
    }

    pub(super) fn fleet_handler(&self) -> &Arc<dyn ClientHandler> {
        &self.slot.shared.handler
    }

    pub(super) fn log_level(&self) -> Option<RawJson> {
        self.slot.log_level()
    }

    /// Ends every task of this connection. A task that is recorded meanwhile ends itself (`none_after_the_end`).
    pub(super) fn detach(&self) {
        self.detached.store(true, Ordering::Release);
        let withdrawn = self.answering.lock().withdraw_all();
        for running in withdrawn {
            running.abort();
        }
        self.end_listens();
    }

    /// Ends a task that was recorded too late for `detach` to find it.
    pub(super) fn none_after_the_end(&self) {
        if self.detached.load(Ordering::Acquire) {
            self.detach();
        }
    }

    /// The keeper starts a listing: a change from now on is a new one.
    pub(crate) fn listing_starts(&self) {
        self.change_reported.store(false, Ordering::Release);
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

    /// Reports a changed list, once until the keeper starts a listing.
    pub(super) fn list_changed(&self) {
        if !self.change_reported.swap(true, Ordering::AcqRel) {
            self.slot.inbox.report(Report::ListChanged(self.generation));
        }
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
                this.deliver(method, params, &cause);
            }
            _ => this.deliver(method, params, &cause),
        }
    }

    fn late_answer(&self, call: &Arc<IdlePause>) {
        self.callers.late_answer(call);
    }

    fn missed(&self) {
        self.list_changed();
    }

    fn noise(&self, text: &[u8]) {
        let this = self;
        this.slot.noise.report(&this.slot.name, this.generation, text);
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
        let withdrawn = self.answering.lock().withdraw(&cancelled.request_id);
        match withdrawn {
            Some(running) => running.abort(),
            // A modern server sends no requests that it could cancel: it ends a listen.
            None => self.end_listen(&cancelled.request_id),
        }
    }

    fn deliver(&self, method: &str, params: Option<RawJson>, cause: &MessageOrigin) {
        // Subscriptions belong to the fleet, whichever calls are in flight.
        let is_subscribed = matches!(method, "notifications/resources/updated" | "notifications/tasks");
        let fleets = || self.fleet_handler().clone();
        let named = || {
            self.fleet_handler()
                .named_client(&self.slot.name, method, params.as_ref())
        };
        let origin = match is_subscribed {
            true => CallOrigin::Unknown,
            false => match named() {
                NamedClient::None => self.callers.origin_of(cause),
                NamedClient::Here(handler) => CallOrigin::LatestOfClient(handler),
                NamedClient::Gone => CallOrigin::Gone,
            },
        };
        let recipient = match origin {
            CallOrigin::OnlyCaller(handler, _)
            | CallOrigin::LatestOfClient(handler)
            | CallOrigin::Left(handler) => handler,
            CallOrigin::FleetHandler(_) | CallOrigin::Gone | CallOrigin::Unknown => fleets(),
        };
        recipient.notification(self.server_notification(method, params));
    }

    /// Progress of a call that was already answered, such as that of a task which it began. It goes to that caller alone.
    pub(super) fn late_progress(&self, caller: &Caller, params: RawJson) {
        let recipient = match caller {
            None => Some(self.fleet_handler().clone()),
            Some(handler) => handler.upgrade(),
        };
        if let Some(recipient) = recipient {
            recipient.notification(self.server_notification(PROGRESS, Some(params)));
        }
    }

    fn server_notification(&self, method: &str, params: Option<RawJson>) -> ServerNotification {
        ServerNotification {
            server: self.server(),
            generation: self.generation,
            method: method.to_owned(),
            params,
        }
    }
}
