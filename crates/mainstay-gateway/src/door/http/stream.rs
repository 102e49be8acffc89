//! A stream of messages to one client, and what is kept of it.
//!
//! The writer puts messages in and never waits; a reader takes them out when its client can take more. So one bounded
//! log is queue and memory at once: a reader that falls behind what is kept has lost the stream, and a client that lost
//! its connection takes the stream up again where it left off.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::budget::Account;
use crate::client::Outbox;
use crate::door::outgoing::Outgoing;

/// Messages in a log, read or not. A client that is so far behind does not read.
const MAX_EVENTS: usize = 1024;

/// Bytes in a log, read or not, beside the latest message: that one is kept whatever its size, and drives nothing out.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What may be in a log, read or not, for a message to be put in that the client can miss: events and bytes. A client that
/// went away without a word is not collected for, and what it waits for is never driven out.
const SPARE: (usize, usize) = (512, 1024 * 1024);

/// So many of the latest messages are looked through for one that says the same as a new one: a flood is mostly of a few.
const LATEST: usize = 16;

/// What is kept of what was read already, for a client that did not get it after all: events and bytes.
const READ_OF_REQUEST: (usize, usize) = (256, 256 * 1024);

/// The same of a standing stream, which lives as long as its session.
const READ_OF_SESSION: (usize, usize) = (64, 8 * 1024);

/// The number of the stream for what belongs to no request.
pub(super) const STANDING: u64 = 0;

/// How long a question waits in a stream that broke. Clients come back within seconds, if they do.
const MISSED_FOR: Duration = Duration::from_secs(60);

pub(super) struct Stream {
    number: u64,
    kind: Kind,
    /// What it keeps is held for its client.
    account: Account,
    log: Mutex<Log>,
    /// Tells that the reader came or went.
    readership: Notify,
}

/// Whether somebody reads.
#[derive(Clone, Copy)]
enum Reader {
    /// Not yet: the head of the response is held back.
    Awaited,
    Reads,
    /// Not since then, but the client may come back.
    LeftAt(Instant),
    /// Nobody will: the client left, and knows no event after which it could take the stream up.
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Of one request, and forgotten as it is read.
    Passing,
    /// Of one request; what was read is kept for a while.
    Kept,
    /// Of a session. Nothing is put in before somebody has come to read.
    Standing,
}

struct Log {
    events: VecDeque<Outgoing>,
    bytes: usize,
    /// The number of the first event that is there; the first of all is 1.
    first: u64,
    /// The number of the first event that was never read.
    unread: u64,
    /// Readers so far; the latest one reads.
    readers: u64,
    reader: Reader,
    closed: Option<Instant>,
    waker: Option<Waker>,
}

/// Where in a stream a reader is.
pub(super) struct Place {
    reader: u64,
    next: u64,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The event of this number.
    Event(u64, Outgoing),
    /// There is no more, or somebody else reads now.
    End,
    /// The reader was too slow: what it should get next is not there any more.
    Lost,
}

impl Stream {
    /// A stream that can be read once.
    pub(super) fn passing(account: Account) -> Self {
        Self::new(STANDING, Kind::Passing, account)
    }

    /// A stream that can be taken up again.
    pub(super) fn kept(number: u64, account: Account) -> Self {
        Self::new(number, Kind::Kept, account)
    }

    /// The stream of a session for what belongs to no request.
    pub(super) fn standing(account: Account) -> Self {
        Self::new(STANDING, Kind::Standing, account)
    }

