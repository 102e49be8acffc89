//! The host's requests that are not answered yet.

use std::collections::HashMap;

use super::read_lists::ListKind;
use crate::methods::only_reads;

/// The longest line that is kept to be sent again; with a longer one, the request fails when the daemon does.
const KEPT_LINE_LIMIT: usize = 64 * 1024;
/// How many bytes of lines are kept in all.
const KEPT_BYTES_LIMIT: usize = 4 * 1024 * 1024;

/// The requests in flight, by their ids as the host writes them. The daemon bounds how many there are: it refuses what is too much, and
/// stops reading from a host that does not read.
#[derive(Default)]
pub(super) struct InFlightRequests {
    requests: HashMap<String, InFlightRequest>,
    kept_bytes: usize,
    last: u64,
}

/// One request.
pub(super) struct InFlightRequest {
    /// In which order it was sent.
    sequence: u64,
    pub(super) method: String,
    pub(super) is_modern: bool,
    /// The line, if it is kept.
    pub(super) line: Option<Vec<u8>>,
    pub(super) effect: SessionEffect,
    /// Whether the daemon has acknowledged this listen.
    pub(super) is_acknowledged: bool,
    /// Whether a daemon that is gone may have run it.
    pub(super) may_have_run: bool,
}

/// What the success of a request changes in the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionEffect {
    None,
    /// The session is open; the parameters as they were sent.
    Initialize(String),
    Subscribe(String),
    Unsubscribe(String),
    /// The parameters as they were sent.
    SetLevel(String),
    /// The host has read this list.
    Read(ListKind),
}

impl InFlightRequests {
    /// Adds a request that is about to be sent.
    pub(super) fn add(
        &mut self,
        id: &str,
        method: &str,
        is_modern: bool,
        effect: SessionEffect,
        line: Option<&[u8]>,
    ) {
        let line = line.filter(|line| {
            line.len() <= KEPT_LINE_LIMIT && self.kept_bytes.saturating_add(line.len()) <= KEPT_BYTES_LIMIT
        });
        self.last += 1;
        let request = InFlightRequest {
            sequence: self.last,
            method: method.to_owned(),
            is_modern,
            line: line.map(<[u8]>::to_vec),
            effect,
            is_acknowledged: false,
            may_have_run: false,
        };
        self.kept_bytes += request.kept_bytes();
        if let Some(other) = self.requests.insert(id.to_owned(), request) {
            self.kept_bytes -= other.kept_bytes();
        }
    }

    /// Removes a request that is answered, cancelled or was not sent.
    pub(super) fn remove(&mut self, id: &str) -> Option<InFlightRequest> {
        let request = self.requests.remove(id)?;
        self.kept_bytes -= request.kept_bytes();
        Some(request)
    }

    /// A daemon that is gone may have run all of these.
    pub(super) fn may_have_run(&mut self) {
        for request in self.requests.values_mut() {
            request.may_have_run = true;
        }
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut InFlightRequest> {
        self.requests.get_mut(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether there is a request with another method.
    pub(super) fn has_other_than(&self, method: &str) -> bool {
        self.requests.values().any(|request| request.method != method)
    }

    /// All requests in the order in which they were sent.
    pub(super) fn in_order(&self) -> Vec<(&str, &InFlightRequest)> {
        let mut all: Vec<_> = self
            .requests
            .iter()
            .map(|(id, request)| (id.as_str(), request))
            .collect();
        all.sort_unstable_by_key(|(_, request)| request.sequence);
        all
    }
}

impl InFlightRequest {
    fn kept_bytes(&self) -> usize {
        self.line.as_ref().map_or(0, Vec::len)
    }

    /// Whether it may be sent again although it may have run: it reads, or says what is to be.
    pub(super) fn is_repeatable(&self) -> bool {
        let sets_state = matches!(
            self.method.as_str(),
            "initialize"
                | "server/discover"
                | "logging/setLevel"
                | "resources/subscribe"
                | "resources/unsubscribe"
                | "subscriptions/listen"
        );
        sets_state || only_reads(&self.method)
    }
}
