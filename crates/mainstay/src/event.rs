//! Every change of state is an event, in one sequence for the fleet. A failure names the line of stderr that says why.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use futures_core::Stream;
use mainstay_lifecycle::{Cause, Generation, StateKind};
use tokio::sync::broadcast;

use crate::PlainText;
use crate::broadcast_reader::{BroadcastReader, ValueOrLag};
use crate::lock::Lock;
use crate::process::{ProcessExit, StderrExcerpt};
use crate::server::{Reason, Slot};
use crate::transport::http::{Challenge, HttpFailure};

/// How many events a slow reader may fall behind before it misses some.
const EVENTS_LIMIT: usize = 1024;

/// One change of a server's state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Grows by one with each event of the fleet.
    pub sequence: u64,
    /// When it happened.
    pub at: SystemTime,
    /// Which server.
    pub server: Arc<str>,
    /// The generation that the change is about, where there is one.
    pub generation: Option<Generation>,
    /// The state that was left.
    pub from: StateKind,
    /// The state that was entered.
    pub to: StateKind,
    /// Why.
    pub cause: Cause,
    /// What exactly went wrong, where something did.
    pub error: Option<Arc<Failure>>,
    /// Failures in a row so far.
    pub attempt: u32,
    /// When the next attempt starts, where one is planned.
    pub next_retry: Option<SystemTime>,
}

/// The target of the log's line on each change of state, whatever module writes it.
const LOG_TARGET: &str = "mainstay::state";

impl Event {
    /// Writes the event to the log: at `WARN` where something went wrong, at `INFO` otherwise.
    pub(crate) fn log(&self, reason: Option<Reason>, budget: u32) {
        let failure = self.error.as_deref();
        let exit = failure.and_then(|failure| failure.exit);
        let until = |at: SystemTime| at.duration_since(SystemTime::now()).unwrap_or_default();
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    target: LOG_TARGET,
                    server = %self.server,
                    generation = self.generation.map(|generation| generation.0),
                    from = self.from.as_str(),
                    to = self.to.as_str(),
                    cause = self.cause.as_str(),
                    reason = reason.map(Reason::as_str),
                    error = failure.map(|failure| failure.message.as_str()),
                    exit_code = exit.and_then(|exit| exit.code),
                    signal = exit.and_then(|exit| exit.signal),
                    stderr = failure.and_then(Failure::decisive_stderr_line),
                    attempt = self.attempt,
                    budget,
                    next_retry_ms = self.next_retry.map(|at| u64::try_from(until(at).as_millis()).unwrap_or(u64::MAX)),
                    "state changed"
                )
            };
        }
        match failure {
            Some(_) => log!(warn),
            None => log!(info),
        }
    }
}

/// What went wrong with a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The connection it happened to, where it happened to one.
    pub generation: Option<Generation>,
    /// One line of plain text, as [`PlainText`] has it.
    pub message: String,
    /// How the process ended, where there was one and it did.
    pub exit: Option<ProcessExit>,
    /// The last lines that the process wrote to stderr. If an earlier line explains the failure, it comes first.
    pub stderr: Vec<String>,
    /// What a login needs, where the server asks for one.
    pub challenge: Option<Challenge>,
    /// The directories that a command was searched in, as in `PATH`, where it was not found. Long, and of this machine: for a
    /// person at a terminal, not for a model.
    pub searched: Option<String>,
    /// How the request over HTTP failed that opening the connection or listing hung on, where one did.
    pub http: Option<Box<HttpFailure>>,
    /// The line of stderr that explains the failure, chosen among all lines: the excerpt alone can mislead.
    pub(crate) stderr_reason: Option<String>,
}

/// How long the message of a failure may be: it may quote what a server sent.
const MESSAGE_CHARS_LIMIT: usize = 4096;

