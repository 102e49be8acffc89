//! How one request over HTTP fails.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::challenge::Challenge;
use crate::lack::Lack;

/// Why a request over HTTP has no answer. It is what [`SendFailure::error`](crate::transport::SendFailure::error) of the
/// HTTP transports is, to be downcast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpFailure {
    /// The server knows the session no more.
    #[error("the server lost the session (status {status})")]
    SessionLost {
        /// What it answered.
        status: u16,
    },
    /// The server lets in only who has logged in, or who may do more.
    #[error("{}", login_wanted(*status, challenge))]
    AuthRequired {
        /// 401 or 403.
        status: u16,
        /// What it asks for.
        challenge: Challenge,
    },
    /// The server has too much to do.
    #[error("the server asks to be left alone for a while (status {status})")]
    Throttled {
        /// 429 or 503.
        status: u16,
        /// For how long, where it says so.
        retry_after: Option<Duration>,
    },
    /// Any other answer that is no success.
    #[error("the server answered with status {status}{}", shown(.body))]
    Status {
        /// The status.
        status: u16,
        /// The beginning of what came with it.
        body: String,
    },
    /// The server sends the client somewhere else, and it does not go.
    #[error("the server redirects to {location}, which is not followed (status {status})")]
    Redirect {
        /// The status.
        status: u16,
        /// Where to.
        location: String,
    },
    /// The server names an address to post to that is not its own, or none.
    #[error("the server wants messages at {address:?}, which is not its own")]
    ForeignAddress {
        /// The address.
        address: String,
    },
    /// The answer is neither JSON nor a stream of events.
    #[error("the answer is of type {content_type:?}, neither JSON nor an event stream")]
    WrongContentType {
        /// What it is.
        content_type: String,
    },
    /// The answer is compressed in a way that cannot be read, and that was not asked for.
    #[error(
        "the answer is compressed with {encoding:?}, though it was asked for without: switch compression off for this path, or \
         compress with gzip"
    )]
    Compressed {
        /// The content of `Content-Encoding`.
        encoding: String,
    },
    /// The answer is longer than is accepted.
    #[error("the answer is longer than {limit} bytes")]
    BodyTooLarge {
        /// The longest that is accepted.
        limit: usize,
    },
    /// No connection could be made.
    #[error("{}", not_connected(*kind, message))]
    ConnectFailed {
        /// The kind of failure.
        kind: io::ErrorKind,
        /// The failure in words.
        message: String,
    },
    /// This machine lacks something that a connection needs.
    #[error("no connection: {lack}")]
    LocalLack {
        /// What is lacking.
        lack: Lack,
    },
    /// A step took too long.
    #[error("{step} took longer than {limit:?}")]
    TimedOut {
        /// Which one.
        step: HttpStage,
        /// How long it may take.
        limit: Duration,
    },
    /// The connection broke while the answer was awaited.
    #[error("the connection broke: {message}")]
    Broken {
        /// The failure in words.
        message: String,
    },
    /// What came back is not of HTTP.
    #[error("the answer cannot be read: {message}")]
    Malformed {
        /// What is wrong with it.
        message: String,
    },
    /// The answer ended as the server wished, and holds no answer to the request.
    #[error("the stream ended without an answer")]
    StreamEnded,
    /// No credential could be had.
    #[error("no credential could be had: {message}")]
    NoCredential {
        /// The failure in words.
        message: String,
    },
    /// The task that carried the request is gone: it panicked, or its runtime was shut down.
    #[error("the task that carried the request is gone")]
    Aborted,
}

/// A step that has a time limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpStage {
    /// Finding a credential.
    Credential,
    /// Making the connection.
    Connect,
    /// Waiting for the head of the answer.
    FirstByte,
}

impl std::fmt::Display for HttpStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Credential => "finding a credential",
            Self::Connect => "connecting",
            Self::FirstByte => "the head of the answer",
        })
    }
}

impl HttpFailure {
    /// How long the server asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } => *retry_after,
            Self::SessionLost { .. }
            | Self::AuthRequired { .. }
            | Self::Status { .. }
            | Self::Redirect { .. }
            | Self::ForeignAddress { .. }
            | Self::WrongContentType { .. }
            | Self::Compressed { .. }
            | Self::BodyTooLarge { .. }
            | Self::ConnectFailed { .. }
            | Self::LocalLack { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Malformed { .. }
            | Self::StreamEnded
            | Self::NoCredential { .. }
            | Self::Aborted => None,
        }
    }
}

/// One fact, said once: that nothing could be connected to is what the kinds of the system say themselves.
fn not_connected(kind: io::ErrorKind, message: &str) -> String {
    match kind {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset while connecting".to_owned(),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => kind.to_string(),
        _ => format!("cannot connect: {message}"),
    }
}

/// A login is wanted, or the token of one was refused or does not suffice.
fn login_wanted(status: u16, challenge: &Challenge) -> String {
    if !challenge.refuses_credential {
        return format!("the server asks for a login (status {status})");
    }
    let error = challenge
        .error_name()
        .map_or_else(String::new, |error| format!(", {error}"));
    if challenge.wants_more_rights() {
        return format!(
            "the server accepted the token that it was shown, which does not suffice (status {status}{error})"
        );
    }
    format!("the server refused the token that it was shown (status {status}{error})")
}

fn shown(body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!(": {body}")
}

/// Why a server cannot be reached over HTTP as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpConfigError {
    /// The address cannot be read.
    #[error("{url:?} is no address: {reason}")]
    NotAnAddress {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The address is none of HTTP.
    #[error("{scheme:?} is not a scheme of HTTP: use http or https")]
    UnknownScheme {
        /// What was given.
        scheme: String,
    },
    /// The address holds a user name or a password, which is not shown here.
    #[error(
        "the address holds a user name or a password, which would be shown wherever the address is: send it in the header \
         Authorization instead"
    )]
    CredentialInAddress,
    /// A header cannot be sent so. Its value may be a secret, and is not shown.
    #[error("the {part} of the header {name:?} holds a character that no header may hold")]
    BadHeader {
        /// The header.
        name: String,
        /// "name" or "value".
        part: &'static str,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file holds no certificate, or no key.
    #[error("{path} holds no {what} in PEM format")]
    NoPem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// TLS cannot be set up so.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The proxy that the environment names is of a kind that is not supported.
    #[error(
        "the environment names a proxy of the kind {scheme:?}, which is not supported: name one that begins with \
         socks5h://, socks5://, http:// or https://, or exempt the host in NO_PROXY"
    )]
    UnsupportedProxy {
        /// The scheme of its address.
        scheme: String,
    },
    /// This build of the library lacks what the address needs.
    #[error(
        "this program was built without the cargo feature `{feature}` of mainstay, which the address needs"
    )]
    MissingFeature {
        /// The cargo feature.
        feature: &'static str,
    },
    /// The client cannot be set up so.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}
