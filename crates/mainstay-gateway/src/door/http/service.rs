//! What all connections share, and what happens to each of their requests.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use mainstay::Status;
use mainstay::gateway::PlainText;
use tokio::sync::watch;
use tokio::time::Instant;

use super::body::RequestBody;
use super::guard::{HttpCaller, HttpGuard, Unauthorized, allow_origin, preflight};
use super::head::{Accepts, NamedVersion, SESSION};
use super::limits::{RateLimiter, TooManyDelayed, WrongTokenLimiter};
use super::mount::Mounted;
use super::options::{HttpDoor, HttpLimits};
use super::response::{AccessEntry, HttpRefusal, ResponseBody, date, empty, events, log_refusal};
use super::route::{HealthProbe, HttpRoute};
use super::session::{SessionUse, Sessions};
use super::stream::{ClientStream, EventReader};
use super::timeouts::HeadTimer;
use crate::budget::{Account, Reclaim};
use crate::failure::CutReason;
use crate::principal::Principal;
use crate::protocol::NoId;
use crate::router::Router;
use crate::scope::Scope;
use crate::sessions::DoorKind;

/// When a client that is refused because the gateway shuts down may try again.
const SHUTDOWN_RETRY_DELAY: Duration = Duration::from_secs(5);

/// When a client may try another token, while too many wrong ones are delayed.
const TOKEN_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Servers that the answer of a probe names, and characters of each name.
const UNREADY_LIMIT: usize = 20;
const UNREADY_NAME_LIMIT: usize = 200;

/// The error code for an unknown session: the client must initialize again.
const SESSION_NOT_FOUND: i64 = -32001;

pub(super) struct HttpService {
    pub(super) router: Arc<Router>,
    pub(super) limits: HttpLimits,
    pub(super) sessions: Sessions,
    /// Each request that is being answered has a receiver.
    running: watch::Sender<()>,
    pub(super) guard: HttpGuard,
    /// Where the door listens.
    pub(super) address: SocketAddr,
    mounted: Option<Mounted>,
    wrong_tokens: WrongTokenLimiter,
    logs_access: bool,
    rates: Option<RateLimiter>,
    phase: watch::Sender<DoorPhase>,
}

/// Whether the door is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DoorPhase {
    Open,
    /// Running requests are finished, and new ones are refused.
    Draining,
    /// Running requests are cut, and connections end.
    Closing,
}

impl HttpService {
    pub(super) fn new(router: Arc<Router>, door: &HttpDoor, address: SocketAddr) -> Self {
        Self {
            sessions: Sessions::new(router.clone(), &door.limits),
            router,
            limits: door.limits.clone(),
            running: watch::Sender::new(()),
            guard: HttpGuard::new(door, address.ip()),
            address,
            mounted: door.mount.clone(),
            wrong_tokens: WrongTokenLimiter::new(),
            logs_access: door.access_log,
            rates: door.limits.rate.map(RateLimiter::new),
            phase: watch::Sender::new(DoorPhase::Open),
        }
    }

    /// Answers one HTTP request.
    pub(super) async fn handle(
        self: Arc<Self>,
        peer: IpAddr,
        head_timer: Arc<HeadTimer>,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let began = self.logs_access.then(Instant::now);
        let mut response = self.respond(peer, &head_timer, &head, body).await;
        if log_refusal(peer, &head, &mut response) {
            self.router.observer.refused(response.status());
        }
        if let Some(date) = date(SystemTime::now()) {
            response.headers_mut().entry(header::DATE).or_insert(date);
        }
        if self.is_draining() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        if let Some(began) = began {
            let entry = AccessEntry::new(peer, &head, began, response.status());
            response.body_mut().log_at_end(entry);
        }
        response
    }

    async fn respond(
        self: &Arc<Self>,
        peer: IpAddr,
        head_timer: &HeadTimer,
        head: &Parts,
        body: Incoming,
    ) -> Response<ResponseBody> {
        let mounted = self
            .mounted
            .as_ref()
            .filter(|mounted| mounted.holds(head.uri.path()));
        if let Some(mounted) = mounted {
            return match self.guard.check_host(head) {
                Ok(()) => self.respond_mounted(mounted, peer, head, body).await,
                Err(refusal) => refusal.problem(),
            };
        }
        let mut body = RequestBody::new(body);
        let response = self.respond_mcp(peer, head_timer, head, &mut body).await;
        body.discard();
        response
    }

