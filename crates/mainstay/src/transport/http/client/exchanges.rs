//! The tasks of one transport over HTTP, and its one end.
//!
//! Each frame is carried by a task of its own, and their number is bounded. Invariants: the transport reports its end once,
//! and nothing after it; a request whose task panics fails; the end of the transport aborts all tasks.
//!
//! A task for each request is no waste: it starts in the LIFO slot of its worker, which costs no system call. Driving the
//! exchange in the caller's task instead wakes that task while it runs, and then tokio wakes a second worker for it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::task::AbortHandle;

use super::HttpFailure;
use super::refusal::Refusal;
use crate::lock::Lock;
use crate::transport::{End, Frame, Inbound, NotQueued, Outbound, Purpose, SendFailure, Sending};
use crate::wire::Outcome;

/// Requests and notifications under way at once. Each takes a connection, and a process has some thousand files.
const ORDERED_LIMIT: usize = 256;

/// Replies under way at once; those over the bound are dropped.
const REPLY_LIMIT: usize = 64;

/// Cancellations that wait or are under way; those over the bound are dropped. Each is about a hundred bytes, and they come in
/// bursts: all requests of a client that goes away are cancelled at once.
const CANCEL_LIMIT: usize = 1024;

/// Cancellations under way at once. Each takes a connection, and none is urgent: its request has freed its place already.
const CONCURRENT_CANCEL_LIMIT: usize = 32;

/// What is done for a frame, or for the transport itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ExchangeId {
    Request(u64),
    Other(u64),
}

/// What a task does. In a box of its own: the future of a request takes kilobytes, which every wrapper around it would
/// copy and hold twice.
type ExchangeFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A frame with its place among those under way.
pub(in crate::transport) struct AdmittedFrame {
    pub(in crate::transport) frame: Frame,
    permit: OwnedSemaphorePermit,
}

pub(in crate::transport) struct Exchanges {
    state: Lock<ExchangesState>,
    ordered: Arc<Semaphore>,
    replies: Arc<Semaphore>,
    cancels: Arc<Semaphore>,
    /// Turns of the cancellations that are under way.
    cancelling: Semaphore,
}

enum ExchangesState {
    Ready(Vec<AdmittedFrame>),
    Running {
        inbound: Arc<dyn Inbound>,
        /// Without a handle for the moment in which a task is started.
        tasks: HashMap<ExchangeId, Option<AbortHandle>>,
        started: u64,
    },
    Ended,
}

/// A transport that carries each frame on its own.
pub(in crate::transport) trait FrameCarrier: Send + Sync + 'static {
    fn exchanges(&self) -> &Exchanges;

    /// Starts to carry a frame; the transport runs.
    fn carry(self: &Arc<Self>, admitted: AdmittedFrame);

    /// The end came from this side.
    fn delete_session(&self);

    /// The id of the server's session, where there is one.
    fn session(&self) -> Option<String> {
        None
    }
}

/// The sending side of a carrier.
pub(in crate::transport) struct Sender<C>(pub(in crate::transport) Arc<C>);

impl Exchanges {
    pub(in crate::transport) fn new() -> Self {
        Self {
            state: Lock::new(ExchangesState::Ready(Vec::new())),
            ordered: Arc::new(Semaphore::new(ORDERED_LIMIT)),
            replies: Arc::new(Semaphore::new(REPLY_LIMIT)),
            cancels: Arc::new(Semaphore::new(CANCEL_LIMIT)),
            cancelling: Semaphore::new(CONCURRENT_CANCEL_LIMIT),
        }
    }

