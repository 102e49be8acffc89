//! What can go wrong between a request and its answer.
//!
//! These are faults of HTTP: heads, bodies, streams and connections. What a server gets wrong in the messages
//! themselves is a [`crate::Fault`], and means the same here as on any other stage.

use serde::{Deserialize, Serialize};

use super::coding::Compression;
use super::exchange::error_without_id;
use super::script::{AnswerForm, NO_SESSION};

/// What goes wrong. Where a fault takes the place of the answer, its text says whether the message was performed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpFault {
    /// Answers properly, this much later.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// Answers properly, with a head that takes this long from its first byte to its last.
    SlowHead {
        /// Milliseconds.
        ms: u64,
    },
    /// Answers properly, with one more header of so many bytes.
    HugeHeader(usize),
    /// Answers properly under this content type.
    ContentType(String),
    /// Answers properly, in this form.
    Reply(AnswerForm),
    /// Answers properly, and compressed even if the request does not accept it.
    Compress(Compression),
    /// Answers properly, with a byte order mark before the body.
    ByteOrderMark,
    /// Performs the message, and answers with a gzip body that stands for a result of so many bytes.
    CompressedBomb(usize),
    /// Closes the connection after so many bytes of the body.
    DropAfter(usize),
    /// Sends so many bytes of a JSON body, and then nothing, on a connection that stays open.
    StopAfter(usize),
    /// Closes the connection after so many events of a stream, without the end that chunked framing has.
    DropAfterEvents(usize),
    /// Ends a stream properly after so many events, answered or not. The rest can be had by resuming.
    EndAfterEvents(usize),
    /// Sends the head, and then nothing, on a connection that stays open.
    Silent,
    /// Spoils an answer that is a stream.
    Stream(BadStream),
    /// Exchanges the answers of this request and the next one with this fault, whatever their sessions.
    SwapAnswers,
    /// Performs the message, and never sends a byte of an answer.
    NoHead,
    /// Performs the message, and closes the connection.
    Close,
    /// Performs the message, and resets the connection.
    Reset,
    /// Performs the message, and answers with a result of so many bytes whose length is not announced.
    HugeBody(usize),
    /// Performs the message, and answers with chunks that have no readable length.
    BadFraming,
    /// Performs the message, and answers with a JSON body that is not UTF-8.
    InvalidUtf8,
    /// Answers with bytes that are no HTTP. The message is not performed.
    NotHttp,
    /// Answers with this status. The message is not performed.
    Status {
        /// The status code.
        code: u16,
        /// Headers besides those every answer has.
        headers: Vec<(String, String)>,
        /// A JSON body; none where it is empty.
        body: String,
    },
    /// Sends the client elsewhere. The message is not performed.
    Redirect {
        /// The status code: 301, 302, 303, 307 or 308.
        code: u16,
        /// Where to.
        to: Redirect,
    },
    /// Forgets the session first, and then answers as the script says of unknown ones.
    ForgetSession,
}

impl HttpFault {
    /// A bare status.
    #[must_use]
    pub fn status(code: u16) -> Self {
        Self::Status {
            code,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    /// A status that says when to come again: seconds or a date.
    #[must_use]
    pub fn retry_after(code: u16, retry_after: &str) -> Self {
        Self::Status {
            code,
            headers: vec![("Retry-After".to_owned(), retry_after.to_owned())],
            body: String::new(),
        }
    }

    /// 401, with a challenge that names the resource metadata and the scopes.
    #[must_use]
    pub fn unauthorized(resource_metadata: &str, scope: &str) -> Self {
        let challenge = format!(r#"Bearer resource_metadata="{resource_metadata}", scope="{scope}""#);
        Self::Status {
            code: 401,
            headers: vec![("WWW-Authenticate".to_owned(), challenge)],
            body: String::new(),
        }
    }

    /// 403, with a challenge that names the scopes that are missing.
    #[must_use]
    pub fn insufficient_scope(scope: &str) -> Self {
        let challenge = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
        Self::Status {
            code: 403,
            headers: vec![("WWW-Authenticate".to_owned(), challenge)],
            body: String::new(),
        }
    }

    /// 400 with a JSON-RPC error that has no id: how some servers say that a session is gone.
    #[must_use]
    pub fn session_lost_as_400() -> Self {
        Self::Status {
            code: 400,
            headers: Vec::new(),
            body: error_without_id(-32000, NO_SESSION),
        }
    }

    /// 307 to another path of this server, where it answers properly.
    #[must_use]
    pub fn moved() -> Self {
        Self::Redirect {
            code: 307,
            to: Redirect::SameOrigin,
        }
    }

    /// 307 to another origin.
    #[must_use]
    pub fn moved_to(url: &str) -> Self {
        Self::Redirect {
            code: 307,
            to: Redirect::Elsewhere(url.to_owned()),
        }
    }
}

/// Where a redirect leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redirect {
    /// To `/moved` of this server, which serves as `/mcp` does and never redirects.
    SameOrigin,
    /// To the requested path itself, without end.
    Itself,
    /// To this URL.
    Elsewhere(String),
}

/// Ways to spoil a stream of events. Each answers as a stream, whatever the script says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadStream {
    /// Events without data come first: comments, unknown fields, an id alone.
    NoData,
    /// An event of so many bytes comes first.
    HugeEvent(usize),
    /// The last event lacks its blank line, so by the rules it never happened.
    NoBlankLine,
    /// An event whose data is not UTF-8 comes first.
    InvalidUtf8,
    /// An event whose data is no JSON comes first.
    NotJson,
    /// The answer never comes: the stream ends properly without it.
    NoAnswer,
}
