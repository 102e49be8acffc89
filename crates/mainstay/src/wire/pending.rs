//! The requests that wait for an answer.
//!
//! Whoever takes a request out of the table decides how it ends; as the table gives it out once, it ends once. The lock
//! is held for a look-up and never while an answer is delivered.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::failure::RequestError;
use super::hold::Hold;
use super::outcome::Outcome;
use super::progress::Listener;
use super::raw::RawJson;
use crate::transport::{Delivery, End};

pub(super) type Answer = Result<RawJson, RequestError>;

/// Answered requests of one connection whose progress is still heard, as work may go on that they began. There is no word
/// for its end, so the oldest are forgotten.
const HEARD_AFTER: usize = 64;

pub(super) struct Pending {
    /// The number of the next request.
    next: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    waiting: HashMap<u64, Waiting>,
    /// Who listens to the progress of requests that were answered.
    answered: VecDeque<(u64, Listener)>,
    /// Notifications so far, cancellations included.
    told: u64,
    /// How many they were at the last request.
    told_at_last: u64,
    /// Set once, when the connection is over: nothing waits from then on.
    ended: Option<End>,
}

/// One request that waits.
pub(super) struct Waiting {
    answer: oneshot::Sender<Answer>,
    delivery: Arc<Delivery>,
    listener: Option<Listener>,
    /// Whose idle time stands still while a person is asked because of it; a request on Mainstay's own behalf has none.
    hold: Option<Arc<Hold>>,
    /// When it was made, or last made progress.
    heard: Instant,
    /// How many notifications there had been when it was made, if none came between it and the request before.
    told: Option<u64>,
    /// Whether an answer to it was found behind text, and is about to be taken.
    is_salvaged: bool,
}

/// What a message of the far side belongs to, as far as its transport can tell.
#[derive(Clone)]
pub(crate) enum Cause {
    /// It cannot.
    Unknown,
    /// A request that is on nobody's behalf.
    Ours,
    /// A call: the one with this hold.
    Call(Arc<Hold>),
    /// A request that no longer waits.
    Gone,
}

/// What the table knows of the sender of an answer.
pub(super) enum Claimed {
    Waiting(Waiting),
    /// It was asked, and no longer waits.
    Late,
    /// It was never asked.
    Unknown,
}

impl Pending {
    pub(super) fn new() -> Self {
        Self {
            next: AtomicU64::new(1),
            table: Mutex::default(),
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Lets a request wait, unless the connection is over.
    pub(super) fn insert(&self, id: u64, waiting: Waiting) -> Result<(), End> {
        let mut table = self.table();
        if let Some(end) = &table.ended {
            return Err(end.clone());
        }
        let told = (table.told == table.told_at_last).then_some(table.told);
        table.told_at_last = table.told;
        table.waiting.insert(id, Waiting { told, ..waiting });
        Ok(())
    }

    pub(super) fn take(&self, id: u64) -> Option<Waiting> {
        self.table().waiting.remove(&id)
    }

    /// Takes out the request that an answer with this number is for.
    pub(super) fn claim(&self, id: u64) -> Claimed {
        let mut table = self.table();
        match table.waiting.remove(&id) {
            Some(mut waiting) => {
                if let Some(listener) = waiting.listener.take().and_then(Listener::after_the_answer) {
                    table.answered.truncate(HEARD_AFTER - 1);
                    table.answered.push_front((id, listener));
                }
                Claimed::Waiting(waiting)
            }
            None if (1..self.next.load(Relaxed)).contains(&id) => Claimed::Late,
            None => Claimed::Unknown,
        }
    }

    /// Takes out the one request that waits, if it is one.
    pub(super) fn take_only(&self) -> Only {
        let mut table = self.table();
        let mut ids = table.waiting.keys();
        match (ids.next().copied(), ids.next()) {
            (None, _) => Only::None,
            (Some(_), Some(_)) => Only::Several,
            (Some(id), None) => table.waiting.remove(&id).map_or(Only::None, Only::One),
        }
    }

    /// Notes that the far side is sent a notification.
    pub(super) fn tell(&self) {
        self.table().told += 1;
    }

    /// Takes out the request that an error without an id is for: the only one that waits. Some servers answer
    /// notifications with such errors, so there may be none since the request before this one.
    pub(super) fn take_without_id(&self) -> Option<Waiting> {
        let mut table = self.table();
        let mut waiting = table.waiting.iter();
        let (&id, only) = waiting.next()?;
        let is_clear = waiting.next().is_none() && only.told == Some(table.told);
        if !is_clear {
            return None;
        }
        table.waiting.remove(&id)
    }

    /// Notes that an answer to the request was salvaged; `false` if it does not wait, or if there was one before.
    pub(super) fn begin_salvage(&self, id: u64) -> bool {
        let mut table = self.table();
        let waiting = table.waiting.get_mut(&id);
        waiting.is_some_and(|waiting| !std::mem::replace(&mut waiting.is_salvaged, true))
    }

    /// When the request was made or last made progress.
    pub(super) fn heard(&self, id: u64) -> Option<Instant> {
        self.table().waiting.get(&id).map(|waiting| waiting.heard)
    }

    /// Notes progress; gives the listener of it.
    pub(super) fn progressed(&self, id: u64) -> Option<Listener> {
        let mut table = self.table();
        let Some(waiting) = table.waiting.get_mut(&id) else {
            let mut answered = table.answered.iter();
            return answered.find_map(|(of, listener)| (*of == id).then(|| listener.clone()));
        };
        let listener = waiting.listener.clone()?;
        waiting.heard = Instant::now();
        Some(listener)
    }

    /// What a message belongs to that came on the stream of this request.
    pub(super) fn cause(&self, id: u64) -> Cause {
        match self.table().waiting.get(&id) {
            Some(waiting) => waiting.hold.clone().map_or(Cause::Ours, Cause::Call),
            None => Cause::Gone,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table().waiting.len()
    }

    /// Ends the table: fails all that wait, and all that come later. `false` when it had ended before.
    pub(super) fn end(&self, end: &End) -> bool {
        let waiting = {
            let mut table = self.table();
            if table.ended.is_some() {
                return false;
            }
            table.ended = Some(end.clone());
            table.answered.clear();
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
        self.table().ended.is_some()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many requests wait.
pub(super) enum Only {
    None,
    One(Waiting),
    Several,
}

impl Waiting {
    pub(super) fn new(
        delivery: Arc<Delivery>,
        listener: Option<Listener>,
        hold: Option<Arc<Hold>>,
        now: Instant,
    ) -> (Self, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        let waiting = Self {
            answer,
            delivery,
            listener,
            hold,
            heard: now,
            told: None,
            is_salvaged: false,
        };
        (waiting, receiver)
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

    /// Ends the request; `false` when nobody waits for it any more.
    pub(super) fn settle(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }
}
