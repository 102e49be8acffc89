//! What all connections share, and what happens to each of their requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::access::{Access, note_refusal};
use super::body::Body;
use super::guard::{Caller, Guard, Stranger, preflight, readable_by};
use super::head_timer::HeadTimer;
use super::legacy::SESSION;
use super::options::{Bounds, HttpDoor};
use super::post::Named;
use super::probe::Probe;
use super::rate::Rates;
use super::refusal::Refusal;
use super::route::Route;
use super::sessions::Sessions;
use super::wrong_tokens::{TooMany, WrongTokens};
use crate::budget::{Account, Reclaim};
use crate::principal::Principal;
use crate::protocol::{NoId, SERVER_UNAVAILABLE};
use crate::router::Router;

/// When a client that is sent away because the gateway goes down may find it up again.
const BACK_SOON: Duration = Duration::from_secs(5);

/// When a client may show another token, after too many wrong ones were shown at once.
const TOKENS_AGAIN: Duration = Duration::from_secs(10);

pub(super) struct HttpService {
    pub(super) router: Arc<Router>,
    pub(super) bounds: Bounds,
    pub(super) sessions: Sessions,
    pub(super) busy: Arc<Busy>,
    guard: Guard,
    wrong_tokens: WrongTokens,
    logs_access: bool,
    rates: Option<Rates>,
    phase: watch::Sender<Phase>,
}

/// Whether clients may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// What runs is finished; nothing new begins.
    Draining,
    /// What runs was cancelled, and connections end.
    Closing,
}

impl HttpService {
    pub(super) fn new(router: Arc<Router>, door: &HttpDoor, address: IpAddr) -> Self {
        Self {
            sessions: Sessions::new(router.clone(), &door.bounds),
            router,
            bounds: door.bounds.clone(),
            busy: Arc::default(),
            guard: Guard::new(door, address),
            wrong_tokens: WrongTokens::new(),
            logs_access: door.access_log,
            rates: door.bounds.rate.map(Rates::new),
            phase: watch::Sender::new(Phase::Open),
        }
    }

    /// Answers one HTTP request.
    pub(super) async fn handle(
        self: Arc<Self>,
        peer: IpAddr,
        head_timer: Arc<HeadTimer>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let access = self.logs_access.then(|| Access::begin(peer, &head));
        let mut response = self.respond(peer, &head_timer, &head, body).await;
        note_refusal(peer, &head, &mut response);
        if self.is_draining() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        match access {
            Some(access) => access.follow(response),
            None => response,
        }
    }

    async fn respond(
        self: &Arc<Self>,
        peer: IpAddr,
        head_timer: &HeadTimer,
        head: &Parts,
        body: Incoming,
    ) -> Response<Body> {
        let probe = Probe::of(head);
        let checked = match probe {
            Some(_) => self.guard.check_probe(head),
            None => self.guard.check_host(head),
        };
        let refuse = |refusal: Refusal| refusal.response(self.no_id(head));
        let origin = match checked.and_then(|()| self.guard.check_origin(&head.headers)) {
            Ok(origin) => origin,
            Err(refusal) => return refuse(refusal),
        };
        let mut response = match (preflight(head), probe) {
            (Some(response), _) => response,
            (None, Some(probe)) => self.answer_probe(probe, head).unwrap_or_else(refuse),
            (None, None) => {
                let admitted = self.admit(peer, head_timer, head, body).await;
                admitted.unwrap_or_else(refuse)
            }
        };
        if let Some(origin) = origin {
            readable_by(origin, &mut response);
        }
        response
    }

