//! What an answer that is no success means for the request.

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderValue;
use http::header::{LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::Value;
use tokio::time::timeout;

use super::connection::Response;
use super::events::BYTE_ORDER_MARK;
use super::pool::ExchangeError;
use super::{Challenge, CredentialRefusal, HttpFailure, HttpStage, tls};
use crate::lack::Lack;
use crate::transport::receiving;
use crate::wire::Outcome;

/// How much of an error's body is read: it may hold a JSON-RPC error, and those are short.
const ERROR_BODY: usize = 64 * 1024;

/// How long the body of an error may take; its head has said what matters.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of an error's body is shown.
const SHOWN: usize = 200;

/// The longest pause a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// A request that failed, and whether it may have run.
#[derive(Clone, Debug)]
pub(in crate::transport) struct Refusal {
    pub(in crate::transport) outcome: Outcome,
    pub(in crate::transport) failure: HttpFailure,
}

impl Refusal {
    pub(in crate::transport) fn new(outcome: Outcome, failure: HttpFailure) -> Self {
        Self { outcome, failure }
    }

    pub(in crate::transport) fn not_sent(failure: HttpFailure) -> Self {
        Self::new(Outcome::NotSent, failure)
    }

    pub(in crate::transport) fn unknown(failure: HttpFailure) -> Self {
        Self::new(Outcome::Unknown, failure)
    }

    /// The server refused the credential, and the provider has no other one for now.
    pub(in crate::transport) fn no_credential(failure: HttpFailure) -> Self {
        Self::new(Outcome::Refused, failure)
    }

    /// The server does not know the session, so it has done nothing in it.
    pub(in crate::transport) fn session_lost(status: u16) -> Self {
        Self::new(Outcome::Refused, HttpFailure::SessionLost { status })
    }

    /// Fails where the server accepted the request and its answer cannot be decompressed.
    pub(in crate::transport) fn if_unreadable(response: &Response) -> Result<(), Self> {
        match response.unknown_coding() {
            None => Ok(()),
            Some(encoding) => Err(Self::unknown(HttpFailure::Compressed {
                encoding: encoding.to_owned(),
            })),
        }
    }

    /// The server answered with a status that is no success; `body` is the beginning of what came with it.
    pub(in crate::transport) fn of_status(response: &Head, body: &[u8]) -> Self {
        let status = response.status;
        match status {
            300..=399 => {
                // 302 and 303 may name the place of a result: the server has then processed the request.
                let outcome = match status {
                    302 | 303 => Outcome::Unknown,
                    _moved => Outcome::Refused,
                };
                let location = response.location.clone().unwrap_or_default();
                Self::new(outcome, HttpFailure::Redirect { status, location })
            }
            // Without a challenge, a 403 is no question for a login: a firewall or a quota may send it for a while.
            403 if response.challenge.www_authenticate.is_none() => {
                Self::new(Outcome::Refused, of_body(status, body))
            }
            401 | 403 => Self::new(
                Outcome::Refused,
                HttpFailure::AuthRequired {
                    status,
                    challenge: response.challenge.clone(),
                },
            ),
            429 => Self::new(Outcome::Refused, response.throttled()),
            503 => {
                // `Retry-After` says when to come back, not whether the server processed this request.
                let outcome = match says_not_processed(body) {
                    true => Outcome::Refused,
                    false => Outcome::Unknown,
                };
                let failure = match response.retry_after {
                    Some(_) => response.throttled(),
                    None => of_body(status, body),
                };
                Self::new(outcome, failure)
            }
            // The server gave the request up, perhaps in the middle of it.
            408 => Self::unknown(of_body(status, body)),
            400..=499 => Self::new(Outcome::Refused, of_body(status, body)),
            _server_error => Self::unknown(of_body(status, body)),
        }
    }
}

/// The request could not be carried, or its answer was lost.
impl From<ExchangeError> for Refusal {
    fn from(error: ExchangeError) -> Self {
        let message = innermost(&error);
        // A server may say so only when the first request is on its way, and reads nothing of it.
        if let Some(demand) = of_certificate(&error) {
            let message = format!("the server {demand}: {message}");
            let kind = io::ErrorKind::PermissionDenied;
            return Self::not_sent(HttpFailure::ConnectFailed { kind, message });
        }
        match &error {
            ExchangeError::TooSlow(limit) => Self::not_sent(HttpFailure::TimedOut {
                step: HttpStage::Connect,
                limit: *limit,
            }),
            ExchangeError::NotConnected(_) => {
                if let Some(lack) = lack_of(&error) {
                    return Self::not_sent(HttpFailure::LocalLack { lack });
                }
                let kind = io_kind(&error).unwrap_or(io::ErrorKind::Other);
                Self::not_sent(HttpFailure::ConnectFailed { kind, message })
            }
            ExchangeError::NotWritten(_) => Self::not_sent(HttpFailure::Broken { message }),
            ExchangeError::NoHead | ExchangeError::Damaged(_) => {
                Self::unknown(HttpFailure::Malformed { message })
            }
            ExchangeError::Broken(error) if error.is_parse() => {
                Self::unknown(HttpFailure::Malformed { message })
            }
            ExchangeError::Broken(_) => Self::unknown(HttpFailure::Broken { message }),
        }
    }
}

/// Where no call hangs on the request, whether it may have run does not matter.
impl From<Refusal> for HttpFailure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

/// What the head of an answer that is no success says.
#[derive(Debug)]
pub(in crate::transport) struct Head {
    pub(in crate::transport) status: u16,
    location: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) challenge: Challenge,
}

