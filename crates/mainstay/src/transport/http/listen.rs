//! What a legacy server says of its own accord: a stream that is asked for by GET.
//!
//! Its loss is no loss of the connection: it is asked for again, ever more slowly, as long as the transport lives. Only
//! a server that knows the session no more, or that nobody listens for any more, ends the transport.

use std::io;
use std::sync::Arc;

use http::header::ACCEPT;
use http::{HeaderName, HeaderValue, Method};
use tokio::time::sleep;

use super::courier::Courier;
use super::events::{Events, Next};
use super::failure::HttpFailure;
use super::line::Response;
use super::pace::Pace;
use super::post::{Content, Remains, content_type};
use super::refusal::{Head, Refusal};
use crate::transport::Turn;
use crate::transport::hand_over::hand_over;

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
pub(super) async fn standing(courier: Arc<Courier>) {
    let mut remains = Remains {
        last_id: None,
        pace: Pace::default(),
        broken: false,
    };
    let mut heard = false;
    loop {
        match reopen(&courier, remains.last_id.as_deref()).await {
            Opened::Stream(response) => {
                // Without an event to go on from, whatever was said since the last stream went unheard.
                if heard
                    && remains.last_id.is_none()
                    && let Some(inbound) = courier.crew.inbound()
                {
                    inbound.missed();
                }
                heard = true;
                hear(&courier, *response, &mut remains).await;
            }
            Opened::Later => {}
            // The server cannot go on from that event, and may have a new stream to offer.
            Opened::Never(HttpFailure::Status { status: 400, .. }) if remains.last_id.is_some() => {
                remains.last_id = None;
            }
            // A session that was just opened is not lost: a server without such a stream may say so with 404 as well.
            Opened::Never(failure) => {
                tracing::debug!(%failure, "no stream of the server's own");
                if heard || !matches!(failure, HttpFailure::SessionLost { .. }) {
                    courier.draw_consequences(&failure).await;
                }
                return;
            }
        }
        let pause = remains.pace.next(remains.broken);
        tracing::debug!(?pause, broken = remains.broken, "the server's own stream ended");
        sleep(pause).await;
    }
}

/// Asks for a stream, from an event on where one is named.
pub(super) async fn reopen(courier: &Courier, last_id: Option<&str>) -> Opened {
    let mut request = match courier.endpoint.request(Method::GET).await {
        Ok(request) => request,
        Err(failure) => return Opened::Never(failure),
    };
    request.headers.insert(ACCEPT, EVENTS);
    courier.session.mark(&mut request.headers);
    if let Some(id) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
        request.headers.insert(LAST_EVENT_ID, id);
    }
    // A server may send the head with the first event, however late that is.
    let response = match courier.send(request, None).await {
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
        _other => Opened::Never(courier.verdict(&head, b"").await.failure),
    }
}

fn wrong_content(content_type: String) -> Opened {
    Opened::Never(HttpFailure::WrongContentType { content_type })
}

fn of_failure(failure: HttpFailure) -> Opened {
    let nobody_there = matches!(
        failure,
        HttpFailure::ConnectFailed {
            kind: io::ErrorKind::ConnectionRefused,
            ..
        }
    );
    if nobody_there {
        return Opened::Never(failure);
    }
    Opened::Later
}

async fn hear(courier: &Courier, mut response: Response, remains: &mut Remains) {
    let mut events = Events::new(courier.endpoint.options.limits.message);
    let mut turn = Turn::new();
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => events.push(&piece),
            Ok(None) => {
                remains.broken = false;
                return;
            }
            Err(_) => {
                remains.broken = true;
                return;
            }
        }
        loop {
            turn.yield_if_over().await;
            let event = match events.next() {
                Ok(Next::Event(event)) => event,
                Ok(Next::Searching) => {
                    turn.count_message();
                    continue;
                }
                Ok(Next::Starved) => break,
                Err(_too_long) => {
                    tracing::debug!("an event is too long to be read");
                    remains.broken = false;
                    return;
                }
            };
            remains.note(event.id.as_ref(), event.retry);
            match (event.message(), courier.crew.inbound()) {
                (Some(message), Some(inbound)) => {
                    hand_over(&inbound, None, message.clone(), &mut turn).await;
                }
                (_, _) => turn.count_message(),
            }
        }
    }
}
