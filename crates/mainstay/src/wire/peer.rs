//! One end of a connection: sends and receives requests and notifications.
//!
//! The handles of a peer and its receiving side share one state. The receiving side lives on the task that reads and
//! holds no handle, so that dropping the last handle closes the connection.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::sync::watch;
use tokio::time::Instant;

use super::failure::Outcome;
use super::failure::{RequestError, TimeoutKind};
use super::options::{IdlePause, RequestOptions};
use super::params::Params;
use super::pending::{MessageOrigin, Pending, PendingRequest, WaitingRequest};
use super::progress::{self, PROGRESS};
use super::raw::RawJson;
use super::receive::Receiver;
use super::request::{RequestInFlight, RequestTimeouts};
use super::rpc_error::RpcError;
use super::send_quota::SendQuota;
use super::stats::{PeerCounters, PeerStats};
use super::write::{self, CANCELLED};
use crate::large::{self, INLINE_LIMIT};
use crate::recorder::{ConnectionRecorder, MessageHead, RequestLabel};
use crate::transport::{Delivery, End, Frame, NotQueued, Outbound, Purpose, Sending, Transport};

/// Handles the requests and notifications of the remote peer. The task that reads calls it, in the order of arrival; it must return at
/// once.
pub(crate) trait Handler: Send + Sync + 'static {
    /// A request; it is answered by [`Peer::respond`], now or later.
    fn request(&self, peer: &Peer, id: RawJson, method: &str, params: Option<RawJson>, cause: MessageOrigin);

    /// A notification, other than progress of a request of ours.
    fn notification(&self, method: &str, params: Option<RawJson>, cause: MessageOrigin);

    /// The answer to a call came after its caller had given up on it. This is the hold of the call.
    fn late_answer(&self, call: &Arc<IdlePause>) {
        let _ = call;
    }

    /// Notifications may have gone unheard.
    fn missed(&self) {}

    /// The remote peer wrote this, which is no message; a long line may be cut.
    fn noise(&self, text: &[u8]) {
        let _ = text;
    }
}

/// A handle to one end of a connection. Clones are the same end.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Handle>);

impl Peer {
    /// Starts the transport; called inside a tokio runtime.
    pub(crate) fn start(
        transport: Box<dyn Transport>,
        handler: Arc<dyn Handler>,
        recorder: ConnectionRecorder,
    ) -> Self {
        let shared = Arc::new(PeerShared {
            outbound: transport.outbound(),
            pending: Pending::new(),
            counters: PeerCounters::new(),
            notification_quota: SendQuota::notifications(),
            progress_quota: SendQuota::progress(),
            recorder,
            service: watch::Sender::new(None),
        });
        let handle = Arc::new(Handle(shared.clone()));
        let receiver = Receiver::new(shared, Arc::downgrade(&handle), handler);
        transport.start(Arc::new(receiver));
        Self(handle)
    }

