//! What can resolve a failure: the one place that decides it. The machine obeys.

use std::io;

use mainstay_lifecycle::Recovery;

use super::dial::DialError;
use super::listing::ListError;
use crate::lack::Lack;
use crate::process::SpawnError;
use crate::protocol::HandshakeError;
use crate::transport::http::Challenge;
use crate::transport::{End, HttpFailure};
use crate::wire::{RequestError, TimeoutKind};

/// What a call that failed means for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// None: the server answered, or it did not cause the failure.
    Nothing,
    /// None: the task of the connection sees the cause itself.
    SeenByConnection,
    /// It counts against the connection; this would resolve it.
    Counts(Recovery),
    /// It counts, and the server may be gone: probe it at once.
    CountsAndProbes,
}

/// What can resolve a dial that failed.
pub(crate) fn of_dial(error: &DialError) -> Recovery {
    match error {
        DialError::Spawn(error) if error.is_permanent() => Recovery::GiveUp,
        DialError::Unusable(_) => Recovery::GiveUp,
        DialError::Spawn(SpawnError::Lacking { .. }) => Recovery::RetryLack,
        DialError::Connect(error) if Lack::of(error).is_some() => Recovery::RetryLack,
        DialError::Handshake(
            HandshakeError::UnsupportedVersion { .. } | HandshakeError::NotOfEra(_) | HandshakeError::Echoed,
        ) => Recovery::GiveUp,
        DialError::Handshake(HandshakeError::Failed(error)) if is_unreachable(error) => Recovery::RetryWhenReachable,
        DialError::Handshake(HandshakeError::Failed(error)) => of_opening(error),
        DialError::Spawn(_)
        | DialError::Connect(_)
        // A certificate may be put in its place while the server waits for it.
        | DialError::Config(_)
        | DialError::Handshake(_)
        | DialError::Silent(_)
        | DialError::TooSlow(_)
        | DialError::Panicked(_) => Recovery::Retry,
    }
}

/// What can resolve a listing that failed; `None` if the server answered it, which shows that its connection is well.
pub(crate) fn of_listing(error: &ListError) -> Option<Recovery> {
    match error {
        // A client that may not even list is not let in.
        ListError::Request { error, .. } if challenge(error).is_none() && is_answer(error) => None,
        ListError::Page(_) => None,
        ListError::Request { error, .. } => Some(of_opening(error)),
        ListError::Panicked(_) => Some(Recovery::Retry),
    }
}

/// What can resolve the end of a connection that takes nothing new.
pub(crate) fn of_retirement(end: &End) -> Recovery {
    match end {
        End::Io { kind, .. } if is_absence(*kind) => Recovery::RetryWhenReachable,
        End::Io { .. }
        | End::SessionLost
        | End::EndOfStream
        | End::NotOpened(_)
        | End::Closed
        | End::Oversized
        | End::TooMuchGarbage
        | End::Aborted => Recovery::Retry,
    }
}

/// What a call's failure means for its connection. A client that may not make one call may still make others.
pub(crate) fn of_call(error: &RequestError) -> Consequence {
    match error {
        RequestError::Rpc(_) | RequestError::BadAnswer(_) => Consequence::Nothing,
        // A person let the caller wait, not the server.
        RequestError::TimedOut {
            kind: TimeoutKind::Person,
            ..
        } => Consequence::Nothing,
        // Neither did the server cause the cancellation of a call.
        RequestError::Cancelled { .. } => Consequence::Nothing,
        RequestError::TimedOut { .. } => Consequence::Counts(Recovery::Retry),
        // The end of the connection is seen by its owner; N calls that see it cause one reconnect.
        RequestError::Lost { .. } => Consequence::SeenByConnection,
        RequestError::Send(_) => match http(error) {
            Some(failure) => of_http(failure),
            None => Consequence::Counts(Recovery::Retry),
        },
    }
}

/// What a login needs, where a failure asks for one.
pub(crate) fn challenge(error: &RequestError) -> Option<&Challenge> {
    match http(error)? {
        HttpFailure::AuthRequired { challenge, .. } => Some(challenge),
        _other => None,
    }
}

/// The failure of a transport over HTTP, if it is one.
pub(crate) fn http(error: &RequestError) -> Option<&HttpFailure> {
    match error {
        RequestError::Send(failure) => failure.error().downcast_ref(),
        // A transport may be refused before its first request is on its way.
        RequestError::Lost {
            end: End::NotOpened(failure),
            ..
        } => Some(failure),
        RequestError::Lost { .. }
        | RequestError::Rpc(_)
        | RequestError::BadAnswer(_)
        | RequestError::Cancelled { .. }
        | RequestError::TimedOut { .. } => None,
    }
}

/// Whether the server has answered a request of Mainstay itself with an error that a new connection would not mend.
fn is_answer(error: &RequestError) -> bool {
    match error {
        RequestError::Rpc(_) | RequestError::BadAnswer(_) => true,
        RequestError::Send(_) => match http(error) {
            // It has no 401, and this machine caused no failure that it lacks something for.
            Some(HttpFailure::LocalLack { .. }) | None => false,
            Some(failure) => of_http(failure) == Consequence::Nothing,
        },
        RequestError::TimedOut { .. } | RequestError::Lost { .. } | RequestError::Cancelled { .. } => false,
    }
}

