//! One Streamable HTTP connection: every message a POST of its own.
//!
//! HTTP keeps no order between requests, and the protocol needs none but one: nothing is sent before the server has
//! taken `notifications/initialized`. A lost session, and a server that was met before and now refuses connections, retire
//! the transport: the requests under way have connections of their own, and may still be answered. Whatever else goes wrong
//! is the failure of the one request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::body_headers::{BodyHeaders, is_notification, trace_headers};
use super::connection::Response;
use super::endpoint::{Endpoint, Outgoing};
use super::exchanges::{AdmittedFrame, Exchanges, FrameCarrier};
use super::refusal::{Head, Refusal, read_error};
use super::session::{SessionCheck, TransportSession};
use super::{HttpFailure, listen, post};
use crate::transport::{End, Frame, Purpose};

const INITIALIZED: &str = "notifications/initialized";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// How long a server may take to accept what it need not answer.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that shuts down may close its idle connections before its port. It gets this long until the port is probed again.
const PORT_CLOSE_GRACE: Duration = Duration::from_millis(500);

/// How long the deletion of a session may take. Only the end of its server waits for it, and not this long.
const SESSION_DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// What servers answer that do not know a session: the protocol's 404, and 400, which may have other reasons.
const MAY_BE_LOST: [u16; 2] = [400, 404];

pub(super) struct StreamableHttp {
    pub(super) exchanges: Exchanges,
    pub(super) endpoint: Endpoint,
    pub(super) session: TransportSession,
    /// The headers of a message that belongs to no session, without those that repeat a part of it.
    posted: Arc<HeaderMap>,
    pub(super) check: SessionCheck,
    /// Whether requests have to wait until the server has taken `notifications/initialized`.
    gate: watch::Sender<bool>,
    /// Whether the server ever answered.
    has_responded: AtomicBool,
}

impl FrameCarrier for StreamableHttp {
    fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    fn session(&self) -> Option<String> {
        self.session.id()
    }

    fn carry(self: &Arc<Self>, admitted: AdmittedFrame) {
        let frame = admitted.frame.clone();
        let transport = self.clone();
        match frame.purpose() {
            Purpose::Request { id } => {
                Exchanges::spawn_request(self, id, admitted, transport.ask(id, frame));
            }
            Purpose::Notification if is_notification(frame.bytes(), INITIALIZED) => {
                self.gate.send_replace(true);
                Exchanges::spawn_other(self, Some(admitted), transport.initialized(frame));
            }
            Purpose::Notification => {
                Exchanges::spawn_other(self, Some(admitted), async move {
                    // A server may refuse a notification; that does not mean that the session is lost.
                    let _ = transport.send_unanswered(&frame, &[404]).await;
                });
            }
            Purpose::Reply => {
                Exchanges::spawn_other(self, Some(admitted), async move {
                    let _ = transport.send_unanswered(&frame, &MAY_BE_LOST).await;
                });
            }
            // In the modern era, closing the stream has cancelled the request.
            Purpose::Cancel { .. } if !self.session.is_agreed() => {}
            Purpose::Cancel { .. } => {
                Exchanges::spawn_cancel(self, admitted, async move {
                    // Boxed, so that one that waits for its turn carries no room for a request.
                    let _ = Box::pin(transport.send_unanswered(&frame, &MAY_BE_LOST)).await;
                });
            }
        }
    }

    fn delete_session(&self) {
        if !self.session.has_id() || self.session.is_lost() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let endpoint = self.endpoint.clone();
        let mut session = HeaderMap::new();
        self.session.mark(&mut session);
        let deletion = endpoint.begin_session_deletion();
        runtime.spawn(async move {
            let _deletion = deletion;
            let deleting = async {
                let mut request = endpoint.request(Method::DELETE).await.ok()?;
                request.headers.extend(session);
                endpoint.send(&request, None).await.ok()
            };
            let answer = timeout(SESSION_DELETE_TIMEOUT, deleting).await.ok().flatten();
            let status = answer.map(|answer| answer.status().as_u16());
            tracing::debug!(status, "session deleted");
        });
    }
}