    /// Answers a request to the gateway itself.
    async fn respond_mcp(
        self: &Arc<Self>,
        peer: IpAddr,
        head_timer: &HeadTimer,
        head: &Parts,
        body: &mut RequestBody,
    ) -> Response<ResponseBody> {
        let probe = HealthProbe::of(head);
        let checked = match probe {
            Some(_) => self.guard.check_probe(head),
            None => self.guard.check_host(head),
        };
        let refuse = |refusal: HttpRefusal| refusal.response(self.no_id(head));
        let origin = match checked.and_then(|()| self.guard.check_origin(&head.headers)) {
            Ok(origin) => origin,
            Err(refusal) => return refuse(refusal),
        };
        let mut response = match (preflight(head), probe) {
            (Some(response), _) => response,
            (None, Some(probe)) => probe.answer(self, peer, head).await.unwrap_or_else(refuse),
            (None, None) => {
                let admitted = self.admit(peer, head_timer, head, body).await;
                admitted.unwrap_or_else(refuse)
            }
        };
        if let Some(origin) = origin {
            allow_origin(origin, &mut response);
        }
        response
    }

    /// The client that makes a request. The refusal of a wrong token is delayed.
    async fn caller(&self, peer: IpAddr, head: &Parts) -> Result<HttpCaller, HttpRefusal> {
        let unauthorized = match self.guard.caller(&head.headers, peer) {
            Ok(caller) => return Ok(caller),
            Err(unauthorized) => unauthorized,
        };
        self.delay_wrong_token(peer, unauthorized).await?;
        Err(unauthorized.into())
    }

    /// Delays the refusal of a wrong token. Fails if too many are delayed already.
    pub(super) async fn delay_wrong_token(
        &self,
        peer: IpAddr,
        unauthorized: Unauthorized,
    ) -> Result<(), HttpRefusal> {
        if unauthorized == Unauthorized::WrongToken
            && let Err(TooManyDelayed) = self.wrong_tokens.delay(peer).await
        {
            let what = "too many wrong bearer tokens";
            let refusal = HttpRefusal::limited(StatusCode::TOO_MANY_REQUESTS, what);
            return Err(refusal.retry_after(TOKEN_RETRY_DELAY));
        }
        Ok(())
    }

    /// How the version of this client writes errors that belong to no request.
    fn no_id(&self, head: &Parts) -> NoId {
        if HttpRoute::is_of_sse(head) {
            return NoId::Null;
        }
        match NamedVersion::of(&head.headers) {
            NamedVersion::Legacy(version) => NoId::in_version(version),
            NamedVersion::Modern | NamedVersion::Unknown(_) => NoId::Absent,
            // Older clients name their version only when they initialize.
            NamedVersion::None => {
                let session = head.headers.get(SESSION).and_then(|id| id.to_str().ok());
                let version = session.and_then(|id| self.sessions.version(id));
                version.map_or(NoId::Absent, NoId::in_version)
            }
        }
    }

    async fn admit(
        self: &Arc<Self>,
        peer: IpAddr,
        head_timer: &HeadTimer,
        head: &Parts,
        body: &mut RequestBody,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        let caller = self.caller(peer, head).await?;
        if let Some(rates) = &self.rates {
            rates.take(caller, Instant::now()).map_err(|delay| {
                let what = "too many requests";
                HttpRefusal::limited(StatusCode::TOO_MANY_REQUESTS, what).retry_after(delay)
            })?;
        }
        let request = AdmittedRequest {
            caller,
            headers: &head.headers,
            head_timer,
        };
        match HttpRoute::of(head, self.router.fleet())? {
            HttpRoute::Post(scope) => self.post(scope, &request, body).await,
            HttpRoute::Listen(scope) => self.listen(&scope, &request),
            HttpRoute::End(scope) => self.end(&scope, &request),
            HttpRoute::OpenSse(scope) => self.open_sse(scope, caller),
            HttpRoute::PostSse(session) => self.post_sse(&session, &request, body).await,
        }
    }

    /// The budget of the client that makes a request: that of its session, if it names one of its own.
    pub(super) fn account(&self, request: &AdmittedRequest<'_>) -> Account {
        let session = request.headers.get(SESSION).and_then(|id| id.to_str().ok());
        let of_session = session.and_then(|id| self.sessions.account(id, request.caller));
        of_session.unwrap_or_else(|| self.router.budget.account(request.principal()))
    }

