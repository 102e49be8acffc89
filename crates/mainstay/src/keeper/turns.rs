//! Turns to start: only so many servers of this program start their processes at one time.
//!
//! A start takes processor time. Where too many run at once, each takes so long that it misses its limit, is killed and
//! starts again. So servers take turns. A turn is given back when its server is up or has failed, when its processes are
//! idle, and after [`TURN_LIMIT`] at the latest: a server that hangs does not hold up the others. Who waits is served by
//! rank, and in order of arrival within a rank.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// How long a start keeps its turn, however busy it is. Most servers are up sooner.
pub(super) const TURN_LIMIT: Duration = Duration::from_secs(10);

/// How long a server waits for its turn. Then it starts without one. The machine's `limits.turn` is longer.
const WAIT_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Starts at one time, for each processor: a start also waits for disk and network.
const STARTS_PER_PROCESSOR: usize = 2;

/// Starts at one time, however few processors there are.
const FEWEST_STARTS: usize = 4;

/// Who starts first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// A call waits for the server.
    Demanded,
    /// The server is wanted.
    Wanted,
    /// The server is started to learn what it offers, and stays unused until a call wants it.
    Lazy,
}

/// The queue of all that want to start. Clones are the same queue.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    limit: usize,
    taken: usize,
    arrivals: u64,
    waiting: BTreeMap<(Rank, u64), oneshot::Sender<Turn>>,
}

/// The permission to start. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn(Turns);

/// One who waits in the queue. Leaves it when dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    turns: Turns,
    ticket: Ticket,
    turn: oneshot::Receiver<Turn>,
    /// Whether the turn had come when the place was taken.
    is_first: bool,
}

/// The number of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Turns {
    /// The queue of this process, bounded by its processors.
    pub(crate) fn of_this_process() -> Self {
        static TURNS: LazyLock<Turns> = LazyLock::new(|| {
            let processors = available_parallelism().map_or(1, NonZeroUsize::get);
            Turns::new((processors * STARTS_PER_PROCESSOR).max(FEWEST_STARTS))
        });
        TURNS.clone()
    }

    /// A queue with at most `limit` starts at one time.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue {
            limit,
            taken: 0,
            arrivals: 0,
            waiting: BTreeMap::new(),
        })))
    }

    /// Takes a place in the queue.
    pub(crate) fn enter(&self, rank: Rank) -> Waiter {
        let (sender, turn) = oneshot::channel();
        let mut queue = self.queue();
        queue.arrivals += 1;
        let ticket = queue.arrivals;
        queue.waiting.insert((rank, ticket), sender);
        let granted = queue.next();
        let is_first = !queue.waiting.contains_key(&(rank, ticket));
        drop(queue);
        self.grant(granted);
        Waiter {
            turns: self.clone(),
            ticket: Ticket(ticket),
            turn,
            is_first,
        }
    }

    /// Moves a place to the front: a call waits for that server now.
    pub(crate) fn promote(&self, Ticket(ticket): Ticket) {
        let mut queue = self.queue();
        if let Some(sender) = queue.take_out(ticket) {
            queue.waiting.insert((Rank::Demanded, ticket), sender);
        }
    }

    fn grant(&self, granted: Option<oneshot::Sender<Turn>>) {
        if let Some(sender) = granted {
            // Where nobody waits any more, the turn comes back and is dropped here.
            let _ = sender.send(Turn(self.clone()));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The next to start, if another may: its turn counts as taken.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        if self.taken >= self.limit {
            return None;
        }
        let (_, sender) = self.waiting.pop_first()?;
        self.taken += 1;
        Some(sender)
    }

    fn take_out(&mut self, ticket: u64) -> Option<oneshot::Sender<Turn>> {
        [Rank::Demanded, Rank::Wanted, Rank::Lazy]
            .into_iter()
            .find_map(|rank| self.waiting.remove(&(rank, ticket)))
    }
}

impl Waiter {
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Whether there was nothing to wait for.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Waits for the turn; `None` where it did not come in time, and the server starts without one.
    ///
    /// Cancel safety: dropped, the place is given up.
    pub(crate) async fn turn(mut self) -> Option<Turn> {
        timeout(WAIT_LIMIT, &mut self.turn).await.ok()?.ok()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Dropped outside of the lock.
        let _left = self.turns.queue().take_out(self.ticket.0);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.taken -= 1;
        let granted = queue.next();
        drop(queue);
        self.0.grant(granted);
    }
}

/// Awaits `work` while it holds its turn, which is given back at its limit.
///
/// Cancel safety: that of `work`.
pub(super) async fn holding<T>(turn: &mut Option<Turn>, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = sleep(TURN_LIMIT) => *turn = None,
    }
    work.await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(place: &mut Waiter) -> Option<Turn> {
        place.turn.try_recv().ok()
    }

    #[tokio::test]
    async fn no_more_start_at_once_than_the_limit_and_the_next_one_when_a_turn_is_given_back() {
        let turns = Turns::new(2);
        let mut places: Vec<_> = (0..4).map(|_| turns.enter(Rank::Wanted)).collect();
        let first: Vec<_> = places.iter().map(Waiter::is_first).collect();
        assert_eq!(first, [true, true, false, false]);
        let one = come(&mut places[0]).expect("its turn");
        let _two = come(&mut places[1]).expect("its turn");
        assert!(come(&mut places[2]).is_none());
        drop(one);
        let _three = come(&mut places[2]).expect("its turn");
        assert!(come(&mut places[3]).is_none());
    }

    #[tokio::test]
    async fn calls_come_first_and_lazy_servers_last() {
        let turns = Turns::new(1);
        let mut first = turns.enter(Rank::Lazy);
        let mut lazy = turns.enter(Rank::Lazy);
        let mut wanted = turns.enter(Rank::Wanted);
        let mut demanded = turns.enter(Rank::Demanded);
        let mut promoted = turns.enter(Rank::Lazy);
        turns.promote(promoted.ticket());
        let mut turn = come(&mut first);
        for next in [&mut demanded, &mut promoted, &mut wanted, &mut lazy] {
            assert!(come(next).is_none());
            drop(turn.take());
            turn = come(next);
            assert!(turn.is_some());
        }
    }

    #[tokio::test]
    async fn who_leaves_the_queue_keeps_no_turn() {
        let turns = Turns::new(1);
        let mut first = turns.enter(Rank::Wanted);
        let second = turns.enter(Rank::Wanted);
        let mut third = turns.enter(Rank::Wanted);
        drop(second);
        drop(come(&mut first));
        assert!(come(&mut third).is_some());
        // A turn that was granted and never fetched is given back, too.
        let fourth = turns.enter(Rank::Wanted);
        drop(fourth);
        assert!(turns.enter(Rank::Wanted).is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_given_back_at_its_limit_while_the_work_goes_on() {
        let turns = Turns::new(1);
        let mut turn = turns.enter(Rank::Wanted).turn().await;
        let next = turns.enter(Rank::Wanted);
        let hangs = std::future::pending::<()>();
        tokio::select! {
            () = holding(&mut turn, hangs) => unreachable!("it hangs"),
            turn = next.turn() => assert!(turn.is_some()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_starts_without_a_turn() {
        let turns = Turns::new(1);
        let _held = turns.enter(Rank::Wanted).turn().await;
        assert!(turns.enter(Rank::Wanted).turn().await.is_none());
    }
}
