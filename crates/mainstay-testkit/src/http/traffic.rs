//! What a server has seen of its clients, in counts and last things.

use std::collections::BTreeMap;

use serde_json::Value;

use super::wire::{self, ReceivedRequest};
use crate::memory::seen::SeenMessages;
use crate::responder::Incoming;

/// What has come in so far, over all restarts.
#[derive(Default)]
pub struct Traffic {
    pub(super) connections: usize,
    pub(super) open_connections: usize,
    pub(super) sessions_opened: usize,
    pub(super) sessions_deleted: usize,
    pub(super) live_streams: usize,
    requests: BTreeMap<String, usize>,
    sent: BTreeMap<String, usize>,
    /// The headers of the last request, by the method of HTTP and by that of JSON-RPC.
    headers: BTreeMap<String, Vec<(String, String)>>,
    pub(super) seen: SeenMessages,
}

impl Traffic {
    /// TCP connections accepted: one for any number of requests, where a client pools them.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// TCP connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.open_connections
    }

    /// Sessions opened, over either transport.
    #[must_use]
    pub fn sessions_opened(&self) -> usize {
        self.sessions_opened
    }

    /// Sessions deleted by their client.
    #[must_use]
    pub fn sessions_deleted(&self) -> usize {
        self.sessions_deleted
    }

    /// Streams of events being sent now: standalone ones, resumed ones, and answers that are streams.
    #[must_use]
    pub fn live_streams(&self) -> usize {
        self.live_streams
    }

    /// Requests of this method of HTTP (`POST`, `GET`, `DELETE`), refused ones included.
    #[must_use]
    pub fn requests(&self, http_method: &str) -> usize {
        self.requests.get(http_method).copied().unwrap_or_default()
    }

    /// Messages of this JSON-RPC method that reached the server proper. Those a fault refused did not.
    #[must_use]
    pub fn count(&self, method: &str) -> usize {
        self.seen.count(method)
    }

    /// Messages of this JSON-RPC method that were sent, those a fault refused included.
    #[must_use]
    pub fn sent(&self, method: &str) -> usize {
        self.sent.get(method).copied().unwrap_or_default()
    }

    /// The id of the last message of this JSON-RPC method that reached the server proper.
    #[must_use]
    pub fn last_id(&self, method: &str) -> Option<Value> {
        self.last(method).map(|message| message.id().clone())
    }

    /// How many ledger lines begin with these words, as in [`crate::Ledger::count`].
    #[must_use]
    pub fn noted(&self, words: &str) -> usize {
        self.seen.noted(words)
    }

    /// The params of the last message of this JSON-RPC method that reached the server proper.
    #[must_use]
    pub fn last_params(&self, method: &str) -> Option<Value> {
        self.last(method).map(|message| message.params().clone())
    }

    /// All headers of the last request of this method, of HTTP (`GET`) or of JSON-RPC (`tools/call`).
    #[must_use]
    pub fn last_headers(&self, method: &str) -> Option<&[(String, String)]> {
        self.headers.get(method).map(Vec::as_slice)
    }

    /// One header, by its name in any case, of the last request of this method.
    #[must_use]
    pub fn last_header(&self, method: &str, name: &str) -> Option<&str> {
        wire::header(self.last_headers(method)?, name)
    }

    fn last(&self, method: &str) -> Option<&Incoming> {
        let mut newest_first = self.seen.messages().rev();
        newest_first.find(|message| message.method() == method)
    }

    pub(super) fn arrived(&mut self, request: &ReceivedRequest, message: Option<&Incoming>) {
        *self.requests.entry(request.method.clone()).or_default() += 1;
        self.headers
            .insert(request.method.clone(), request.headers.clone());
        if let Some(message) = message {
            *self.sent.entry(message.method().to_owned()).or_default() += 1;
            self.headers
                .insert(message.method().to_owned(), request.headers.clone());
        }
    }
}

impl std::fmt::Debug for Traffic {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Traffic")
            .field("connections", &self.connections)
            .field("open_connections", &self.open_connections)
            .field("sessions_opened", &self.sessions_opened)
            .field("sessions_deleted", &self.sessions_deleted)
            .field("live_streams", &self.live_streams)
            .field("requests", &self.requests)
            .field("messages", &self.seen.total())
            .finish_non_exhaustive()
    }
}
