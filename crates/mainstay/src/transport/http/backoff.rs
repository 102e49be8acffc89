//! The pauses between attempts to reopen a stream of events.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first pause, unless the server asks for another.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause, even if the server asks for a longer one: its notifications would be missed meanwhile.
const PAUSE_LIMIT: Duration = Duration::from_secs(30);

/// The pauses between attempts; they grow while the attempts fail.
#[derive(Debug, Default)]
pub(crate) struct ReconnectBackoff {
    /// What the server asked for.
    retry: Option<Duration>,
    failures: u32,
}

impl ReconnectBackoff {
    /// The server asks for this pause.
    pub(crate) fn set_retry(&mut self, retry: Duration) {
        self.retry = Some(retry.min(PAUSE_LIMIT));
    }

    /// An event came, so the next failure is the first again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Attempts since the last event.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// The pause before the next try: never shorter than the server asks for, and never the same for all clients.
    /// Where the connection broke, which no server asks for, the first try is made at once.
    pub(crate) fn next_pause(&mut self, broken: bool) -> Duration {
        let tries = self.failures;
        self.failures = tries.saturating_add(1);
        if broken && tries == 0 {
            return Duration::ZERO;
        }
        let grown = FIRST_PAUSE.saturating_mul(1 << tries.min(10)).min(PAUSE_LIMIT);
        let half = grown / 2;
        let jittered = half + half.mul_f64(fraction());
        match self.retry {
            Some(retry) if tries == 0 => retry + retry.mul_f64(fraction() / 10.0),
            Some(retry) => jittered.max(retry),
            None => jittered,
        }
    }
}

/// A number between 0 and 1, different each time.
pub(super) fn fraction() -> f64 {
    let random = RandomState::new().hash_one(0_u8);
    f64::from((random >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_are_capped_and_respect_the_server() {
        let mut backoff = ReconnectBackoff::default();
        assert_eq!(backoff.next_pause(true), Duration::ZERO);
        assert!(backoff.next_pause(true) > Duration::ZERO);
        for _ in 0..100 {
            assert!(backoff.next_pause(true) <= PAUSE_LIMIT);
        }
        assert!(backoff.next_pause(false) >= PAUSE_LIMIT / 2);
        backoff.reset();
        let first = backoff.next_pause(false);
        assert!(first >= FIRST_PAUSE / 2 && first <= FIRST_PAUSE);

        let mut backoff = ReconnectBackoff::default();
        backoff.set_retry(Duration::from_secs(2));
        for _ in 0..10 {
            assert!(backoff.next_pause(false) >= Duration::from_secs(2));
        }
        backoff.set_retry(Duration::from_secs(9999));
        assert!(backoff.next_pause(false) <= PAUSE_LIMIT);
    }
}
