//! One request, from its entry into the pending table to its end.
//!
//! It waits for three things at once: its answer, room in the queue, and one timer. Each way to end it takes it out of the
//! table first. A request that is abandoned after it was sent is cancelled at the remote peer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::failure::Outcome;
use super::failure::{RequestError, TimeoutKind};
use super::options::IdlePause;
use super::peer::PeerShared;
use super::pending::RequestResult;
use super::sent_note::SentNote;
use crate::deadline;
use crate::transport::{End, Sending};

/// A request that is in the table; dropping it abandons the request.
pub(super) struct RequestInFlight<'a> {
    shared: &'a PeerShared,
    id: u64,
    cancellable: bool,
    /// Where its outcome is noted.
    sent: Option<SentNote>,
    /// Whether it has left the table.
    ended: bool,
}

impl<'a> RequestInFlight<'a> {
    /// A request that was just entered under this number.
    pub(super) fn new(shared: &'a PeerShared, id: u64, cancellable: bool, sent: Option<SentNote>) -> Self {
        Self {
            shared,
            id,
            cancellable,
            sent,
            ended: false,
        }
    }

    /// Waits for its answer, and for room in the queue if it is not sent yet.
    pub(super) async fn wait(
        mut self,
        mut queueing: Option<Sending<'_>>,
        mut answer: oneshot::Receiver<RequestResult>,
        timeouts: &RequestTimeouts,
        now: Instant,
    ) -> RequestResult {
        let mut timer = pin!(sleep_until(timeouts.next(now)));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return self.settled(answer),
                // A closed queue needs no answer here: the transport says how it ended, which fails the request.
                _ = async { queueing.as_mut().expect("only polled while queueing").await }, if queueing.is_some() => {
                    queueing = None;
                }
                () = &mut timer => match self.check_timeouts(timeouts) {
                    TimerOutcome::Until(next) => timer.as_mut().reset(next),
                    TimerOutcome::Expired(error) => return Err(error),
                    // Its answer was taken out of the table this very moment, and is being handed over.
                    TimerOutcome::Answered => return self.settled(answer.await),
                },
            }
        }
    }

    fn check_timeouts(&mut self, timeouts: &RequestTimeouts) -> TimerOutcome {
        let Some(last_activity) = self.shared.pending.last_activity(self.id) else {
            return TimerOutcome::Answered;
        };
        let now = Instant::now();
        let last_activity = timeouts.last_counted(last_activity, now);
        let Some(kind) = timeouts.expired(last_activity, now) else {
            return TimerOutcome::Until(timeouts.next(last_activity));
        };
        match self.abandon("timed out") {
            Some(sent) => TimerOutcome::Expired(RequestError::TimedOut { kind, sent }),
            None => TimerOutcome::Answered,
        }
    }

    fn settled(&mut self, answer: Result<RequestResult, oneshot::error::RecvError>) -> RequestResult {
        self.ended = true;
        let answer = answer.unwrap_or_else(|_| {
            Err(RequestError::Lost {
                outcome: Outcome::Unknown,
                end: End::Aborted,
            })
        });
        let outcome = answer
            .as_ref()
            .map_or_else(RequestError::outcome, |_| Outcome::Answered);
        self.note(outcome);
        answer
    }

    fn note(&self, outcome: Outcome) {
        if let Some(sent) = &self.sent {
            sent.note(outcome);
        }
    }

    /// Takes the request back: says whether it was sent, or nothing when it has ended already.
    fn abandon(&mut self, reason: &str) -> Option<bool> {
        let waiting = self.shared.pending.abandon(self.id)?;
        self.ended = true;
        let sent = self
            .shared
            .withdraw(self.id, &waiting, self.cancellable.then_some(reason));
        self.note(if sent { Outcome::Unknown } else { Outcome::NotSent });
        Some(sent)
    }
}

impl Drop for RequestInFlight<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.abandon("the caller no longer waits");
        }
    }
}

/// What a request finds when its timer fires.
enum TimerOutcome {
    Until(Instant),
    Expired(RequestError),
    Answered,
}

/// How long a request waits.
pub(super) struct RequestTimeouts {
    pub(super) idle: Option<Duration>,
    pub(super) total: Instant,
    pub(super) hold: Option<Arc<IdlePause>>,
}

impl RequestTimeouts {
    /// The next moment at which time may run out.
    fn next(&self, last_activity: Instant) -> Instant {
        let idle = self.idle.map(|idle| deadline::after(last_activity, idle));
        idle.map_or(self.total, |idle| idle.min(self.total))
    }

    /// The last activity, or the end of the last pause.
    fn last_counted(&self, last_activity: Instant, now: Instant) -> Instant {
        let released = self.hold.as_ref().and_then(|hold| hold.released(now));
        released.map_or(last_activity, |released| released.max(last_activity))
    }

    fn expired(&self, last_activity: Instant, now: Instant) -> Option<TimeoutKind> {
        if now >= self.total {
            let held = self.hold.as_ref().is_some_and(|hold| hold.is_paused());
            return Some(if held {
                TimeoutKind::Person
            } else {
                TimeoutKind::Total
            });
        }
        (now >= self.next(last_activity)).then_some(TimeoutKind::Idle)
    }
}
