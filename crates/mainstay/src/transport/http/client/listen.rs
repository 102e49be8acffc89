//! The stream of a legacy server's own messages, opened by GET.
//!
//! Its loss is no loss of the connection: it is reopened with growing pauses as long as the transport lives. Only a server
//! that no longer knows the session, or whose port refuses connections, ends the transport.

use std::io;
use std::sync::Arc;

use http::header::ACCEPT;
use http::{HeaderName, HeaderValue, Method};
use tokio::time::sleep;

use super::HttpFailure;
use super::connection::Response;
use super::events::{EventsEnd, ResponseEvents};
use super::post::{Content, StreamProgress, content_type};
use super::refusal::{Head, Refusal};
use super::streamable::StreamableHttp;
use crate::transport::MessageStream;
use crate::transport::receiving::deliver;

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What came of asking for a stream.
pub(super) enum Opened {
    Stream(Box<Response>),
    /// Not now.
    Later,
    /// The server has none, or none any more.
    Never(HttpFailure),
}

/// Listens as long as the transport lives.
pub(super) async fn standing(transport: Arc<StreamableHttp>) {
    let mut progress = StreamProgress::default();
    let mut received_any = false;
    loop {
        match reopen(&transport, progress.last_id.as_deref()).await {
            Opened::Stream(response) => {
                // Without an event to go on from, notifications since the last stream were missed.
                if received_any
                    && progress.last_id.is_none()
                    && let Some(inbound) = transport.exchanges.inbound()
                {
                    inbound.missed();
                }
                received_any = true;
                follow(&transport, *response, &mut progress).await;
            }
            Opened::Later => {}
            // The server cannot go on from that event, and may have a new stream to offer.
            Opened::Never(HttpFailure::Status { status: 400, .. }) if progress.last_id.is_some() => {
                progress.last_id = None;
            }
            // A session that was just opened is not lost: a server without such a stream may say so with 404 as well.
            Opened::Never(failure) => {
                tracing::debug!(%failure, "no stream of the server's own");
                if received_any || !matches!(failure, HttpFailure::SessionLost { .. }) {
                    transport.retire_if_lost(&failure);
                }
                return;
            }
        }
        let pause = progress.backoff.next_pause(progress.broken);
        tracing::debug!(?pause, broken = progress.broken, "the server's own stream ended");
        sleep(pause).await;
    }
}

/// Asks for a stream, from an event on where one is named.
pub(super) async fn reopen(transport: &StreamableHttp, last_id: Option<&str>) -> Opened {
    let mut request = match transport.endpoint.request(Method::GET).await {
        Ok(request) => request,
        Err(failure) => return Opened::Never(failure),
    };
    request.headers.insert(ACCEPT, EVENTS);
    transport.session.mark(&mut request.headers);
    if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
        request.headers.insert(LAST_EVENT_ID, id);
    }
    // A server may send the head with the first event, however late that is.
    let response = match transport.send(&mut request, None).await {
        Ok(response) => response,
        Err(Refusal { failure, .. }) => return of_failure(failure),
    };
    if response.status().is_success() {
        if let Err(Refusal { failure, .. }) = Refusal::if_unreadable(&response) {
            return Opened::Never(failure);
        }
        return match content_type(&response) {
            Content::Events => Opened::Stream(Box::new(response)),
            Content::Json => wrong_content("application/json".to_owned()),
            Content::Other(content_type) => wrong_content(content_type),
        };
    }
    let head = Head::of(&response);
    match head.status {
        // A credential may have been renewed by the next time, and a server that has not yet noticed the end of the last
        // stream answers 409.
        401 | 408 | 409 | 425 | 429 | 500..=599 => Opened::Later,
        _other => Opened::Never(transport.verdict(&head, b"").await.failure),
    }
}

fn wrong_content(content_type: String) -> Opened {
    Opened::Never(HttpFailure::WrongContentType { content_type })
}

fn of_failure(failure: HttpFailure) -> Opened {
    let is_refused = matches!(
        failure,
        HttpFailure::ConnectFailed {
            kind: io::ErrorKind::ConnectionRefused,
            ..
        }
    );
    if is_refused {
        return Opened::Never(failure);
    }
    Opened::Later
}

async fn follow(transport: &StreamableHttp, response: Response, progress: &mut StreamProgress) {
    let mut events = ResponseEvents::new(response, transport.endpoint.options.limits.message);
    loop {
        let event = match events.next().await {
            Ok(event) => event,
            Err(end) => {
                tracing::debug!(?end, "no more events of this stream");
                progress.broken = matches!(end, EventsEnd::Broken(_));
                return;
            }
        };
        progress.note(event.id.as_ref(), event.retry);
        if let (Some(message), Some(inbound)) = (event.message(), transport.exchanges.inbound()) {
            deliver(
                &inbound,
                MessageStream::Unasked,
                message.clone(),
                &mut events.turn,
            )
            .await;
        }
    }
}