    /// Asks, and waits for the answer until the time is up.
    ///
    /// Cancel safety: when the future is dropped before the request was written, nothing is sent; afterwards the remote
    /// side gets a cancellation, if the options allow it. Its late answer is dropped.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> Result<RawJson, RequestError> {
        self.request_with(method, &Params::new(params), options).await
    }

    /// The same with parameters that may have been read already.
    ///
    /// Cancel safety: the same.
    pub(crate) async fn request_with(
        &self,
        method: &str,
        params: &Params,
        options: RequestOptions,
    ) -> Result<RawJson, RequestError> {
        let shared = self.shared();
        let id = shared.pending.next_id();
        if let Some(number) = &options.number {
            number.store(id, Ordering::Release);
        }
        let length = params.length();
        let composed = if length > INLINE_LIMIT {
            let (params, method, meta) = (params.clone(), method.to_owned(), options.meta.clone());
            let compose = move || progress::compose(&params, id, &method, options.progress, meta.as_deref());
            // Boxed: few requests are large, and the others should not carry room for it.
            Box::pin(large::process(length, compose)).await
        } else {
            progress::compose(params, id, method, options.progress, options.meta.as_deref())
        };
        let (line, listener) = composed.map_err(|error| RequestError::Rpc(error.into()))?;
        let line = match &options.keeps_line {
            Some(keep) => keep(line),
            None => line,
        };
        let now = Instant::now();
        let delivery = Arc::new(Delivery::default());
        let (waiting, answer) = WaitingRequest::new(delivery.clone(), listener, options.hold.clone(), now);
        let name = quick_name(params, method);
        let waiting = waiting
            .standing(options.is_standing)
            .labelled(RequestLabel::new(method, name));
        shared.pending.insert(id, waiting).map_err(not_sent)?;

        // Before it is sent: its answer comes after it.
        shared
            .recorder
            .sent(MessageHead::Request { id, method, name }, &line);
        let frame = Frame::new(line, Purpose::Request { id })
            .tracked_by(delivery)
            .sessionless(options.is_sessionless);
        let in_flight = RequestInFlight::new(shared, id, options.cancellable, options.sent);
        let timeouts = RequestTimeouts {
            idle: options.idle,
            total: options.total,
            hold: options.hold,
        };
        let queueing = match now < timeouts.total {
            true => shared.send_or_queue(frame),
            // Too late: it is not sent, and its timer fires at once.
            false => None,
        };
        in_flight.wait(queueing, answer, &timeouts, now).await
    }

    /// Sends a notification. Waits until the given time for room in the queue, and returns when the notification is queued.
    ///
    /// Cancel safety: when the future is dropped before it is ready, nothing is sent.
    pub(crate) async fn notify(
        &self,
        method: &str,
        params: Option<&RawJson>,
        until: Instant,
    ) -> Result<(), RequestError> {
        let shared = self.shared();
        let (notification_quota, purpose) = if method == PROGRESS {
            // Of what the remote peer asked: it goes the way of the answer, which would overtake it on another.
            (&shared.progress_quota, Purpose::Reply)
        } else {
            (&shared.notification_quota, Purpose::Notification)
        };
        let line = write::notification(method, params);
        shared.pending.count_one_way();
        shared.recorder.sent(MessageHead::Notification { method }, &line);
        let sending = async {
            let room = notification_quota.room(line.len()).await;
            let frame = Frame::new(line, purpose);
            let frame = match room {
                Some(room) => frame.taking(room),
                None => frame,
            };
            match shared.outbound.send(frame).await {
                Ok(()) if !shared.pending.has_ended() => Ok(()),
                Ok(()) | Err(_) => Err(not_sent(self.closed().await)),
            }
        };
        let timed_out = |_elapsed| {
            shared.counters.dropped.add_one();
            RequestError::TimedOut {
                kind: TimeoutKind::Total,
                sent: false,
            }
        };
        tokio::time::timeout_at(until, sending).await.map_err(timed_out)?
    }

    /// Sends a notification if the queue has room now; `false` when it was dropped.
    pub(crate) fn try_notify(&self, method: &str, params: Option<&RawJson>) -> bool {
        let frame = Frame::new(write::notification(method, params), Purpose::Notification);
        self.shared().pending.count_one_way();
        self.shared()
            .recorder
            .sent(MessageHead::Notification { method }, frame.bytes());
        self.shared().send_or_drop(frame)
    }

    /// Answers a request of the remote peer, which must read for there to be room: `false` when the answer was dropped.
    pub(crate) fn respond(&self, id: &RawJson, result: Result<RawJson, RpcError>) -> bool {
        let line = write::response(id, &result);
        let head = MessageHead::Answer {
            id: id.as_str(),
            error_code: result.as_ref().err().map(RpcError::code),
        };
        self.shared().recorder.sent(head, &line);
        self.shared().pending.count_one_way();
        drop(result);
        self.shared().send_or_drop(Frame::new(line, Purpose::Reply))
    }

    /// The callers' requests that wait for an answer, in no order.
    pub(crate) fn pending_calls(&self) -> Vec<PendingRequest> {
        self.shared().pending.calls()
    }

    /// Whether a caller's request waits that was made before this moment.
    pub(crate) fn has_call_before(&self, moment: Instant) -> bool {
        self.shared().pending.has_call_before(moment)
    }

    /// Whether a caller's request waits that the remote peer may have read.
    pub(crate) fn has_call_sent(&self) -> bool {
        self.shared().pending.has_call_sent()
    }

    /// Cancels a caller's request for an operator; `false` if it no longer waits.
    pub(crate) fn cancel_call(&self, id: u64) -> bool {
        let shared = self.shared();
        let Some(waiting) = shared.pending.take_call(id) else {
            return false;
        };
        let sent = shared.withdraw(id, &waiting, Some("an operator cancelled it"));
        waiting.settle(Err(RequestError::Cancelled { sent }))
    }

    /// Fails what waits and closes the connection, at once. Again is no different.
    pub(crate) fn close(&self) {
        self.shared().close(End::Closed);
    }

    /// Waits for the end of the connection.
    ///
    /// Cancel safety: any number may wait, and dropping the future changes nothing.
    pub(crate) async fn closed(&self) -> End {
        let has_ended = |service: &Option<OutOfService>| matches!(service, Some(OutOfService::Ended(_)));
        self.until(has_ended).await.into_end()
    }

    /// Waits until the connection takes no new requests.
    ///
    /// Cancel safety: any number may wait, and dropping the future changes nothing.
    pub(crate) async fn out_of_service(&self) -> OutOfService {
        self.until(Option::is_some).await
    }

    async fn until(&self, is_it: impl FnMut(&Option<OutOfService>) -> bool) -> OutOfService {
        let mut service = self.shared().service.subscribe();
        let reached = service.wait_for(is_it).await;
        let reached = reached.ok().and_then(|service| service.clone());
        reached.unwrap_or(OutOfService::Ended(End::Aborted))
    }

    /// The id of the session that the server opened for this connection, where it did.
    pub(crate) fn session(&self) -> Option<String> {
        self.shared().outbound.session()
    }

    /// The signs of life.
    pub(crate) fn stats(&self) -> PeerStats {
        let shared = self.shared();
        shared.counters.read(shared.pending.len())
    }

    pub(super) fn upgrade(handle: &Weak<Handle>) -> Option<Self> {
        handle.upgrade().map(Self)
    }

    fn shared(&self) -> &PeerShared {
        &self.0.0
    }
}

