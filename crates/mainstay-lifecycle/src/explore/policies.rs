//! The small policies of the exploration: every count is as low as it can be and still be counted, every duration a few
//! ticks.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::policy::{Backoff, Bucket, Expiry, Policy, Probe, TimeLimits, WhenLost, WhenSpent};

pub(super) fn all() -> [Policy; 4] {
    [patient(), strict(), watchful(), resting()]
}

/// Probes silent servers, keeps unused ones, and never gives up.
pub(super) fn patient() -> Policy {
    Policy {
        backoff: Backoff::new(ticks(2), ticks(3)),
        budget: count(2),
        when_spent: WhenSpent::ProbeEvery(ticks(8)),
        bucket: Bucket {
            size: count(2),
            refill_every: ticks(6),
        },
        lack_pause: ticks(4),
        stable_after: ticks(6),
        call_failures: count(2),
        discovery_failures: count(2),
        relist_pause: ticks(2),
        when_lost: WhenLost::Restart,
        expiry: Expiry {
            every: None,
            shortest: ticks(3),
            longest: ticks(5),
            of_zero: ticks(5),
        },
        probe: Some(Probe {
            after_silence: ticks(2),
            timeout: ticks(1),
            misses: count(2),
        }),
        idle_stop: None,
        drains: count(1),
        limits: TimeLimits {
            turn: ticks(5),
            open: ticks(6),
            list: ticks(4),
            close: ticks(4),
            drain: ticks(2),
            retry_after: ticks(5),
        },
    }
}

/// Sends no probes, stops unused servers, and gives up.
pub(super) fn strict() -> Policy {
    Policy {
        budget: count(3),
        when_spent: WhenSpent::GiveUp,
        probe: None,
        idle_stop: Some(ticks(6)),
        ..patient()
    }
}

/// The same, with two connections that may drain beside the next one.
pub(super) fn twice_drained() -> Policy {
    Policy {
        drains: count(2),
        ..strict()
    }
}

/// Probes silent servers, stops unused ones, and gives up.
pub(super) fn watchful() -> Policy {
    Policy {
        probe: patient().probe,
        ..strict()
    }
}

/// Restarts nothing without being asked, and lists periodically.
pub(super) fn resting() -> Policy {
    Policy {
        when_lost: WhenLost::StayDisconnected,
        expiry: Expiry {
            every: Some(ticks(5)),
            ..patient().expiry
        },
        probe: None,
        idle_stop: Some(ticks(6)),
        ..patient()
    }
}

fn ticks(n: u64) -> Duration {
    Duration::from_nanos(n)
}

fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("the counts are not zero")
}
