//! How a call fails, and what is known of it then.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Generation, StateKind};

use super::{Reason, Status, noise};
use crate::PlainText;
use crate::event::Failure;
use crate::transport::http::Challenge;
use crate::transport::{HttpFailure, SendFailure};
use crate::wire::{BadAnswer, Outcome, RequestError, RpcError, TimeoutKind};

/// Why a call failed. [`CallError::outcome`] says whether it may have run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server is not connected, and the call did not wait: it may not, the server is not coming, or its next attempt
    /// starts only after the wait would be over.
    #[error("{0}")]
    NotConnected(Box<NotConnected>),
    /// The call waited for its server as long as it may: its `wait_timeout`, or what was left of its deadline.
    #[error("the call waited {waited:?} for its server and was not sent: {now}")]
    WaitTimedOut {
        /// How long it waited.
        waited: Duration,
        /// How the server was then.
        now: Box<NotConnected>,
    },
    /// Too many calls wait for the server already.
    #[error("{limit} calls wait already, and this one was not sent: {now}")]
    TooManyWaiting {
        /// The bound.
        limit: usize,
        /// How the server is.
        now: Box<NotConnected>,
    },
    /// The server did not answer in time. It was told to cancel, and the connection is kept.
    #[error("server {server} did not answer in time ({kind}); the call {}{}", may_have_run(*.outcome), noise::say(.noise.as_deref()))]
    TimedOut {
        /// Which server.
        server: Arc<str>,
        /// On which connection.
        generation: Generation,
        /// Which of the limits.
        kind: TimeoutKind,
        /// Whether it may have run.
        outcome: Outcome,
        /// What the server wrote to stdout meanwhile that is no message: cleaned, shortened, one line of it.
        noise: Option<Arc<str>>,
    },
    /// The connection was lost while the call was pending. Over HTTP that may be the call's own connection alone.
    #[error("the connection to server {server} was lost ({}); the call {}", why(.reason, .failure.as_deref()), may_have_run(*.outcome))]
    Lost {
        /// Which server.
        server: Arc<str>,
        /// Which connection.
        generation: Generation,
        /// Why it was lost.
        reason: String,
        /// What went wrong with the server, where that is known already.
        failure: Option<Arc<Failure>>,
        /// Whether it may have run.
        outcome: Outcome,
    },
    /// The transport could not carry the call, though the connection lives on. It is not made again: what refused it once
    /// would refuse it twice.
    #[error("the call to server {server} could not be carried ({reason}); it {}", may_have_run(*.outcome))]
    NotCarried {
        /// Which server.
        server: Arc<str>,
        /// On which connection.
        generation: Generation,
        /// Why.
        reason: String,
        /// Whether it may have run.
        outcome: Outcome,
    },
    /// The server lets in only who has logged in, or who may do more.
    #[error("server {server} asks for a login{}; the call {}", scopes(.challenge), may_have_run(*.outcome))]
    AuthRequired {
        /// Which server.
        server: Arc<str>,
        /// On which connection.
        generation: Generation,
        /// What a login needs.
        challenge: Box<Challenge>,
        /// Whether it may have run: an earlier round of it may have been let in.
        outcome: Outcome,
    },
    /// The server has too much to do.
    #[error("server {server} asks to be left alone{}; the call {}", pause(*.retry_after), may_have_run(*.outcome))]
    Throttled {
        /// Which server.
        server: Arc<str>,
        /// On which connection.
        generation: Generation,
        /// For how long, where it says so.
        retry_after: Option<Duration>,
        /// Whether it may have run: an earlier round of it may have been let in.
        outcome: Outcome,
    },
    /// The server answered with an error.
    #[error("server {server} answered with an error: {error}")]
    Rpc {
        /// Which server.
        server: Arc<str>,
        /// On which connection.
        generation: Generation,
        /// The error, as it came.
        error: RpcError,
    },
    /// The server answered with something that cannot be used. The call has run.
    #[error("the answer of server {server} cannot be used: {what}; the call has run")]
    BadAnswer {
        /// Which server.
        server: Arc<str>,
        /// On which connection.
        generation: Generation,
        /// What is wrong with it.
        what: BadAnswer,
    },
    /// The configuration does not show this tool.
    #[error("server {server} has no tool {tool} that the configuration shows")]
    Hidden {
        /// Which server.
        server: Arc<str>,
        /// Which tool.
        tool: String,
    },
    /// The server said that it cannot answer this, and was not asked.
    #[error("server {server} declares no {capability}, and was not asked for {method}")]
    NotOffered {
        /// Which server.
        server: Arc<str>,
        /// What was to be asked.
        method: String,
        /// The capability that it does not declare.
        capability: &'static str,
    },
    /// The server was removed from the fleet, or the fleet was closed. One that was added again under this name is found in
    /// the fleet.
    #[error("server {server} is gone from the fleet; the call was not sent")]
    Gone {
        /// Which server.
        server: Arc<str>,
    },
    /// No server of the fleet has this.
    #[error("the fleet has no {name}")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// The task that owns the server failed while the call waited; it is being started again.
    #[error("the task that keeps server {server} failed; it begins again, and the call was not sent")]
    KeeperFailed {
        /// Which server.
        server: Arc<str>,
    },
    /// The server has as many subscriptions as it may have.
    #[error("server {server} has {limit} subscriptions already")]
    TooManySubscriptions {
        /// Which server.
        server: Arc<str>,
        /// The bound.
        limit: usize,
    },
    /// The arguments could not be written as JSON.
    #[error("the arguments cannot be written as JSON: {0}")]
    BadArguments(String),
}

