//! The receiving side of a peer: what comes in, sorted on the task that read it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::envelope::{Message, holds_messages, our_number};
use super::failure::Outcome;
use super::failure::{BadAnswer, RequestError};
use super::object::{Object, SHORTEST_BEYOND_LIMIT, TooManyMembers};
use super::params::Params;
use super::peer::{Handle, Handler, Peer, PeerShared};
use super::pending::{Claimed, MessageOrigin, Only, RequestResult, WaitingRequest};
use super::progress::{self, PROGRESS};
use super::raw::RawJson;
use super::rpc_error::RpcError;
use super::unreadable::{UnreadableKind, classify, split_off_text};
use crate::large::INLINE_LIMIT;
use crate::transport::{End, Inbound, MessageStream, Oversized, SendFailure};

/// Unreadable lines in a row that end the connection. A server that logs to its output stays far below; a program that
/// is no server (`yes`) is past it within a second.
const GARBAGE_LIMIT: u32 = 1_000_000;

/// How much of an unreadable line is looked at for the id it answers, at either end.
const EXAMINED_BYTES: usize = 4 * 1024;

/// How long an answer that stood behind text waits for a proper one. A server that logs what it sends sends it right after.
const PROPER_ANSWER_GRACE: Duration = Duration::from_millis(250);

/// Notifications that only servers send.
const SERVER_NOTIFICATIONS: [&str; 8] = [
    "notifications/message",
    PROGRESS,
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/tasks",
    "notifications/tasks/status",
];

/// What only servers ask.
const SERVER_REQUESTS: [&str; 3] = ["sampling/createMessage", "elicitation/create", "roots/list"];

/// What results of the protocol have, each at least one of these: other JSON-RPC that a server logs has not.
const RESULT_KEYS: [&str; 11] = [
    "content",
    "structuredContent",
    "tools",
    "prompts",
    "resources",
    "resourceTemplates",
    "contents",
    "messages",
    "completion",
    "protocolVersion",
    "resultType",
];

pub(super) struct Receiver {
    shared: Arc<PeerShared>,
    /// Weak, so that dropping the last handle closes the connection.
    handle: Weak<Handle>,
    handler: Arc<dyn Handler>,
    garbage_in_a_row: AtomicU32,
}

impl Receiver {
    pub(super) fn new(shared: Arc<PeerShared>, handle: Weak<Handle>, handler: Arc<dyn Handler>) -> Self {
        Self {
            shared,
            handle,
            handler,
            garbage_in_a_row: AtomicU32::new(0),
        }
    }

    /// Sorts a message that came on this stream.
    fn dispatch(&self, bytes: &Bytes, stream: MessageStream) {
        let cause = || match stream {
            MessageStream::OfRequest(id) => self.shared.pending.cause(id),
            MessageStream::Only | MessageStream::Unasked => MessageOrigin::Unknown,
        };
        let message = match Message::read(bytes) {
            Message::Batch(messages) if !holds_messages(&messages) => Message::Garbage(BadAnswer::Malformed),
            message => message,
        };
        // A large message takes a while to read, on another thread than the one that may have ended the connection meanwhile.
        if bytes.len() > INLINE_LIMIT && self.shared.pending.has_ended() {
            return;
        }
        self.shared.recorder.received(&message, bytes);
        if !matches!(message, Message::Garbage(_)) {
            self.garbage_in_a_row.store(0, Relaxed);
            self.shared.counters.note_message();
        }
        match message {
            Message::Response { id, result } if id == RawJson::NULL && stream == MessageStream::Only => {
                self.answer_without_id(result);
            }
            Message::Response { id, result } => self.answer(&id, result.map_err(RequestError::Rpc), stream),
            Message::Notification {
                method,
                params: Some(params),
            } if !is_readable(&params) => {
                tracing::warn!(%method, "notification dropped: {TooManyMembers}");
                self.shared.counters.garbage.add_one();
            }
            Message::Request {
                id,
                method,
                params: Some(params),
            } if !is_readable(&params) => {
                tracing::warn!(%method, "request refused: {TooManyMembers}");
                if let Some(peer) = Peer::upgrade(&self.handle) {
                    peer.respond(&id, Err(TooManyMembers.into()));
                }
            }
            Message::Notification { method, params } if method == PROGRESS => self.progress(params),
            Message::Notification { method, params } => self.handler.notification(&method, params, cause()),
            Message::Request { id, method, params } => {
                if let Some(peer) = Peer::upgrade(&self.handle) {
                    self.handler.request(&peer, id, &method, params, cause());
                }
            }
            Message::Batch(messages) => messages.iter().for_each(|message| self.dispatch(message, stream)),
            Message::Garbage(what) => match split_off_text(bytes) {
                Some((text, message)) if self.accept_after_text(&message, stream) => {
                    self.shared.counters.garbage.add_one();
                    self.handler.noise(&text);
                }
                Some(_) | None => self.garbage(bytes, what, stream),
            },
        }
    }