    /// Starts the state of a carrier with what was sent before; `false` when it ended before it began.
    pub(in crate::transport) fn start<C: FrameCarrier>(carrier: &Arc<C>, inbound: &Arc<dyn Inbound>) -> bool {
        let mut state = carrier.exchanges().state.lock();
        let running = ExchangesState::Running {
            inbound: inbound.clone(),
            tasks: HashMap::new(),
            started: 0,
        };
        match std::mem::replace(&mut *state, running) {
            ExchangesState::Ready(frames) => {
                drop(state);
                frames.into_iter().for_each(|admitted| carrier.carry(admitted));
                true
            }
            ExchangesState::Running { .. } => unreachable!("a transport is started once"),
            ExchangesState::Ended => {
                *state = ExchangesState::Ended;
                drop(state);
                inbound.ended(End::Closed);
                false
            }
        }
    }

    /// Carries a request. Its task hands over what it receives, or says why it cannot.
    pub(in crate::transport) fn spawn_request<C: FrameCarrier>(
        carrier: &Arc<C>,
        id: u64,
        admitted: AdmittedFrame,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        Self::spawn(carrier, Some(id), Some(admitted), Box::pin(work));
    }

    /// Does anything else; `admitted` keeps its place meanwhile.
    pub(in crate::transport) fn spawn_other<C: FrameCarrier>(
        carrier: &Arc<C>,
        admitted: Option<AdmittedFrame>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        Self::spawn(carrier, None, admitted, Box::pin(work));
    }

    /// Cancels a request at the server, in turn with other cancellations.
    pub(in crate::transport) fn spawn_cancel<C: FrameCarrier>(
        carrier: &Arc<C>,
        admitted: AdmittedFrame,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let waiting = carrier.clone();
        Self::spawn_other(carrier, Some(admitted), async move {
            let _turn = waiting.exchanges().cancelling.acquire().await;
            work.await;
        });
    }

    fn spawn<C: FrameCarrier>(
        carrier: &Arc<C>,
        request: Option<u64>,
        admitted: Option<AdmittedFrame>,
        work: ExchangeFuture,
    ) {
        let Some(exchange) = carrier.exchanges().register(request) else {
            return;
        };
        let guard = ExchangeGuard {
            carrier: carrier.clone(),
            exchange,
            _place: admitted.map(|admitted| admitted.permit),
        };
        // Not under the lock: a runtime that shuts down drops the task, and with it the guard, before this returns.
        let task = tokio::spawn(async move {
            // Dropped last, when the work is done or gone.
            let _guard = guard;
            work.await;
        });
        carrier
            .exchanges()
            .set_abort_handle(exchange, task.abort_handle());
    }

    /// Puts a task on the list before it runs, so that one that ends at once finds itself there.
    fn register(&self, request: Option<u64>) -> Option<ExchangeId> {
        match &mut *self.state.lock() {
            ExchangesState::Running { tasks, started, .. } => {
                *started += 1;
                let exchange = request.map_or(ExchangeId::Other(*started), ExchangeId::Request);
                tasks.insert(exchange, None);
                Some(exchange)
            }
            ExchangesState::Ready(_) | ExchangesState::Ended => None,
        }
    }

    /// Makes a task that runs abortable. One that is off the list already was withdrawn meanwhile, or is done.
    fn set_abort_handle(&self, exchange: ExchangeId, task: AbortHandle) {
        if let ExchangesState::Running { tasks, .. } = &mut *self.state.lock()
            && let Some(place) = tasks.get_mut(&exchange)
        {
            *place = Some(task);
            return;
        }
        task.abort();
    }

    /// Drops what is done for a request; its answer is not wanted.
    fn withdraw(&self, id: u64) {
        let task = match &mut *self.state.lock() {
            ExchangesState::Running { tasks, .. } => tasks.remove(&ExchangeId::Request(id)),
            ExchangesState::Ready(_) | ExchangesState::Ended => None,
        };
        if let Some(Some(task)) = task {
            task.abort();
        }
    }

    /// The owner, as long as it may get reports.
    pub(in crate::transport) fn inbound(&self) -> Option<Arc<dyn Inbound>> {
        match &*self.state.lock() {
            ExchangesState::Running { inbound, .. } => Some(inbound.clone()),
            ExchangesState::Ready(_) | ExchangesState::Ended => None,
        }
    }

