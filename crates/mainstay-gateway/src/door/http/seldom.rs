//! What happens often and is said seldom.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// At most one line in this time.
const INTERVAL: Duration = Duration::from_secs(60);

/// Counts what happens, and says when it is time for a line in the log.
#[derive(Default)]
pub(super) struct Seldom(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    since_last: u64,
    last: Option<Instant>,
}

impl Seldom {
    /// It happened once more: how often since the last line, if it is time for another.
    pub(super) fn count(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.since_last += 1;
        if counted
            .last
            .is_some_and(|last| now.duration_since(last) < INTERVAL)
        {
            return None;
        }
        counted.last = Some(now);
        Some(std::mem::take(&mut counted.since_last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_others_together_when_it_is_time() {
        let seldom = Seldom::default();
        let now = Instant::now();
        assert_eq!(seldom.count(now), Some(1));
        assert_eq!(seldom.count(now), None);
        assert_eq!(seldom.count(now + INTERVAL / 2), None);
        assert_eq!(seldom.count(now + INTERVAL), Some(3));
        assert_eq!(seldom.count(now + INTERVAL), None);
    }
}
