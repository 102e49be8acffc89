//! HTTP+SSE, the transport of 2024-11-05: one stream of events carries all that the server says, and names the address
//! to which the client posts.
//!
//! The stream is the connection: its end is the end of the transport. The address must be of the stream's own origin,
//! since credentials are sent there.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Uri};
use tokio::sync::watch;
use tokio::time::timeout;

use super::http::client::body_headers::trace_headers;
use super::http::client::connection::Response;
use super::http::client::endpoint::{Endpoint, Outgoing};
use super::http::client::events::{EventsEnd, ResponseEvents, SseEvent};
use super::http::client::exchanges::{AdmittedFrame, Exchanges, FrameCarrier, Sender};
use super::http::client::refusal::{Head, Refusal, read_error};
use super::http::{HttpConfigError, HttpFailure, HttpOptions, HttpStage};
use super::receiving::deliver;
use super::{End, Frame, Inbound, MessageStream, Outbound, Purpose, Transport};

/// How long a server may take to name the address, and to accept a message: it answers on the stream.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);

/// An HTTP+SSE connection, ready to be started.
pub struct Sse(Arc<SseStream>);

impl Sse {
    /// A connection to the stream at this address.
    pub fn new(url: impl AsRef<str>, options: HttpOptions) -> Result<Self, HttpConfigError> {
        Ok(Self::over(Endpoint::new(url.as_ref(), options)?))
    }

    pub(super) fn over(endpoint: Endpoint) -> Self {
        Self(Arc::new(SseStream {
            exchanges: Exchanges::new(),
            endpoint,
            opening: watch::Sender::new(Opening::UnderWay),
        }))
    }
}

impl Transport for Sse {
    fn outbound(&self) -> Arc<dyn Outbound> {
        Arc::new(Sender(self.0.clone()))
    }

    fn start(self: Box<Self>, inbound: Arc<dyn Inbound>) {
        if Exchanges::start(&self.0, &inbound) {
            Exchanges::spawn_other(&self.0, None, self.0.clone().listen());
        }
    }
}

impl std::fmt::Debug for Sse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sse").field(&self.0.endpoint).finish()
    }
}

struct SseStream {
    exchanges: Exchanges,
    endpoint: Endpoint,
    opening: watch::Sender<Opening>,
}

/// Whether it is known where to post.
#[derive(Clone, Debug)]
enum Opening {
    UnderWay,
    Open(Uri),
    Failed(HttpFailure),
}

impl FrameCarrier for SseStream {
    fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    fn carry(self: &Arc<Self>, admitted: AdmittedFrame) {
        let frame = admitted.frame.clone();
        let stream = self.clone();
        match frame.purpose() {
            Purpose::Request { id } => Exchanges::spawn_request(self, id, admitted, async move {
                if let Err(refusal) = stream.post(&frame).await {
                    tracing::debug!(id, failure = %refusal.failure, "request failed");
                    stream.exchanges.fail(id, refusal);
                }
            }),
            Purpose::Notification | Purpose::Reply => {
                Exchanges::spawn_other(self, Some(admitted), async move {
                    stream.send_unanswered(&frame).await;
                });
            }
            Purpose::Cancel { .. } => {
                Exchanges::spawn_cancel(self, admitted, async move {
                    Box::pin(stream.send_unanswered(&frame)).await;
                });
            }
        }
    }

    fn delete_session(&self) {}
}

impl SseStream {
    /// Reads the stream from its opening to its end.
    async fn listen(self: Arc<Self>) {
        let opened = timeout(ACCEPT_TIMEOUT, self.open()).await.unwrap_or_else(|_| {
            Err(HttpFailure::TimedOut {
                step: HttpStage::FirstByte,
                limit: ACCEPT_TIMEOUT,
            })
        });
        match opened {
            Ok(events) => {
                let end = self.read(events).await;
                self.exchanges.finish(end);
            }
            Err(failure) => {
                let end = End::NotOpened(Box::new(failure.clone()));
                self.opening.send_replace(Opening::Failed(failure));
                self.exchanges.finish(end);
            }
        }
    }