impl StreamableHttp {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        let own = [(ACCEPT, JSON_OR_EVENTS), (CONTENT_TYPE, JSON)];
        let posted = Arc::new(endpoint.headers_with(own.into_iter().collect()));
        Self {
            exchanges: Exchanges::new(),
            endpoint,
            session: TransportSession::new(posted.clone()),
            posted,
            check: SessionCheck::default(),
            gate: watch::Sender::new(false),
            has_responded: AtomicBool::new(false),
        }
    }

    /// Looks after a server that closes an idle connection: its keep-alive time may be over, or the server has ended, and its port
    /// is closed. This finds an end for which no stream is open that would break.
    pub(super) async fn watch_port(self: Arc<Self>) {
        let Some(probe) = self.endpoint.watched_port() else {
            return;
        };
        let mut closes = self.endpoint.closes();
        while closes.changed().await.is_ok() {
            for pause in [Duration::ZERO, PORT_CLOSE_GRACE] {
                sleep(pause).await;
                if let Some(refusal) = probe.refusal().await {
                    tracing::debug!(%refusal, "the port of a closed connection is closed");
                    self.retire_if_lost(&HttpFailure::ConnectFailed {
                        kind: refusal.kind(),
                        message: refusal.to_string(),
                    });
                    return;
                }
            }
        }
    }

    /// Carries a request to its end.
    async fn ask(self: Arc<Self>, id: u64, frame: Frame) {
        if *self.gate.borrow() {
            let _ = self.gate.subscribe().wait_for(|shut| !shut).await;
        }
        if let Err(refusal) = post::ask(&self, id, &frame).await {
            let failure = refusal.failure.clone();
            tracing::debug!(id, %failure, outcome = %refusal.outcome, "request failed");
            self.exchanges.fail(id, refusal);
            self.retire_if_lost(&failure);
        }
    }

    /// Opens the gate, and opens the stream of the server's own messages.
    async fn initialized(self: Arc<Self>, frame: Frame) {
        struct Open(Arc<StreamableHttp>);
        impl Drop for Open {
            fn drop(&mut self) {
                self.0.gate.send_replace(false);
            }
        }
        let transport = Open(self);
        if transport.0.send_unanswered(&frame, &MAY_BE_LOST).await.is_ok() {
            Exchanges::spawn_other(&transport.0, None, listen::standing(transport.0.clone()));
        }
    }

    /// Carries what needs no answer. By these statuses the server may say that it does not know the session.
    async fn send_unanswered(&self, frame: &Frame, may_be_lost: &[u16]) -> Result<(), ()> {
        let sent = async {
            let headers = self.body_headers(frame).await.of_notification();
            let request = self.post(frame.bytes(), headers).await;
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
            if may_be_lost.contains(&head.status) {
                return Err(self.verdict(&head, &body).await);
            }
            Err(Refusal::of_status(&head, &body))
        };
        let sent: Result<(), Refusal> = sent.await;
        let Err(refusal) = sent else {
            return Ok(());
        };
        tracing::debug!(failure = %refusal.failure, "message not accepted");
        self.retire_if_lost(&refusal.failure);
        Err(())
    }

    /// The headers that repeat parts of a message. Within a session there are none, and it need not be read.
    pub(super) async fn body_headers(&self, frame: &Frame) -> BodyHeaders {
        if self.session.is_agreed() && !frame.is_sessionless() {
            return BodyHeaders::default();
        }
        BodyHeaders::read(frame.bytes(), self.endpoint.options.params.as_ref()).await
    }

    /// A POST of these bytes, with every header it needs.
    pub(super) async fn post(&self, message: &Bytes, headers: BodyHeaders) -> Result<Outgoing, HttpFailure> {
        let mut request = self.endpoint.request(Method::POST).await?;
        request.body = message.clone();
        request.headers.extend(trace_headers(message).await);
        match headers.modern {
            Some(headers) => {
                request.headers.extend(headers);
                request.shared = self.posted.clone();
            }
            None => request.shared = self.session.posted(),
        }
        Ok(request)
    }

    /// Sends a request and waits for the head of its answer. One that is refused for its credential is sent again with another
    /// one, if there is one by then.
    pub(super) async fn send(
        &self,
        request: &mut Outgoing,
        limit: Option<Duration>,
    ) -> Result<Response, Refusal> {
        let response = self.endpoint.send(request, limit).await?;
        self.has_responded.store(true, Ordering::Relaxed);
        let refusal = Head::credential_refusal(&response, request.credential());
        // Boxed: few requests are refused, and the others should not carry room for it.
        if let Some(refusal) = refusal
            && Box::pin(self.endpoint.renew(request, &refusal)).await?
        {
            return self.endpoint.send(request, limit).await;
        }
        Ok(response)
    }

    /// What a status that is no success means, given the session.
    pub(super) async fn verdict(&self, head: &Head, body: &[u8]) -> Refusal {
        if self.has_lost_session(head.status).await {
            return Refusal::session_lost(head.status);
        }
        Refusal::of_status(head, body)
    }

    /// Retires the transport when a failure means more than the request it met.
    pub(super) fn retire_if_lost(&self, failure: &HttpFailure) {
        let end = match failure {
            HttpFailure::SessionLost { .. } if self.session.lose() => End::SessionLost,
            HttpFailure::ConnectFailed { kind, message }
                if *kind == io::ErrorKind::ConnectionRefused
                    && self.has_responded.load(Ordering::Relaxed) =>
            {
                let (kind, message) = (*kind, message.clone());
                End::Io { kind, message }
            }
            _other => return,
        };
        if let Some(inbound) = self.exchanges.inbound() {
            inbound.retired(end);
        }
    }
}