    /// Takes a message that stood behind text, if the remote peer meant it for us: a log line may as well quote what we sent, or
    /// what others said. `false` if it did not.
    fn accept_after_text(&self, message: &Bytes, stream: MessageStream) -> bool {
        match Message::read(message) {
            Message::Response { id, result } => our_number(&id)
                .filter(|id| stream.may_answer(*id))
                .filter(|_| result.as_ref().map_or(true, is_of_protocol))
                .is_some_and(|id| self.accept_answer_after_text(id, result.map_err(RequestError::Rpc))),
            Message::Notification { method, .. } if SERVER_NOTIFICATIONS.contains(&&*method) => {
                self.dispatch(message, stream);
                true
            }
            Message::Request { method, .. } if SERVER_REQUESTS.contains(&&*method) => {
                self.dispatch(message, stream);
                true
            }
            Message::Notification { .. }
            | Message::Request { .. }
            | Message::Batch(_)
            | Message::Garbage(_) => false,
        }
    }

    /// Takes an answer that stood behind text, unless a proper one follows. One for each request, so there are never more of
    /// these than requests that wait.
    fn accept_answer_after_text(&self, id: u64, answer: RequestResult) -> bool {
        if !self.shared.pending.note_answer_after_text(id) {
            return false;
        }
        let shared = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            sleep(PROPER_ANSWER_GRACE).await;
            if let Some(shared) = shared.upgrade()
                && let Some(waiting) = shared.pending.take(id)
            {
                deliver(&shared, waiting, answer);
            }
        });
        true
    }

    /// An error may be all that a remote peer says to a request that it could not read, or whose id it forgot.
    fn answer_without_id(&self, result: Result<RawJson, RpcError>) {
        let waiting = match &result {
            Ok(_) => None,
            Err(_) => self.shared.pending.take_without_id(),
        };
        match waiting {
            Some(waiting) => {
                self.deliver(waiting, result.map_err(RequestError::Rpc));
            }
            None => self.shared.counters.unknown_answers.add_one(),
        }
    }

    fn answer(&self, id: &RawJson, answer: RequestResult, stream: MessageStream) {
        match our_number(id) {
            Some(id) if stream.may_answer(id) => self.settle(id, answer),
            Some(id) => self.note_misplaced(id),
            None => self.shared.counters.unknown_answers.add_one(),
        }
    }

    /// An answer came on a stream that is not for it. The call that it names waits for its own.
    fn note_misplaced(&self, id: u64) {
        if self.shared.counters.misplaced_answers.is_first() {
            tracing::warn!(
                id,
                "the server sent an answer on a stream that is not for it: such answers are ignored"
            );
        }
    }

    fn settle(&self, id: u64, answer: RequestResult) {
        let counters = &self.shared.counters;
        match self.shared.pending.claim(id) {
            Claimed::Waiting(waiting) => {
                if !self.deliver(waiting, answer) {
                    counters.late_answers.add_one();
                }
            }
            Claimed::Late(call) => {
                counters.late_answers.add_one();
                // A transport that failed to carry it says nothing of the server.
                let is_answer = !matches!(answer, Err(RequestError::Send(_)));
                if let Some(call) = call.filter(|_| is_answer) {
                    self.handler.late_answer(&call);
                }
            }
            Claimed::Unknown => counters.unknown_answers.add_one(),
        }
    }

    fn deliver(&self, waiting: WaitingRequest, answer: RequestResult) -> bool {
        deliver(&self.shared, waiting, answer)
    }

    fn progress(&self, params: Option<RawJson>) {
        let request = progress::request_of(params.as_ref());
        let listener = request.and_then(|id| self.shared.pending.progressed(id));
        match listener.zip(params) {
            Some((listener, params)) => listener.notify(params),
            None => self.shared.counters.unknown_progress.add_one(),
        }
    }

    fn garbage(&self, bytes: &[u8], what: BadAnswer, stream: MessageStream) {
        tracing::trace!(length = bytes.len(), %what, "unreadable line");
        let head = &bytes[..bytes.len().min(EXAMINED_BYTES)];
        let tail = &bytes[bytes.len().saturating_sub(EXAMINED_BYTES)..];
        match classify(head, tail) {
            UnreadableKind::Answers(mut ids) => {
                ids.retain(|id| stream.may_answer(*id));
                self.fail(&ids, what);
            }
            UnreadableKind::NoAnswer => {}
            UnreadableKind::Unclear => self.handler.noise(head),
        }
        self.count_garbage();
    }

    fn fail(&self, ids: &[u64], what: BadAnswer) {
        for id in ids {
            if let Some(waiting) = self.shared.pending.take(*id) {
                self.deliver(waiting, Err(RequestError::BadAnswer(what)));
            }
        }
    }

    fn count_garbage(&self) {
        self.shared.counters.garbage.add_one();
        if self.garbage_in_a_row.fetch_add(1, Relaxed) + 1 >= GARBAGE_LIMIT {
            self.shared.close(End::TooMuchGarbage);
        }
    }
}

