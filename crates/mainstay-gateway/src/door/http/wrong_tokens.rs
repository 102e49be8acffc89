//! Who shows a wrong token waits for the answer, and longer each time.
//!
//! A right token is never kept waiting, whatever was shown from its address before. The connection's own task waits, so
//! that an attempt costs nothing but its connection; and only so many wait at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::guard::Caller;

/// The pause after the first wrong token of an address; it doubles with each that follows.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: a client with a wrong token in its configuration still learns so before it gives up.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// An address that has shown no wrong token for this long begins again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Addresses that are remembered. With one more, those of long ago are forgotten, and if there are none, all.
const MAX_ADDRESSES: usize = 4096;

/// Attempts that wait at the same time, of all addresses: each holds a connection.
const MAX_WAITING: usize = 256;

pub(super) struct WrongTokens {
    addresses: Mutex<HashMap<Caller, Attempts>>,
    waiting: Semaphore,
}

/// The wrong tokens of one address.
struct Attempts {
    count: u32,
    last: Instant,
}

/// Too many attempts wait already.
pub(super) struct TooMany;

impl WrongTokens {
    pub(super) fn new() -> Self {
        Self {
            addresses: Mutex::default(),
            waiting: Semaphore::new(MAX_WAITING),
        }
    }

    /// Keeps an attempt from this address waiting.
    ///
    /// Cancel safety: dropped, the attempt counts all the same.
    pub(super) async fn keep_waiting(&self, peer: IpAddr) -> Result<(), TooMany> {
        let pause = self.note(Caller::from_peer(peer), Instant::now());
        let _place = self.waiting.try_acquire().map_err(|_| TooMany)?;
        sleep(pause).await;
        Ok(())
    }

    /// Notes an attempt, and says how long it waits.
    fn note(&self, address: Caller, now: Instant) -> Duration {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= MAX_ADDRESSES && !addresses.contains_key(&address) {
            addresses.retain(|_, attempts| !attempts.is_old(now));
            if addresses.len() >= MAX_ADDRESSES {
                addresses.clear();
            }
        }
        let attempts = addresses
            .entry(address)
            .or_insert(Attempts { count: 0, last: now });
        if attempts.is_old(now) {
            attempts.count = 0;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << attempts.count.min(16));
        attempts.count = attempts.count.saturating_add(1);
        attempts.last = now;
        pause.min(LONGEST_PAUSE)
    }
}

impl Attempts {
    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.last) >= FORGOTTEN_AFTER
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u32) -> Caller {
        Caller::Peer(IpAddr::V4(Ipv4Addr::from_bits(last)))
    }

    #[test]
    fn each_wrong_token_of_an_address_waits_longer_up_to_a_bound_until_it_is_forgotten() {
        let wrong = WrongTokens::new();
        let now = Instant::now();
        let mut pauses = (0..40).map(|_| wrong.note(address(1), now));
        assert_eq!(pauses.next(), Some(FIRST_PAUSE));
        assert_eq!(pauses.next(), Some(2 * FIRST_PAUSE));
        assert_eq!(pauses.last(), Some(LONGEST_PAUSE));
        assert_eq!(wrong.note(address(2), now), FIRST_PAUSE, "of another address");
        let later = now + FORGOTTEN_AFTER;
        assert_eq!(wrong.note(address(1), later), FIRST_PAUSE);
    }

    #[test]
    fn no_more_addresses_are_remembered_than_there_is_room_for() {
        let wrong = WrongTokens::new();
        let now = Instant::now();
        for last in 0..=3 * u32::try_from(MAX_ADDRESSES).unwrap() {
            wrong.note(address(last), now);
            assert!(wrong.addresses.lock().unwrap().len() <= MAX_ADDRESSES);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_attempts_wait_at_once() {
        let wrong = WrongTokens::new();
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut waiting: Vec<_> = (0..MAX_WAITING)
            .map(|_| Box::pin(wrong.keep_waiting(peer)))
            .collect();
        for attempt in &mut waiting {
            assert!(tokio::time::timeout(Duration::ZERO, attempt).await.is_err());
        }
        assert!(wrong.keep_waiting(peer).await.is_err());
        drop(waiting.pop());
        assert!(wrong.keep_waiting(peer).await.is_ok());
    }
}
