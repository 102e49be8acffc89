//! One request and its answer: JSON, or a stream of events that ends with it.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use tokio::time::{sleep, timeout};

use super::answer::{Relation, lacks_method, negotiated};
use super::connection::Response;
use super::events::{EventsEnd, ResponseEvents};
use super::listen::{Opened, reopen};
use super::refusal::{Head, Refusal, read_body, read_error};
use super::streamable::StreamableHttp;
use super::{HttpFailure, ReconnectBackoff};
use crate::large;
use crate::transport::receiving::deliver;
use crate::transport::{Frame, MessageStream, Turn};
use crate::wire::Outcome;

/// How long to wait for the end of a stream after its answer. The end mostly comes with the answer, and the connection can be used
/// again; a server that leaves its streams open costs a connection for each.
const STREAM_END_GRACE: Duration = Duration::from_millis(100);

/// Failed attempts to resume a broken stream, after which the request fails.
const RESUME_LIMIT: u32 = 4;

/// What a stream is left with when it ends before the answer.
#[derive(Default)]
pub(super) struct StreamProgress {
    /// The last event, by which the server can go on.
    pub(super) last_id: Option<String>,
    pub(super) backoff: ReconnectBackoff,
    /// Whether it broke, instead of ending as the server wished.
    pub(super) broken: bool,
}

/// Asks, and hands over all that comes until the answer has.
///
/// Cancel safety: dropping it closes the stream; the server may go on.
pub(super) async fn ask(transport: &StreamableHttp, id: u64, frame: &Frame) -> Result<(), Refusal> {
    let headers = transport.body_headers(frame).await;
    let asked = Asked {
        transport,
        id,
        initializes: headers.method == "initialize",
        in_session: headers.modern.is_none(),
    };
    let request = transport.post(frame.bytes(), headers).await;
    let mut request = request.map_err(Refusal::not_sent)?;
    if asked.in_session && transport.session.is_lost() {
        return Err(Refusal::not_sent(HttpFailure::SessionLost { status: 404 }));
    }
    if !frame.begin() {
        return Ok(());
    }
    let limit = transport.endpoint.options.first_byte_timeout;
    let mut response = transport.send(&mut request, limit).await?;
    if !response.status().is_success() {
        return Box::pin(asked.refused(&mut response)).await;
    }
    Refusal::if_unreadable(&response)?;
    if asked.initializes {
        transport.session.open(response.headers());
    }
    // The longer ways are boxed: most calls take the short one, in a future that is small because of it.
    match content_type(&response) {
        Content::Json => asked.json(&mut response).await,
        Content::Events => Box::pin(asked.stream(response)).await,
        Content::Other(content_type) => Err(Refusal::unknown(HttpFailure::WrongContentType { content_type })),
    }
}

/// What kind of answer it is.
pub(super) enum Content {
    Json,
    Events,
    Other(String),
}

pub(super) fn content_type(response: &Response) -> Content {
    let value = response.headers().get(CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        Content::Json
    } else if essence.eq_ignore_ascii_case("text/event-stream") {
        Content::Events
    } else {
        Content::Other(value.to_owned())
    }
}

struct Asked<'a> {
    transport: &'a StreamableHttp,
    id: u64,
    initializes: bool,
    /// Whether it belongs to the session: only then may the session be lost, and a stream that broke be resumed.
    in_session: bool,
}

