//! Counts of a server's calls. They are relaxed counters, and a call takes no lock for them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::call::Reply;
use super::error::CallError;
use super::operations::{FAILURE_CLASSES, OperationError, failure_class};
use super::slot::Slot;
use crate::wire::Outcome;

/// What became of a server's calls since it was added to the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCounts {
    /// Calls that wait for a connection now.
    pub waiting: usize,
    /// Calls that run on a connection now.
    pub in_flight: usize,
    /// Calls that were begun.
    pub begun: u64,
    /// Calls that ended with a result.
    pub answered: u64,
    /// Calls that the server answered with an error.
    pub errors: u64,
    /// Calls that failed and were not sent.
    pub not_sent: u64,
    /// Calls that the server refused without running them.
    pub refused: u64,
    /// Calls that failed after they may have run.
    pub unknown: u64,
    /// Calls that their callers gave up.
    pub cancelled: u64,
    /// The failed calls by what went wrong, as one word each, such as `timeout` or `-32602`; only those that occurred.
    pub failures: Vec<(&'static str, u64)>,
    /// How long the calls with a result ran on their connections.
    pub durations: CallDurations,
}

/// How long calls took, counted in buckets. A bucket is at most a quarter wider than its lower bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDurations {
    /// The calls in each bucket; empty if no call was counted.
    buckets: Vec<u64>,
    total: Duration,
}

impl CallDurations {
    /// The buckets that hold calls, shortest first: the longest duration of each, and its calls.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counted = self.buckets.iter().enumerate();
        counted
            .filter(|(_, calls)| **calls > 0)
            .map(|(bucket, calls)| (upper_bound(bucket), *calls))
    }

    /// The time of all calls together.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The duration that so many of a hundred calls did not exceed, to the precision of a bucket. `None` if none was
    /// counted.
    pub fn percentile(&self, percent: u8) -> Option<Duration> {
        let all: u64 = self.buckets.iter().sum();
        let rank = (all * u64::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        self.buckets().find_map(|(bound, calls)| {
            seen += calls;
            (seen >= rank).then_some(bound)
        })
    }
}

/// Buckets for each doubling of the duration.
const STEPS: usize = 4;

/// Buckets from a microsecond to over an hour. Longer calls count in the last one.
const BUCKETS: usize = 33 * STEPS;

/// The bucket of a duration, in microseconds.
fn bucket_of(micros: u64) -> usize {
    let micros = micros.max(1);
    let octave = micros.ilog2();
    // The two bits below the highest one.
    let step = if octave >= 2 {
        (micros >> (octave - 2)) & 3
    } else {
        (micros << (2 - octave)) & 3
    };
    let bucket = octave as usize * STEPS + usize::try_from(step).unwrap_or_default();
    bucket.min(BUCKETS - 1)
}

/// The duration at which the next bucket begins.
fn upper_bound(bucket: usize) -> Duration {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    let quarters = (STEPS + step + 1) as u64;
    Duration::from_nanos((quarters * 250) << octave)
}

/// The counters behind [`CallCounts`].
#[derive(Default)]
pub(crate) struct CallCounters {
    in_flight: AtomicUsize,
    begun: AtomicU64,
    answered: AtomicU64,
    errors: AtomicU64,
    not_sent: AtomicU64,
    refused: AtomicU64,
    unknown: AtomicU64,
    cancelled: AtomicU64,
    /// Made by the first failure, one for each class.
    failures: OnceLock<Box<[AtomicU64; FAILURE_CLASSES]>>,
    micros: AtomicU64,
    /// Made by the first result: many servers are never called.
    buckets: OnceLock<Box<[AtomicU64; BUCKETS]>>,
}

