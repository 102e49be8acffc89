//! What a server sends of its own accord, on one generation: requests, and notifications.
//!
//! Runs on the connection's reader, so it never waits: requests are answered by tasks of bounded number and bounded
//! patience, changes of lists are told to the keeper once until it looks.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay_lifecycle::Generation;
use serde::Deserialize;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::callers::{Callers, Whose};
use crate::handler::{ClientHandler, ServerNotification, ServerRequest, decline};
use crate::keeper::{Inbox, Report};
use crate::protocol::Introduction;
use crate::server::Slot;
use crate::wire::{Handler, Peer, RawJson, RpcError};

/// Requests of one server that may be answered at the same time. A server that asks for more is told so.
const MAX_ANSWERING: usize = 64;

/// How long a person may take to answer.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// JSON-RPC's "invalid request": for what cannot be answered on anybody's behalf.
const INVALID_REQUEST: i64 = -32600;

pub(crate) struct Reception {
    slot: Arc<Slot>,
    generation: Generation,
    pub(super) callers: Callers,
    detached: AtomicBool,
    /// The keeper was told of a change and has not looked yet.
    change_told: AtomicBool,
    answering: Mutex<HashMap<RawJson, AbortHandle>>,
    /// The long request that carries a modern server's notifications.
    listen: Mutex<Option<AbortHandle>>,
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
            listen: Mutex::new(None),
        }
    }

    /// Puts a new listen in the place of the old one, which is dropped and so cancelled at the server.
    pub(super) fn replace_listen(&self, task: AbortHandle) {
        let old = self
            .listen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(task);
        if let Some(old) = old {
            old.abort();
        }
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

    pub(super) fn detach(&self) {
        self.detached.store(true, Ordering::Release);
        for (_, task) in self.answering().drain() {
            task.abort();
        }
        if let Some(listen) = self.listen.lock().unwrap_or_else(PoisonError::into_inner).take() {
            listen.abort();
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

    fn list_changed(&self, inbox: &Inbox) {
        if !self.change_told.swap(true, Ordering::AcqRel) {
            inbox.report(Report::ListChanged(self.generation));
        }
    }

    fn answering(&self) -> std::sync::MutexGuard<'_, HashMap<RawJson, AbortHandle>> {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(self: &Arc<Self>, peer: &Peer, id: RawJson, method: String, params: Option<RawJson>) {
        let handler = match self.callers.whose() {
            Whose::Fleets => self.fleet_handler().clone(),
            Whose::Ones(handler) => handler,
            Whose::Unknown => {
                let reason =
                    format!("{method} declined: several calls run, and nothing tells which one it is for");
                {
                    peer.respond(&id, Err(RpcError::new(INVALID_REQUEST, reason)));
                    return;
                }
            }
        };
        let mut answering = self.answering();
        if answering.len() >= MAX_ANSWERING {
            let reason = format!("{method} declined: {MAX_ANSWERING} requests are being answered already");
            {
                peer.respond(&id, Err(RpcError::new(INVALID_REQUEST, reason)));
                return;
            }
        }
        let (this, peer, key) = (self.clone(), peer.clone(), id.clone());
        let task = tokio::spawn(async move {
            let request = ServerRequest {
                server: this.server(),
                generation: this.generation,
                method: method.clone(),
                params,
            };
            let answer = this
                .with_patience(handler.request(request), || decline(&method))
                .await;
            this.answering().remove(&id);
            peer.respond(&id, answer);
        });
        answering.insert(key, task.abort_handle());
    }
}

/// The reader's side of the reception: it must be able to hand itself to the tasks it starts.
pub(crate) struct FrontDesk(pub(crate) Arc<Reception>);

impl Handler for FrontDesk {
    fn request(&self, peer: &Peer, id: RawJson, method: &str, params: Option<RawJson>) {
        if self.0.detached.load(Ordering::Acquire) {
            return self.0.slot.count_stale();
        }
        match method {
            "ping" => {
                peer.respond(&id, Ok(RawJson::EMPTY_OBJECT));
            }
            _ => self.0.answer(peer, id, method.to_owned(), params),
        }
    }

    fn notification(&self, method: &str, params: Option<RawJson>) {
        let this = &self.0;
        if this.detached.load(Ordering::Acquire) {
            return this.slot.count_stale();
        }
        match method {
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => this.list_changed(&this.slot.inbox),
            "notifications/cancelled" => this.cancelled(params.as_ref()),
            "notifications/subscriptions/acknowledged" => {}
            _ => this.tell(method, params),
        }
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
        if let Some(task) = self.answering().remove(&cancelled.request_id) {
            task.abort();
        }
    }

    fn tell(&self, method: &str, params: Option<RawJson>) {
        let hearer = match self.callers.whose() {
            // Subscriptions belong to the fleet, whoever calls meanwhile.
            _ if method == "notifications/resources/updated" => self.fleet_handler().clone(),
            Whose::Ones(handler) => handler,
            Whose::Fleets | Whose::Unknown => self.fleet_handler().clone(),
        };
        hearer.notification(ServerNotification {
            server: self.server(),
            generation: self.generation,
            method: method.to_owned(),
            params,
        });
    }
}