/// Ends a request; `false` when its caller no longer waits. An answered call is counted before its caller wakes, so
/// that the end of the connection, which is seen later, never overtakes it.
fn deliver(shared: &PeerShared, waiting: WaitingRequest, answer: RequestResult) -> bool {
    let outcome = answer
        .as_ref()
        .map_or_else(RequestError::outcome, |_| Outcome::Answered);
    if waiting.is_call() && outcome == Outcome::Answered {
        shared.counters.calls_answered.add_one();
    }
    waiting.settle(answer)
}

/// Whether the members of these parameters and of their `_meta` can be read.
fn is_readable(params: &RawJson) -> bool {
    params.as_bytes().len() < SHORTEST_BEYOND_LIMIT
        || Params::new(Some(params.clone())).check_members().is_ok()
}

/// Whether this is a result as the protocol has them.
fn is_of_protocol(result: &RawJson) -> bool {
    *result == RawJson::EMPTY_OBJECT
        || Object::find(result, RESULT_KEYS).is_some_and(|found| found.iter().any(Option::is_some))
}

impl Inbound for Receiver {
    fn message(&self, message: Bytes) {
        self.dispatch(&message, MessageStream::Only);
    }

    fn message_of(&self, request: u64, message: Bytes) {
        self.dispatch(&message, MessageStream::OfRequest(request));
    }

    fn message_unasked(&self, message: Bytes) {
        self.dispatch(&message, MessageStream::Unasked);
    }

    fn oversized(&self, skipped: Oversized<'_>) {
        let Oversized {
            head,
            tail,
            length,
            limit,
        } = skipped;
        tracing::debug!(length, limit, "message too long, skipped");
        self.shared.recorder.skipped(length);
        let what = BadAnswer::TooLarge { limit, length };
        match classify(head, tail) {
            UnreadableKind::Answers(ids) => self.fail(&ids, what),
            UnreadableKind::NoAnswer => {}
            // It may be an answer, and then nothing else would ever wake its caller.
            UnreadableKind::Unclear => match self.shared.pending.take_only() {
                Only::None => {}
                Only::One(waiting) => {
                    self.deliver(waiting, Err(RequestError::BadAnswer(what)));
                }
                Only::Several => self.shared.close(End::Oversized),
            },
        }
        self.count_garbage();
    }

    fn missed(&self) {
        self.handler.missed();
    }

    fn failed(&self, request: u64, failure: SendFailure) {
        self.shared.recorder.failed(request);
        self.settle(request, Err(RequestError::Send(failure)));
    }

    fn retired(&self, end: End) {
        self.shared.retire(end);
    }

    fn ended(&self, end: End) {
        self.shared.end(end);
    }
}