impl CallCounters {
    /// Counts a call. It counts as cancelled if the result is dropped before [`CountedCall::end`].
    pub(super) fn begin(&self) -> CountedCall<'_> {
        add(&self.begun);
        CountedCall(Some(self))
    }

    /// Counts a call as in flight, until the result is dropped.
    pub(super) fn in_flight(&self) -> CallInFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        CallInFlight(&self.in_flight)
    }

    /// Counts how long a call with a result ran on its connection.
    pub(super) fn took(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        let buckets = self
            .buckets
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; BUCKETS]));
        add(&buckets[bucket_of(micros)]);
    }

    fn read(&self, waiting: usize) -> CallCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let buckets = self.buckets.get();
        CallCounts {
            waiting,
            in_flight: self.in_flight.load(Ordering::Relaxed),
            begun: count(&self.begun),
            answered: count(&self.answered),
            errors: count(&self.errors),
            not_sent: count(&self.not_sent),
            refused: count(&self.refused),
            unknown: count(&self.unknown),
            cancelled: count(&self.cancelled),
            failures: self.read_failures(),
            durations: CallDurations {
                buckets: buckets.map_or_else(Vec::new, |buckets| buckets.iter().map(count).collect()),
                total: Duration::from_micros(count(&self.micros)),
            },
        }
    }
}

impl CallCounters {
    fn failed(&self, error: OperationError) {
        let failures = self
            .failures
            .get_or_init(|| Box::new([const { AtomicU64::new(0) }; FAILURE_CLASSES]));
        add(&failures[error.place()]);
    }

    fn read_failures(&self) -> Vec<(&'static str, u64)> {
        let failures = self
            .failures
            .get()
            .into_iter()
            .flat_map(|failures| failures.iter());
        failures
            .enumerate()
            .map(|(place, calls)| (failure_class(place), calls.load(Ordering::Relaxed)))
            .filter(|(_, calls)| *calls > 0)
            .collect()
    }
}

impl Slot {
    /// What became of its calls so far.
    pub(super) fn call_counts(&self) -> CallCounts {
        self.counters.read(self.waiting.load(Ordering::Relaxed))
    }
}

/// A call that was begun.
pub(super) struct CountedCall<'a>(Option<&'a CallCounters>);

impl CountedCall<'_> {
    pub(super) fn end(mut self, ended: &Result<Reply, CallError>) {
        let Some(counters) = self.0.take() else { return };
        if let Err(error) = ended {
            counters.failed(OperationError::of_call(error));
        }
        add(match ended.as_ref().map_err(CallError::outcome) {
            Ok(_) => &counters.answered,
            Err(Outcome::Answered) => &counters.errors,
            Err(Outcome::NotSent) => &counters.not_sent,
            Err(Outcome::Refused) => &counters.refused,
            Err(Outcome::Unknown) => &counters.unknown,
        });
    }
}

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        if let Some(counters) = self.0 {
            add(&counters.cancelled);
            counters.failed(OperationError::Cancelled);
        }
    }
}

/// A call on a connection.
pub(super) struct CallInFlight<'a>(&'a AtomicUsize);

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

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
    fn every_duration_lies_within_a_quarter_below_the_bound_of_its_bucket() {
        for micros in (1..5_000).chain([65_535, 65_536, 1_000_000, 59_999_999]) {
            let bound = upper_bound(bucket_of(micros));
            let duration = Duration::from_micros(micros);
            assert!(duration < bound, "{micros}: {bound:?}");
            assert!(
                bound <= duration * 5 / 4 + Duration::from_micros(1),
                "{micros}: {bound:?}"
            );
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_of(0), bucket_of(1));
    }

    #[test]
    fn percentiles_are_those_of_the_counted_calls() {
        let counters = CallCounters::default();
        assert_eq!(counters.read(0).durations.percentile(50), None);
        for millis in 1..=100 {
            counters.took(Duration::from_millis(millis));
        }
        let durations = counters.read(0).durations;
        for (percent, exact) in [(0, 1), (50, 50), (95, 95), (100, 100)] {
            let found = durations.percentile(percent).expect("calls were counted");
            let exact = Duration::from_millis(exact);
            assert!(exact <= found && found <= exact * 5 / 4, "{percent}: {found:?}");
        }
        assert_eq!(durations.total(), Duration::from_millis(5050));
        assert_eq!(durations.buckets().map(|(_, calls)| calls).sum::<u64>(), 100);
    }

    #[test]
    fn a_call_that_is_dropped_counts_as_cancelled_and_leaves_nothing_in_flight() {
        let counters = CallCounters::default();
        let call = counters.begin();
        let in_flight = counters.in_flight();
        assert_eq!(counters.read(3).in_flight, 1);
        drop((call, in_flight));
        let counts = counters.read(3);
        assert_eq!((counts.begun, counts.cancelled, counts.in_flight), (1, 1, 0));
        assert_eq!(counts.waiting, 3);
    }

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