impl Asked<'_> {
    /// An error of HTTP may still carry the answer; otherwise its status is what is known.
    async fn refused(&self, response: &mut Response) -> Result<(), Refusal> {
        let head = Head::of(response);
        let body = read_error(response).await;
        let turn = &mut Turn::new();
        match Relation::of(&body, self.id) {
            // The protocol says so of every 404 within a session. But one that knows the session, and not the method, is
            // an exception: a new session would not help, and would be lost the same way.
            Relation::Answer if head.status == 404 && self.has_session_id() && !lacks_method(&body) => {
                Err(Refusal::session_lost(head.status))
            }
            Relation::Answer => {
                self.deliver(body, turn).await;
                Ok(())
            }
            // Servers that lost the session answer so: they no longer know whom. Any other error belongs to the request that
            // it came for.
            Relation::Nameless(answer) if is_plain_error(head.status) => {
                if self.in_session && self.transport.has_lost_session(head.status).await {
                    return Err(Refusal::session_lost(head.status));
                }
                self.deliver(answer, turn).await;
                Ok(())
            }
            Relation::Nameless(_) | Relation::Other if self.in_session => {
                Err(self.transport.verdict(&head, &body).await)
            }
            Relation::Nameless(_) | Relation::Other => Err(Refusal::of_status(&head, &body)),
        }
    }

    fn has_session_id(&self) -> bool {
        self.in_session && self.transport.session.has_id()
    }

    async fn json(&self, response: &mut Response) -> Result<(), Refusal> {
        let limit = self.transport.endpoint.options.limits.message;
        let body = read_body(response, limit).await?;
        if self.deliver_until_answer(body, &mut Turn::new()).await {
            return Ok(());
        }
        Err(Refusal::unknown(HttpFailure::StreamEnded))
    }

    async fn stream(&self, response: Response) -> Result<(), Refusal> {
        let mut progress = StreamProgress::default();
        let mut response = response;
        loop {
            if self.read(response, &mut progress).await? {
                return Ok(());
            }
            response = self.resume(&mut progress).await?;
        }
    }

    /// Reads a stream to its end; `true` when the answer was on it.
    async fn read(&self, response: Response, progress: &mut StreamProgress) -> Result<bool, Refusal> {
        let limit = self.transport.endpoint.options.limits.message;
        let mut events = ResponseEvents::new(response, limit);
        loop {
            let event = match events.next().await {
                Ok(event) => event,
                Err(EventsEnd::Ended) => {
                    progress.broken = false;
                    return Ok(false);
                }
                Err(EventsEnd::Broken(error)) => {
                    tracing::debug!(id = self.id, %error, "a stream broke");
                    progress.broken = true;
                    return Ok(false);
                }
                Err(EventsEnd::TooLong) => {
                    return Err(Refusal::new(
                        Outcome::Answered,
                        HttpFailure::BodyTooLarge { limit },
                    ));
                }
            };
            progress.note(event.id.as_ref(), event.retry);
            let Some(message) = event.message() else {
                continue;
            };
            if self.deliver_until_answer(message.clone(), &mut events.turn).await {
                let _ = timeout(STREAM_END_GRACE, self.read_to_end(&mut events)).await;
                return Ok(true);
            }
        }
    }

    /// Reads what is left of a stream after the answer, to its end.
    async fn read_to_end(&self, events: &mut ResponseEvents) {
        while let Ok(event) = events.next().await {
            if let Some(message) = event.message() {
                self.deliver(message.clone(), &mut events.turn).await;
            }
        }
    }

    /// Takes up a stream that ended before its answer.
    async fn resume(&self, progress: &mut StreamProgress) -> Result<Response, Refusal> {
        let broken = progress.broken;
        let ended = || {
            Refusal::unknown(if broken {
                let message = "the stream ended before the answer".to_owned();
                HttpFailure::Broken { message }
            } else {
                HttpFailure::StreamEnded
            })
        };
        while self.in_session && progress.backoff.failures() < RESUME_LIMIT {
            let last_id = progress.last_id.as_deref().ok_or_else(ended)?;
            sleep(progress.backoff.next_pause(progress.broken)).await;
            match reopen(self.transport, Some(last_id)).await {
                Opened::Stream(response) => return Ok(*response),
                Opened::Later => {}
                Opened::Never(
                    failure @ (HttpFailure::SessionLost { .. } | HttpFailure::ConnectFailed { .. }),
                ) => return Err(Refusal::unknown(failure)),
                Opened::Never(_) => break,
            }
        }
        Err(ended())
    }

    /// Delivers a message; `true` when it is the answer.
    async fn deliver_until_answer(&self, message: Bytes, turn: &mut Turn) -> bool {
        match self.relation(message.clone()).await {
            Relation::Answer => {
                self.deliver(message, turn).await;
                true
            }
            Relation::Nameless(answer) => {
                self.deliver(answer, turn).await;
                true
            }
            Relation::Other => {
                self.deliver(message, turn).await;
                false
            }
        }
    }

    async fn relation(&self, message: Bytes) -> Relation {
        let id = self.id;
        if message.len() <= large::INLINE_LIMIT {
            return Relation::of(&message, id);
        }
        large::process(message.len(), move || Relation::of(&message, id)).await
    }

    async fn deliver(&self, message: Bytes, turn: &mut Turn) {
        if self.initializes {
            let answer = message.clone();
            if let Some(version) = large::process(message.len(), move || negotiated(&answer)).await {
                self.transport.session.agree(&version);
            }
        }
        if let Some(inbound) = self.transport.exchanges.inbound() {
            deliver(&inbound, MessageStream::OfRequest(self.id), message, turn).await;
        }
    }
}

impl StreamProgress {
    pub(super) fn note(&mut self, id: Option<&String>, retry: Option<Duration>) {
        self.backoff.reset();
        if let Some(id) = id {
            self.last_id = Some(id.clone());
        }
        if let Some(retry) = retry {
            self.backoff.set_retry(retry);
        }
    }
}

/// Whether a status says no more than the error in its body. The others ask for something themselves.
fn is_plain_error(status: u16) -> bool {
    !matches!(status, 300..=399 | 401 | 403 | 429 | 503)
}
