//! A stream of messages to one client.
//!
//! Writers add messages and never wait. The reader takes them as fast as its client reads. One bounded log is both queue and
//! memory: a client that lost its connection resumes the stream where it left off, and a reader that falls behind the log
//! has lost the stream.

mod reader;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::head::Accepts;
use crate::budget::Account;
use crate::client::Outbox;
use crate::door::outgoing::OutgoingMessage;
use crate::lock::lock;
pub(super) use reader::EventReader;

/// Messages in a log, read or not. A client that is so far behind does not read.
const EVENTS_LIMIT: usize = 1024;

/// Bytes in a log, read or not, beside the latest message. That one is kept whatever its size.
const BYTES_LIMIT: usize = 16 * 1024 * 1024;

/// Events and bytes in a log, read or not, above which it takes no optional message. So nothing piles up for a client that
/// is gone, and nothing that a client waits for is dropped.
const OPTIONAL_LIMIT: (usize, usize) = (512, 1024 * 1024);

/// How many of the latest messages are compared with a new one, to find a repetition.
const COMPARED_LIMIT: usize = 16;

/// Events and bytes kept of what was read already, in case the client did not receive it.
const READ_OF_REQUEST_LIMIT: (usize, usize) = (256, 256 * 1024);

/// The same for a standing stream, which lives as long as its session.
const READ_OF_SESSION_LIMIT: (usize, usize) = (64, 8 * 1024);

/// The number of the stream for what belongs to no request.
pub(super) const STANDING: u64 = 0;

/// How long a question waits in a stream that broke. Clients reconnect within seconds, if they do.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct ClientStream {
    number: u64,
    kind: StreamKind,
    /// What the log keeps is charged to the client.
    account: Account,
    log: Mutex<StreamLog>,
    /// Notifies of a reader that came or left.
    reader_changed: Notify,
}

/// Whether a client reads the stream.
#[derive(Clone, Copy)]
enum ReaderState {
    /// Not yet: the head of the response is held back.
    NotYet,
    Reads,
    /// Not since then, but the client may reconnect.
    LeftAt(Instant),
    /// Never again: the client left, and knows no event after which it could resume.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    /// Messages are forgotten as they are read.
    Once,
    /// Of one request; what was read is kept for a while.
    Resumable,
    /// Of a session; it takes nothing before its first reader.
    Standing,
}

struct StreamLog {
    events: VecDeque<OutgoingMessage>,
    bytes: usize,
    /// The number of the first event in the log; the first of all is 1.
    first: u64,
    /// The number of the first event that was never read.
    unread: u64,
    /// Readers so far. Only the latest reads.
    readers: u64,
    reader: ReaderState,
    closed: Option<Instant>,
    /// Answers that are still to come.
    expected: usize,
    /// Whether the stream closes with the last of them.
    closes_after_answers: bool,
    waker: Option<Waker>,
}

/// Where in a stream a reader is.
pub(super) struct ReadPosition {
    reader: u64,
    next: u64,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamItem {
    /// The event of this number.
    Event(u64, OutgoingMessage),
    /// The stream is closed, or another reader took over.
    End,
    /// The reader was too slow: its next event was dropped.
    Lost,
}

impl ClientStream {
    /// A stream that can be read once.
    pub(super) fn once(account: Account) -> Self {
        Self::new(STANDING, StreamKind::Once, account)
    }

    /// A stream that a client can resume.
    pub(super) fn resumable(number: u64, account: Account) -> Self {
        Self::new(number, StreamKind::Resumable, account)
    }

    /// The stream of a session for what belongs to no request.
    pub(super) fn standing(account: Account) -> Self {
        Self::new(STANDING, StreamKind::Standing, account)
    }

    fn new(number: u64, kind: StreamKind, account: Account) -> Self {
        Self {
            number,
            kind,
            account,
            log: Mutex::new(StreamLog {
                events: VecDeque::new(),
                bytes: 0,
                first: 1,
                unread: 1,
                readers: 0,
                reader: ReaderState::NotYet,
                closed: None,
                expected: 0,
                closes_after_answers: false,
                waker: None,
            }),
            reader_changed: Notify::new(),
        }
    }

