//! What clients may use of the door: connections, requests in a second, wrong tokens; and how often the log says so.
//! Sessions are bounded in `session`, and bytes in [`crate::budget`].

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};

use super::guard::HttpCaller;
use super::options::RequestRate;

use crate::lock::lock;

/// All connections. A connection is *idle* while no request on it is being answered: between two requests, or while the
/// next one arrives slowly. With one connection too many, the one that has been idle for the longest time is closed. A
/// connection with a request or an open stream never is.
pub(super) struct ConnectionLimiter {
    limit: usize,
    limit_per_peer: usize,
    opened_at: Instant,
    table: Mutex<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    last: u64,
    connections: HashMap<u64, (HttpCaller, Arc<ConnectionActivity>)>,
    count_per_peer: HashMap<HttpCaller, usize>,
}

/// The right to one connection, until this is dropped or the connection is evicted.
pub(super) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    pub(super) activity: Arc<ConnectionActivity>,
    /// Whether another connection was evicted for this one.
    pub(super) evicted_another: bool,
}

/// There are as many connections as may be, and none of them is idle.
#[derive(Debug)]
pub(super) struct NoIdleConnection;

impl ConnectionLimiter {
    /// At most so many connections in all, and so many from one address.
    pub(super) fn new(limit: usize, limit_per_peer: usize) -> Self {
        Self {
            limit,
            limit_per_peer,
            opened_at: Instant::now(),
            table: Mutex::default(),
        }
    }

    /// Admits one more connection from this address. If there are too many, it evicts the one that has been idle for the
    /// longest time: of that address, or of all.
    pub(super) fn admit(self: &Arc<Self>, peer: HttpCaller) -> Result<ConnectionPermit, NoIdleConnection> {
        let mut table = lock(&self.table);
        let of_peer = table.count_per_peer.get(&peer).copied().unwrap_or(0);
        let mut evicted_another = false;
        if of_peer >= self.limit_per_peer {
            table.evict_one(|of| of == peer)?;
            evicted_another = true;
        } else if table.connections.len() >= self.limit {
            table.evict_one(|_| true)?;
            evicted_another = true;
        }
        table.last += 1;
        let number = table.last;
        let activity = Arc::new(ConnectionActivity::new(self.opened_at));
        table.connections.insert(number, (peer, activity.clone()));
        *table.count_per_peer.entry(peer).or_default() += 1;
        Ok(ConnectionPermit {
            limiter: self.clone(),
            number,
            activity,
            evicted_another,
        })
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.table).connections.len()
    }
}

impl ConnectionTable {
    /// Evicts the connection that has been idle for the longest time, of those from these addresses.
    fn evict_one(&mut self, is_counted: impl Fn(HttpCaller) -> bool) -> Result<(), NoIdleConnection> {
        loop {
            let candidates = self.connections.iter().filter(|(_, (peer, _))| is_counted(*peer));
            let longest_idle = candidates
                .filter_map(|(number, (_, activity))| Some((activity.idle_since()?, *number)))
                .min();
            let (since, number) = longest_idle.ok_or(NoIdleConnection)?;
            // A request may have arrived on it since.
            if self.connections[&number].1.evict(since) {
                self.remove(number);
                return Ok(());
            }
        }
    }

    fn remove(&mut self, number: u64) {
        let Some((peer, _)) = self.connections.remove(&number) else {
            return;
        };
        if let Some(count) = self.count_per_peer.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.count_per_peer.remove(&peer);
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        lock(&self.limiter.table).remove(self.number);
    }
}

/// Whether a connection is idle, and since when.
pub(super) struct ConnectionActivity {
    /// Times count from here.
    zero: Instant,
    /// Microseconds, or one of the two values below.
    idle_since: AtomicU64,
    /// Requests so far.
    requests: AtomicU64,
    evicted: Notify,
}

/// A request is being answered.
const BUSY: u64 = u64::MAX;

/// The connection was evicted.
const EVICTED: u64 = u64::MAX - 1;

impl ConnectionActivity {
    pub(super) fn new(zero: Instant) -> Self {
        let activity = Self {
            zero,
            idle_since: AtomicU64::new(BUSY),
            requests: AtomicU64::new(0),
            evicted: Notify::new(),
        };
        activity.idle_since.store(activity.now(), Ordering::Relaxed);
        activity
    }

    /// Begins a request: the connection is not idle until it ends. `None` on an evicted connection, whose task is about to end.
    pub(super) fn begin_request(self: &Arc<Self>) -> Option<ActiveRequest> {
        let mut since = self.idle_since.load(Ordering::Acquire);
        while since != EVICTED {
            match self
                .idle_since
                .compare_exchange(since, BUSY, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.requests.fetch_add(1, Ordering::Relaxed);
                    return Some(ActiveRequest(self.clone()));
                }
                Err(now) => since = now,
            }
        }
        None
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.idle_since().is_some()
    }

    /// How many requests have begun on the connection.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// The client has read something: if the connection is idle, it is so from now on.
    pub(super) fn touch(&self) {
        if let Some(since) = self.idle_since() {
            let _ = self
                .idle_since
                .compare_exchange(since, self.now(), Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn idle_since(&self) -> Option<u64> {
        let since = self.idle_since.load(Ordering::Acquire);
        (since < EVICTED).then_some(since)
    }

    /// Evicts the connection, if it is still idle since then.
    fn evict(&self, since: u64) -> bool {
        let evicted = self
            .idle_since
            .compare_exchange(since, EVICTED, Ordering::AcqRel, Ordering::Relaxed);
        if evicted.is_ok() {
            self.evicted.notify_one();
        }
        evicted.is_ok()
    }

    fn now(&self) -> u64 {
        let micros = self.zero.elapsed().as_micros();
        u64::try_from(micros).unwrap_or(EVICTED).min(EVICTED - 1)
    }
}

/// A request that is being answered on a connection, or a stream that is open on it, until this is dropped.
pub(super) struct ActiveRequest(Arc<ConnectionActivity>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Release);
    }
}

