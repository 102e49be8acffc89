//! The flight recorder: the last messages of each server, in memory.
//!
//! Each server has one ring for all its connections; each message carries its generation. By default the ring holds heads:
//! direction, method, id, size, time. A program that wants whole messages asks for them with [`RecorderOptions::payloads`].
//! HTTP headers never reach the recorder, and known secrets are taken out of a payload when it is read.
//!
//! When a connection is lost, its last messages are set aside under its generation, where newer messages do not displace them.
//!
//! Invariants: recording never waits for a reader of another server; a message costs one short lock of its own server's ring,
//! and no allocation unless payloads are recorded; everything is bounded, in messages and in bytes.

mod connection;
mod entry;
mod ring;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use mainstay_lifecycle::Generation;

pub(crate) use connection::{ConnectionRecorder, MessageHead};
pub(crate) use entry::RequestLabel;
pub(crate) use ring::FlightRecorder;

/// Heads that are kept of a server: minutes of a server in normal use, and the last moments of a busy one.
const HEADS_LIMIT: usize = 256;

/// Messages that are kept of a server with their payloads: a session of some hours.
const MESSAGES_LIMIT: usize = 4096;

/// Bytes of payloads that are kept of a server.
const PAYLOAD_BYTES_LIMIT: usize = 8 * 1024 * 1024;

/// What the recorder keeps. By default it keeps heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    messages: usize,
    payload_bytes: usize,
}

impl RecorderOptions {
    /// Nothing is recorded.
    pub const fn off() -> Self {
        Self {
            messages: 0,
            payload_bytes: 0,
        }
    }

    /// The heads of the last 256 messages of each server.
    pub const fn heads() -> Self {
        Self {
            messages: HEADS_LIMIT,
            payload_bytes: 0,
        }
    }

    /// The last 4096 messages of each server, with up to 8 MiB of payloads.
    pub const fn payloads() -> Self {
        Self {
            messages: MESSAGES_LIMIT,
            payload_bytes: PAYLOAD_BYTES_LIMIT,
        }
    }

    /// How many messages are kept of each server; zero turns the recorder off.
    #[must_use]
    pub const fn messages(mut self, limit: usize) -> Self {
        self.messages = limit;
        self
    }

    /// How many bytes of payloads are kept of each server; zero keeps heads only. A payload larger than a quarter of this is
    /// left out.
    #[must_use]
    pub const fn payload_bytes(mut self, limit: usize) -> Self {
        self.payload_bytes = limit;
        self
    }
}

impl Default for RecorderOptions {
    fn default() -> Self {
        Self::heads()
    }
}

/// What the recorder of one server has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recording {
    /// Whether payloads are recorded.
    pub has_payloads: bool,
    /// How many messages came before the first one here and are no longer kept.
    pub dropped: u64,
    /// The last messages, the oldest first.
    pub messages: Vec<RecordedMessage>,
    /// The last messages of connections that were lost or could not be opened, the oldest loss first.
    pub losses: Vec<RecordedLoss>,
}

/// One message on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedMessage {
    /// When it was handed to the transport, or was read.
    pub at: SystemTime,
    /// The connection.
    pub generation: Generation,
    /// Which way it went.
    pub direction: Direction,
    /// What it is.
    pub kind: RecordedKind,
    /// The method of a request or a notification; a long one is cut and ends in `…`.
    pub method: Option<String>,
    /// The tool or prompt that a request of Mainstay's names, if it is known without reading the parameters.
    pub name: Option<String>,
    /// The id of a request or an answer as JSON; a long one is cut and ends in `…`.
    pub id: Option<String>,
    /// The code of an error.
    pub error_code: Option<i64>,
    /// Its length in bytes.
    pub bytes: u64,
    /// How many messages stand in this place: unreadable lines in a row count as one.
    pub count: u64,
    /// The message itself, with known secrets replaced, where payloads are recorded and it was not too large.
    pub payload: Option<String>,
}

/// The last messages of a connection that was lost or could not be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordedLoss {
    /// When the loss was noted.
    pub at: SystemTime,
    /// The connection.
    pub generation: Generation,
    /// What went wrong, as the failure says it.
    pub reason: String,
    /// Its last messages, the oldest first.
    pub messages: Vec<RecordedMessage>,
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From Mainstay to the server.
    ToServer,
    /// From the server to Mainstay.
    FromServer,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordedKind {
    /// It wants an answer.
    Request,
    /// It wants none.
    Notification,
    /// An answer with a result.
    Result,
    /// An answer with an error.
    Error,
    /// A line that is no message, or one that is longer than the limit.
    Unreadable,
    /// A request that the transport could not carry, such as one that HTTP answered with a failure.
    Failed,
}

impl Direction {
    /// The direction as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToServer => "to_server",
            Self::FromServer => "from_server",
        }
    }
}

impl RecordedKind {
    /// The kind as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Notification => "notification",
            Self::Result => "result",
            Self::Error => "error",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
        }
    }
}