    /// The session that a request names.
    pub(super) fn session(
        &self,
        scope: &Scope,
        request: &AdmittedRequest<'_>,
    ) -> Result<SessionUse, HttpRefusal> {
        request.version().check_known()?;
        let Some(id) = request.headers.get(SESSION) else {
            let what = "the Mcp-Session-Id header is missing: initialize first";
            return Err(HttpRefusal::invalid(StatusCode::BAD_REQUEST, what));
        };
        let id = id.to_str().unwrap_or_default();
        let session = self
            .sessions
            .find(id, DoorKind::Http, request.caller)
            .filter(|session| session.client.scope == *scope);
        session.ok_or_else(session_not_found)
    }

    pub(super) fn sse_session(&self, id: &str, caller: HttpCaller) -> Result<SessionUse, HttpRefusal> {
        let session = self.sessions.find(id, DoorKind::Sse, caller);
        session.ok_or_else(session_not_found)
    }

    /// Opens the stream of a session for what belongs to no request, or resumes a stream that broke.
    fn listen(
        &self,
        scope: &Scope,
        request: &AdmittedRequest<'_>,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        request.refuse_modern()?;
        if !Accepts::of(request.headers)?.events {
            let what = "accept text/event-stream: this is a stream";
            return Err(HttpRefusal::invalid(StatusCode::NOT_ACCEPTABLE, what));
        }
        self.check_open()?;
        let session = self.session(scope, request)?;
        let (stream, after) = match request.headers.get("last-event-id") {
            // The latest reader gets the events: the connection of the one before may be dead.
            None => (session.standing.clone(), None),
            Some(last) => {
                let named = last.to_str().ok().and_then(ClientStream::parse_event_id);
                let found =
                    named.and_then(|(stream, event)| Some((session.find_stream(stream)?, Some(event))));
                found.ok_or_else(|| {
                    let what = "there is nothing after this event any more";
                    HttpRefusal::invalid(StatusCode::BAD_REQUEST, what)
                })?
            }
        };
        let reader = EventReader::open(stream, after, Box::new(session));
        Ok(events(reader.with_comment()))
    }

