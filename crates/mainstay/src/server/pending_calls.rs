//! The calls that wait for an answer on a server's live connection, and how a person who is not their caller cancels one.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use mainstay_lifecycle::Generation;

use super::Server;

/// A call that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingCall {
    /// What it is cancelled by.
    pub id: PendingCallId,
    /// The method; a long one is cut and ends in `…`.
    pub method: String,
    /// The tool or prompt that it names, if it is known without reading the parameters.
    pub name: Option<String>,
    /// The client that made it, as [`ClientHandler::client`](crate::ClientHandler::client) says.
    pub client: Option<u64>,
    /// When it was sent.
    pub since: SystemTime,
}

/// The connection and the number of a call. No other call of the process has both. Written as `GENERATION.NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PendingCallId {
    pub(crate) generation: Generation,
    pub(crate) request: u64,
}

/// The text is no id of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a call is GENERATION.NUMBER, such as 3.17")]
pub struct BadPendingCallId;

impl fmt::Display for PendingCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation.0, self.request)
    }
}

impl FromStr for PendingCallId {
    type Err = BadPendingCallId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (generation, request) = text.split_once('.').ok_or(BadPendingCallId)?;
        Ok(Self {
            generation: Generation(generation.parse().map_err(|_| BadPendingCallId)?),
            request: request.parse().map_err(|_| BadPendingCallId)?,
        })
    }
}

impl Server {
    /// The calls that wait for an answer on the live connection: up to so many of them, the oldest first.
    pub fn pending_calls(&self, limit: usize) -> Vec<PendingCall> {
        let connection = self.0.current.load_full();
        connection.map_or_else(Vec::new, |connection| connection.pending_calls(limit))
    }

    /// Cancels a call on behalf of a person who is not its caller; `false` if it no longer waits. Its caller gets an error that
    /// says so, the server gets a cancellation, and the connection stays. The call may have run.
    pub fn cancel_call(&self, id: PendingCallId) -> bool {
        let connection = self.0.current.load_full();
        let connection = connection.filter(|connection| connection.generation == id.generation);
        connection.is_some_and(|connection| connection.peer.cancel_call(id.request))
    }
}
