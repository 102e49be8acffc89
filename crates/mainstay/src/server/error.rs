//! How a call fails. Every error says whether the call may have run.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Generation, StateKind};

use super::{Reason, Status, noise};
use crate::PlainText;
use crate::event::Failure;
use crate::transport::http::Challenge;
use crate::transport::{HttpFailure, SendFailure};
use crate::wire::{BadAnswer, Outcome, RequestError, RpcError, TimeoutKind};

/// Why a call failed, and what is known of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallError {
    /// The server that was called. `None` where the fleet found none, or the arguments could not be written.
    pub server: Option<Arc<str>>,
    /// The connection that the call was made on, where there was one.
    pub generation: Option<Generation>,
    /// Whether the call may have run.
    pub outcome: Outcome,
    /// What went wrong.
    pub kind: CallErrorKind,
}

/// What went wrong with a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The server is not connected, and the call did not wait. Either it chose not to, or the server is not coming, or the
    /// next attempt starts only after the wait would have ended.
    NotConnected(Box<NotConnected>),
    /// The call waited for its server as long as it may: its `wait_timeout`, or what was left of its deadline.
    WaitTimedOut {
        /// How long it waited.
        waited: Duration,
        /// The server's state at the end.
        now: Box<NotConnected>,
    },
    /// Too many calls wait for the server already.
    TooManyWaiting {
        /// The limit.
        limit: usize,
        /// The server's state.
        now: Box<NotConnected>,
    },
    /// The server did not answer in time. Mainstay cancelled the request and keeps the connection.
    TimedOut {
        /// The timeout that expired.
        timeout: TimeoutKind,
        /// One line that the server wrote to stdout meanwhile and that is no message, cleaned and shortened.
        noise: Option<Arc<str>>,
    },
    /// An operator cancelled the call: a person who is not its caller.
    Cancelled,
    /// The connection was lost while the call was pending. Over HTTP that may be the call's own connection alone.
    Lost {
        /// Why it was lost.
        reason: String,
        /// What went wrong with the server, where that is known already.
        failure: Option<Arc<Failure>>,
    },
    /// The server was disabled while the call was pending. It is not started again by itself, so the call is not
    /// replayed.
    Disabled,
    /// The transport could not carry the call, but the connection lives on. The call is not replayed: the transport would
    /// fail again.
    NotCarried {
        /// Why.
        reason: String,
    },
    /// The server requires a login, or more rights. An earlier round of the call may have been accepted.
    AuthRequired {
        /// What a login needs.
        challenge: Box<Challenge>,
    },
    /// The server is overloaded. After an answer 429 an earlier round of the call may have been accepted; after an answer 503 this
    /// round may have run too, unless a gateway of Mainstay says that it passed nothing on.
    Throttled {
        /// How long Mainstay leaves the server alone, where the server asks for a pause: as long as it asks for, and no longer than
        /// the policy grants.
        retry_after: Option<Duration>,
    },
    /// The server answered with an error.
    Rpc(Box<RpcError>),
    /// The server answered with something that cannot be used. The call has run, or may have: the outcome says which.
    BadAnswer(BadAnswer),
    /// The configuration does not show this tool.
    Hidden {
        /// The tool.
        tool: String,
    },
    /// The server does not declare the capability for this method. Mainstay sent nothing.
    NotOffered {
        /// The method.
        method: String,
        /// The missing capability.
        capability: &'static str,
    },
    /// The server was removed from the fleet, or the fleet was closed. A call that was pending then may have run. A server
    /// that was added again under this name has a new handle.
    Gone,
    /// No server of the fleet offers this.
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// The server's keeper failed while the call waited. It restarts.
    KeeperFailed,
    /// The server has as many subscriptions as it may have.
    TooManySubscriptions {
        /// The limit.
        limit: usize,
    },
    /// The arguments could not be written as JSON.
    BadArguments(String),
}

/// A server that is not connected: what is known of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NotConnected {
    /// The server.
    pub server: Arc<str>,
    /// Its state.
    pub state: StateKind,
    /// Why it is disconnected, where it is.
    pub reason: Option<Reason>,
    /// Failures in a row so far.
    pub attempt: u32,
    /// When the next attempt starts.
    pub next_retry: Option<SystemTime>,
    /// What went wrong last.
    pub last_error: Option<Arc<Failure>>,
}

