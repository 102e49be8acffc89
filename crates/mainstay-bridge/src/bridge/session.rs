//! The host's session as the bridge knows it: what a new daemon must know of it, which requests are open on either side. Does no IO.
//!
//! Invariants: each request of the host is answered once, by a daemon or by the bridge. A request that may have run is not sent again
//! unless it may be repeated. A question that is open when its daemon ends is withdrawn.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::value::RawValue;

use super::envelope::{LineKind, raw_of, text_of};
use super::failure::{self, Fate};
use super::in_flight::{InFlightRequests, SessionEffect};
use super::read_lists::{ListKind, ReadLists};
use crate::hello::{EndNotice, Goodbye, PREFIX};

/// What says in a request that it is modern.
const VERSION_KEY: &[u8] = b"\"io.modelcontextprotocol/protocolVersion\"";
/// What names the listen of a notification.
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
/// Subscriptions of a session: the daemon allows fewer.
const SUBSCRIPTION_LIMIT: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct HostSession {
    in_flight: InFlightRequests,
    /// The parameters of `initialize`, once it was answered with success.
    initialize: Option<String>,
    is_initialized: bool,
    /// The parameters of the last `logging/setLevel`.
    level: Option<String>,
    subscriptions: BTreeSet<String>,
    /// The lists whose changes the host is notified of.
    lists: ReadLists,
    /// Answers to these ids are for the bridge. `Some` for the answer with a list.
    replayed: HashMap<String, Option<ListKind>>,
    /// Listens whose next acknowledgement the host has had already.
    acknowledged: HashSet<String>,
    /// The daemon's requests that the host has not answered. No other daemon uses their ids.
    questions: HashSet<String>,
    last_replay: u64,
}

/// What becomes of a line of the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FromHost {
    /// It is sent as it is. `added` are the requests in it.
    Send { added: Vec<String> },
    /// It answers a question, and is not kept for the next daemon.
    Answer,
}

/// What becomes of a line of the daemon.
#[derive(Debug)]
pub(super) enum FromDaemon {
    Pass,
    /// It was for the bridge. `Some` with the id that it answers.
    Swallow(Option<String>),
    /// It was for the bridge, and the host gets this notification in its place.
    Replace(Vec<u8>),
    /// The daemon ends the connection.
    Ends(EndNotice),
}

impl HostSession {
    /// Notes a line that the host wrote and that is about to be sent.
    pub(super) fn note_host_line(&mut self, line: &[u8]) -> FromHost {
        match LineKind::of(line) {
            LineKind::Request { id, method, params } => {
                self.add(id, &method, params, Some(line));
                FromHost::Send {
                    added: vec![id.to_owned()],
                }
            }
            LineKind::Notification { method, params } => {
                self.note_notification(&method, params);
                FromHost::Send { added: Vec::new() }
            }
            LineKind::Response { id, .. } => {
                self.questions.remove(id);
                FromHost::Answer
            }
            LineKind::Batch(messages) => {
                let mut added = Vec::new();
                for message in messages {
                    match LineKind::of(message.get().as_bytes()) {
                        LineKind::Request { id, method, params } => {
                            self.add(id, &method, params, None);
                            added.push(id.to_owned());
                        }
                        LineKind::Notification { method, params } => self.note_notification(&method, params),
                        LineKind::Response { .. } | LineKind::Batch(_) | LineKind::Other => {}
                    }
                }
                FromHost::Send { added }
            }
            LineKind::Other => FromHost::Send { added: Vec::new() },
        }
    }

    /// These requests were not sent after all.
    pub(super) fn not_sent(&mut self, added: &[String]) {
        for id in added {
            self.in_flight.remove(id);
        }
    }

    /// Takes requests out that cannot be sent; the answers to them.
    pub(super) fn refuse(&mut self, added: &[String], why: &str, server: Option<&str>) -> Vec<Vec<u8>> {
        let requests = added
            .iter()
            .filter_map(|id| Some((id, self.in_flight.remove(id)?)));
        let answers = requests.map(|(id, request)| {
            let fate = match request.may_have_run {
                true => Fate::Repeatable,
                false => Fate::NotSent,
            };
            failure::answer(id, &request.method, request.is_modern, fate, why, server)
        });
        answers.collect()
    }

