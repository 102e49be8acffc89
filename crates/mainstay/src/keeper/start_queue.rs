//! The start queue: only so many servers of this program start their processes at one time.
//!
//! A start takes processor time. Where too many run at once, each takes so long that it misses its limit, is killed and
//! starts again. So a start needs a permit. The server gives it back when it is up or has failed, when its processes are
//! idle, and after [`PERMIT_TIMEOUT`] at the latest: a server that hangs does not hold up the others. Servers that wait
//! get their permits by rank, and in order of arrival within a rank.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, MutexGuard};
use std::thread::available_parallelism;
use std::time::Duration;

use crate::lock::Lock;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// How long a start keeps its permit, however busy it is. Most servers are up sooner.
pub(super) const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server waits for a permit. Then it starts without one. The machine's `limits.turn` is longer.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Starts at one time, for each processor: a start also waits for disk and network.
const STARTS_PER_PROCESSOR_LIMIT: usize = 2;

/// Starts at one time, however few processors there are.
const FEWEST_STARTS: usize = 4;

/// Which servers start first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StartRank {
    /// A call waits for the server.
    Demanded,
    /// The server is wanted.
    Wanted,
    /// The server is started to learn what it offers, and stays unused until a call wants it.
    Lazy,
}

/// The queue of all that want to start. Clones are the same queue.
#[derive(Clone, Debug)]
pub(crate) struct StartQueue(Arc<Lock<StartTurn>>);

#[derive(Debug)]
struct StartTurn {
    limit: usize,
    taken: usize,
    arrivals: u64,
    waiting: BTreeMap<(StartRank, u64), oneshot::Sender<StartPermit>>,
}

/// The permission to start. Given back when dropped.
#[derive(Debug)]
pub(crate) struct StartPermit(StartQueue);

/// A server in the queue. Leaves it when dropped.
#[derive(Debug)]
pub(crate) struct QueuedStart {
    starts: StartQueue,
    ticket: StartTicket,
    permit: oneshot::Receiver<StartPermit>,
    /// Whether it got its permit at once.
    is_first: bool,
}

/// The number of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartTicket(u64);

impl StartQueue {
    /// The queue of this process, bounded by its processors.
    pub(crate) fn of_this_process() -> Self {
        static QUEUE: LazyLock<StartQueue> = LazyLock::new(|| {
            let processors = available_parallelism().map_or(1, NonZeroUsize::get);
            StartQueue::new((processors * STARTS_PER_PROCESSOR_LIMIT).max(FEWEST_STARTS))
        });
        QUEUE.clone()
    }

    /// A queue with at most `limit` starts at one time.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Lock::new(StartTurn {
            limit,
            taken: 0,
            arrivals: 0,
            waiting: BTreeMap::new(),
        })))
    }

    /// Enters the queue.
    pub(crate) fn enter(&self, rank: StartRank) -> QueuedStart {
        let (sender, permit) = oneshot::channel();
        let mut queue = self.queue();
        queue.arrivals += 1;
        let ticket = queue.arrivals;
        queue.waiting.insert((rank, ticket), sender);
        let granted = queue.next();
        let is_first = !queue.waiting.contains_key(&(rank, ticket));
        drop(queue);
        self.grant(granted);
        QueuedStart {
            starts: self.clone(),
            ticket: StartTicket(ticket),
            permit,
            is_first,
        }
    }

    /// Moves a server to the front: a call waits for it now.
    pub(crate) fn promote(&self, StartTicket(ticket): StartTicket) {
        let mut queue = self.queue();
        if let Some(sender) = queue.take_out(ticket) {
            queue.waiting.insert((StartRank::Demanded, ticket), sender);
        }
    }

    fn grant(&self, granted: Option<oneshot::Sender<StartPermit>>) {
        if let Some(sender) = granted {
            // If the server left the queue, the permit comes back and is dropped here.
            let _ = sender.send(StartPermit(self.clone()));
        }
    }

    fn queue(&self) -> MutexGuard<'_, StartTurn> {
        self.0.lock()
    }
}

impl StartTurn {
    /// The next to start, if another may: its permit counts as taken.
    fn next(&mut self) -> Option<oneshot::Sender<StartPermit>> {
        if self.taken >= self.limit {
            return None;
        }
        let (_, sender) = self.waiting.pop_first()?;
        self.taken += 1;
        Some(sender)
    }