    /// Ends a session at the request of its client.
    fn end(
        &self,
        scope: &Scope,
        request: &AdmittedRequest<'_>,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        request.refuse_modern()?;
        let session = self.session(scope, request)?;
        self.sessions.end(&session.id);
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// Opens a session over HTTP+SSE, and tells the client where to post its messages. This one stream carries everything to
    /// the client, and the session ends with it.
    fn open_sse(
        self: &Arc<Self>,
        scope: Scope,
        caller: HttpCaller,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        self.check_open()?;
        let opened = self.open_session(scope, DoorKind::Sse, caller)?;
        let stream = opened.session.standing.clone();
        let address = format!("/messages?session={}", opened.session.id);
        let reader = EventReader::open(stream, None, Box::new(opened));
        Ok(events(reader.with_event("endpoint", &address)))
    }

    pub(super) fn open_session(
        self: &Arc<Self>,
        scope: Scope,
        door: DoorKind,
        caller: HttpCaller,
    ) -> Result<OpenedSession, HttpRefusal> {
        let opened = OpenedSession {
            session: self.sessions.open(scope, door, caller)?,
            service: self.clone(),
            ends_on_drop: true,
        };
        // The token may have been removed since it was checked, and its sessions ended before this one was among them.
        match self.guard.tokens.admits(caller) {
            true => Ok(opened),
            false => Err(Unauthorized::WrongToken.into()),
        }
    }

    /// Ends the sessions of callers that are no longer admitted.
    pub(super) fn end_revoked(&self) {
        self.sessions
            .end_unless(|caller| self.guard.tokens.admits(caller));
    }

    /// Waits until a stream that has no end of its own must end: the door is being closed, or the client's token was removed.
    pub(super) async fn endless_must_end(&self, principal: Principal) {
        tokio::select! {
            () = self.draining() => {}
            () = self.guard.tokens.revoked(principal) => {}
        }
    }

    /// Waits until a request of this client must be cut.
    pub(super) async fn must_cut(&self, principal: Principal) -> CutReason {
        tokio::select! {
            biased;
            () = self.closing() => CutReason::Shutdown,
            () = self.guard.tokens.revoked(principal) => CutReason::TokenRemoved,
        }
    }

    /// Counts a request as being answered, until the result is dropped.
    pub(super) fn begin_request(&self) -> watch::Receiver<()> {
        self.running.subscribe()
    }

    /// Waits until no request is being answered.
    pub(super) async fn idle(&self) {
        self.running.closed().await;
    }

    /// Refuses new requests from now on.
    pub(super) fn drain(&self) {
        self.phase.send_replace(DoorPhase::Draining);
    }

    /// Ends connections from now on.
    pub(super) fn close(&self) {
        self.phase.send_replace(DoorPhase::Closing);
    }

    /// Waits until new requests are refused.
    pub(super) async fn draining(&self) {
        self.reached(DoorPhase::Draining).await;
    }

    /// Waits until connections end.
    pub(super) async fn closing(&self) {
        self.reached(DoorPhase::Closing).await;
    }

    async fn reached(&self, wanted: DoorPhase) {
        let mut phase = self.phase.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = phase.wait_for(|phase| *phase >= wanted).await;
    }

    /// Refuses new requests while the door is being closed.
    pub(super) fn check_open(&self) -> Result<(), HttpRefusal> {
        if !self.is_draining() {
            return Ok(());
        }
        let what = "the gateway is being shut down";
        let refusal = HttpRefusal::limited(StatusCode::SERVICE_UNAVAILABLE, what);
        Err(refusal.retry_after(SHUTDOWN_RETRY_DELAY))
    }

    /// Whether a probe comes from a client that may use MCP. A probe with a wrong token is refused like any request with one, so that it
    /// is no way to guess tokens.
    pub(super) async fn may_use_mcp(&self, peer: IpAddr, head: &Parts) -> Result<bool, HttpRefusal> {
        match head.headers.contains_key(header::AUTHORIZATION) {
            true => self.caller(peer, head).await.map(|_| true),
            false => Ok(self.guard.caller(&head.headers, peer).is_ok()),
        }
    }

    /// Why it is not ready, a line for each reason.
    pub(super) fn unready(&self) -> impl Iterator<Item = String> {
        let shutdown = self
            .is_draining()
            .then(|| "the gateway is being shut down".to_owned());
        let servers = self.router.fleet().unready();
        let line = |status: Status| {
            let name = PlainText::line(&status.server)
                .cut(UNREADY_NAME_LIMIT)
                .into_string();
            match (&status.last_error, status.reason) {
                (Some(failure), _) => format!("{name}: {}: {}", status.state, failure.message),
                (None, Some(reason)) => format!("{name}: {} ({})", status.state, reason.as_str()),
                (None, None) => format!("{name}: {}", status.state),
            }
        };
        shutdown
            .into_iter()
            .chain(servers.into_iter().take(UNREADY_LIMIT).map(line))
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.is_draining() && self.router.fleet().is_ready()
    }

    fn is_draining(&self) -> bool {
        *self.phase.borrow() >= DoorPhase::Draining
    }
}

impl Reclaim for HttpService {
    fn reclaim(&self, of: &dyn Fn(Principal) -> bool, bytes: usize) {
        self.sessions.drop_unread(of, bytes);
    }
}

fn session_not_found() -> HttpRefusal {
    let what = "there is no such session: initialize again";
    HttpRefusal::new(StatusCode::NOT_FOUND, SESSION_NOT_FOUND, what)
}

/// A request of an admitted client, beside its path and its body.
pub(super) struct AdmittedRequest<'a> {
    pub(super) caller: HttpCaller,
    pub(super) headers: &'a HeaderMap,
    pub(super) head_timer: &'a HeadTimer,
}

impl AdmittedRequest<'_> {
    /// Who makes the request, if it belongs to no session.
    pub(super) fn principal(&self) -> Principal {
        Principal::of_connection(self.caller, self.head_timer.connection)
    }

    pub(super) fn version(&self) -> NamedVersion<'_> {
        NamedVersion::of(self.headers)
    }

    /// Modern clients have no sessions, and so no streams to open or sessions to end.
    fn refuse_modern(&self) -> Result<(), HttpRefusal> {
        match self.version() {
            NamedVersion::Modern => Err(HttpRefusal::method_not_allowed("POST")),
            NamedVersion::None | NamedVersion::Legacy(_) | NamedVersion::Unknown(_) => Ok(()),
        }
    }
}

/// A new session. It ends when this is dropped, unless it is kept.
pub(super) struct OpenedSession {
    pub(super) session: SessionUse,
    service: Arc<HttpService>,
    ends_on_drop: bool,
}

impl OpenedSession {
    pub(super) fn keep(mut self) {
        self.ends_on_drop = false;
    }
}

impl Drop for OpenedSession {
    fn drop(&mut self) {
        if self.ends_on_drop {
            self.service.sessions.end(&self.session.id);
        }
    }
}