    /// Fails a request.
    pub(in crate::transport) fn fail(&self, id: u64, refusal: Refusal) {
        if let Some(inbound) = self.inbound() {
            inbound.failed(id, SendFailure::new(refusal.outcome, refusal.failure));
        }
    }

    /// Ends the transport; only the first end counts. `true` when this was it.
    pub(in crate::transport) fn finish(&self, end: End) -> bool {
        let before = std::mem::replace(&mut *self.state.lock(), ExchangesState::Ended);
        self.ordered.close();
        self.replies.close();
        self.cancels.close();
        match before {
            ExchangesState::Running { inbound, tasks, .. } => {
                tasks.values().flatten().for_each(AbortHandle::abort);
                inbound.ended(end);
                true
            }
            ExchangesState::Ready(_) | ExchangesState::Ended => false,
        }
    }

    /// Takes a frame: keeps it while the transport is not started, otherwise gives it back to be carried.
    fn admit(&self, admitted: AdmittedFrame) -> Result<Option<AdmittedFrame>, NotQueued> {
        match &mut *self.state.lock() {
            ExchangesState::Ready(frames) => {
                frames.push(admitted);
                Ok(None)
            }
            ExchangesState::Running { .. } => Ok(Some(admitted)),
            ExchangesState::Ended => Err(NotQueued::Closed),
        }
    }

    fn lane(&self, purpose: Purpose) -> Arc<Semaphore> {
        match purpose {
            Purpose::Request { .. } | Purpose::Notification => self.ordered.clone(),
            Purpose::Reply => self.replies.clone(),
            Purpose::Cancel { .. } => self.cancels.clone(),
        }
    }
}

impl<C: FrameCarrier> Sender<C> {
    fn hand_over(&self, frame: Frame, permit: OwnedSemaphorePermit) -> Result<(), NotQueued> {
        if let Some(admitted) = self.0.exchanges().admit(AdmittedFrame { frame, permit })? {
            self.0.carry(admitted);
        }
        Ok(())
    }
}

impl<C: FrameCarrier> Outbound for Sender<C> {
    fn send(&self, frame: Frame) -> Sending<'_> {
        Box::pin(async move {
            let lane = self.0.exchanges().lane(frame.purpose());
            let permit = lane.acquire_owned().await.map_err(|_closed| NotQueued::Closed)?;
            self.hand_over(frame, permit)
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), NotQueued> {
        match self.0.exchanges().lane(frame.purpose()).try_acquire_owned() {
            Ok(permit) => self.hand_over(frame, permit),
            Err(TryAcquireError::NoPermits) => Err(NotQueued::Full(frame)),
            Err(TryAcquireError::Closed) => Err(NotQueued::Closed),
        }
    }

    fn withdraw(&self, request: u64) {
        self.0.exchanges().withdraw(request);
    }

    fn session(&self) -> Option<String> {
        self.0.session()
    }

    fn close(&self) {
        if self.0.exchanges().finish(End::Closed) {
            self.0.delete_session();
        }
    }
}

/// Takes a task off the list when it ends, and fails the request of a task that panicked.
struct ExchangeGuard<C: FrameCarrier> {
    carrier: Arc<C>,
    exchange: ExchangeId,
    /// The place of the frame that it carries.
    _place: Option<OwnedSemaphorePermit>,
}

impl<C: FrameCarrier> Drop for ExchangeGuard<C> {
    fn drop(&mut self) {
        let exchanges = self.carrier.exchanges();
        let inbound = match &mut *exchanges.state.lock() {
            ExchangesState::Running { tasks, inbound, .. } => {
                tasks.remove(&self.exchange).map(|_| inbound.clone())
            }
            ExchangesState::Ready(_) | ExchangesState::Ended => None,
        };
        if let (ExchangeId::Request(id), Some(inbound), true) =
            (self.exchange, inbound, std::thread::panicking())
        {
            inbound.failed(id, SendFailure::new(Outcome::Unknown, HttpFailure::Aborted));
        }
    }
}

#[cfg(test)]
mod tests;
