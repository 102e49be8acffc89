//! The state of a server. Each state holds the data that only it needs, and each waiting state holds its deadline.

use std::fmt;
use std::time::Duration;

use crate::time::{Generation, Moment};

/// The state of a server. [`State::kind`] gives the name that logs and JSON show.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not wanted; nothing runs.
    Disabled,
    /// Not wanted; the last connections are being closed.
    Disabling,
    /// On the way to a connection.
    Connecting {
        /// This is the first connection since the server was enabled. The name of the state is then `connecting`,
        /// otherwise `reconnecting`.
        is_first: bool,
        /// A login took place since the attempt was dialled. If the server refuses the attempt for want of a login, it
        /// may have seen the old credential.
        has_new_login: bool,
        /// How far the attempt is.
        attempt: Attempt,
    },
    /// A generation is live. It was listed, or has answered its listing with an error.
    Connected(LiveConnection),
    /// Not connected, and no attempt is under way.
    Disconnected(DisconnectReason),
    /// Stays down until a person acts.
    PermanentlyFailed,
}

/// The steps to a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// The next dial starts at this moment, or when the old connection is closed, whichever is later.
    Pausing(Moment, Pause),
    /// Waiting in the queue of servers that want to start, until the deadline.
    Queued(Generation, Moment),
    /// Dialling, until the deadline.
    Opening(Generation, Moment),
    /// Open; the first listing runs or is due.
    Listing(OpenConnection),
}

/// Why the next dial has not started yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pause {
    /// It waits for the close of the old connection at most.
    None,
    /// Failures in a row.
    Backoff,
    /// Failures in a row, the last one because this generation could not reach the server's address. The pause ends early
    /// when the address is reachable again.
    Unreachable(Generation),
    /// The bucket of starts is empty.
    Token,
    /// This machine lacked a resource that a start needs.
    Lack,
}

/// Why a server is disconnected, and what ends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DisconnectReason {
    /// No caller used the server; the next call starts it.
    Idle,
    /// The server requires a login.
    AuthRequired,
    /// The server refuses the credential of the configuration, which no login replaces. The next slow probe comes at this moment.
    CredentialRefused(Moment),
    /// Lost, and the policy does not restart it. The next call starts it, at this moment at the earliest.
    Lost(Moment),
    /// The budget of failures in a row is spent. The next slow probe comes at this moment, after this kind of pause.
    BudgetSpent(Moment, Pause),
}

/// A connection that is open: its listings and probes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenConnection {
    pub(crate) generation: Generation,
    pub(crate) listings: ListingSchedule,
    pub(crate) silence: SilenceWatch,
}

/// A connection that is open, has answered a listing, and takes calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveConnection {
    pub(crate) open: OpenConnection,
    /// When the stable period ends, which proves the connection; `None` once it is proven.
    pub(crate) proven_at: Option<Moment>,
    /// When to check whether callers still use it.
    pub(crate) idle_at: Option<Moment>,
    /// Calls that failed in transport or timed out, in a row.
    pub(crate) call_failures: u32,
}

/// The listings of one open connection. At most one runs at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListingSchedule {
    pub(crate) phase: ListingPhase,
    /// Listings without an answer, in a row.
    pub(crate) failures: u32,
    /// The pause after the last listing, if the server refused it; otherwise zero.
    pub(crate) backoff: Duration,
    /// The next listing starts no earlier, so a burst of changes costs one listing now and one later.
    pub(crate) not_before: Moment,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListingPhase {
    /// The catalog is current until it expires, if it does. `ttl` is the time to live that the server gave.
    Current {
        ttl: Option<Duration>,
        until: Option<Moment>,
    },
    /// A listing is due at this moment.
    Due(Moment),
    /// The server answered the last listing with an error. The next one is due at this moment, or as soon as the server reports
    /// a change.
    Refused(Moment),
    /// A listing runs, until this deadline. `again`: the server reported a change meanwhile.
    Running { by: Moment, again: bool },
}