/// A server that is not connected: what is known of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NotConnected {
    /// Which server.
    pub server: Arc<str>,
    /// Where it is in its life.
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

/// The errors of JSON-RPC for a request that was not begun: parse error, invalid request, method not found, invalid
/// parameters.
const NEVER_BEGAN: [i64; 4] = [-32700, -32600, -32601, -32602];

impl CallError {
    /// What is known of the call.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotConnected(_)
            | Self::WaitTimedOut { .. }
            | Self::TooManyWaiting { .. }
            | Self::Hidden { .. }
            | Self::NotOffered { .. }
            | Self::Gone { .. }
            | Self::NotFound { .. }
            | Self::KeeperFailed { .. }
            | Self::TooManySubscriptions { .. }
            | Self::BadArguments(_) => Outcome::NotSent,
            Self::TimedOut { outcome, .. }
            | Self::Lost { outcome, .. }
            | Self::NotCarried { outcome, .. }
            | Self::AuthRequired { outcome, .. }
            | Self::Throttled { outcome, .. } => *outcome,
            Self::Rpc { .. } | Self::BadAnswer { .. } => Outcome::Answered,
        }
    }

    /// Whether the call may have had effects at the server. An answered one has run, unless the server answered with an error
    /// that says that it never began: the request was not understood, its method is not known, or its parameters are wrong.
    pub fn may_have_run(&self) -> bool {
        match (self.outcome(), self) {
            (Outcome::NotSent | Outcome::Refused, _) => false,
            (Outcome::Answered, Self::Rpc { error, .. }) => !NEVER_BEGAN.contains(&error.code()),
            (Outcome::Unknown | Outcome::Answered, _) => true,
        }
    }

    /// When it is worth to try again, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        let at = match self {
            Self::NotConnected(now) | Self::WaitTimedOut { now, .. } | Self::TooManyWaiting { now, .. } => {
                now.next_retry?
            }
            Self::Throttled { retry_after, .. } => return *retry_after,
            Self::TimedOut { .. }
            | Self::Lost { .. }
            | Self::NotCarried { .. }
            | Self::AuthRequired { .. }
            | Self::Rpc { .. }
            | Self::BadAnswer { .. }
            | Self::Hidden { .. }
            | Self::NotOffered { .. }
            | Self::Gone { .. }
            | Self::NotFound { .. }
            | Self::KeeperFailed { .. }
            | Self::TooManySubscriptions { .. }
            | Self::BadArguments(_) => return None,
        };
        Some(at.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// The same failure of a call during which the server wrote this to its output.
    pub(super) fn amid(mut self, heard: Option<Arc<str>>) -> Self {
        if let Self::TimedOut { noise, .. } = &mut self {
            *noise = heard;
        }
        self
    }

    pub(super) fn of(
        error: RequestError,
        server: Arc<str>,
        generation: Generation,
        failure: Option<Arc<Failure>>,
    ) -> Self {
        let outcome = error.outcome();
        match error {
            RequestError::Rpc(error) => Self::Rpc {
                server,
                generation,
                error,
            },
            RequestError::BadAnswer(what) => Self::BadAnswer {
                server,
                generation,
                what,
            },
            RequestError::TimedOut { kind, .. } => Self::TimedOut {
                server,
                generation,
                kind,
                outcome,
                noise: None,
            },
            RequestError::Send(unsent) => Self::of_send(&unsent, server, generation, failure),
            RequestError::Lost { end, .. } => Self::Lost {
                server,
                generation,
                reason: plain(&end),
                failure,
                outcome,
            },
        }
    }
}

impl CallError {
    fn of_send(
        unsent: &SendFailure,
        server: Arc<str>,
        generation: Generation,
        failure: Option<Arc<Failure>>,
    ) -> Self {
        match unsent.error().downcast_ref() {
            // Another connection may carry it.
            Some(
                HttpFailure::SessionLost { .. }
                | HttpFailure::ConnectFailed { .. }
                | HttpFailure::LocalLack { .. }
                | HttpFailure::Broken { .. },
            ) => Self::Lost {
                server,
                generation,
                reason: plain(unsent),
                failure,
                outcome: unsent.outcome(),
            },
            Some(HttpFailure::AuthRequired { challenge, .. }) => Self::AuthRequired {
                server,
                generation,
                challenge: Box::new(challenge.clone()),
                outcome: unsent.outcome(),
            },
            Some(HttpFailure::Throttled { retry_after, .. }) => Self::Throttled {
                server,
                generation,
                retry_after: *retry_after,
                outcome: unsent.outcome(),
            },
            Some(HttpFailure::BodyTooLarge { limit }) => Self::BadAnswer {
                server,
                generation,
                what: BadAnswer::LongerThan { limit: *limit },
            },
            Some(_) | None => Self::NotCarried {
                server,
                generation,
                reason: plain(unsent),
                outcome: unsent.outcome(),
            },
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
    retry_after.map_or_else(String::new, |pause| format!(" for {} s", pause.as_secs()))
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