    /// Who makes a request; a stranger with a wrong token waits for this answer.
    async fn caller(&self, peer: IpAddr, head: &Parts) -> Result<Caller, Refusal> {
        let stranger = match self.guard.caller(&head.headers, peer) {
            Ok(caller) => return Ok(caller),
            Err(stranger) => stranger,
        };
        if stranger == Stranger::WrongToken
            && let Err(TooMany) = self.wrong_tokens.keep_waiting(peer).await
        {
            let what = "too many wrong bearer tokens";
            let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, SERVER_UNAVAILABLE, what);
            return Err(refusal.retry_after(TOKENS_AGAIN));
        }
        Err(stranger.into())
    }

    /// How the version of this client has errors without a request.
    fn no_id(&self, head: &Parts) -> NoId {
        if Route::is_of_sse(head) {
            return NoId::Null;
        }
        match Named::of(&head.headers) {
            Named::Legacy(version) => NoId::in_version(version),
            Named::Modern(_) | Named::Unknown(_) => NoId::Absent,
            // Older clients name their version only when they initialize.
            Named::Nothing => {
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
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let caller = self.caller(peer, head).await?;
        if let Some(rates) = &self.rates {
            rates.take(caller, Instant::now()).map_err(|pause| {
                let what = "too many requests";
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, SERVER_UNAVAILABLE, what).retry_after(pause)
            })?;
        }
        match Route::of(head, self.router.fleet())? {
            Route::Post(scope) => self.post(scope, caller, &head.headers, head_timer, body).await,
            Route::Listen(scope) => self.listen(&scope, caller, head),
            Route::End(scope) => self.end(&scope, caller, head),
            Route::Sse(scope) => self.open_sse(scope, caller),
            Route::SseMessage(session) => self.post_sse(&session, caller, head, head_timer, body).await,
        }
    }

    /// What is held for the client that makes a request: for its session, if it names one of its own.
    pub(super) fn account(&self, caller: Caller, connection: u64, session: Option<&HeaderValue>) -> Account {
        let session = session.and_then(|id| id.to_str().ok());
        let of_session = session.and_then(|id| self.sessions.account(id, caller));
        let of_connection = || {
            let principal = Principal::of_connection(caller, connection);
            self.router.budget.account(principal)
        };
        of_session.unwrap_or_else(of_connection)
    }

    /// Begins nothing new from now on.
    pub(super) fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
    }

    /// Ends connections from now on.
    pub(super) fn close(&self) {
        self.phase.send_replace(Phase::Closing);
    }

    /// Comes back when nothing new is begun any more.
    pub(super) async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Comes back when connections end.
    pub(super) async fn closing(&self) {
        self.reached(Phase::Closing).await;
    }

    async fn reached(&self, wanted: Phase) {
        let mut phase = self.phase.subscribe();
        // The sender is in `self`, so the wait cannot fail.
        let _ = phase.wait_for(|phase| *phase >= wanted).await;
    }

    /// Refuses to begin something while the door is being closed.
    pub(super) fn check_open(&self) -> Result<(), Refusal> {
        if !self.is_draining() {
            return Ok(());
        }
        let what = "the gateway is being shut down";
        let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, SERVER_UNAVAILABLE, what);
        Err(refusal.retry_after(BACK_SOON))
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }
}

impl Reclaim for HttpService {
    fn reclaim(&self, of: &dyn Fn(Principal) -> bool, bytes: usize) {
        self.sessions.forget_left_behind(of, bytes);
    }
}

/// How many requests are being answered.
#[derive(Default)]
pub(super) struct Busy {
    requests: AtomicUsize,
    one_less: Notify,
}

/// A request that is being answered, as long as this lives.
pub(super) struct Job(Arc<Busy>);

impl Busy {
    pub(super) fn begin(self: &Arc<Self>) -> Job {
        self.requests.fetch_add(1, Ordering::SeqCst);
        Job(self.clone())
    }

    /// Comes back when no request is being answered.
    pub(super) async fn idle(&self) {
        loop {
            let one_less = self.one_less.notified();
            if self.requests.load(Ordering::SeqCst) == 0 {
                return;
            }
            one_less.await;
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::SeqCst);
        self.0.one_less.notify_waiters();
    }
}
