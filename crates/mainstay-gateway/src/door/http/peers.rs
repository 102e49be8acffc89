//! How many connections there may be, how many of them from one address, and which of them gives way to a new one.
//!
//! A connection *waits* while no request is being answered on it: it is idle, or it sends a request slowly. With one
//! connection too many, the one that has waited longest gives way; a connection with a request or an open stream never
//! does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::guard::Caller;

/// All connections.
pub(super) struct Peers {
    most: usize,
    most_of_peer: usize,
    opened_at: Instant,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    seats: HashMap<u64, (Caller, Arc<Presence>)>,
    of_peer: HashMap<Caller, usize>,
}

/// A connection, as long as this lives or until it gives way.
pub(super) struct ConnectionPermit {
    peers: Arc<Peers>,
    number: u64,
    presence: Arc<Presence>,
}

/// A seat, and whether another connection gave way to it.
pub(super) struct Seated {
    pub(super) seat: ConnectionPermit,
    pub(super) another_gave_way: bool,
}

/// No seat is free: a request is being answered on every connection that could give way.
#[derive(Debug)]
pub(super) struct Full;

impl Peers {
    /// So many connections of all, and so many from one address.
    pub(super) fn new(most: usize, most_of_peer: usize) -> Self {
        Self {
            most,
            most_of_peer,
            opened_at: Instant::now(),
            table: Mutex::default(),
        }
    }

    /// A seat for one more connection from there. If there are too many, the one that has waited longest gives way: of that
    /// address, or of all.
    pub(super) fn seat(self: &Arc<Self>, peer: Caller) -> Result<Seated, Full> {
        let mut table = self.table();
        let of_peer = table.of_peer.get(&peer).copied().unwrap_or(0);
        let mut another_gave_way = false;
        if of_peer >= self.most_of_peer {
            table.make_room(|of| of == peer)?;
            another_gave_way = true;
        } else if table.seats.len() >= self.most {
            table.make_room(|_| true)?;
            another_gave_way = true;
        }
        table.last += 1;
        let number = table.last;
        let presence = Arc::new(Presence::new(self.opened_at));
        table.seats.insert(number, (peer, presence.clone()));
        *table.of_peer.entry(peer).or_default() += 1;
        drop(table);
        let seat = ConnectionPermit {
            peers: self.clone(),
            number,
            presence,
        };
        Ok(Seated {
            seat,
            another_gave_way,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.table().seats.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Makes the connection give way that has waited longest, of those of these addresses.
    fn make_room(&mut self, counts: impl Fn(Caller) -> bool) -> Result<(), Full> {
        loop {
            let candidates = self.seats.iter().filter(|(_, (peer, _))| counts(*peer));
            let waiting = candidates
                .filter_map(|(number, (_, presence))| Some((presence.waits_since()?, *number)))
                .min();
            let (since, number) = waiting.ok_or(Full)?;
            // It may have got a request in this moment.
            if self.seats[&number].1.give_way(since) {
                self.remove(number);
                return Ok(());
            }
        }
    }

    fn remove(&mut self, number: u64) {
        let Some((peer, _)) = self.seats.remove(&number) else {
            return;
        };
        if let Some(count) = self.of_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.of_peer.remove(&peer);
            }
        }
    }
}

impl ConnectionPermit {
    pub(super) fn presence(&self) -> &Arc<Presence> {
        &self.presence
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.peers.table().remove(self.number);
    }
}

/// Whether a connection waits, and since when.
pub(super) struct Presence {
    /// Times count from here.
    zero: Instant,
    /// Microseconds, or one of the two below.
    waits_since: AtomicU64,
    /// Requests so far.
    exchanges: AtomicU64,
    gives_way: Notify,
}

/// A request is being answered.
const BUSY: u64 = u64::MAX;

/// The connection gave way.
const GONE: u64 = u64::MAX - 1;

impl Presence {
    pub(super) fn new(zero: Instant) -> Self {
        let presence = Self {
            zero,
            waits_since: AtomicU64::new(BUSY),
            exchanges: AtomicU64::new(0),
            gives_way: Notify::new(),
        };
        presence.waits_since.store(presence.now(), Ordering::Relaxed);
        presence
    }

