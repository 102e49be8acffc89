//! The requests that wait for an answer.
//!
//! The code that takes a request out of the table decides how it ends. The table gives each request out once, so it ends
//! once. The lock is held for a look-up, and never while an answer is delivered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::failure::Outcome;
use super::failure::RequestError;
use super::options::IdlePause;
use super::progress::ProgressListener;
use super::raw::RawJson;
use crate::lock::Lock;
use crate::recorder::RequestLabel;
use crate::transport::{Delivery, End};

pub(super) type RequestResult = Result<RawJson, RequestError>;

/// Answered requests of one connection whose progress is still passed on, because the work that they began may continue. There is no word
/// for its end, so the oldest are forgotten.
const ANSWERED_LIMIT: usize = 64;

/// Abandoned calls of one connection whose answers are still recognized. A server that is slow to answer more of them is rare.
const ABANDONED_LIMIT: usize = 256;

pub(super) struct Pending {
    /// The number of the next request.
    next: AtomicU64,
    table: Lock<Table>,
}

#[derive(Default)]
struct Table {
    waiting: HashMap<u64, WaitingRequest>,
    /// Who listens to the progress of requests that were answered.
    answered: VecDeque<(u64, ProgressListener)>,
    /// Calls that their callers gave up on and that the remote peer has not answered since, the oldest first.
    abandoned: VecDeque<(u64, Arc<IdlePause>)>,
    /// Messages so far that have no answer: notifications, cancellations, and answers to the remote peer.
    one_way_sent: u64,
    /// How far the remote peer is known to have read: a remote peer reads in order, so the answer to a request shows that it has
    /// read whatever was sent before.
    read: Read,
    /// Errors without an id since then that may have been caused by a message that has no answer.
    errors_of_one_way: u64,
    /// Set once, when the connection is over: nothing waits from then on.
    ended: Option<End>,
}

/// What the remote peer is known to have read.
#[derive(Clone, Copy, Default)]
struct Read {
    /// The number of the latest request among it.
    request: u64,
    /// How many messages that have no answer are among it.
    one_way_sent: u64,
}

/// One request that waits.
pub(super) struct WaitingRequest {
    answer: oneshot::Sender<RequestResult>,
    delivery: Arc<Delivery>,
    listener: Option<ProgressListener>,
    /// Whose idle time stands still while a person is asked because of it; a request on Mainstay's own behalf has none.
    hold: Option<Arc<IdlePause>>,
    /// When it was made.
    made: Instant,
    /// What it asks for, to show it.
    label: RequestLabel,
    /// When it was made, or last made progress.
    last_activity: Instant,
    /// How many messages that have no answer there had been when it was made.
    one_way_sent: u64,
    /// Whether the remote peer answers it at its own end only, and says what it has to say in notifications.
    is_standing: bool,
    /// Whether an answer to it was found behind text, and is about to be taken.
    is_answered_after_text: bool,
}

/// A caller's request that waits, as it is shown.
pub(crate) struct PendingRequest {
    pub(crate) request: u64,
    pub(crate) method: String,
    pub(crate) name: Option<String>,
    pub(crate) hold: Arc<IdlePause>,
    pub(crate) made: Instant,
}

/// What a message of the remote peer belongs to, as far as its transport can tell.
#[derive(Clone)]
pub(crate) enum MessageOrigin {
    /// It cannot.
    Unknown,
    /// A request of Mainstay's own.
    Ours,
    /// A call: the one with this hold.
    Call(Arc<IdlePause>),
    /// A request that no longer waits.
    Gone,
}

/// What the table knows of the sender of an answer.
pub(super) enum Claimed {
    Waiting(WaitingRequest),
    /// It was asked, and no longer waits. This is the hold of the call, if its caller gave up on it.
    Late(Option<Arc<IdlePause>>),
    /// It was never asked.
    Unknown,
}

impl Pending {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            table: Lock::default(),
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Lets a request wait, unless the connection is over.
    pub(super) fn insert(&self, id: u64, waiting: WaitingRequest) -> Result<(), End> {
        let mut table = self.table.lock();
        if let Some(end) = &table.ended {
            return Err(end.clone());
        }
        let one_way_sent = table.one_way_sent;
        table.waiting.insert(
            id,
            WaitingRequest {
                one_way_sent,
                ..waiting
            },
        );
        Ok(())
    }

    pub(super) fn take(&self, id: u64) -> Option<WaitingRequest> {
        self.table.lock().waiting.remove(&id)
    }

    /// Takes out a request that its caller gives up on. An answer may still come.
    pub(super) fn abandon(&self, id: u64) -> Option<WaitingRequest> {
        let mut table = self.table.lock();
        let waiting = table.waiting.remove(&id)?;
        table.note_abandoned(id, &waiting);
        Some(waiting)
    }

