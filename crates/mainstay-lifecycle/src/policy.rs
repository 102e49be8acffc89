//! How patient a server is kept: every number the machine decides by.
//!
//! A policy is valid by construction: the counts cannot be zero, a ceiling cannot lie below its floor, and "off" is an
//! `Option`, never a sentinel duration.

use std::num::NonZeroU32;
use std::time::Duration;

/// Everything the machine decides by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The pauses between failures in a row.
    pub backoff: Backoff,
    /// Whether a server that was lost is started again unaided.
    pub when_lost: WhenLost,
    /// How many failures in a row are answered with backoff, before `when_spent`.
    pub budget: NonZeroU32,
    /// What happens when the budget is spent.
    pub when_spent: WhenSpent,
    /// How often the server may be started without completing a call in between, whatever the cause.
    pub bucket: Bucket,
    /// The pause, at its longest, before the next attempt where this machine lacked something: its half to its whole.
    pub lack_pause: Duration,
    /// How long a connection must live to prove itself without completing a call.
    pub stable_after: Duration,
    /// Transport failures and timeouts of calls, in a row, that condemn a connection.
    pub call_failures: NonZeroU32,
    /// Failed listings, in a row, that condemn a connection.
    pub discovery_failures: NonZeroU32,
    /// The shortest time from one listing to the next: a burst of changes costs one listing at once and one later.
    pub relist_pause: Duration,
    /// How long a listing counts as current.
    pub expiry: Expiry,
    /// How a silent connection is examined; `None` never probes.
    pub probe: Option<Probe>,
    /// Stop a server that nobody has used for this long; `None` keeps it running.
    pub idle_stop: Option<Duration>,
    /// The backstops of everything that runs outside of the machine.
    pub limits: Limits,
}

/// Exponential backoff with full jitter: the pause before attempt n is drawn from zero to `first * 2^(n-1)`, capped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    first: Duration,
    ceiling: Duration,
}

/// What follows a loss that time may mend. The policy at the moment of the loss counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenLost {
    /// The server is started again, within its budget.
    Restart,
    /// The server stays away until a call or a person wants it.
    StayDisconnected,
}

/// What a server gets when its budget of failures in a row is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenSpent {
    /// Try once in each period, jittered, for ever: a server back after an hour recovers with nobody's help.
    ProbeEvery(Duration),
    /// Give up until a person acts.
    GiveUp,
}

/// A token bucket: every start after the first takes a token. A connection that completes a call gives the token of its
/// start back, so only starts that lead to nothing use the bucket up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// How many starts that lead to nothing may come at once.
    pub size: NonZeroU32,
    /// One token comes back in each period.
    pub refill_every: Duration,
}

/// How long a listing counts as current when nothing says that it changed. It is made again then, while the server is
/// connected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expiry {
    /// List again this often, whatever the server says; `None` leaves it to the server.
    pub every: Option<Duration>,
    /// The shortest time to live that is believed: a server that says less would be listed without end.
    pub shortest: Duration,
    /// The longest time to live that is believed.
    pub longest: Duration,
    /// What a time to live of zero counts as: the server promises nothing, and asks for nothing.
    pub of_zero: Duration,
}

/// The examination of a silent connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// How long a connection may be silent before it is asked.
    pub after_silence: Duration,
    /// How long the answer may take.
    pub timeout: Duration,
    /// Missed probes in a row that condemn the connection.
    pub misses: NonZeroU32,
}

/// Backstops: no report is waited for longer than this. The tasks outside have tighter deadlines of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// From the wish to start to the turn to start, where only so many servers start at one time.
    pub turn: Duration,
    /// From the start of a dial to the end of its handshake (the hard limit of a slow start).
    pub open: Duration,
    /// One listing of everything a server offers.
    pub list: Duration,
    /// A close, the whole stop ladder included.
    pub close: Duration,
    /// How long a replaced connection may finish its running calls.
    pub drain: Duration,
    /// The longest pause that a server can ask for (`Retry-After`): one that asks for more is tried again after this.
    pub retry_after: Duration,
}

impl Expiry {
    /// How long a listing counts as current, if it expires at all; `ttl` is what the server says.
    pub fn period(&self, ttl: Option<Duration>) -> Option<Duration> {
        let of_server = ttl.map(|ttl| match ttl {
            Duration::ZERO => self.of_zero,
            ttl => ttl.min(self.longest).max(self.shortest),
        });
        of_server.into_iter().chain(self.every).min()
    }
}

impl Backoff {
    /// A backoff from `first` to `ceiling`; a ceiling below the first pause is raised to it.
    pub const fn new(first: Duration, ceiling: Duration) -> Self {
        let ceiling = if ceiling.as_nanos() < first.as_nanos() {
            first
        } else {
            ceiling
        };
        Self { first, ceiling }
    }

    /// The longest pause after `failures` in a row; zero when there was none.
    pub fn longest_pause(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.ceiling)
    }

    /// The pause after the first failure, at its longest.
    pub const fn first(&self) -> Duration {
        self.first
    }

    /// The cap of every pause.
    pub const fn ceiling(&self) -> Duration {
        self.ceiling
    }
}

const fn count(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("the defaults are not zero")
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            when_lost: WhenLost::Restart,
            budget: count(10),
            when_spent: WhenSpent::ProbeEvery(Duration::from_secs(300)),
            bucket: Bucket::default(),
            lack_pause: Duration::from_secs(2),
            stable_after: Duration::from_secs(60),
            call_failures: count(3),
            discovery_failures: count(3),
            relist_pause: Duration::from_secs(1),
            expiry: Expiry::default(),
            probe: Some(Probe::default()),
            idle_stop: None,
            limits: Limits::default(),
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(30))
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            size: count(10),
            refill_every: Duration::from_secs(6),
        }
    }
}

impl Default for Expiry {
    fn default() -> Self {
        Self {
            every: None,
            shortest: Duration::from_secs(1),
            longest: Duration::from_secs(24 * 60 * 60),
            of_zero: Duration::from_secs(60),
        }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            after_silence: Duration::from_secs(15),
            timeout: Duration::from_secs(5),
            misses: count(2),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turn: Duration::from_secs(360),
            open: Duration::from_secs(300),
            list: Duration::from_secs(60),
            close: Duration::from_secs(15),
            drain: Duration::from_secs(30),
            retry_after: Duration::from_secs(300),
        }
    }
}
