//! Durations counted in the buckets that OpenTelemetry's conventions for MCP give. Relaxed counters, and no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in milliseconds. Longer durations count in one more bucket.
const BOUNDS_MS: [u64; 14] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000,
];

/// Durations, as they were counted until now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    buckets: [u64; BOUNDS_MS.len() + 1],
    total: Duration,
}

impl DurationCounts {
    /// The buckets, shortest first: the longest duration that belongs to each, and how many do. The last one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = BOUNDS_MS.iter().map(|bound| Some(Duration::from_millis(*bound)));
        bounds.chain([None]).zip(self.buckets)
    }

    /// Adds durations that were counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.buckets.iter_mut().zip(other.buckets) {
            *own += other;
        }
        self.total += other.total;
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All durations together.
    pub fn total(&self) -> Duration {
        self.total
    }
}

/// The counters behind [`DurationCounts`].
#[derive(Debug, Default)]
pub struct DurationHistogram {
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    micros: AtomicU64,
}

impl DurationHistogram {
    /// Counts a duration.
    pub fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MS.partition_point(|bound| bound * 1_000 < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The durations that were counted until now.
    pub fn read(&self) -> DurationCounts {
        DurationCounts {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed)),
            total: Duration::from_micros(self.micros.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = DurationHistogram::default();
        for micros in [0, 10_000, 10_001, 300_000_000, 300_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        let counts = histogram.read();
        let filled: Vec<_> = counts.buckets().filter(|(_, count)| *count > 0).collect();
        let bound = |millis| Some(Duration::from_millis(millis));
        assert_eq!(
            filled,
            [(bound(10), 2), (bound(20), 1), (bound(300_000), 1), (None, 1)]
        );
        assert_eq!(counts.count(), 5);
        assert_eq!(counts.total(), Duration::from_micros(600_020_002));
    }
}
