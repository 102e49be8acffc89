//! Time and generations: plain numbers that the caller passes in.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// A moment on the caller's monotonic clock: the time since an origin that the caller chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment `since_origin` after the caller's origin.
    pub const fn new(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// The time since the caller's origin.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, pause: Duration) -> Moment {
        Moment(self.0.saturating_add(pause))
    }
}

/// The number of a connection, from one counter for the whole process. No number ever repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A pause between zero and `longest`, chosen by a hash of the moment and the generation that failed.
///
/// The machine needs no random numbers. Nanoseconds and generations differ between servers and between failures, so their
/// hash spreads servers that fail together, and a test can repeat it.
pub(crate) fn jittered(longest: Duration, now: Moment, generation: Generation) -> Duration {
    let nanos = u64::try_from(now.0.as_nanos()).unwrap_or(u64::MAX);
    let hash = scramble(nanos ^ generation.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let share = (hash >> 11) as f64 / (1u64 << 53) as f64;
    longest.mul_f64(share)
}

/// A hash finaliser with full avalanche: each input bit flips half of the output bits.
const fn scramble(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Generation, Moment, jittered};

    #[test]
    fn jitter_spreads_over_the_whole_pause_and_never_beyond_it() {
        let longest = Duration::from_secs(8);
        let mut eighths = [0u32; 8];
        for server in 0..8_000 {
            // Servers that fail in the same moment differ only by their generations.
            let pause = jittered(longest, Moment::new(Duration::from_secs(60)), Generation(server));
            assert!(pause <= longest);
            eighths[(pause.as_secs() as usize).min(7)] += 1;
        }
        assert!(
            eighths.iter().all(|count| (850..=1_150).contains(count)),
            "{eighths:?}"
        );
    }

    #[test]
    fn jitter_differs_from_one_failure_to_the_next() {
        let longest = Duration::from_secs(8);
        let at = |nanos| jittered(longest, Moment::new(Duration::from_nanos(nanos)), Generation(1));
        assert_ne!(at(1), at(2));
        assert_eq!(at(1), at(1), "and can be repeated");
    }

    #[test]
    fn no_pause_is_too_long_to_jitter_or_to_add() {
        let end = Moment::new(Duration::MAX);
        assert!(jittered(Duration::MAX, end, Generation(u64::MAX)) <= Duration::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
        assert_eq!(Moment::default().since(end), Duration::ZERO);
    }
}