    /// The stream of a request. It takes nothing if the client accepts no events.
    pub(super) fn for_client(self, accepts: Accepts) -> Arc<Self> {
        if !accepts.events {
            self.close();
        }
        Arc::new(self)
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The client's budget of bytes.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Adds an answer.
    pub(super) fn push_answer(&self, answer: OutgoingMessage) {
        self.push(answer);
    }

    /// Whether a client may reconnect for what it missed.
    fn is_resumable(&self) -> bool {
        match self.kind {
            StreamKind::Once => false,
            StreamKind::Resumable | StreamKind::Standing => true,
        }
    }

    /// Takes no more messages.
    pub(super) fn close(&self) {
        lock(&self.log).close();
    }

    /// Closes once the expected answers are there: at once if there are none.
    pub(super) fn close_after_answers(&self) {
        let mut log = lock(&self.log);
        log.closes_after_answers = true;
        log.close_if_answered();
    }

    /// An answer is still to come, until the result is dropped.
    pub(super) fn expect_answer(self: &Arc<Self>) -> ExpectedAnswer {
        lock(&self.log).expected += 1;
        ExpectedAnswer(self.clone())
    }

    /// Closes the stream of a client that left before it saw anything of it.
    pub(super) fn abandon(&self) {
        self.close();
        lock(&self.log).reader = ReaderState::Gone;
        self.reader_changed.notify_waiters();
    }

    /// Notes that the reader at this position left, unless another one took over.
    pub(super) fn leave(&self, position: &ReadPosition) {
        let mut log = lock(&self.log);
        if log.readers == position.reader {
            log.reader = match self.is_resumable() {
                true => ReaderState::LeftAt(Instant::now()),
                false => ReaderState::Gone,
            };
            drop(log);
            self.reader_changed.notify_waiters();
        }
    }

    pub(super) fn closed_at(&self) -> Option<Instant> {
        lock(&self.log).closed
    }

    /// Since when the stream is closed, and its bytes, if no client reads it any more.
    pub(super) fn finished_unread(&self) -> Option<(Instant, usize)> {
        let log = lock(&self.log);
        match log.reader {
            ReaderState::NotYet | ReaderState::Reads => None,
            ReaderState::LeftAt(_) | ReaderState::Gone => Some((log.closed?, log.bytes)),
        }
    }

    /// Adds a message; `false` if the stream takes none.
    fn push(&self, message: OutgoingMessage) -> bool {
        let mut log = lock(&self.log);
        if !self.is_open(&log) {
            return false;
        }
        log.push(message);
        true
    }

    /// Whether the stream takes messages.
    fn is_open(&self, log: &StreamLog) -> bool {
        let has_no_reader_yet = self.kind == StreamKind::Standing && log.readers == 0;
        log.closed.is_none() && !has_no_reader_yet
    }

    /// Starts to read: after the event of this number, or after all that was read. An earlier reader reads no more.
    pub(super) fn open(&self, after: Option<u64>) -> ReadPosition {
        let mut log = lock(&self.log);
        log.readers += 1;
        log.reader = ReaderState::Reads;
        self.reader_changed.notify_waiters();
        log.wake();
        let next = after.map_or(log.unread, |after| after.saturating_add(1));
        ReadPosition {
            reader: log.readers,
            // Events that were dropped are skipped: the client sees the gap in their numbers.
            next: next.clamp(log.first, log.unread.max(log.first)),
        }
    }

    /// The id of an event, after which a client can resume the stream.
    fn event_id(&self, event: u64) -> String {
        format!("{}-{event}", self.number)
    }

    /// The number of the stream and of the event in an event's id.
    pub(super) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
        let (stream, event) = id.trim().split_once('-')?;
        Some((stream.parse().ok()?, event.parse().ok()?))
    }