/// Detects an open connection that has fallen silent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SilenceWatch {
    /// The policy has no probe.
    Off,
    /// The next check comes at this moment.
    CheckAt(Moment),
    /// A probe was sent at `sent`, after `misses` unanswered ones. It counts as missed at `by`.
    Probing { sent: Moment, by: Moment, misses: u32 },
}

/// The states without their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateKind {
    /// Not wanted; nothing runs.
    Disabled,
    /// On the way to the first connection since the server was enabled.
    Connecting,
    /// A generation is live. It was listed, or has answered its listing with an error.
    Connected,
    /// On the way to another connection, within the budget.
    Reconnecting,
    /// Not wanted; the last connections are being closed.
    Disabling,
    /// Not connected, and no attempt is under way.
    Disconnected,
    /// Stays down until a person acts.
    PermanentlyFailed,
}

impl State {
    /// Which state this is.
    pub const fn kind(&self) -> StateKind {
        match self {
            Self::Disabled => StateKind::Disabled,
            Self::Disabling => StateKind::Disabling,
            Self::Connecting { is_first: true, .. } => StateKind::Connecting,
            Self::Connecting { is_first: false, .. } => StateKind::Reconnecting,
            Self::Connected(_) => StateKind::Connected,
            Self::Disconnected(_) => StateKind::Disconnected,
            Self::PermanentlyFailed => StateKind::PermanentlyFailed,
        }
    }

    /// The current generation: the only one whose reports count.
    pub const fn generation(&self) -> Option<Generation> {
        match self {
            Self::Connecting { attempt, .. } => match attempt {
                Attempt::Pausing(..) => None,
                Attempt::Queued(generation, _) | Attempt::Opening(generation, _) => Some(*generation),
                Attempt::Listing(open) => Some(open.generation),
            },
            Self::Connected(live) => Some(live.open.generation),
            Self::Disabled | Self::Disabling | Self::Disconnected(_) | Self::PermanentlyFailed => None,
        }
    }

    /// The generation that could not reach the server's address, while the next dial waits for that address.
    pub const fn unreachable(&self) -> Option<Generation> {
        let pause = match self {
            Self::Connecting {
                attempt: Attempt::Pausing(_, pause),
                ..
            }
            | Self::Disconnected(DisconnectReason::BudgetSpent(_, pause)) => pause,
            Self::Connecting {
                attempt: Attempt::Queued(..) | Attempt::Opening(..) | Attempt::Listing(..),
                ..
            }
            | Self::Disconnected(
                DisconnectReason::Idle
                | DisconnectReason::AuthRequired
                | DisconnectReason::CredentialRefused(_)
                | DisconnectReason::Lost(_),
            )
            | Self::Disabled
            | Self::Disabling
            | Self::Connected(_)
            | Self::PermanentlyFailed => return None,
        };
        match pause {
            Pause::Unreachable(generation) => Some(*generation),
            Pause::None | Pause::Backoff | Pause::Token | Pause::Lack => None,
        }
    }

    /// The open connection, listed or not.
    pub(crate) fn open(&mut self) -> Option<&mut OpenConnection> {
        match self {
            Self::Connecting {
                attempt: Attempt::Listing(open),
                ..
            } => Some(open),
            Self::Connected(live) => Some(&mut live.open),
            Self::Connecting {
                attempt: Attempt::Pausing(..) | Attempt::Queued(..) | Attempt::Opening(..),
                ..
            }
            | Self::Disabled
            | Self::Disabling
            | Self::Disconnected(_)
            | Self::PermanentlyFailed => None,
        }
    }

    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self, Self::Connected(_))
    }

    pub(crate) const fn is_proven(&self) -> bool {
        matches!(self, Self::Connected(live) if live.is_proven())
    }
}

impl OpenConnection {
    /// When the next listing starts, if one is due.
    pub const fn next_listing(&self) -> Option<Moment> {
        match self.listings.phase {
            ListingPhase::Due(at) | ListingPhase::Refused(at) => Some(at),
            ListingPhase::Current { .. } | ListingPhase::Running { .. } => None,
        }
    }
}

impl LiveConnection {
    /// When the next listing starts, if one is due.
    pub const fn next_listing(&self) -> Option<Moment> {
        self.open.next_listing()
    }

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
