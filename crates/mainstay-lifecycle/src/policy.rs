//! Every number that the machine decides by.
//!
//! A policy is valid by construction: counts cannot be zero, a ceiling cannot be below its floor, and "off" is an `Option`.

use std::num::NonZeroU32;
use std::time::Duration;

/// Everything the machine decides by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The pauses between failures in a row.
    pub backoff: Backoff,
    /// Whether a lost server is restarted without being asked for.
    pub when_lost: WhenLost,
    /// How many failures in a row lead to backoff, before `when_spent`.
    pub budget: NonZeroU32,
    /// What happens when the budget is spent.
    pub when_spent: WhenSpent,
    /// How often the server may be started without completing a call in between.
    pub bucket: Bucket,
    /// The longest pause after this machine lacked a resource. The pause is drawn from half of this to all of it.
    pub lack_pause: Duration,
    /// How long a connection must live to prove itself without completing a call.
    pub stable_after: Duration,
    /// Transport failures and timeouts of calls, in a row, that end a connection.
    pub call_failures: NonZeroU32,
    /// Listings without an answer, in a row, that end a connection.
    pub discovery_failures: NonZeroU32,
    /// The shortest time from one listing to the next: a burst of changes costs one listing at once and one later. After
    /// listings that the server answers with errors, the pause doubles each time, up to the ceiling of `backoff`.
    pub relist_pause: Duration,
    /// How long a listing counts as current.
    pub expiry: Expiry,
    /// How a silent connection is probed; `None` never probes.
    pub probe: Option<Probe>,
    /// Stop a server that no caller has used for this long; `None` keeps it running.
    pub idle_stop: Option<Duration>,
    /// Connections that may finish their calls beside the next one: a second loss soon after the first cuts no calls. The oldest gives way.
    pub drains: NonZeroU32,
    /// The timeouts of everything that runs outside of the machine.
    pub limits: TimeLimits,
}

/// Exponential backoff with full jitter: the pause before attempt n is drawn from zero to `first * 2^(n-1)`, capped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    first: Duration,
    ceiling: Duration,
}

/// What follows a loss that a retry may resolve. The policy at the moment of the loss counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenLost {
    /// The server is restarted, within its budget.
    Restart,
    /// The server stays disconnected until a call or a person needs it.
    StayDisconnected,
}

/// What follows when the budget of failures in a row is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenSpent {
    /// Try once in each period, jittered, for ever: a server that is back after an hour recovers by itself.
    ProbeEvery(Duration),
    /// Give up until a person acts.
    GiveUp,
}

/// A token bucket: every start after the first takes a token. A connection that completes a call gives the token of its
/// start back, so only starts that lead to no completed call use the bucket up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// How many starts without a completed call may come at once.
    pub size: NonZeroU32,
    /// One token returns in each period.
    pub refill_every: Duration,
}

/// How long a catalog is current if the server reports no change. A connected server is listed again after that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expiry {
    /// List again this often, whatever the server says; `None` follows the server.
    pub every: Option<Duration>,
    /// The shortest accepted time to live. A server with a shorter one would be listed without end.
    pub shortest: Duration,
    /// The longest accepted time to live.
    pub longest: Duration,
    /// What a time to live of zero counts as: the server makes no promise.
    pub of_zero: Duration,
}

/// How a silent connection is probed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// How long a connection may be silent before it is probed.
    pub after_silence: Duration,
    /// How long the answer may take.
    pub timeout: Duration,
    /// Missed probes in a row that end the connection.
    pub misses: NonZeroU32,
}

/// How long the machine waits for each report. The tasks outside have tighter deadlines of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimeLimits {
    /// From the start effect to the turn in the queue of starting servers.
    pub turn: Duration,
    /// From the start of a dial to the end of its handshake: the hard limit of a slow start.
    pub open: Duration,
    /// One listing of everything a server offers.
    pub list: Duration,
    /// A close, the whole stop ladder included.
    pub close: Duration,
    /// How long a connection that drains may take to finish its running calls.
    pub drain: Duration,
    /// The longest pause that a server can ask for (`Retry-After`). A longer one is cut to this.
    pub retry_after: Duration,
}

impl Policy {
    /// The pause after a listing that the server refused; `last` is the pause after the one before it, if that was refused too.
    pub(crate) fn relist_backoff(&self, last: Duration) -> Duration {
        let doubled = last.saturating_mul(2);
        doubled.min(self.backoff.ceiling).max(self.relist_pause)
    }
}

impl Expiry {
    /// How long a catalog is current, if it expires at all; `ttl` is the time to live that the server gave.
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
            drains: count(2),
            limits: TimeLimits::default(),
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

impl Default for TimeLimits {
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
