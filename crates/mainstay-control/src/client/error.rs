//! Why a request to the control API failed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::api::ApiProblem;

/// Why a request to the control API failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No program listens there.
    #[error("the control API cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    /// The connection broke before the answer was whole.
    #[error("the connection to the control API broke: {0}")]
    Broken(#[from] hyper::Error),
    /// The answer did not come in time.
    #[error("the control API did not answer within {0:?}")]
    TimedOut(Duration),
    /// The program refused, and says why.
    #[error("{0}")]
    Problem(#[source] Box<ApiProblem>),
    /// The answer is not one of this API. The program may be of another version.
    #[error("the answer of the control API cannot be read: {0}")]
    BadAnswer(String),
    /// The program of another user listens there. It was sent nothing.
    #[error("another user's program (user {user}) listens at {address}, so it is not sent the token")]
    ForeignListener {
        /// The address.
        address: SocketAddr,
        /// The user's number.
        user: u32,
    },
    /// The token cannot stand in a header.
    #[error("the token of the control API has characters that no token has")]
    BadToken,
}

impl ControlError {
    /// The problem that the program reported, if it did.
    pub fn problem(&self) -> Option<&ApiProblem> {
        match self {
            Self::Problem(problem) => Some(problem),
            Self::Unreachable(_)
            | Self::Broken(_)
            | Self::TimedOut(_)
            | Self::BadAnswer(_)
            | Self::ForeignListener { .. }
            | Self::BadToken => None,
        }
    }
}
