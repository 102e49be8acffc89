//! What can mend a failure: the one place that decides it. The machine obeys.

use mainstay_lifecycle::Recovery;

use super::dial::DialError;
use super::listing::ListError;
use crate::protocol::HandshakeError;
use crate::transport::http::Challenge;
use crate::transport::{HttpFailure, SendFailure};
use crate::wire::{RequestError, TimeoutKind};

/// What a call that failed means for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// None: the server answered, or it was not to blame.
    Nothing,
    /// None that the connection's owner would not see by itself.
    Seen,
    /// It counts against the connection; this would mend it.
    Counts(Recovery),
    /// It counts, and the server may be gone: it is looked after at once.
    Doubt,
}

/// What can mend a dial that failed.
pub(crate) fn of_dial(error: &DialError) -> Recovery {
    match error {
        DialError::Spawn(error) if error.is_permanent() => Recovery::GiveUp,
        DialError::Handshake(HandshakeError::UnsupportedVersion { .. } | HandshakeError::NotOfEra(_)) => {
            Recovery::GiveUp
        }
        DialError::Handshake(HandshakeError::Failed(error)) => of_opening(error),
        DialError::AfterProbe(error) => of_dial(error),
        DialError::Spawn(_)
        | DialError::Connect(_)
        // A certificate may be put in its place while the server waits for it.
        | DialError::Config(_)
        | DialError::Handshake(_)
        | DialError::Silent(_)
        | DialError::TooSlow(_) => Recovery::Retry,
    }
}

/// What can mend a listing that failed.
pub(crate) fn of_listing(error: &ListError) -> Recovery {
    match error {
        ListError::Request { error, .. } => of_opening(error),
        ListError::Page(_) => Recovery::Retry,
    }
}

/// What a call's failure means for its connection. Who is let in, but may not do one thing, is still let in.
pub(crate) fn of_call(error: &RequestError) -> Consequence {
    match error {
        RequestError::Rpc(_) | RequestError::BadAnswer(_) => Consequence::Nothing,
        // It was not the server that let the caller wait.
        RequestError::TimedOut {
            kind: TimeoutKind::Person,
            ..
        } => Consequence::Nothing,
        RequestError::TimedOut { .. } => Consequence::Counts(Recovery::Retry),
        // The end of the connection is seen by its owner; N calls that see it cause one reconnect.
        RequestError::Lost { .. } => Consequence::Seen,
        RequestError::Send(failure) => match http(failure) {
            Some(failure) => of_http(failure),
            None => Consequence::Counts(Recovery::Retry),
        },
    }
}

/// What a login needs, where a failure asks for one.
pub(crate) fn challenge(error: &RequestError) -> Option<&Challenge> {
    match error {
        RequestError::Send(failure) => match http(failure)? {
            HttpFailure::AuthRequired { challenge, .. } => Some(challenge),
            _ => None,
        },
        RequestError::Rpc(_)
        | RequestError::BadAnswer(_)
        | RequestError::TimedOut { .. }
        | RequestError::Lost { .. } => None,
    }
}

/// The failure of a transport over HTTP, if it is one.
pub(crate) fn http(failure: &SendFailure) -> Option<&HttpFailure> {
    failure.error().downcast_ref()
}

/// Of what Mainstay itself asks: nobody is let in who may not even list.
fn of_opening(error: &RequestError) -> Recovery {
    if challenge(error).is_some() {
        return Recovery::Login;
    }
    match of_call(error) {
        Consequence::Counts(recovery) => recovery,
        Consequence::Nothing | Consequence::Seen | Consequence::Doubt => Recovery::Retry,
    }
}

fn of_http(failure: &HttpFailure) -> Consequence {
    match failure {
        HttpFailure::AuthRequired { status: 401, .. } => Consequence::Counts(Recovery::Login),
        HttpFailure::AuthRequired { .. } | HttpFailure::BodyTooLarge { .. } => Consequence::Nothing,
        HttpFailure::Throttled { retry_after, .. } => {
            Consequence::Counts(retry_after.map_or(Recovery::Retry, Recovery::RetryAfter))
        }
        HttpFailure::Status {
            status: 400..=499, ..
        } => Consequence::Nothing,
        HttpFailure::SessionLost { .. } => Consequence::Seen,
        HttpFailure::Broken { .. } | HttpFailure::StreamEnded | HttpFailure::ConnectFailed { .. } => {
            Consequence::Doubt
        }
        HttpFailure::Status { .. }
        | HttpFailure::Redirect { .. }
        | HttpFailure::ForeignAddress { .. }
        | HttpFailure::WrongContentType { .. }
        | HttpFailure::TimedOut { .. }
        | HttpFailure::NoCredential { .. }
        | HttpFailure::Aborted => Consequence::Counts(Recovery::Retry),
    }
}