/// The JSON-RPC errors of a request that never began: parse error, invalid request, method not found, invalid parameters.
const NEVER_BEGAN: [i64; 4] = [
    RpcError::PARSE_ERROR,
    RpcError::INVALID_REQUEST,
    RpcError::METHOD_NOT_FOUND,
    RpcError::INVALID_PARAMS,
];

impl CallError {
    /// The error of a call to this server. Mainstay makes its errors itself; a program that stands in for a server, or tests
    /// how it shows errors, can make one here.
    pub fn new(
        server: impl Into<Option<Arc<str>>>,
        generation: Option<Generation>,
        outcome: Outcome,
        kind: CallErrorKind,
    ) -> Self {
        Self {
            server: server.into(),
            generation,
            outcome,
            kind,
        }
    }

    /// The error of a call that was not sent.
    pub(crate) fn not_sent(server: &Arc<str>, kind: CallErrorKind) -> Self {
        Self::new(server.clone(), None, Outcome::NotSent, kind)
    }

    /// What went wrong.
    pub fn kind(&self) -> &CallErrorKind {
        &self.kind
    }

    /// Whether the call may have run, as far as Mainstay knows.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The server that was called.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The connection that the call was made on.
    pub fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// Whether the call may have had effects at the server. An answered call has run, unless the server's error says that it
    /// never began: the request was not understood, its method is unknown, or its parameters are wrong.
    pub fn may_have_run(&self) -> bool {
        match (self.outcome, &self.kind) {
            (Outcome::NotSent | Outcome::Refused, _) => false,
            (Outcome::Answered, CallErrorKind::Rpc(error)) => !NEVER_BEGAN.contains(&error.code()),
            (Outcome::Unknown | Outcome::Answered, _) => true,
        }
    }

    /// How long to wait before the next try, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        if let CallErrorKind::Throttled { retry_after } = &self.kind {
            return *retry_after;
        }
        let at = self.not_connected()?.next_retry?;
        Some(at.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// The state of a server that was not connected, where that is why the call failed.
    pub fn not_connected(&self) -> Option<&NotConnected> {
        match &self.kind {
            CallErrorKind::NotConnected(now)
            | CallErrorKind::WaitTimedOut { now, .. }
            | CallErrorKind::TooManyWaiting { now, .. } => Some(now),
            CallErrorKind::TimedOut { .. }
            | CallErrorKind::Cancelled
            | CallErrorKind::Lost { .. }
            | CallErrorKind::Disabled
            | CallErrorKind::NotCarried { .. }
            | CallErrorKind::AuthRequired { .. }
            | CallErrorKind::Throttled { .. }
            | CallErrorKind::Rpc(_)
            | CallErrorKind::BadAnswer(_)
            | CallErrorKind::Hidden { .. }
            | CallErrorKind::NotOffered { .. }
            | CallErrorKind::Gone
            | CallErrorKind::NotFound { .. }
            | CallErrorKind::KeeperFailed
            | CallErrorKind::TooManySubscriptions { .. }
            | CallErrorKind::BadArguments(_) => None,
        }
    }

    /// The same error of a call whose connection was cut for this reason.
    pub(super) fn cut_because(mut self, kind: CallErrorKind) -> Self {
        if matches!(self.kind, CallErrorKind::Lost { .. }) {
            self.kind = kind;
        }
        self
    }

    /// The same error of a call that then waited for another connection and got none. It says more than the wait, unless a person took
    /// the server away meanwhile.
    pub(super) fn then_waited(self, wait: &Self) -> Self {
        match &wait.kind {
            CallErrorKind::Gone => self.cut_because(CallErrorKind::Gone),
            CallErrorKind::NotConnected(now)
                if matches!(now.state, StateKind::Disabled | StateKind::Disabling) =>
            {
                self.cut_because(CallErrorKind::Disabled)
            }
            _other => self,
        }
    }

    /// The same error, with what the server wrote to stdout while the call ran.
    pub(super) fn with_noise(mut self, example: Option<Arc<str>>) -> Self {
        if let CallErrorKind::TimedOut { noise, .. } = &mut self.kind {
            *noise = example;
        }
        self
    }

    /// The same error with no longer pause than this.
    pub(super) fn pausing_at_most(mut self, longest: Duration) -> Self {
        if let CallErrorKind::Throttled {
            retry_after: Some(pause),
        } = &mut self.kind
        {
            *pause = (*pause).min(longest);
        }
        self
    }

    pub(super) fn of(
        error: RequestError,
        server: Arc<str>,
        generation: Generation,
        failure: Option<Arc<Failure>>,
    ) -> Self {
        let outcome = match &error {
            RequestError::BadAnswer(what) => what.outcome(),
            other => other.outcome(),
        };
        let kind = match error {
            RequestError::Rpc(error) => CallErrorKind::Rpc(Box::new(error)),
            RequestError::BadAnswer(what) => CallErrorKind::BadAnswer(what),
            RequestError::TimedOut { kind, .. } => CallErrorKind::TimedOut {
                timeout: kind,
                noise: None,
            },
            RequestError::Cancelled { .. } => CallErrorKind::Cancelled,
            RequestError::Send(unsent) => kind_of_send(&unsent, failure),
            RequestError::Lost { end, .. } => CallErrorKind::Lost {
                reason: plain(&end),
                failure,
            },
        };
        Self::new(server, Some(generation), outcome, kind)
    }
}