    fn new(number: u64, kind: Kind, account: Account) -> Self {
        Self {
            number,
            kind,
            account,
            log: Mutex::new(Log {
                events: VecDeque::new(),
                bytes: 0,
                first: 1,
                unread: 1,
                readers: 0,
                reader: Reader::Awaited,
                closed: None,
                waker: None,
            }),
            readership: Notify::new(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// For whom its bytes are held.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Puts an answer on its way.
    pub(super) fn answer(&self, answer: Outgoing) {
        self.put(answer);
    }

    /// Whether a client may come back for what it missed.
    pub(super) fn resumes(&self) -> bool {
        match self.kind {
            Kind::Passing => false,
            Kind::Kept | Kind::Standing => true,
        }
    }

    /// Nothing more comes.
    pub(super) fn close(&self) {
        let mut log = self.log();
        log.closed.get_or_insert_with(Instant::now);
        log.wake();
    }

    /// The client left before it saw anything of the stream.
    pub(super) fn abandon(&self) {
        self.close();
        self.log().reader = Reader::Gone;
        self.readership.notify_waiters();
    }

    /// The reader at this place left; somebody else may read already.
    pub(super) fn leave(&self, place: &Place) {
        let mut log = self.log();
        if log.readers == place.reader {
            log.reader = match self.resumes() {
                true => Reader::LeftAt(Instant::now()),
                false => Reader::Gone,
            };
            drop(log);
            self.readership.notify_waiters();
        }
    }

    /// Since when nothing more comes.
    pub(super) fn closed_at(&self) -> Option<Instant> {
        self.log().closed
    }

    /// Since when nothing more comes and nobody reads what is there, and how many bytes that is.
    pub(super) fn left_behind(&self) -> Option<(Instant, usize)> {
        let log = self.log();
        match log.reader {
            Reader::Awaited | Reader::Reads => None,
            Reader::LeftAt(_) | Reader::Gone => Some((log.closed?, log.bytes)),
        }
    }

    /// Puts a message in; `false` when nobody can get it.
    fn put(&self, message: Outgoing) -> bool {
        let mut log = self.log();
        if !self.takes(&log) {
            return false;
        }
        log.put(message);
        true
    }

    /// Whether somebody may get what is put in.
    fn takes(&self, log: &Log) -> bool {
        let unheard = self.kind == Kind::Standing && log.readers == 0;
        log.closed.is_none() && !unheard
    }

    /// Reads from here on, after the event of this number or after all that was read; whoever read before reads no more.
    pub(super) fn open(&self, after: Option<u64>) -> Place {
        let mut log = self.log();
        log.readers += 1;
        log.reader = Reader::Reads;
        self.readership.notify_waiters();
        log.wake();
        let next = after.map_or(log.unread, |after| after.saturating_add(1));
        Place {
            reader: log.readers,
            // What is not there any more is left out: the client knows by the numbers, and can do nothing about it.
            next: next.clamp(log.first, log.unread.max(log.first)),
        }
    }

    /// The name of an event, by which a client takes up the stream after it.
    pub(super) fn name(&self, event: u64) -> String {
        format!("{}-{event}", self.number)
    }

    /// The event that such a name names: the stream, and the event in it.
    pub(super) fn named(name: &str) -> Option<(u64, u64)> {
        let (stream, event) = name.trim().split_once('-')?;
        Some((stream.parse().ok()?, event.parse().ok()?))
    }

    /// Takes the next event.
    pub(super) fn poll_take(&self, place: &mut Place, context: &Context<'_>) -> Poll<Taken> {
        let mut log = self.log();
        if log.readers != place.reader {
            return Poll::Ready(Taken::End);
        }
        let Some(at) = place.next.checked_sub(log.first) else {
            return Poll::Ready(Taken::Lost);
        };
        let event = usize::try_from(at)
            .ok()
            .and_then(|at| log.events.get(at))
            .cloned();
        let Some(event) = event else {
            if log.closed.is_some() {
                return Poll::Ready(Taken::End);
            }
            log.wait(context);
            return Poll::Pending;
        };
        let number = place.next;
        place.next += 1;
        log.unread = log.unread.max(place.next);
        let room = match self.kind {
            Kind::Passing => (0, 0),
            Kind::Kept => READ_OF_REQUEST,
            Kind::Standing => READ_OF_SESSION,
        };
        log.forget_read(room);
        Poll::Ready(Taken::Event(number, event))
    }

    /// Comes back when there is something to read.
    pub(super) async fn has_something(&self) {
        std::future::poll_fn(|context| {
            let mut log = self.log();
            if !log.events.is_empty() {
                return Poll::Ready(());
            }
            log.wait(context);
            Poll::Pending
        })
        .await;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.log().events.is_empty()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The event before the next one.
    pub(super) fn after(&self) -> u64 {
        self.next - 1
    }
}

impl Outbox for Stream {
    fn send(&self, message: Bytes) -> bool {
        if !self.takes(&self.log()) {
            return false;
        }
        // Senders may hold locks: nothing else is given up for this.
        let charged = self.account.charge_if_room(message);
        charged.is_ok_and(|message| self.put(message.into()))
    }

    fn send_once(&self, message: Bytes) -> bool {
        self.log().has_unread(&message) || self.send(message)
    }

    fn offer(&self, message: Bytes) -> bool {
        let has_room = {
            let log = self.log();
            log.events.len() < SPARE.0 && log.bytes < SPARE.1
        };
        has_room && self.send(message)
    }

    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            loop {
                // Before the look, so that no change is missed.
                let changed = self.readership.notified();
                let reader = self.log().reader;
                match reader {
                    Reader::Awaited | Reader::Reads => changed.await,
                    Reader::LeftAt(when) if timeout_at(when + MISSED_FOR, changed).await.is_err() => return,
                    Reader::LeftAt(_) => {}
                    Reader::Gone => return,
                }
            }
        })
    }
}

impl Log {
    fn put(&mut self, event: Outgoing) {
        while self.events.len() >= MAX_EVENTS || self.bytes > MAX_BYTES {
            self.forget_first();
        }
        self.bytes += event.len();
        self.events.push_back(event);
        self.wake();
    }

    /// Whether one of the latest messages is this one, and was never read.
    fn has_unread(&self, message: &Bytes) -> bool {
        let after_last = self.first + self.events.len() as u64;
        let unread = usize::try_from(after_last.saturating_sub(self.unread)).unwrap_or(usize::MAX);
        let latest = self.events.iter().rev().take(unread.min(LATEST));
        latest.into_iter().any(|event| match event {
            Outgoing::Whole(line) => line == message,
            Outgoing::Pieces(_) => false,
        })
    }

    fn forget_read(&mut self, (events, bytes): (usize, usize)) {
        while self.first < self.unread && (self.events.len() > events || self.bytes > bytes) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
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
