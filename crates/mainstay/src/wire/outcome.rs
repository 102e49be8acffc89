//! What is known of a call that failed.

use std::fmt;

/// Whether a failed call may have run at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// No byte of it was handed to the server: it did not run.
    NotSent,
    /// It reached the far side, which refused it before acting on it: it did not run.
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
