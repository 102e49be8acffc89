//! One connection to a server: a peer, its generation, and what the server said of itself.
//!
//! A lease is an `Arc` of it: its holder calls on this generation and no other. A connection is never reused
//! after it fails, and nothing that arrives on it after its detachment reaches a caller.

mod answering;
mod beside;
mod call_record;
mod callers;
mod inbound;
mod input_required;
mod listening;
mod restoring;
mod subscriptions;
mod tasks;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Generation, Moment, Vitals};
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use crate::deadline;
use crate::process::is_stopped;
use crate::protocol::{Dialect, Era, Greeting, RequestMeta};
use crate::server::{CallOptions, PendingCall, PendingCallId};
use crate::transport::{End, HttpFailure, SendFailure};
use crate::wire::{
    BadAnswer, IdlePause, MetaEntries, Outcome, Params, Peer, PendingRequest, RawJson, RequestError,
    RequestOptions,
};

use beside::Beside;
use call_record::CallRecord;
use input_required::InputRequired;
use restoring::Restoring;

pub(crate) use inbound::InboundHandler;
pub(crate) use subscriptions::{Interests, MAX_SUBSCRIPTIONS, MAX_TASKS};

/// One generation, open and greeted.
pub(crate) struct Connection {
    pub(crate) generation: Generation,
    pub(crate) peer: Peer,
    pub(crate) greeting: Greeting,
    pub(crate) dialect: Dialect,
    pub(crate) pid: Option<i32>,
    inbound: Arc<InboundHandler>,
    /// What every request of a modern connection carries.
    meta: Option<RequestMeta>,
    /// What is known of the modern era of a server that has a session, once it was asked.
    beside: OnceLock<Option<Beside>>,
    /// Makes what is wanted for longer than a connection known to a legacy server.
    restoring: Arc<Restoring>,
    /// What was wanted of a modern server when it was opened.
    listened_for: Interests,
    clock: Clock,
    /// When a caller was last done with the connection, in milliseconds of the clock.
    used: AtomicU64,
    /// Until when calls fail at once, in milliseconds of the clock; zero where the server never asked for it.
    held_until: AtomicU64,
    /// When a probe was last not answered in time, in milliseconds of the clock; zero where none was.
    probe_missed: AtomicU64,
    /// How many calls had been answered when the last listing began.
    answered_before_listing: AtomicU64,
    pub(crate) calls: CallRecord,
}

/// The keeper's time: moments since an origin, by tokio's clock, which tests can pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

