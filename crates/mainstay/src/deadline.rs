//! Deadlines from durations that a caller chose.
//!
//! An `Instant` or a `SystemTime` panics when a duration leads beyond its range, and `Duration::MAX` is what many callers
//! write for "no limit". Every sum of a time and a duration from outside is made here.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The longest wait: no process lives that long, and no clock overflows.
const LONGEST_WAIT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The moment `wait` from now.
pub(crate) fn within(wait: Duration) -> Instant {
    after(Instant::now(), wait)
}

/// The moment `wait` after `start`.
pub(crate) fn after(start: Instant, wait: Duration) -> Instant {
    start + wait.min(LONGEST_WAIT)
}

/// The time of day `wait` from now.
pub(crate) fn time_of_day_in(wait: Duration) -> SystemTime {
    SystemTime::now() + wait.min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_is_too_long_for_any_clock() {
        let start = Instant::now();
        let latest = after(start, Duration::MAX);
        assert_eq!(latest, start + LONGEST_WAIT);
        assert!(after(latest, Duration::MAX) > latest, "sums of sums have room");
        assert!(time_of_day_in(Duration::MAX) > SystemTime::now() + LONGEST_WAIT / 2);
    }
}