    fn add(&mut self, id: &str, method: &str, params: Option<&RawValue>, line: Option<&[u8]>) {
        let text = params.map_or("", RawValue::get);
        let is_modern = memchr::memmem::find(text.as_bytes(), VERSION_KEY).is_some();
        let effect = match method {
            "initialize" => SessionEffect::Initialize(text.to_owned()),
            "logging/setLevel" => SessionEffect::SetLevel(text.to_owned()),
            "resources/subscribe" => {
                text_of(params, "uri").map_or(SessionEffect::None, SessionEffect::Subscribe)
            }
            "resources/unsubscribe" => {
                text_of(params, "uri").map_or(SessionEffect::None, SessionEffect::Unsubscribe)
            }
            // A modern host listens for changes; its listens are sent again.
            method if !is_modern => match ListKind::read_by(method) {
                Some(list) if raw_of(params, "cursor").is_none_or(|cursor| cursor == "null") => {
                    SessionEffect::Read(list)
                }
                Some(_) | None => SessionEffect::None,
            },
            _other => SessionEffect::None,
        };
        self.in_flight.add(id, method, is_modern, effect, line);
    }

    fn note_notification(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/initialized" => self.is_initialized = true,
            // A request that the host cancelled is not answered.
            "notifications/cancelled" => {
                if let Some(id) = raw_of(params, "requestId") {
                    self.in_flight.remove(&id);
                }
            }
            _other => {}
        }
    }

    /// Notes a line of the daemon.
    pub(super) fn note_daemon_line(&mut self, line: &[u8]) -> FromDaemon {
        if line.starts_with(PREFIX) {
            let goodbye = serde_json::from_slice::<Goodbye>(line);
            return goodbye.map_or(FromDaemon::Swallow(None), |line| FromDaemon::Ends(line.goodbye));
        }
        match LineKind::of(line) {
            LineKind::Response { id, result, error } => {
                let result = success(result, error);
                if let Some(list) = self.replayed.remove(id) {
                    let changed = list.and_then(|list| self.lists.compare(list, result?));
                    return changed
                        .map_or_else(|| FromDaemon::Swallow(Some(id.to_owned())), FromDaemon::Replace);
                }
                self.answered(id, result);
                FromDaemon::Pass
            }
            LineKind::Request { id, .. } => {
                self.questions.insert(id.to_owned());
                FromDaemon::Pass
            }
            LineKind::Notification { method, params } => match &*method {
                "notifications/subscriptions/acknowledged" => self.acknowledged(params),
                "notifications/cancelled" => {
                    if let Some(id) = raw_of(params, "requestId") {
                        self.questions.remove(&id);
                    }
                    FromDaemon::Pass
                }
                _other => FromDaemon::Pass,
            },
            LineKind::Batch(messages) => {
                for message in messages {
                    if let LineKind::Response { id, result, error } = LineKind::of(message.get().as_bytes()) {
                        self.answered(id, success(result, error));
                    }
                }
                FromDaemon::Pass
            }
            LineKind::Other => FromDaemon::Pass,
        }
    }

    /// Notes an answer to the host; `result` if it is a success.
    fn answered(&mut self, id: &str, result: Option<&str>) {
        let Some(request) = self.in_flight.remove(id) else {
            return;
        };
        self.acknowledged.remove(id);
        let Some(result) = result else {
            return;
        };
        match request.effect {
            SessionEffect::None => {}
            SessionEffect::Initialize(params) => self.initialize = Some(params),
            SessionEffect::SetLevel(params) => self.level = Some(params),
            SessionEffect::Subscribe(uri) => {
                if self.subscriptions.len() < SUBSCRIPTION_LIMIT {
                    self.subscriptions.insert(uri);
                }
            }
            SessionEffect::Unsubscribe(uri) => {
                self.subscriptions.remove(&uri);
            }
            SessionEffect::Read(list) => self.lists.note(list, result),
        }
    }

    /// The host sees one acknowledgement of each listen, however many daemons have had it.
    fn acknowledged(&mut self, params: Option<&RawValue>) -> FromDaemon {
        let meta = raw_of(params, "_meta").and_then(|meta| RawValue::from_string(meta).ok());
        let Some(id) = raw_of(meta.as_deref(), SUBSCRIPTION_KEY) else {
            return FromDaemon::Pass;
        };
        if self.acknowledged.remove(&id) {
            return FromDaemon::Swallow(None);
        }
        if let Some(listen) = self.in_flight.get_mut(&id) {
            listen.is_acknowledged = true;
        }
        FromDaemon::Pass
    }

    /// The daemon is gone. Fails what must not be sent again, keeps the rest for the next daemon, and withdraws open questions. Returns what
    /// the host gets.
    pub(super) fn lost(
        &mut self,
        notice: Option<EndNotice>,
        why: &str,
        server: Option<&str>,
    ) -> Vec<Vec<u8>> {
        let fate = match notice {
            Some(EndNotice {
                answered_all: true, ..
            }) => Fate::NotSent,
            Some(_) | None => Fate::Unknown,
        };
        let mut messages = Vec::new();
        let mut failed = Vec::new();
        for (id, request) in self.in_flight.in_order() {
            let may_run_again = fate == Fate::NotSent || request.is_repeatable();
            if !(may_run_again && request.line.is_some()) {
                failed.push(id.to_owned());
                messages.push(failure::answer(
                    id,
                    &request.method,
                    request.is_modern,
                    fate,
                    why,
                    server,
                ));
            }
        }
        self.not_sent(&failed);
        if fate == Fate::Unknown {
            self.in_flight.may_have_run();
        }
        self.replayed.clear();
        self.acknowledged.clear();
        messages.extend(self.questions.drain().map(|id| failure::cancelled(&id)));
        messages
    }

    /// No daemon can be had: fails everything that waits for one.
    pub(super) fn give_up(&mut self, why: &str, server: Option<&str>) -> Vec<Vec<u8>> {
        let waiting = self.in_flight.in_order().into_iter();
        let waiting: Vec<String> = waiting.map(|(id, _)| id.to_owned()).collect();
        self.refuse(&waiting, why, server)
    }

    /// The `initialize` of the session for a new daemon, and its id; `None` if the host has opened no session.
    pub(super) fn replay_initialize(&mut self) -> Option<(Vec<u8>, String)> {
        let params = self.initialize.clone()?;
        Some(self.replay("initialize", &params, None))
    }

    /// What a new daemon gets after that: the rest of the session, and the requests that it is to answer, in their order.
    pub(super) fn replay_rest(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        if self.initialize.is_some() && self.is_initialized {
            lines.push(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n".to_vec());
        }
        if let Some(params) = self.level.clone() {
            lines.push(self.replay("logging/setLevel", &params, None).0);
        }
        for uri in self.subscriptions.clone() {
            let params = serde_json::json!({ "uri": uri }).to_string();
            lines.push(self.replay("resources/subscribe", &params, None).0);
        }
        if self.initialize.is_some() {
            // A daemon notifies a session of the lists that it has read. What changed before, the answers show.
            for list in self.lists.all() {
                lines.push(self.replay(list.method(), "", Some(list)).0);
            }
        }
        for (id, request) in self.in_flight.in_order() {
            lines.extend(request.line.clone());
            if request.is_acknowledged {
                self.acknowledged.insert(id.to_owned());
            }
        }
        lines
    }

    /// Whether a request of the host is in flight.
    pub(super) fn has_requests(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether the host waits for an answer. A listen is answered when it ends.
    pub(super) fn awaits_answer(&self) -> bool {
        self.in_flight.has_other_than("subscriptions/listen")
    }

    /// Whether there is anything that a new daemon should have without being asked.
    pub(super) fn needs_daemon(&self) -> bool {
        self.has_requests() || !self.subscriptions.is_empty()
    }

    fn replay(&mut self, method: &str, params: &str, list: Option<ListKind>) -> (Vec<u8>, String) {
        self.last_replay += 1;
        let id = format!("\"mainstay-replay-{}\"", self.last_replay);
        self.replayed.insert(id.clone(), list);
        let params = if params.is_empty() { "{}" } else { params };
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
        (line.into_bytes(), id)
    }
}

/// The result of an answer; `None` if it is an error.
fn success<'a>(result: Option<&'a RawValue>, error: Option<&RawValue>) -> Option<&'a str> {
    error.is_none().then(|| result.map_or("", RawValue::get))
}

#[cfg(test)]
mod tests;