    /// Begins an exchange: the connection waits no more until that ends. Pending for ever where the connection has given
    /// way, which ends its task.
    ///
    /// Cancel safety: dropped before it is ready, nothing has begun.
    pub(super) async fn begin(self: &Arc<Self>) -> Exchange {
        let mut since = self.waits_since.load(Ordering::Acquire);
        while since != GONE {
            match self
                .waits_since
                .compare_exchange(since, BUSY, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.exchanges.fetch_add(1, Ordering::Relaxed);
                    return Exchange(self.clone());
                }
                Err(now) => since = now,
            }
        }
        std::future::pending().await
    }

    /// Comes back when the connection must end, to make room for another.
    pub(super) async fn gave_way(&self) {
        self.gives_way.notified().await;
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waits_since().is_some()
    }

    /// How many requests there were, or are, on the connection.
    pub(super) fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Relaxed)
    }

    /// The client took something of what was written to it: it waits from now on.
    pub(super) fn touch(&self) {
        if let Some(since) = self.waits_since() {
            let _ = self
                .waits_since
                .compare_exchange(since, self.now(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn waits_since(&self) -> Option<u64> {
        let since = self.waits_since.load(Ordering::Acquire);
        (since < GONE).then_some(since)
    }

    /// Gives way, if it still waits since then.
    fn give_way(&self, since: u64) -> bool {
        let given = self
            .waits_since
            .compare_exchange(since, GONE, Ordering::AcqRel, Ordering::Relaxed);
        if given.is_ok() {
            self.gives_way.notify_one();
        }
        given.is_ok()
    }

    fn now(&self) -> u64 {
        let micros = self.zero.elapsed().as_micros();
        u64::try_from(micros).unwrap_or(GONE).min(GONE - 1)
    }
}

/// A request that is being answered on a connection, or a stream that is open on it, as long as this lives.
pub(super) struct Exchange(Arc<Presence>);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.waits_since.store(self.0.now(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use tokio::time::{advance, timeout};

    use super::*;

    fn from(last: u8) -> Caller {
        Caller::Peer(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    }

    async fn has_given_way(seated: &Seated) -> bool {
        let presence = seated.seat.presence();
        timeout(Duration::ZERO, presence.gave_way()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_waited_longest_gives_way_and_none_with_a_request() {
        let peers = Arc::new(Peers::new(3, 10));
        let [busy, first, second] = [1, 2, 3].map(|last| peers.seat(from(last)).unwrap());
        let exchange = busy.seat.presence().begin().await;
        advance(Duration::from_secs(1)).await;
        // The first has an exchange meanwhile, and so waits for less time than the second.
        drop(first.seat.presence().begin().await);
        let third = peers.seat(from(4)).unwrap();
        assert!(third.another_gave_way && has_given_way(&second).await);
        assert!(!has_given_way(&busy).await && !has_given_way(&first).await);
        assert_eq!(peers.count(), 3);
        drop(second);
        assert_eq!(peers.count(), 3, "its seat was another's already");
        let open = [
            first.seat.presence().begin().await,
            third.seat.presence().begin().await,
        ];
        assert!(peers.seat(from(5)).is_err(), "all have requests");
        drop((open, exchange));
        assert!(peers.seat(from(5)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_with_too_many_connections_gives_up_its_own() {
        let peers = Arc::new(Peers::new(10, 2));
        let other = peers.seat(from(1)).unwrap();
        let mut own = Vec::new();
        for _ in 0..5 {
            advance(Duration::from_secs(1)).await;
            own.push(peers.seat(from(2)).unwrap());
        }
        assert!(!has_given_way(&other).await);
        for gone in &own[..3] {
            assert!(has_given_way(gone).await);
        }
        assert!(!has_given_way(&own[3]).await && !has_given_way(&own[4]).await);
        own.clear();
        assert_eq!(peers.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_its_answer_slowly_does_not_count_as_waiting() {
        let peers = Arc::new(Peers::new(2, 2));
        let [slow, idle] = [1, 2].map(|last| peers.seat(from(last)).unwrap());
        advance(Duration::from_secs(1)).await;
        slow.seat.presence().touch();
        let _new = peers.seat(from(3)).unwrap();
        assert!(has_given_way(&idle).await && !has_given_way(&slow).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_gave_way_begins_nothing() {
        let peers = Arc::new(Peers::new(1, 1));
        let first = peers.seat(from(1)).unwrap();
        let _second = peers.seat(from(1)).unwrap();
        let begun = timeout(Duration::from_secs(1), first.seat.presence().begin()).await;
        assert!(begun.is_err());
    }
}
