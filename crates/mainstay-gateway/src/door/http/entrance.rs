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

use super::body::Body;
use super::guard::{Guard, preflight, readable_by};
use super::hold_back::HoldBack;
use super::options::{Bounds, HttpDoor};
use super::rate::Rates;
use super::refusal::Refusal;
use super::route::Route;
use super::sessions::Sessions;
use crate::desk::Desk;
use crate::protocol::SERVER_UNAVAILABLE;

/// When a client that is sent away because the gateway goes down may find it up again.
const BACK_SOON: Duration = Duration::from_secs(5);

pub(super) struct Entrance {
    pub(super) desk: Arc<Desk>,
    pub(super) bounds: Bounds,
    pub(super) sessions: Sessions,
    pub(super) busy: Arc<Busy>,
    guard: Guard,
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

impl Entrance {
    pub(super) fn new(desk: Arc<Desk>, door: &HttpDoor, address: IpAddr) -> Self {
        Self {
            sessions: Sessions::new(desk.clone(), &door.bounds),
            desk,
            bounds: door.bounds.clone(),
            busy: Arc::default(),
            guard: Guard::new(door, address),
            rates: door.bounds.rate.map(Rates::new),
            phase: watch::Sender::new(Phase::Open),
        }
    }

    /// Answers one HTTP request.
    pub(super) async fn handle(
        self: Arc<Self>,
        peer: IpAddr,
        hold_back: Arc<HoldBack>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let checked = self.guard.check_host(&head);
        let origin = match checked.and_then(|()| self.guard.check_origin(&head.headers)) {
            Ok(origin) => origin,
            Err(refusal) => return refusal.into(),
        };
        let mut response = match preflight(&head) {
            Some(response) => response,
            None => {
                let admitted = self.admit(peer, &hold_back, &head, body).await;
                admitted.unwrap_or_else(Response::from)
            }
        };
        if let Some(origin) = origin {
            readable_by(origin, &mut response);
        }
        if self.is_draining() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }

    async fn admit(
        self: &Arc<Self>,
        peer: IpAddr,
        hold_back: &HoldBack,
        head: &Parts,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let caller = self.guard.caller(&head.headers, peer)?;
        if let Some(rates) = &self.rates {
            rates.take(caller, Instant::now()).map_err(|pause| {
                let what = "too many requests";
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, SERVER_UNAVAILABLE, what).retry_after(pause)
            })?;
        }
        match Route::of(head, self.desk.fleet())? {
            Route::Post(scope) => self.post(scope, caller, &head.headers, hold_back, body).await,
            Route::Listen(scope) => self.listen(&scope, caller, head),
            Route::End(scope) => self.end(&scope, caller, head),
            Route::Sse(scope) => self.open_sse(scope, caller),
            Route::SseMessage(session) => self.post_sse(&session, caller, head, hold_back, body).await,
        }
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

    fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
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
