//! How a request fails, and whether it may have run.

use std::fmt;

use super::rpc_error::RpcError;
use crate::transport::{End, SendFailure};

/// Why a request has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum RequestError {
    /// The remote peer answered with an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// The connection ended first.
    #[error("{end}")]
    Lost {
        /// Whether the request may have run.
        outcome: Outcome,
        /// How the connection ended.
        end: End,
    },
    /// The transport could not carry it, though the connection lives on.
    #[error("{0}")]
    Send(#[source] SendFailure),
    /// No answer came in time.
    #[error("no answer in time ({kind})")]
    TimedOut {
        /// Which time ran out.
        kind: TimeoutKind,
        /// Whether the writing of it had begun.
        sent: bool,
    },
    /// A person who is not the caller cancelled it.
    #[error("cancelled by an operator")]
    Cancelled {
        /// Whether the writing of it had begun.
        sent: bool,
    },
    /// The remote peer answered, and the answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    BadAnswer(BadAnswer),
}

/// Which time of a request ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutKind {
    /// The time without any progress.
    Idle,
    /// The time for all of it.
    Total,
    /// The time for all of it, while the client was being asked for something: the server is not to blame.
    Person,
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum BadAnswer {
    /// It is longer than the longest message accepted.
    #[error("{length} bytes, the limit is {limit}")]
    TooLarge {
        /// The longest message accepted.
        limit: usize,
        /// The length of the answer.
        length: u64,
    },
    /// It is longer than the longest message accepted, and was not read to its end.
    #[error("longer than the limit of {limit} bytes")]
    LongerThan {
        /// The longest message accepted.
        limit: usize,
    },
    /// It is not a JSON-RPC answer.
    #[error("not a valid message")]
    Malformed,
    /// It is not text.
    #[error("not valid UTF-8")]
    InvalidUtf8,
    /// Its result is not an object, as every result of the protocol is.
    #[error("its result is not an object")]
    ResultNotObject,
}

impl BadAnswer {
    /// What such an answer says of the call. One that is too long is an answer; any other may be that of a server which refused.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::TooLarge { .. } | Self::LongerThan { .. } => Outcome::Answered,
            Self::Malformed | Self::InvalidUtf8 | Self::ResultNotObject => Outcome::Unknown,
        }
    }
}

impl RequestError {
    /// Whether the request may have run.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Rpc(_) | Self::BadAnswer(_) => Outcome::Answered,
            Self::Lost { outcome, .. } => *outcome,
            Self::Send(failure) => failure.outcome(),
            Self::TimedOut { sent: true, .. } | Self::Cancelled { sent: true } => Outcome::Unknown,
            Self::TimedOut { sent: false, .. } | Self::Cancelled { sent: false } => Outcome::NotSent,
        }
    }

    /// The same failure, of a request that was made once already and is made again with input: whatever became of the last
    /// round, the server has acted on the first.
    pub(crate) fn after_a_round(self) -> Self {
        match self {
            Self::Lost { end, .. } => Self::Lost {
                outcome: Outcome::Unknown,
                end,
            },
            Self::Send(failure) => Self::Send(failure.that_may_have_run()),
            Self::TimedOut { kind, .. } => Self::TimedOut { kind, sent: true },
            Self::Cancelled { .. } => Self::Cancelled { sent: true },
            answered @ (Self::Rpc(_) | Self::BadAnswer(_)) => answered,
        }
    }
}

impl fmt::Display for TimeoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Total => "total",
            Self::Person => "person",
        })
    }
}

/// Whether a failed call may have run at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// No byte of it was handed to the server: it did not run.
    NotSent,
    /// It reached the remote peer, which refused it before acting on it: it did not run.
    Refused,
    /// It was sent, and what became of it is not known: it may have run.
    Unknown,
    /// The server answered it: it ran, or the server says why not.
    Answered,
}

impl Outcome {
    /// The word for it in logs, JSON and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Answered => "answered",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn an_outcome_is_shown_as_its_word() {
        let all = [
            Outcome::NotSent,
            Outcome::Refused,
            Outcome::Unknown,
            Outcome::Answered,
        ];
        assert_eq!(
            all.map(|outcome| outcome.to_string()),
            ["not_sent", "refused", "unknown", "answered"]
        );
    }
}