impl Head {
    pub(in crate::transport) fn of(response: &Response) -> Self {
        let headers = response.headers();
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenge = Challenge::parse(challenges.filter_map(|value| value.to_str().ok()));
        Self {
            status: response.status().as_u16(),
            location: text(LOCATION).map(str::to_owned),
            retry_after: text(RETRY_AFTER).and_then(|value| pause(value, SystemTime::now())),
            challenge: Challenge {
                refuses_credential: response.had_credential,
                is_forbidden: response.status().as_u16() == 403,
                ..challenge
            },
        }
    }

    /// What to report to a provider whose credential was refused. `None` if another credential would not help.
    pub(in crate::transport) fn credential_refusal(
        response: &Response,
        shown: Option<&HeaderValue>,
    ) -> Option<CredentialRefusal> {
        let status = response.status().as_u16();
        if !matches!(status, 401 | 403) {
            return None;
        }
        let challenge = Self::of(response).challenge;
        let may_help = status == 401 || challenge.error.as_deref() == Some("insufficient_scope");
        may_help.then(|| CredentialRefusal {
            authorization: shown.cloned(),
            status,
            challenge,
        })
    }

    fn throttled(&self) -> HttpFailure {
        HttpFailure::Throttled {
            status: self.status,
            retry_after: self.retry_after,
        }
    }
}

/// The whole body, if it is not longer than the limit.
///
/// Cancel safety: when the future is dropped, what was read is lost.
pub(in crate::transport) async fn read_body(response: &mut Response, limit: usize) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::new(Outcome::Answered, HttpFailure::BodyTooLarge { limit });
    if response.announced().is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let length = response
        .announced()
        .and_then(|length| usize::try_from(length).ok());
    let mut body = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + rest.len() + chunk.len() > limit {
            return Err(too_large());
        }
        // Most answers are one piece, which need not be copied.
        if body.is_empty() && rest.is_empty() {
            body = chunk;
            continue;
        }
        if rest.is_empty() {
            rest.extend_from_slice(&std::mem::take(&mut body));
        }
        if rest.capacity() - rest.len() < chunk.len() {
            rest.reserve(receiving::capacity_to_add(rest.len(), chunk.len(), limit));
        }
        rest.extend_from_slice(&chunk);
        if receiving::is_large(rest.len()) {
            response.take_room(length.unwrap_or(limit)).await;
        }
    }
    let mut body = if rest.is_empty() { body } else { rest.freeze() };
    skip_byte_order_mark(&mut body);
    Ok(body)
}

/// The beginning of the body of an error, as far as it comes and can be read.
pub(in crate::transport) async fn read_error(response: &mut Response) -> Bytes {
    let mut body = BytesMut::new();
    if response.unknown_coding().is_some() {
        return body.freeze();
    }
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = ERROR_BODY - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BODY {
                break;
            }
        }
    };
    let _ = timeout(ERROR_BODY_TIMEOUT, reading).await;
    let mut body = body.freeze();
    skip_byte_order_mark(&mut body);
    body
}

/// Some servers begin with one, though JSON has none.
fn skip_byte_order_mark(body: &mut Bytes) {
    if body.starts_with(BYTE_ORDER_MARK) {
        body.advance(BYTE_ORDER_MARK.len());
    }
}

/// Whether a gateway of Mainstay says in its error that it passed the request on to no server.
fn says_not_processed(body: &[u8]) -> bool {
    let Ok(error) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    let outcome = error
        .pointer("/error/data/mainstay/outcome")
        .and_then(Value::as_str);
    outcome.is_some_and(|said| {
        [Outcome::NotSent, Outcome::Refused]
            .iter()
            .any(|known| known.as_str() == said)
    })
}

fn of_body(status: u16, body: &[u8]) -> HttpFailure {
    let text = String::from_utf8_lossy(body);
    let shown = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(SHOWN);
    HttpFailure::Status {
        status,
        body: shown.collect::<String>().trim().to_owned(),
    }
}

/// The pause of a `Retry-After`: seconds, or a date by the clock of this machine. One that has passed is no pause.
fn pause(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let pause = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            date.duration_since(now).unwrap_or_default()
        }
    };
    Some(pause.min(LONGEST_PAUSE))
}

fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// What the server wants of its client's certificate, where it refused the client for that.
fn of_certificate(error: &dyn Error) -> Option<&'static str> {
    io_errors(error).find_map(tls::refused_certificate)
}

/// What the system said: the innermost failure of input or output. Each may be wrapped in others that say less.
fn io_kind(error: &dyn Error) -> Option<io::ErrorKind> {
    io_errors(error).last().map(io::Error::kind)
}

/// What this machine lacked, where that is why.
fn lack_of(error: &dyn Error) -> Option<Lack> {
    io_errors(error).find_map(Lack::of)
}

/// The failures of input and output that an error has as its sources, the innermost last.
fn io_errors(error: &dyn Error) -> impl Iterator<Item = &io::Error> {
    let sources = std::iter::successors(error.source(), |error| (*error).source());
    sources
        .filter_map(|source| source.downcast_ref::<io::Error>())
        // Its `source` would be that of what it wraps.
        .flat_map(|error| std::iter::successors(Some(error), |error| error.get_ref()?.downcast_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_by_a_date_and_is_bounded() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (value, expected) in [
            (" 7 ", seconds(7)),
            ("0", seconds(0)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", seconds(30)),
            ("Sunday, 06-Nov-94 08:50:07 GMT", seconds(30)),
            ("Sun Nov  6 08:50:07 1994", seconds(30)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", seconds(0)),
            ("99999999999", Some(LONGEST_PAUSE)),
            ("Fri, 01 Jan 2094 00:00:00 GMT", Some(LONGEST_PAUSE)),
            ("99999999999999999999999", None),
            ("-1", None),
            ("tomorrow", None),
            ("", None),
        ] {
            assert_eq!(pause(value, now), expected, "{value:?}");
        }
    }
}