/// Clients whose rate is remembered. With one more, those that have not made a request for long are forgotten.
const RATED_CLIENTS_LIMIT: usize = 16 * 1024;

/// A bucket of tokens for each client. A request takes one, and they come back with time.
pub(super) struct RateLimiter {
    rate: RequestRate,
    buckets: Mutex<HashMap<HttpCaller, RateBucket>>,
}

struct RateBucket {
    tokens: f64,
    at: Instant,
}

impl RateLimiter {
    pub(super) fn new(rate: RequestRate) -> Self {
        Self {
            rate,
            buckets: Mutex::default(),
        }
    }

    /// Takes a token, or says how long the client must wait for one.
    pub(super) fn take(&self, caller: HttpCaller, now: Instant) -> Result<(), Duration> {
        let mut buckets = lock(&self.buckets);
        make_room(&mut buckets, &caller, RATED_CLIENTS_LIMIT, |bucket| {
            bucket.filled(self.rate, now) < self.rate.burst
        });
        let bucket = buckets.entry(caller).or_insert(RateBucket {
            tokens: self.rate.burst,
            at: now,
        });
        bucket.tokens = bucket.filled(self.rate, now);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            let missing = (1.0 - bucket.tokens) / self.rate.per_second;
            return Err(Duration::from_secs_f64(missing));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

impl RateBucket {
    fn filled(&self, rate: RequestRate, now: Instant) -> f64 {
        let passed = now.duration_since(self.at).as_secs_f64();
        (self.tokens + passed * rate.per_second).min(rate.burst)
    }
}

/// Makes room for this client in a table of at most `limit`: forgets those that are not worth keeping, or else all.
fn make_room<T>(
    table: &mut HashMap<HttpCaller, T>,
    caller: &HttpCaller,
    limit: usize,
    is_kept: impl Fn(&T) -> bool,
) {
    if table.len() >= limit && !table.contains_key(caller) {
        table.retain(|_, entry| is_kept(entry));
        if table.len() >= limit {
            table.clear();
        }
    }
}

/// The delay after the first wrong token of an address. It doubles with each that follows.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The longest delay. A client with a wrong token in its configuration still gets its answer before it gives up.
const LONGEST_DELAY: Duration = Duration::from_secs(3);

/// An address that has sent no wrong token for this long begins again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Addresses whose wrong tokens are remembered.
const ADDRESSES_LIMIT: usize = 4096;

/// Requests with wrong tokens that are delayed at the same time, of all addresses: each holds a connection.
const DELAYED_LIMIT: usize = 256;

/// Delays the answers to wrong tokens, longer each time. A right token is never delayed, whatever was sent from its address
/// before. The task of the connection waits, so an attempt costs no more than its connection.
pub(super) struct WrongTokenLimiter {
    addresses: Mutex<HashMap<HttpCaller, WrongTokens>>,
    delayed: Semaphore,
}

/// The wrong tokens of one address.
struct WrongTokens {
    count: u32,
    last: Instant,
}

/// Too many requests with wrong tokens are delayed already.
pub(super) struct TooManyDelayed;

impl WrongTokenLimiter {
    pub(super) fn new() -> Self {
        Self {
            addresses: Mutex::default(),
            delayed: Semaphore::new(DELAYED_LIMIT),
        }
    }

    /// Delays the answer to a wrong token from this address.
    ///
    /// Cancel safety: if the future is dropped, the attempt counts all the same.
    pub(super) async fn delay(&self, peer: IpAddr) -> Result<(), TooManyDelayed> {
        let delay = self.note(HttpCaller::from_peer(peer), Instant::now());
        let _place = self.delayed.try_acquire().map_err(|_| TooManyDelayed)?;
        sleep(delay).await;
        Ok(())
    }

    /// Notes a wrong token, and returns the delay of its answer.
    fn note(&self, address: HttpCaller, now: Instant) -> Duration {
        let mut addresses = lock(&self.addresses);
        make_room(&mut addresses, &address, ADDRESSES_LIMIT, |wrong| {
            !wrong.is_old(now)
        });
        let wrong = addresses
            .entry(address)
            .or_insert(WrongTokens { count: 0, last: now });
        if wrong.is_old(now) {
            wrong.count = 0;
        }
        let delay = FIRST_DELAY.saturating_mul(1 << wrong.count.min(16));
        wrong.count = wrong.count.saturating_add(1);
        wrong.last = now;
        delay.min(LONGEST_DELAY)
    }
}

impl WrongTokens {
    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.last) >= FORGOTTEN_AFTER
    }
}

/// At most one line of a kind in the log in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Counts events that may be frequent, and says when to log them.
#[derive(Default)]
pub(super) struct LogLimiter(Mutex<UnloggedEvents>);

#[derive(Default)]
struct UnloggedEvents {
    count: u64,
    last_line: Option<Instant>,
}

impl LogLimiter {
    /// Counts one event. If it is time for a line, returns how many events there were since the last one.
    pub(super) fn count(&self, now: Instant) -> Option<u64> {
        let mut unlogged = lock(&self.0);
        unlogged.count += 1;
        if unlogged
            .last_line
            .is_some_and(|last| now.duration_since(last) < LOG_INTERVAL)
        {
            return None;
        }
        unlogged.last_line = Some(now);
        Some(std::mem::take(&mut unlogged.count))
    }
}

#[cfg(test)]
mod tests;