fn kind_of_send(unsent: &SendFailure, failure: Option<Arc<Failure>>) -> CallErrorKind {
    match unsent.error().downcast_ref() {
        // Another connection may carry it.
        Some(
            HttpFailure::SessionLost { .. }
            | HttpFailure::ConnectFailed { .. }
            | HttpFailure::LocalLack { .. }
            | HttpFailure::Broken { .. },
        ) => CallErrorKind::Lost {
            reason: plain(unsent),
            failure,
        },
        Some(HttpFailure::AuthRequired { challenge, .. }) => CallErrorKind::AuthRequired {
            challenge: Box::new(challenge.clone()),
        },
        Some(HttpFailure::Throttled { retry_after, .. }) => CallErrorKind::Throttled {
            retry_after: *retry_after,
        },
        Some(HttpFailure::BodyTooLarge { limit }) => {
            CallErrorKind::BadAnswer(BadAnswer::LongerThan { limit: *limit })
        }
        Some(_) | None => CallErrorKind::NotCarried {
            reason: plain(unsent),
        },
    }
}

/// A call that failed because its server is not connected was not sent.
impl From<NotConnected> for CallError {
    fn from(now: NotConnected) -> Self {
        let server = now.server.clone();
        Self::not_sent(&server, CallErrorKind::NotConnected(Box::new(now)))
    }
}

impl std::error::Error for CallError {}

impl CallError {
    /// What failed, without whether the call ran: for a program that says that in words of its own.
    pub fn reason(&self) -> String {
        let server = self.server.as_deref().unwrap_or_default();
        match &self.kind {
            CallErrorKind::NotConnected(now) => now.to_string(),
            CallErrorKind::WaitTimedOut { waited, now } => {
                format!("the call waited {waited:?} for its server and was not sent: {now}")
            }
            CallErrorKind::TooManyWaiting { limit, now } => {
                format!("{limit} calls wait already, and this one was not sent: {now}")
            }
            CallErrorKind::TimedOut { timeout, noise } => {
                let noise = noise::say(noise.as_deref());
                format!("server {server} did not answer in time ({timeout}){noise}")
            }
            CallErrorKind::Cancelled => format!("an operator cancelled the call to server {server}"),
            CallErrorKind::Lost { reason, failure } => {
                let why = why(reason, failure.as_deref());
                format!("the connection to server {server} was lost ({why})")
            }
            CallErrorKind::Disabled => {
                format!("server {server} was disabled while the call was pending")
            }
            CallErrorKind::NotCarried { reason } => {
                format!("the call to server {server} could not be carried ({reason})")
            }
            CallErrorKind::AuthRequired { challenge } => {
                let scopes = scopes(challenge);
                let asks = match challenge.wants_more_rights() {
                    true => "accepted the token that it was shown, which does not suffice",
                    false => "asks for a login",
                };
                format!("server {server} {asks}{scopes}")
            }
            CallErrorKind::Throttled { retry_after } => {
                format!("server {server} asks for a pause{}", pause(*retry_after))
            }
            CallErrorKind::Rpc(error) => format!("server {server} answered with an error: {error}"),
            CallErrorKind::BadAnswer(what) => {
                format!("the answer of server {server} cannot be used: {what}")
            }
            CallErrorKind::Hidden { tool } => {
                format!("server {server} has no tool {tool} that the configuration shows")
            }
            CallErrorKind::NotOffered { method, capability } => {
                format!("server {server} declares no {capability}, and was not asked for {method}")
            }
            CallErrorKind::Gone => format!("server {server} is gone from the fleet"),
            CallErrorKind::NotFound { name } => format!("the fleet has no {name}"),
            CallErrorKind::KeeperFailed => format!("the keeper of server {server} failed and restarts"),
            CallErrorKind::TooManySubscriptions { limit } => {
                format!("server {server} has {limit} subscriptions already")
            }
            CallErrorKind::BadArguments(error) => {
                format!("the arguments cannot be written as JSON: {error}")
            }
        }
    }

