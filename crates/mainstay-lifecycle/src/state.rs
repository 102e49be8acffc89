//! Where a server is in its life. Data lives in the state that owns it; every state that waits names its deadline.

use std::fmt;
use std::time::Duration;

use crate::time::{Generation, Moment};

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not wanted; nothing runs. → connecting, disconnected (dormant).
    Disabled,
    /// The first connection since enabled is under way. → connected, reconnecting, disconnected, permanently failed,
    /// disabling.
    Connecting(Attempt),
    /// A generation is live and listed. → reconnecting, disconnected, permanently failed, disabling.
    Connected(Live),
    /// Lost, and within the budget. → connected, disconnected, permanently failed, disabling.
    Reconnecting(Attempt),
    /// Not wanted; what ran is being closed. → disabled; connecting or disconnected (dormant) if enabled meanwhile.
    Disabling,
    /// Not connected, and nothing under way. → connecting, reconnecting, disabling.
    Disconnected(DisconnectReason),
    /// Will not come back unless a person acts. → connecting, disabling.
    PermanentlyFailed,
}

/// The steps of getting connected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// The next dial starts at this moment, or when the old connection is closed, whichever is later.
    Pausing(Moment, Pause),
    /// Waiting for its turn to start, among other servers; over at the deadline.
    Queued(Generation, Moment),
    /// Dialling; over at the deadline.
    Opening(Generation, Moment),
    /// Open, and being listed.
    Listing(Opened),
}

/// Why a dial is not started yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pause {
    /// Nothing but the old connection's close is in the way.
    None,
    /// Failures in a row.
    Backoff,
    /// Failures in a row, and this generation found nobody where the server should be: the pause ends early when
    /// somebody is.
    Unreachable(Generation),
    /// The bucket of starts is empty.
    Token,
    /// This machine lacked something that a start needs.
    Lack,
}

/// A connection that is open, and whose first listing is not done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opened {
    pub(crate) generation: Generation,
    pub(crate) refresh: Refresh,
    pub(crate) watch: Watch,
}

/// A live connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Live {
    pub(crate) generation: Generation,
    /// When living on proves the connection; `None` once it has proved itself.
    pub(crate) proven_at: Option<Moment>,
    pub(crate) refresh: Refresh,
    pub(crate) watch: Watch,
    /// When to look whether anybody still uses it.
    pub(crate) idle_at: Option<Moment>,
    pub(crate) call_failures: u32,
}

/// The listing of a connection that is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refresh {
    pub(crate) step: RefreshStep,
    /// Failed listings in a row.
    pub(crate) failures: u32,
    /// Earliest next listing: a burst of changes costs one listing now and one later.
    pub(crate) not_before: Moment,
}

/// Where a listing is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RefreshStep {
    /// What was listed is current; it expires at this moment, if ever. `ttl` is what the server said of that.
    Fresh {
        ttl: Option<Duration>,
        until: Option<Moment>,
    },
    /// A listing is due at this moment.
    Due(Moment),
    /// A listing runs, until this deadline; `again` when something changed meanwhile.
    Running { by: Moment, again: bool },
}

/// The examination of a silent connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watch {
    Off,
    /// Look again at this moment.
    Listening(Moment),
    /// A probe is out since `asked`; it is missed at `by`.
    Asked {
        asked: Moment,
        by: Moment,
        misses: u32,
    },
}

/// Why nothing is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DisconnectReason {
    /// Nobody uses the server; the next call starts it.
    Idle,
    /// The server wants a login.
    AuthRequired,
    /// Lost, and not to be started again unaided: the next call starts it, but not before this moment.
    Lost(Moment),
    /// The budget of failures in a row is spent; the next slow probe comes at this moment, after this kind of pause.
    BudgetSpent(Moment, Pause),
}

/// The states without their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateKind {
    /// Not wanted; nothing runs.
    Disabled,
    /// The first connection since enabled is under way.
    Connecting,
    /// A generation is live and listed.
    Connected,
    /// Lost, and within the budget.
    Reconnecting,
    /// Not wanted; what ran is being closed.
    Disabling,
    /// Not connected, and nothing under way.
    Disconnected,
    /// Will not come back unless a person acts.
    PermanentlyFailed,
}

impl State {
    /// Which state this is.
    pub const fn kind(&self) -> StateKind {
        match self {
            Self::Disabled => StateKind::Disabled,
            Self::Connecting(_) => StateKind::Connecting,
            Self::Connected(_) => StateKind::Connected,
            Self::Reconnecting(_) => StateKind::Reconnecting,
            Self::Disabling => StateKind::Disabling,
            Self::Disconnected(_) => StateKind::Disconnected,
            Self::PermanentlyFailed => StateKind::PermanentlyFailed,
        }
    }

    /// The generation whose reports count, if there is one.
    pub const fn generation(&self) -> Option<Generation> {
        match self {
            Self::Connecting(
                Attempt::Queued(generation, _)
                | Attempt::Opening(generation, _)
                | Attempt::Listing(Opened { generation, .. }),
            )
            | Self::Reconnecting(
                Attempt::Queued(generation, _)
                | Attempt::Opening(generation, _)
                | Attempt::Listing(Opened { generation, .. }),
            )
            | Self::Connected(Live { generation, .. }) => Some(*generation),
            Self::Connecting(Attempt::Pausing(..))
            | Self::Reconnecting(Attempt::Pausing(..))
            | Self::Disabled
            | Self::Disabling
            | Self::Disconnected(_)
            | Self::PermanentlyFailed => None,
        }
    }

    /// The generation that found nobody where the server should be, while that is what the next dial waits for.
    pub const fn unreachable(&self) -> Option<Generation> {
        match self {
            Self::Connecting(Attempt::Pausing(_, pause))
            | Self::Reconnecting(Attempt::Pausing(_, pause))
            | Self::Disconnected(DisconnectReason::BudgetSpent(_, pause)) => match pause {
                Pause::Unreachable(generation) => Some(*generation),
                Pause::None | Pause::Backoff | Pause::Token | Pause::Lack => None,
            },
            Self::Connecting(Attempt::Queued(..) | Attempt::Opening(..) | Attempt::Listing(..))
            | Self::Reconnecting(Attempt::Queued(..) | Attempt::Opening(..) | Attempt::Listing(..))
            | Self::Connected(_)
            | Self::Disabled
            | Self::Disabling
            | Self::Disconnected(
                DisconnectReason::Idle | DisconnectReason::AuthRequired | DisconnectReason::Lost(_),
            )
            | Self::PermanentlyFailed => None,
        }
    }
}

impl Opened {
    /// When the first listing is tried again, where it failed and waits for that.
    pub const fn next_listing(&self) -> Option<Moment> {
        match self.refresh.step {
            RefreshStep::Due(at) => Some(at),
            RefreshStep::Fresh { .. } | RefreshStep::Running { .. } => None,
        }
    }
}

impl Live {
    /// Calls that failed in transport or timed out, in a row.
    pub const fn call_failures(&self) -> u32 {
        self.call_failures
    }

    /// Whether the connection has completed a call or lived through the stable period.
    pub const fn is_proven(&self) -> bool {
        self.proven_at.is_none()
    }
}

impl StateKind {
    /// The state as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Reconnecting => "reconnecting",
            Self::Disabling => "disabling",
            Self::Disconnected => "disconnected",
            Self::PermanentlyFailed => "permanently_failed",
        }
    }
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
