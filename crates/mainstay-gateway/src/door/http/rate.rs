//! How often one client may ask.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::guard::Caller;
use super::options::Rate;

/// Clients that are remembered. With one more, those that have not asked for long are forgotten.
const MAX_CLIENTS: usize = 16 * 1024;

/// A bucket of tokens for each client: a request takes one, and they come back with time.
pub(super) struct Rates {
    rate: Rate,
    buckets: Mutex<HashMap<Caller, Bucket>>,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rates {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            buckets: Mutex::default(),
        }
    }

    /// Takes a token, or says when there will be one.
    pub(super) fn take(&self, caller: Caller, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_CLIENTS && !buckets.contains_key(&caller) {
            buckets.retain(|_, bucket| bucket.filled(self.rate, now) < self.rate.burst);
            if buckets.len() >= MAX_CLIENTS {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(caller).or_insert(Bucket {
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

impl Bucket {
    fn filled(&self, rate: Rate, now: Instant) -> f64 {
        let passed = now.duration_since(self.at).as_secs_f64();
        (self.tokens + passed * rate.per_second).min(rate.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::principal::TokenDigest;

    #[test]
    fn a_client_may_burst_and_then_asks_as_often_as_tokens_come_back() {
        let rates = Rates::new(Rate {
            per_second: 10.0,
            burst: 2.0,
        });
        let (one, other) = (
            Caller::Token(TokenDigest::of("one")),
            Caller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        );
        let now = Instant::now();
        assert_eq!(rates.take(one, now), Ok(()));
        assert_eq!(rates.take(one, now), Ok(()));
        assert_eq!(rates.take(one, now), Err(Duration::from_millis(100)));
        assert_eq!(rates.take(other, now), Ok(()), "of somebody else");
        let later = now + Duration::from_millis(100);
        assert_eq!(rates.take(one, later), Ok(()));
        assert!(rates.take(one, later).is_err());
    }
}
