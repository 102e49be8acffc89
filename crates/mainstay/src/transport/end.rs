//! How a connection, or one send on it, came to its end.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use super::HttpFailure;
use crate::wire::Outcome;

/// Why a connection carries nothing any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum End {
    /// The remote peer closed it.
    #[error("the remote peer closed the connection")]
    EndOfStream,
    /// Reading or writing failed.
    #[error("the connection failed: {message}")]
    Io {
        /// The kind of failure.
        kind: io::ErrorKind,
        /// The failure in words.
        message: String,
    },
    /// The server no longer knows the session.
    #[error("the server lost the session")]
    SessionLost,
    /// It was never open: what would have carried it was refused.
    #[error("{0}")]
    NotOpened(Box<HttpFailure>),
    /// It was closed from this side.
    #[error("the connection was closed")]
    Closed,
    /// A message was too long to be read, and the request that it answered is unknown.
    #[error("a message was too long to be read")]
    Oversized,
    /// The remote peer writes, but it writes no messages.
    #[error("the remote peer writes something other than messages")]
    TooMuchGarbage,
    /// The task that carried it is gone: it panicked, or its runtime was shut down.
    #[error("the task that carried the connection is gone")]
    Aborted,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io {
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

/// Why one request could not be carried, on a transport whose requests can fail one by one.
#[derive(Clone)]
pub struct SendFailure {
    outcome: Outcome,
    error: Arc<dyn Error + Send + Sync>,
}

impl SendFailure {
    /// A failure, and whether the request may have run.
    pub fn new(outcome: Outcome, error: impl Error + Send + Sync + 'static) -> Self {
        Self {
            outcome,
            error: Arc::new(error),
        }
    }

    /// Whether the request may have run.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The same failure of a request that may have run all the same.
    pub(crate) fn that_may_have_run(self) -> Self {
        Self {
            outcome: Outcome::Unknown,
            ..self
        }
    }

    /// The transport's own error, to be downcast.
    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}

impl fmt::Debug for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFailure")
            .field("outcome", &self.outcome)
            .field("error", &self.error)
            .finish()
    }
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl Error for SendFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