    /// Takes out the request that an answer with this number is for.
    pub(super) fn claim(&self, id: u64) -> Claimed {
        let mut table = self.table.lock();
        match table.waiting.remove(&id) {
            Some(mut waiting) => {
                table.note_read(id, waiting.one_way_sent);
                if let Some(listener) = waiting
                    .listener
                    .take()
                    .and_then(ProgressListener::after_the_answer)
                {
                    table.answered.truncate(ANSWERED_LIMIT - 1);
                    table.answered.push_front((id, listener));
                }
                Claimed::Waiting(waiting)
            }
            None if (1..self.next.load(Relaxed)).contains(&id) => Claimed::Late(table.take_abandoned(id)),
            None => Claimed::Unknown,
        }
    }

    /// Takes out the one request that may be meant, if it is one.
    pub(super) fn take_only(&self) -> Only {
        let mut table = self.table.lock();
        let mut ids = table.candidates();
        match (ids.next(), ids.next()) {
            (None, _) => Only::None,
            (Some(_), Some(_)) => Only::Several,
            (Some(id), None) => {
                drop(ids);
                table.waiting.remove(&id).map_or(Only::None, Only::One)
            }
        }
    }

    /// Notes that the remote peer is sent a message that has no answer.
    pub(super) fn count_one_way(&self) {
        self.table.lock().one_way_sent += 1;
    }

    /// Takes out the request that an error without an id is for: the only one that may be meant. Some servers answer
    /// notifications, and answers that they cannot read, with such errors, each with one at most.
    pub(super) fn take_without_id(&self) -> Option<WaitingRequest> {
        let mut table = self.table.lock();
        let mut ids = table.candidates();
        let (only, others) = (ids.next(), ids.next());
        drop(ids);
        if others.is_some() {
            return None;
        }
        if table.errors_of_one_way < table.one_way_sent - table.read.one_way_sent {
            table.errors_of_one_way += 1;
            return None;
        }
        let only = only?;
        let waiting = table.waiting.remove(&only)?;
        table.note_read(only, waiting.one_way_sent);
        Some(waiting)
    }

    /// Notes that an answer to the request was salvaged; `false` if it does not wait, or if there was one before.
    pub(super) fn note_answer_after_text(&self, id: u64) -> bool {
        let mut table = self.table.lock();
        let waiting = table.waiting.get_mut(&id);
        waiting.is_some_and(|waiting| !std::mem::replace(&mut waiting.is_answered_after_text, true))
    }

    /// When the request was made or last made progress.
    pub(super) fn last_activity(&self, id: u64) -> Option<Instant> {
        self.table
            .lock()
            .waiting
            .get(&id)
            .map(|waiting| waiting.last_activity)
    }

    /// Notes progress; gives the listener of it.
    pub(super) fn progressed(&self, id: u64) -> Option<ProgressListener> {
        let mut table = self.table.lock();
        let Some(waiting) = table.waiting.get_mut(&id) else {
            let mut answered = table.answered.iter();
            return answered.find_map(|(of, listener)| (*of == id).then(|| listener.clone()));
        };
        let listener = waiting.listener.clone()?;
        waiting.last_activity = Instant::now();
        Some(listener)
    }

    /// What a message belongs to that came on the stream of this request.
    pub(super) fn cause(&self, id: u64) -> MessageOrigin {
        match self.table.lock().waiting.get(&id) {
            Some(waiting) => waiting
                .hold
                .clone()
                .map_or(MessageOrigin::Ours, MessageOrigin::Call),
            None => MessageOrigin::Gone,
        }
    }

    /// The callers' requests that wait, in no order.
    pub(super) fn calls(&self) -> Vec<PendingRequest> {
        let table = self.table.lock();
        let calls = table.waiting.iter();
        let calls = calls.filter_map(|(id, waiting)| {
            Some(PendingRequest {
                request: *id,
                method: waiting.label.method().unwrap_or_default(),
                name: waiting.label.name(),
                hold: waiting.hold.clone()?,
                made: waiting.made,
            })
        });
        calls.collect()
    }

    /// Whether a caller's request waits that was made before this moment.
    pub(super) fn has_call_before(&self, moment: Instant) -> bool {
        let table = self.table.lock();
        let mut waiting = table.waiting.values();
        waiting.any(|waiting| waiting.is_call() && waiting.made < moment)
    }

    /// Whether a caller's request waits that the remote peer may have read.
    pub(super) fn has_call_sent(&self) -> bool {
        let table = self.table.lock();
        let mut waiting = table.waiting.values();
        waiting.any(|waiting| waiting.is_call() && waiting.delivery.has_begun())
    }