    /// Asks for the stream, and waits for the address.
    async fn open(&self) -> Result<ResponseEvents, HttpFailure> {
        let mut request = self.endpoint.request(Method::GET).await?;
        let events = HeaderValue::from_static("text/event-stream");
        request.headers.insert(ACCEPT, events);
        let mut response = self.send(&mut request, None).await?;
        if !response.status().is_success() {
            let head = Head::of(&response);
            let body = read_error(&mut response).await;
            return Err(Refusal::of_status(&head, &body).into());
        }
        Refusal::if_unreadable(&response)?;
        let limit = self.endpoint.options.limits.message;
        let mut events = ResponseEvents::new(response, limit);
        loop {
            match events.next().await {
                Ok(event) if event.kind == "endpoint" => {
                    self.opening.send_replace(Opening::Open(self.address(&event)?));
                    return Ok(events);
                }
                // A message before the address is dropped.
                Ok(_) => events.turn.count_message(),
                Err(EventsEnd::TooLong) => return Err(HttpFailure::BodyTooLarge { limit }),
                Err(EventsEnd::Ended | EventsEnd::Broken(_)) => return Err(HttpFailure::StreamEnded),
            }
        }
    }

    fn address(&self, event: &SseEvent) -> Result<Uri, HttpFailure> {
        let text = String::from_utf8_lossy(event.data.as_deref().unwrap_or_default()).into_owned();
        let url = self.endpoint.url.join(text.trim()).ok();
        let own = url.filter(|url| url.origin() == self.endpoint.url.origin());
        own.and_then(|url| self.endpoint.target_of(&url))
            .ok_or(HttpFailure::ForeignAddress { address: text })
    }

    async fn read(&self, mut events: ResponseEvents) -> End {
        loop {
            match events.next().await {
                Ok(event) => {
                    if let (Some(message), Some(inbound)) = (event.message(), self.exchanges.inbound()) {
                        deliver(&inbound, MessageStream::Only, message.clone(), &mut events.turn).await;
                    }
                }
                Err(EventsEnd::TooLong) => return End::Oversized,
                Err(EventsEnd::Ended | EventsEnd::Broken(_)) => return End::EndOfStream,
            }
        }
    }

    /// Posts what needs no answer.
    async fn send_unanswered(&self, frame: &Frame) {
        if let Err(refusal) = self.post(frame).await {
            tracing::debug!(failure = %refusal.failure, "message not accepted");
        }
    }

    /// Posts a message, once it is known where to.
    async fn post(&self, frame: &Frame) -> Result<(), Refusal> {
        let mut opening = self.opening.subscribe();
        let opened = opening
            .wait_for(|opening| !matches!(opening, Opening::UnderWay))
            .await;
        let target = match opened.map(|opening| opening.clone()) {
            Ok(Opening::Open(target)) => target,
            Ok(Opening::Failed(failure)) => return Err(Refusal::not_sent(failure)),
            Ok(Opening::UnderWay) | Err(_) => return Err(Refusal::not_sent(HttpFailure::Aborted)),
        };
        let request = self.message(&target, frame).await;
        let mut request = request.map_err(Refusal::not_sent)?;
        if !frame.begin() {
            return Ok(());
        }
        let mut response = self.send(&mut request, Some(ACCEPT_TIMEOUT)).await?;
        if response.status().is_success() {
            response.discard();
            return Ok(());
        }
        let head = Head::of(&response);
        let body = read_error(&mut response).await;
        Err(Refusal::of_status(&head, &body))
    }

    /// A POST of a message, with the credential of the moment.
    async fn message(&self, target: &Uri, frame: &Frame) -> Result<Outgoing, HttpFailure> {
        let mut request = self.endpoint.request(Method::POST).await?;
        request.target = target.clone();
        request
            .headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers.extend(trace_headers(frame.bytes()).await);
        request.body = frame.bytes().clone();
        Ok(request)
    }

    /// Sends a request and waits for the head of its answer. One that is refused for its credential is sent again with another
    /// one, if there is one by then.
    async fn send(&self, request: &mut Outgoing, limit: Option<Duration>) -> Result<Response, Refusal> {
        let response = self.endpoint.send(request, limit).await?;
        let refusal = Head::credential_refusal(&response, request.credential());
        // Boxed: few requests are refused, and the others should not carry room for it.
        if let Some(refusal) = refusal
            && Box::pin(self.endpoint.renew(request, &refusal)).await?
        {
            return self.endpoint.send(request, limit).await;
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests;