impl Failure {
    /// A failure with the lines of this connection's process that say most.
    pub(crate) fn new(slot: &Slot, generation: Option<Generation>, message: impl Into<String>) -> Self {
        let lines = generation.map(|generation| slot.stderr.lines_of(generation.0));
        let stderr = StderrExcerpt::of(lines.unwrap_or_default());
        Self {
            generation,
            message: PlainText::line(&slot.settings.load().redaction().apply(message.into()))
                .cut(MESSAGE_CHARS_LIMIT)
                .into_string(),
            exit: None,
            stderr: stderr.lines,
            challenge: None,
            searched: None,
            http: None,
            stderr_reason: stderr.reason,
        }
    }

    /// A failure that another program reports, for one that shows the servers of that program as its own. That program also chose
    /// the line of stderr that explains it, among all lines.
    pub fn reported(message: &str, stderr: Vec<String>, stderr_reason: Option<String>) -> Self {
        Self {
            generation: None,
            message: PlainText::line(message).cut(MESSAGE_CHARS_LIMIT).into_string(),
            exit: None,
            stderr,
            challenge: None,
            searched: None,
            http: None,
            stderr_reason,
        }
    }

    /// The line of all its stderr that explains best why it failed: the last that begins with its error or ends a stack trace, else the
    /// last that names an error, else the last with any content. `None` if there are only banners, frames and notices.
    pub fn decisive_stderr_line(&self) -> Option<&str> {
        self.stderr_reason.as_deref()
    }

    pub(crate) fn with_exit(self, exit: Option<ProcessExit>) -> Self {
        Self { exit, ..self }
    }

    pub(crate) fn searched(self, directories: Option<&str>) -> Self {
        Self {
            searched: directories.map(|path| PlainText::line(path).cut(MESSAGE_CHARS_LIMIT).into_string()),
            ..self
        }
    }

    pub(crate) fn asking_for(self, challenge: Option<&Challenge>) -> Self {
        Self {
            challenge: challenge.cloned(),
            ..self
        }
    }

    pub(crate) fn over_http(self, slot: &Slot, failure: Option<&HttpFailure>) -> Self {
        let settings = slot.settings.load();
        let redacted = |failure: &HttpFailure| match failure.clone() {
            HttpFailure::Status { status, body } => HttpFailure::Status {
                status,
                body: settings.redaction().apply(body),
            },
            other => other,
        };
        Self {
            http: failure.map(redacted).map(Box::new),
            ..self
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match self.decisive_stderr_line() {
            Some(line) => write!(f, "; it wrote: {line}"),
            None => Ok(()),
        }
    }
}

/// A reader of a fleet's events, from the moment of its making. It is a [`Stream`], and has [`next`](Self::next).
#[derive(Debug)]
pub struct Events(BroadcastReader<Event>);

/// What a reader of events gets.
#[derive(Clone, Debug)]
pub enum EventOrLag {
    /// The next event.
    Event(Box<Event>),
    /// The reader was too slow and missed this many events. The next one follows.
    Lagged(u64),
}

impl Events {
    /// The next event; `None` when the fleet is gone.
    ///
    /// Cancel safety: dropping it loses no event.
    pub async fn next(&mut self) -> Option<EventOrLag> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = EventOrLag;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<EventOrLag>> {
        let next = ready!(self.0.poll_next(context));
        Poll::Ready(next.map(|next| match next {
            ValueOrLag::Value(event) => EventOrLag::Event(Box::new(event)),
            ValueOrLag::Lagged(missed) => EventOrLag::Lagged(missed),
        }))
    }
}

/// Numbers the events and sends them to the readers. The lock keeps them in the order of their numbers.
#[derive(Debug)]
pub(crate) struct EventLog(Lock<Numbered>);

#[derive(Debug)]
struct Numbered {
    last: u64,
    sender: broadcast::Sender<Event>,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        let (sender, _) = broadcast::channel(EVENTS_LIMIT);
        Self(Lock::new(Numbered { last: 0, sender }))
    }

    /// Numbers the event and sends it.
    pub(crate) fn emit(&self, mut event: Event) {
        let mut log = self.0.lock();
        log.last += 1;
        event.sequence = log.last;
        // No reader is no error.
        let _ = log.sender.send(event);
    }

    pub(crate) fn subscribe(&self) -> Events {
        let log = self.0.lock();
        Events(BroadcastReader::of(&log.sender))
    }
}
