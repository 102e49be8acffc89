//! How fast a stream is asked for again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first pause, unless the server asks for another.
const FIRST: Duration = Duration::from_millis(100);

/// The longest pause, even if the server asks for a longer one: its changes would go unheard meanwhile.
const LONGEST: Duration = Duration::from_secs(30);

/// The pauses between tries, growing while they are vain.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// What the server asked for.
    retry: Option<Duration>,
    vain: u32,
}

impl Pace {
    /// The server asks for this pause.
    pub(crate) fn ask(&mut self, retry: Duration) {
        self.retry = Some(retry.min(LONGEST));
    }

    /// The stream gave something.
    pub(crate) fn gained(&mut self) {
        self.vain = 0;
    }

    /// Tries since the stream last gave something.
    pub(crate) fn vain(&self) -> u32 {
        self.vain
    }

    /// The pause before the next try: never shorter than the server asks for, and never the same for all clients.
    /// Where the connection broke, which no server asks for, the first try is made at once.
    pub(crate) fn next(&mut self, broken: bool) -> Duration {
        let tries = self.vain;
        self.vain = tries.saturating_add(1);
        if broken && tries == 0 {
            return Duration::ZERO;
        }
        let grown = FIRST.saturating_mul(1 << tries.min(10)).min(LONGEST);
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
        let mut pace = Pace::default();
        assert_eq!(pace.next(true), Duration::ZERO);
        assert!(pace.next(true) > Duration::ZERO);
        for _ in 0..100 {
            assert!(pace.next(true) <= LONGEST);
        }
        assert!(pace.next(false) >= LONGEST / 2);
        pace.gained();
        let first = pace.next(false);
        assert!(first >= FIRST / 2 && first <= FIRST);

        let mut pace = Pace::default();
        pace.ask(Duration::from_secs(2));
        for _ in 0..10 {
            assert!(pace.next(false) >= Duration::from_secs(2));
        }
        pace.ask(Duration::from_secs(9999));
        assert!(pace.next(false) <= LONGEST);
    }
}
