//! What the flight recorder has of one server.

use mainstay::RawJson;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The last messages of a server's connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordingDocument {
    /// The server.
    pub server: String,
    /// When this was read.
    pub at_ms: u64,
    /// Whether the program records whole messages. Otherwise only heads are known.
    pub has_payloads: bool,
    /// How many messages came before the first one here and are no longer kept.
    pub dropped: u64,
    /// The last messages, the oldest first.
    pub messages: Vec<MessageRecord>,
    /// The last messages of connections that were lost or could not be opened, the oldest loss first.
    pub losses: Vec<LossRecord>,
}

/// One message on a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageRecord {
    /// When it was handed to the transport, or was read, in microseconds since 1970.
    pub at_us: u64,
    /// The connection.
    pub generation: u64,
    /// `to_server` or `from_server`.
    pub direction: String,
    /// `request`, `notification`, `result`, `error`, `unreadable` (no message) or `failed` (a request that the transport could not
    /// carry). Later versions may have more words.
    pub kind: String,
    /// The method of a request or a notification.
    pub method: Option<String>,
    /// The tool or prompt that a request names, where that is known.
    pub name: Option<String>,
    /// The id of a request or an answer, as JSON.
    pub id: Option<String>,
    /// The code of an error.
    pub error_code: Option<i64>,
    /// Its length in bytes.
    pub bytes: u64,
    /// How many messages stand in this place: unreadable lines in a row count as one.
    pub count: u64,
    /// The message, where it was recorded and payloads were asked for.
    #[schema(value_type = Option<Object>)]
    pub payload: Option<RawJson>,
    /// The same of what is no JSON.
    pub text: Option<String>,
}

/// The last messages of a connection that was lost or could not be opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LossRecord {
    /// When the loss was noted.
    pub at_ms: u64,
    /// The connection.
    pub generation: u64,
    /// What went wrong.
    pub reason: String,
    /// Its last messages, the oldest first.
    pub messages: Vec<MessageRecord>,
}