    /// Takes the next event.
    fn poll_next(&self, position: &mut ReadPosition, context: &Context<'_>) -> Poll<StreamItem> {
        let mut log = lock(&self.log);
        if log.readers != position.reader {
            return Poll::Ready(StreamItem::End);
        }
        let Some(at) = position.next.checked_sub(log.first) else {
            return Poll::Ready(StreamItem::Lost);
        };
        let event = usize::try_from(at)
            .ok()
            .and_then(|at| log.events.get(at))
            .cloned();
        let Some(event) = event else {
            if log.closed.is_some() {
                return Poll::Ready(StreamItem::End);
            }
            log.wait(context);
            return Poll::Pending;
        };
        let number = position.next;
        position.next += 1;
        log.unread = log.unread.max(position.next);
        log.forget_read(match self.kind {
            StreamKind::Once => (0, 0),
            StreamKind::Resumable => READ_OF_REQUEST_LIMIT,
            StreamKind::Standing => READ_OF_SESSION_LIMIT,
        });
        Poll::Ready(StreamItem::Event(number, event))
    }

    /// Waits until there is an event.
    pub(super) async fn has_event(&self) {
        std::future::poll_fn(|context| {
            let mut log = lock(&self.log);
            if !log.events.is_empty() {
                return Poll::Ready(());
            }
            log.wait(context);
            Poll::Pending
        })
        .await;
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.log).events.is_empty()
    }
}

impl Outbox for ClientStream {
    fn send(&self, message: Bytes) -> bool {
        if !self.is_open(&lock(&self.log)) {
            return false;
        }
        // Senders may hold locks, so this must not reclaim bytes from elsewhere.
        let charged = self.account.charge_message_if_room(message);
        charged.is_ok_and(|message| self.push(message.into()))
    }

    fn send_once(&self, message: Bytes) -> bool {
        lock(&self.log).has_unread(&message) || self.send(message)
    }

    fn offer(&self, message: Bytes) -> bool {
        let has_room = {
            let log = lock(&self.log);
            log.events.len() < OPTIONAL_LIMIT.0 && log.bytes < OPTIONAL_LIMIT.1
        };
        has_room && self.send(message)
    }

    fn is_read(&self) -> bool {
        let log = lock(&self.log);
        let is_there = matches!(log.reader, ReaderState::NotYet | ReaderState::Reads);
        is_there && self.is_open(&log)
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            loop {
                // Before the state is read, so that no change is missed.
                let changed = self.reader_changed.notified();
                let reader = lock(&self.log).reader;
                match reader {
                    ReaderState::NotYet | ReaderState::Reads => changed.await,
                    ReaderState::LeftAt(when)
                        if timeout_at(when + RECONNECT_TIMEOUT, changed).await.is_err() =>
                    {
                        return;
                    }
                    ReaderState::LeftAt(_) => {}
                    ReaderState::Gone => return,
                }
            }
        })
    }
}

/// An answer that a stream is still to carry.
pub(super) struct ExpectedAnswer(Arc<ClientStream>);

impl Drop for ExpectedAnswer {
    fn drop(&mut self) {
        let mut log = lock(&self.0.log);
        log.expected -= 1;
        log.close_if_answered();
    }
}

impl StreamLog {
    fn close(&mut self) {
        self.closed.get_or_insert_with(Instant::now);
        self.wake();
    }

    fn close_if_answered(&mut self) {
        if self.closes_after_answers && self.expected == 0 {
            self.close();
        }
    }

    fn push(&mut self, event: OutgoingMessage) {
        while self.events.len() >= EVENTS_LIMIT || self.bytes > BYTES_LIMIT {
            self.drop_first();
        }
        self.bytes += event.len();
        self.events.push_back(event);
        self.wake();
    }

    /// Whether one of the latest unread messages equals this one.
    fn has_unread(&self, message: &Bytes) -> bool {
        let after_last = self.first + self.events.len() as u64;
        let unread = usize::try_from(after_last.saturating_sub(self.unread)).unwrap_or(usize::MAX);
        let latest = self.events.iter().rev().take(unread.min(COMPARED_LIMIT));
        latest.into_iter().any(|event| match event {
            OutgoingMessage::Whole(line) => line == message,
            OutgoingMessage::Pieces(_) => false,
        })
    }

    fn forget_read(&mut self, (events, bytes): (usize, usize)) {
        while self.first < self.unread && (self.events.len() > events || self.bytes > bytes) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.len();
            self.first += 1;
        }
    }

    fn wait(&mut self, context: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => self.waker = Some(context.waker().clone()),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