/// The timeout of requests without another one.
const LONGEST_REQUEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Connection {
    pub(crate) fn new(
        peer: Peer,
        greeting: Greeting,
        dialect: Dialect,
        inbound: Arc<InboundHandler>,
        clock: Clock,
        pid: Option<i32>,
    ) -> Self {
        let meta = match greeting.era {
            Era::Legacy => None,
            Era::Modern => Some(inbound.introduction().to_meta()),
        };
        Self {
            generation: inbound.generation(),
            restoring: Arc::new(Restoring::new(peer.clone(), inbound.clone())),
            peer,
            greeting,
            dialect,
            pid,
            inbound,
            meta,
            beside: OnceLock::new(),
            listened_for: Interests::default(),
            clock,
            used: AtomicU64::new(clock.millis()),
            held_until: AtomicU64::new(0),
            probe_missed: AtomicU64::new(0),
            answered_before_listing: AtomicU64::new(0),
            calls: CallRecord::default(),
        }
    }

    /// Makes one request on behalf of a caller.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &Params,
        options: &CallOptions,
    ) -> Result<RawJson, RequestError> {
        let Some(present) = self.inbound.callers.enter(options.handler.clone()) else {
            return Err(RequestError::Lost {
                outcome: Outcome::NotSent,
                end: End::Closed,
            });
        };
        let in_use = InUse(self);
        let answer = self.send(method, params, options, Some(present.hold())).await;
        drop(in_use);
        match answer
            .as_ref()
            .map_or_else(RequestError::outcome, |_| Outcome::Answered)
        {
            Outcome::Answered | Outcome::Refused | Outcome::NotSent => present.settled(),
            Outcome::Unknown => drop(present),
        }
        self.checked(answer)
    }

    /// The answer to a caller, if its result is an object, as MCP has it: otherwise a caller would pass on what its client cannot read.
    /// Mainstay's own requests are read as leniently as they can be.
    fn checked(&self, answer: Result<RawJson, RequestError>) -> Result<RawJson, RequestError> {
        let is_bad = |result: &RawJson| !result.as_bytes().starts_with(b"{");
        if !answer.as_ref().is_ok_and(is_bad) {
            return answer;
        }
        let (server, generation) = (self.inbound.server(), self.generation.0);
        tracing::debug!(%server, generation, "the result of a call is not an object");
        Err(RequestError::BadAnswer(BadAnswer::ResultNotObject))
    }

    /// Makes one request on Mainstay's own behalf. It does not count as use of the server, which may be stopped for
    /// idleness.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &Params,
        options: &CallOptions,
    ) -> Result<RawJson, RequestError> {
        self.send(method, params, options, None).await
    }

    /// Makes one request and, on a modern connection, answers what the server needs to know before it can complete it.
    /// `hold` stops the idle timeout while the client answers what this request made the server ask.
    async fn send(
        &self,
        method: &str,
        params: &Params,
        options: &CallOptions,
        hold: Option<Arc<IdlePause>>,
    ) -> Result<RawJson, RequestError> {
        self.check_state(params, options)?;
        let meta = self.meta.as_ref().or_else(|| self.meta_beside(options));
        let meta = meta.map(|meta| self.meta_of(meta, params, options));
        let wire_options = self.wire_options(options, hold.clone(), meta.clone());
        let result = self.peer.request_with(method, params, wire_options).await?;
        let Some(meta) = meta.filter(|_| !options.hand_on_input) else {
            return Ok(result);
        };
        match InputRequired::look_for(method, &result).await {
            None => Ok(result),
            // Boxed: few requests need input, and the others should not carry room for it.
            Some(needed) => {
                let asked = (result, needed);
                Box::pin(self.give_input(method, params, options, hold.as_ref(), &meta, asked)).await
            }
        }
    }

    /// The part of the options that the wire acts on.
    fn wire_options(
        &self,
        call: &CallOptions,
        hold: Option<Arc<IdlePause>>,
        meta: Option<Arc<MetaEntries>>,
    ) -> RequestOptions {
        let deadline = call.deadline.unwrap_or_else(|| deadline::within(LONGEST_REQUEST));
        let mut options = RequestOptions::until(deadline);
        if meta.is_some() && self.meta.is_none() {
            options = options.sessionless();
        }
        options.idle = call.idle_timeout;
        options.hold = hold;
        options.meta = meta;
        options.sent = call.sent.clone();
        options.number = call.number.clone();
        options.keeps_line = call.keeps_line.clone();
        match call.progress.clone() {
            None => options.progress_counts(),
            Some(listener) => {
                let caller = call.handler.as_ref().map(Arc::downgrade);
                // Weak: what is kept of an answered call keeps neither the connection, nor the listener waiting for more.
                let (inbound, listener) = (Arc::downgrade(&self.inbound), listener.downgrade());
                options.progress(Arc::new(move |params| {
                    let late = match listener.upgrade() {
                        None => params,
                        Some(listener) => match listener.try_send(params) {
                            Err(TrySendError::Closed(params)) => params,
                            // A listener that is too slow misses some; the reader does not wait for it.
                            Ok(()) | Err(TrySendError::Full(_)) => return,
                        },
                    };
                    if let Some(inbound) = inbound.upgrade() {
                        inbound.late_progress(&caller, late);
                    }
                }))
            }
        }
    }

    /// Asks for a sign of life. Any answer is one, "method not found" and an error of HTTP included.
    pub(crate) async fn probe(&self, timeout: Duration) -> Result<(), RequestError> {
        // Withdrawn when it is not answered: over HTTP each request holds a connection as long as it stands.
        let options = RequestOptions::within(timeout);
        let answer = match &self.meta {
            None => self.peer.request("ping", None, options).await,
            Some(meta) => {
                let params = meta.stamp(None);
                self.peer.request("server/discover", Some(params), options).await
            }
        };
        match answer {
            Ok(_) | Err(RequestError::Rpc(_) | RequestError::BadAnswer(_)) => Ok(()),
            Err(RequestError::Send(failure)) if is_sign_of_life(&failure) => Ok(()),
            Err(error @ RequestError::TimedOut { .. }) => {
                self.probe_missed.store(self.clock.millis(), Ordering::Relaxed);
                Err(error)
            }
            Err(
                error @ (RequestError::Lost { .. } | RequestError::Cancelled { .. } | RequestError::Send(_)),
            ) => Err(error),
        }
    }

    /// Since when the server has sent nothing, where it has not answered a probe since.
    pub(crate) fn silent_since(&self) -> Option<SystemTime> {
        let missed = Moment::new(Duration::from_millis(self.probe_missed.load(Ordering::Relaxed)));
        let last_received = self.peer.stats().last_received?;
        (missed > self.clock.moment(last_received)).then(|| SystemTime::now() - last_received.elapsed())
    }

    /// What can be seen of the connection from outside.
    pub(crate) fn vitals(&self) -> Vitals {
        let stats = self.peer.stats();
        // Read before the time of the last use: a call notes its time before it leaves.
        let busy = self.inbound.callers.any();
        Vitals {
            last_received: stats
                .last_received
                .map_or(Moment::default(), |received| self.clock.moment(received)),
            used: Moment::new(Duration::from_millis(self.used.load(Ordering::Relaxed))),
            busy,
            // Whether anything can come of what it works on. One that has nothing to do is judged by its answers alone.
            stopped: busy && (!self.peer.has_call_sent() || self.pid.is_some_and(is_stopped)),
            answered: stats.calls_answered > self.answered_before_listing.load(Ordering::Relaxed),
        }
    }

    /// Calls fail at once until this moment: the server asked for it.
    pub(crate) fn hold_calls_until(&self, until: Moment) {
        let millis = u64::try_from(until.since_origin().as_millis()).unwrap_or(u64::MAX);
        self.held_until.fetch_max(millis, Ordering::Relaxed);
    }

    /// How long calls still fail at once, where the server asked for it.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        match self.held_until.load(Ordering::Relaxed) {
            0 => None,
            until => Some(Duration::from_millis(until.checked_sub(self.clock.millis())?))
                .filter(|pause| !pause.is_zero()),
        }
    }

    /// Closes the gate: a call that comes now has sent nothing, and takes the next connection.
    pub(crate) fn close_gate(&self) {
        self.inbound.callers.close();
    }

    /// Ends it: nothing that arrives from now on counts, and every pending call fails at once.
    pub(crate) fn cut(&self) {
        self.close_gate();
        self.inbound.detach();
        self.peer.close();
    }

    /// Whether it has completed a call, even if the report is not there yet.
    pub(crate) fn has_answered_a_call(&self) -> bool {
        self.peer.stats().calls_answered > 0
    }

    /// The calls that wait for an answer: up to so many, the oldest first.
    pub(crate) fn pending_calls(&self, limit: usize) -> Vec<PendingCall> {
        let mut calls = self.peer.pending_calls();
        calls.sort_by_key(|call| call.request);
        calls.truncate(limit);
        let call = |call: PendingRequest| PendingCall {
            id: PendingCallId {
                generation: self.generation,
                request: call.request,
            },
            client: self.inbound.callers.client_of(&call.hold),
            since: SystemTime::now() - call.made.elapsed(),
            method: call.method,
            name: call.name,
        };
        calls.into_iter().map(call).collect()
    }

    /// Comes back when no call waits for an answer.
    pub(crate) async fn all_calls_done(&self) {
        self.inbound.callers.all_left().await;
    }

    /// A listing starts: a change that is reported from now on is a new one.
    pub(crate) fn listing_starts(&self) {
        let answered = self.peer.stats().calls_answered;
        self.answered_before_listing.store(answered, Ordering::Relaxed);
        self.inbound.listing_starts();
    }
}

/// Dropping the last reference ends its tasks, even before the connection was opened.
impl Drop for Connection {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Whether a failure of HTTP shows that the server is there, and needs nothing but time.
fn is_sign_of_life(failure: &SendFailure) -> bool {
    match failure.error().downcast_ref() {
        Some(
            HttpFailure::Status { .. } | HttpFailure::Throttled { .. } | HttpFailure::BodyTooLarge { .. },
        ) => true,
        Some(HttpFailure::AuthRequired { status, .. }) => *status != 401,
        Some(_) | None => false,
    }
}

/// A caller's use of a connection. It ends before the caller is seen to leave, also when the call is dropped: a
/// connection that is not busy shows when it last was.
struct InUse<'a>(&'a Connection);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let Self(connection) = self;
        connection
            .used
            .store(connection.clock.millis(), Ordering::Relaxed);
    }
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Moment {
        self.moment(Instant::now())
    }

    pub(crate) fn moment(self, instant: Instant) -> Moment {
        Moment::new(instant.saturating_duration_since(self.0))
    }

    pub(crate) fn instant(self, moment: Moment) -> Instant {
        deadline::after(self.0, moment.since_origin())
    }

    fn millis(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