/// What all handles share; the connection closes when it is dropped.
pub(super) struct Handle(Arc<PeerShared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close(End::Closed);
    }
}

/// What the handles share with the receiving side.
pub(super) struct PeerShared {
    pub(super) outbound: Arc<dyn Outbound>,
    pub(super) pending: Pending,
    pub(super) counters: PeerCounters,
    notification_quota: SendQuota,
    progress_quota: SendQuota,
    pub(super) recorder: ConnectionRecorder,
    service: watch::Sender<Option<OutOfService>>,
}

/// Why a connection takes no new requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutOfService {
    /// The server refuses them. Those under way may still be answered.
    Retired(End),
    /// Nothing more will come or go.
    Ended(End),
}

impl OutOfService {
    fn into_end(self) -> End {
        match self {
            Self::Retired(end) | Self::Ended(end) => end,
        }
    }
}

impl PeerShared {
    /// Ends the connection from this side.
    pub(super) fn close(&self, end: End) {
        self.end(end);
        self.outbound.close();
    }

    /// Fails what waits. Only the first end counts.
    pub(super) fn end(&self, end: End) {
        if self.pending.end(&end) {
            self.service.send_replace(Some(OutOfService::Ended(end)));
        }
    }

    /// Notes that the server takes no new requests. Only the first reason counts.
    pub(super) fn retire(&self, end: End) {
        self.service.send_if_modified(|service| {
            let is_first = service.is_none();
            if is_first {
                *service = Some(OutOfService::Retired(end));
            }
            is_first
        });
    }

    /// Stops carrying a request that was taken out of the table; says whether it was sent. A reason is sent to the remote peer
    /// then.
    pub(super) fn withdraw(&self, id: u64, waiting: &WaitingRequest, reason: Option<&str>) -> bool {
        let sent = waiting.withdraw() != Outcome::NotSent;
        self.outbound.withdraw(id);
        if sent && let Some(reason) = reason {
            self.pending.count_one_way();
            let frame = Frame::new(write::cancelled(id, reason), Purpose::Cancel { id });
            let method = CANCELLED;
            self.recorder
                .sent(MessageHead::Notification { method }, frame.bytes());
            self.send_or_drop(frame);
        }
        sent
    }

    /// Sends a frame if there is room in the queue. Otherwise returns what waits for room.
    fn send_or_queue(&self, frame: Frame) -> Option<Sending<'_>> {
        match self.outbound.try_send(frame) {
            Err(NotQueued::Full(frame)) => Some(self.outbound.send(frame)),
            // A closed queue needs no answer here: the transport says how it ended, which fails the request.
            Ok(()) | Err(NotQueued::Closed) => None,
        }
    }

    /// Queues what must not wait, or counts it as dropped.
    pub(super) fn send_or_drop(&self, frame: Frame) -> bool {
        let queued = self.outbound.try_send(frame).is_ok();
        if !queued {
            self.counters.dropped.add_one();
        }
        queued
    }
}

fn not_sent(end: End) -> RequestError {
    RequestError::Lost {
        outcome: Outcome::NotSent,
        end,
    }
}

/// The tool or prompt that a request names, where that costs no parse.
fn quick_name<'a>(params: &'a Params, method: &str) -> Option<&'a str> {
    if !matches!(method, "tools/call" | "prompts/get") {
        return None;
    }
    params.quick_text("name")?.strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests;