    /// Takes out a caller's request that an operator cancels; those of Mainstay's own stay.
    pub(super) fn take_call(&self, id: u64) -> Option<WaitingRequest> {
        let mut table = self.table.lock();
        table.waiting.get(&id).filter(|waiting| waiting.is_call())?;
        let waiting = table.waiting.remove(&id)?;
        table.note_abandoned(id, &waiting);
        Some(waiting)
    }

    pub(super) fn len(&self) -> usize {
        self.table.lock().waiting.len()
    }

    /// Ends the table: fails all that wait, and all that come later. `false` when it had ended before.
    pub(super) fn end(&self, end: &End) -> bool {
        let waiting = {
            let mut table = self.table.lock();
            if table.ended.is_some() {
                return false;
            }
            table.ended = Some(end.clone());
            table.answered.clear();
            table.abandoned.clear();
            std::mem::take(&mut table.waiting)
        };
        for (_, waiting) in waiting {
            let outcome = waiting.withdraw();
            waiting.settle(Err(RequestError::Lost {
                outcome,
                end: end.clone(),
            }));
        }
        true
    }

    pub(super) fn has_ended(&self) -> bool {
        self.table.lock().ended.is_some()
    }
}

impl Table {
    fn note_abandoned(&mut self, id: u64, waiting: &WaitingRequest) {
        let Some(hold) = &waiting.hold else { return };
        if self.abandoned.len() >= ABANDONED_LIMIT {
            self.abandoned.pop_front();
        }
        self.abandoned.push_back((id, hold.clone()));
    }

    fn take_abandoned(&mut self, id: u64) -> Option<Arc<IdlePause>> {
        let at = self
            .abandoned
            .iter()
            .position(|(abandoned, _)| *abandoned == id)?;
        self.abandoned.remove(at).map(|(_, hold)| hold)
    }

    /// The requests that a message may be meant for that does not say whom it answers. The remote peer has accepted a standing
    /// request that it is known to have read, and knows its number.
    fn candidates(&self) -> impl Iterator<Item = u64> {
        let read = self.read.request;
        let waiting = self.waiting.iter();
        let candidates = waiting.filter(move |(id, waiting)| !waiting.is_standing || **id > read);
        candidates.map(|(id, _)| *id)
    }

    /// Records that the peer has read a request, and how many messages it was sent before.
    fn note_read(&mut self, request: u64, one_way_sent: u64) {
        self.read.request = self.read.request.max(request);
        if one_way_sent > self.read.one_way_sent {
            self.read.one_way_sent = one_way_sent;
            self.errors_of_one_way = 0;
        }
    }
}

/// How many requests may be meant.
pub(super) enum Only {
    None,
    One(WaitingRequest),
    Several,
}

impl WaitingRequest {
    pub(super) fn new(
        delivery: Arc<Delivery>,
        listener: Option<ProgressListener>,
        hold: Option<Arc<IdlePause>>,
        now: Instant,
    ) -> (Self, oneshot::Receiver<RequestResult>) {
        let (answer, receiver) = oneshot::channel();
        let waiting = Self {
            answer,
            delivery,
            listener,
            hold,
            made: now,
            label: RequestLabel::default(),
            last_activity: now,
            one_way_sent: 0,
            is_standing: false,
            is_answered_after_text: false,
        };
        (waiting, receiver)
    }

    /// The same request, shown with this label.
    pub(super) fn labelled(self, label: RequestLabel) -> Self {
        Self { label, ..self }
    }

    /// The same request, answered at its end only.
    pub(super) fn standing(self, is_standing: bool) -> Self {
        Self { is_standing, ..self }
    }

    /// Keeps the request from being written, if that is not too late; says which.
    pub(super) fn withdraw(&self) -> Outcome {
        if self.delivery.withdraw() {
            Outcome::NotSent
        } else {
            Outcome::Unknown
        }
    }

    /// Whether it was made on behalf of a caller.
    pub(super) fn is_call(&self) -> bool {
        self.hold.is_some()
    }

    /// Ends the request; `false` when its caller no longer waits.
    pub(super) fn settle(self, answer: RequestResult) -> bool {
        self.answer.send(answer).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_late_answers_of_many_abandoned_calls_are_recognized_and_the_oldest_is_forgotten_first() {
        let pending = Pending::new();
        for _ in 0..=ABANDONED_LIMIT {
            let id = pending.next_id();
            let (call, _answer) =
                WaitingRequest::new(Arc::default(), None, Some(Arc::default()), Instant::now());
            pending.insert(id, call).expect("it is not over");
            pending.abandon(id).expect("it waits");
        }
        let recognized =
            (1..=pending.next_id()).filter(|id| matches!(pending.claim(*id), Claimed::Late(Some(_))));
        assert_eq!(
            recognized.collect::<Vec<_>>(),
            (2..=ABANDONED_LIMIT as u64 + 1).collect::<Vec<_>>()
        );
    }
}