    fn take_out(&mut self, ticket: u64) -> Option<oneshot::Sender<StartPermit>> {
        [StartRank::Demanded, StartRank::Wanted, StartRank::Lazy]
            .into_iter()
            .find_map(|rank| self.waiting.remove(&(rank, ticket)))
    }
}

impl QueuedStart {
    pub(crate) fn ticket(&self) -> StartTicket {
        self.ticket
    }

    /// Whether it got its permit at once.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Waits for the permit; `None` where it did not come in time, and the server starts without one.
    ///
    /// Cancel safety: dropped, the server leaves the queue.
    pub(crate) async fn permit(mut self) -> Option<StartPermit> {
        timeout(QUEUE_TIMEOUT, &mut self.permit).await.ok()?.ok()
    }
}

impl Drop for QueuedStart {
    fn drop(&mut self) {
        // Dropped outside of the lock.
        let _left = self.starts.queue().take_out(self.ticket.0);
    }
}

impl Drop for StartPermit {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.taken -= 1;
        let granted = queue.next();
        drop(queue);
        self.0.grant(granted);
    }
}

/// Awaits `work` while it holds its permit, which is given back at its limit.
///
/// Cancel safety: that of `work`.
pub(super) async fn holding<T>(permit: &mut Option<StartPermit>, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = sleep(PERMIT_TIMEOUT) => *permit = None,
    }
    work.await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(place: &mut QueuedStart) -> Option<StartPermit> {
        place.permit.try_recv().ok()
    }

    #[tokio::test]
    async fn no_more_start_at_once_than_the_limit_and_the_next_one_when_a_permit_is_given_back() {
        let starts = StartQueue::new(2);
        let mut places: Vec<_> = (0..4).map(|_| starts.enter(StartRank::Wanted)).collect();
        let first: Vec<_> = places.iter().map(QueuedStart::is_first).collect();
        assert_eq!(first, [true, true, false, false]);
        let one = come(&mut places[0]).expect("its permit");
        let _two = come(&mut places[1]).expect("its permit");
        assert!(come(&mut places[2]).is_none());
        drop(one);
        let _three = come(&mut places[2]).expect("its permit");
        assert!(come(&mut places[3]).is_none());
    }

    #[tokio::test]
    async fn calls_come_first_and_lazy_servers_last() {
        let starts = StartQueue::new(1);
        let mut first = starts.enter(StartRank::Lazy);
        let mut lazy = starts.enter(StartRank::Lazy);
        let mut wanted = starts.enter(StartRank::Wanted);
        let mut demanded = starts.enter(StartRank::Demanded);
        let mut promoted = starts.enter(StartRank::Lazy);
        starts.promote(promoted.ticket());
        let mut permit = come(&mut first);
        for next in [&mut demanded, &mut promoted, &mut wanted, &mut lazy] {
            assert!(come(next).is_none());
            drop(permit.take());
            permit = come(next);
            assert!(permit.is_some());
        }
    }

    #[tokio::test]
    async fn a_server_that_leaves_the_queue_keeps_no_permit() {
        let starts = StartQueue::new(1);
        let mut first = starts.enter(StartRank::Wanted);
        let second = starts.enter(StartRank::Wanted);
        let mut third = starts.enter(StartRank::Wanted);
        drop(second);
        assert_eq!(starts.queue().waiting.len(), 1, "only the third one waits");
        drop(come(&mut first));
        assert!(come(&mut third).is_some());
        // A permit that was granted and never fetched is given back, too.
        let fourth = starts.enter(StartRank::Wanted);
        drop(fourth);
        assert!(starts.enter(StartRank::Wanted).is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_is_given_back_at_its_limit_while_the_work_goes_on() {
        let starts = StartQueue::new(1);
        let mut permit = starts.enter(StartRank::Wanted).permit().await;
        let next = starts.enter(StartRank::Wanted);
        let hangs = std::future::pending::<()>();
        tokio::select! {
            () = holding(&mut permit, hangs) => unreachable!("it hangs"),
            permit = next.permit() => assert!(permit.is_some()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_waits_too_long_starts_without_a_permit() {
        let starts = StartQueue::new(1);
        let _held = starts.enter(StartRank::Wanted).permit().await;
        assert!(starts.enter(StartRank::Wanted).permit().await.is_none());
    }
}