/// For requests of Mainstay itself: a client that may not even list is not let in.
fn of_opening(error: &RequestError) -> Recovery {
    if challenge(error).is_some() {
        return Recovery::Login;
    }
    if let Some(HttpFailure::LocalLack { .. }) = http(error) {
        return Recovery::RetryLack;
    }
    match http(error).map_or_else(|| of_call(error), of_http) {
        Consequence::Counts(recovery) => recovery,
        Consequence::Nothing | Consequence::SeenByConnection | Consequence::CountsAndProbes => {
            Recovery::Retry
        }
    }
}

/// Whether the server's port is closed, or its socket is not there.
fn is_unreachable(error: &RequestError) -> bool {
    matches!(http(error), Some(HttpFailure::ConnectFailed { kind, .. }) if is_absence(*kind))
}

fn is_absence(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

fn of_http(failure: &HttpFailure) -> Consequence {
    match failure {
        HttpFailure::AuthRequired { status: 401, .. } => Consequence::Counts(Recovery::Login),
        HttpFailure::AuthRequired { .. } | HttpFailure::BodyTooLarge { .. } => Consequence::Nothing,
        HttpFailure::Throttled {
            retry_after: Some(pause),
            ..
        } => Consequence::Counts(Recovery::RetryAfter(*pause)),
        // The server answers, and says neither that something is wrong nor when to retry.
        HttpFailure::Throttled { status: 429, .. } => Consequence::Nothing,
        HttpFailure::Throttled { .. } => Consequence::Counts(Recovery::Retry),
        HttpFailure::Status {
            status: 400..=499, ..
        } => Consequence::Nothing,
        HttpFailure::LocalLack { .. } => Consequence::Nothing,
        HttpFailure::SessionLost { .. } => Consequence::SeenByConnection,
        HttpFailure::Broken { .. } | HttpFailure::StreamEnded | HttpFailure::ConnectFailed { .. } => {
            Consequence::CountsAndProbes
        }
        HttpFailure::Status { .. }
        | HttpFailure::Redirect { .. }
        | HttpFailure::ForeignAddress { .. }
        | HttpFailure::WrongContentType { .. }
        | HttpFailure::Compressed { .. }
        | HttpFailure::Malformed { .. }
        | HttpFailure::TimedOut { .. }
        | HttpFailure::NoCredential { .. }
        | HttpFailure::Aborted => Consequence::Counts(Recovery::Retry),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transport::SendFailure;
    use crate::wire::Outcome;

    #[test]
    fn a_shortage_of_this_machine_is_no_failure_of_the_server_that_a_connector_dials() {
        let of = |errno: rustix::io::Errno| {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            of_dial(&DialError::Connect(error))
        };
        assert_eq!(of(rustix::io::Errno::MFILE), Recovery::RetryLack);
        assert_ne!(of(rustix::io::Errno::PIPE), Recovery::RetryLack);
    }

    #[test]
    fn a_listing_that_the_server_answers_with_an_error_says_nothing_against_its_connection() {
        let over_http = |failure| ListError::Request {
            method: "tools/list",
            error: RequestError::Send(SendFailure::new(Outcome::Unknown, failure)),
        };
        let status = |status| {
            over_http(HttpFailure::Status {
                status,
                body: String::new(),
            })
        };
        assert_eq!(of_listing(&status(422)), None);
        assert_eq!(of_listing(&status(502)), Some(Recovery::Retry));
        let refused = HttpFailure::AuthRequired {
            status: 401,
            challenge: Challenge::default(),
        };
        assert_eq!(of_listing(&over_http(refused)), Some(Recovery::Login));
        let busy = HttpFailure::Throttled {
            status: 429,
            retry_after: Some(Duration::from_secs(7)),
        };
        let pause = Recovery::RetryAfter(Duration::from_secs(7));
        assert_eq!(of_listing(&over_http(busy)), Some(pause));
        let lack = HttpFailure::LocalLack {
            lack: Lack::Descriptors,
        };
        assert_eq!(of_listing(&over_http(lack)), Some(Recovery::RetryLack));
        let error = RequestError::Rpc(crate::wire::RpcError::new(-32603, "no"));
        let method = "tools/list";
        assert_eq!(of_listing(&ListError::Request { method, error }), None);
    }

    #[test]
    fn a_connection_that_takes_nothing_new_is_followed_when_its_port_is_open_again() {
        let io = |kind| End::Io {
            kind,
            message: String::new(),
        };
        let closed = of_retirement(&io(io::ErrorKind::ConnectionRefused));
        assert_eq!(closed, Recovery::RetryWhenReachable);
        for other in [io(io::ErrorKind::BrokenPipe), End::SessionLost] {
            assert_eq!(of_retirement(&other), Recovery::Retry);
        }
    }

    #[test]
    fn a_refusal_has_the_same_remedy_whether_the_request_met_it_or_the_transport_before_it() {
        let pause = Some(Duration::from_secs(7));
        let login = HttpFailure::AuthRequired {
            status: 401,
            challenge: Challenge::default(),
        };
        let throttled = HttpFailure::Throttled {
            status: 503,
            retry_after: pause,
        };
        for (failure, remedy) in [
            (login, Recovery::Login),
            (throttled, Recovery::RetryAfter(Duration::from_secs(7))),
        ] {
            let send = RequestError::Send(SendFailure::new(Outcome::NotSent, failure.clone()));
            let lost = RequestError::Lost {
                outcome: Outcome::NotSent,
                end: End::NotOpened(Box::new(failure.clone())),
            };
            for error in [send, lost] {
                assert_eq!(http(&error), Some(&failure));
                let dial = DialError::Handshake(HandshakeError::Failed(error));
                assert_eq!(of_dial(&dial), remedy, "{dial:?}");
            }
        }
    }
}