    /// Whether the call ran, if the reason leaves that open.
    fn verdict(&self) -> Option<&'static str> {
        match &self.kind {
            CallErrorKind::TimedOut { .. }
            | CallErrorKind::Cancelled
            | CallErrorKind::Lost { .. }
            | CallErrorKind::Disabled
            | CallErrorKind::NotCarried { .. }
            | CallErrorKind::AuthRequired { .. }
            | CallErrorKind::Throttled { .. }
            | CallErrorKind::BadAnswer(_)
            | CallErrorKind::Gone
            | CallErrorKind::KeeperFailed => Some(may_have_run(self.outcome)),
            CallErrorKind::NotConnected(_)
            | CallErrorKind::WaitTimedOut { .. }
            | CallErrorKind::TooManyWaiting { .. }
            | CallErrorKind::Rpc(_)
            | CallErrorKind::Hidden { .. }
            | CallErrorKind::NotOffered { .. }
            | CallErrorKind::NotFound { .. }
            | CallErrorKind::TooManySubscriptions { .. }
            | CallErrorKind::BadArguments(_) => None,
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason())?;
        match self.verdict() {
            Some(ran) => write!(f, "; the call {ran}"),
            None => Ok(()),
        }
    }
}

impl From<&Status> for NotConnected {
    fn from(status: &Status) -> Self {
        Self {
            server: status.server.clone(),
            state: status.state,
            reason: status.reason,
            attempt: status.attempt,
            next_retry: status.next_retry,
            last_error: status.last_error.clone(),
        }
    }
}

impl std::fmt::Display for NotConnected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server {} is {}", self.server, self.state)?;
        if let Some(reason) = self.reason {
            write!(f, " ({})", reason.as_str())?;
        }
        if self.attempt > 0 {
            write!(f, ", {} failures in a row", self.attempt)?;
        }
        if let Some(at) = self.next_retry {
            let pause = at.duration_since(SystemTime::now()).unwrap_or_default();
            write!(f, ", next attempt in {:.1} s", pause.as_secs_f64())?;
        }
        match &self.last_error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

fn scopes(challenge: &Challenge) -> String {
    if challenge.scopes.is_empty() {
        return String::new();
    }
    let scopes = PlainText::line(&challenge.scopes.join(" ")).cut(MAX_REASON_CHARS);
    format!(" (scopes: {scopes})")
}

/// How long a reason may be: it may quote what a server sent.
const MAX_REASON_CHARS: usize = 4096;

fn plain(reason: &impl std::fmt::Display) -> String {
    PlainText::line(&reason.to_string())
        .cut(MAX_REASON_CHARS)
        .into_string()
}

fn pause(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |pause| format!(" of {} s", pause.as_secs()))
}

fn why(reason: &str, failure: Option<&Failure>) -> String {
    failure.map_or_else(|| reason.to_owned(), Failure::to_string)
}

fn may_have_run(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotSent => "was not sent",
        Outcome::Refused => "was refused and did not run",
        Outcome::Unknown => "may have run",
        Outcome::Answered => "was answered",
    }
}
