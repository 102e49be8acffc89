//! The clients that are connected.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionList {
    /// The sessions, the oldest first.
    pub sessions: Vec<SessionStatus>,
}

/// One session of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionStatus {
    /// The number of the session in this run of the program. It is no secret, and opens nothing.
    pub id: u64,
    /// The machine that serves it, where several are watched together.
    pub node: Option<String>,
    /// What the client calls itself.
    pub client: Option<String>,
    /// The version that the client names.
    pub client_version: Option<String>,
    /// `legacy` or `modern`.
    pub era: String,
    /// The protocol version that was agreed on, once it was.
    pub protocol_version: Option<String>,
    /// How the client is connected.
    pub door: SessionDoor,
    /// Since when.
    pub since_ms: u64,
    /// The one server that the client sees; `null` if it sees all of them.
    pub scope: Option<String>,
    /// The servers that its requests went to.
    pub servers: Vec<String>,
    /// The requests that it waits for, the oldest first.
    pub running: Vec<RunningCall>,
    /// How many questions of servers the client has not answered yet.
    pub questions: usize,
    /// How many notifications the client missed, because it does not read them.
    pub missed: u64,
}

/// How a client is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionDoor {
    /// On standard input and output.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE.
    Sse,
    /// Through a bridge on the daemon's socket.
    Bridge,
    /// A way that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A request that a client waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningCall {
    /// The method.
    pub method: String,
    /// The server that it went to, once that is known.
    pub server: Option<String>,
    /// The tool, prompt or resource, as the client names it.
    pub name: Option<String>,
    /// Since when the client waits.
    pub since_ms: u64,
}
