//! What the machine wants done. The keeper starts each effect and awaits none of them.

use crate::state::StateKind;
use crate::time::{Generation, Moment};

/// The effects of one input, in the order in which they must be started.
#[must_use = "an effect that is not executed leaves the machine and the world apart"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects(pub(crate) Vec<Effect>);

impl IntoIterator for Effects {
    type Item = Effect;
    type IntoIter = std::vec::IntoIter<Effect>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// One thing to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Dial and shake hands; ends with `Opened` or `OpenFailed`.
    Open(Generation),
    /// Detach the connection from its callers, then close it; ends with `Closed`. Follows each `Open` exactly once.
    Close(Generation, CloseMode),
    /// The drain is over before its time: the calls that still run fail at once.
    CutDrain(Generation),
    /// The close outlived its deadline, or the next one needs its place: cut it short by force. No report is expected.
    Abandon(Generation),
    /// The server asked to be left alone until this moment: calls on this connection fail at once until then.
    Hold(Generation, Moment),
    /// List everything the server offers; ends with `Listed` or `ListFailed`.
    List(Generation),
    /// Ask the server for a sign of life; an answer of any kind is reported as `ProbeAnswered`.
    Probe(Generation),
    /// The last-good catalog stays published, and is now stale.
    MarkStale,
    /// The catalog is no longer published.
    Withdraw,
    /// The state changed; the machine is already in the new one.
    Transition(Transition),
    /// A report of an old generation came and changed nothing.
    CountStale(Generation),
}

/// How a connection leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseMode {
    /// Its pending calls fail at once.
    Cut,
    /// Its running calls may finish first; new ones go elsewhere.
    Drain,
}

/// One change of state, and what caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The state that was left.
    pub from: StateKind,
    /// The state that was entered.
    pub to: StateKind,
    /// The generation that the change is about, where there is one.
    pub generation: Option<Generation>,
    /// Why.
    pub cause: Cause,
}

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Somebody enabled the server.
    Enabled,
    /// Somebody disabled the server.
    Disabled,
    /// Somebody restarted the server.
    Restarted,
    /// The configuration now names another server.
    Replaced,
    /// A call wanted the server.
    Demanded,
    /// A login took place.
    LoggedIn,
    /// The connection was opened and listed.
    Listed,
    /// The connection could not be opened.
    OpenFailed,
    /// The connection was not open by the deadline.
    OpenTimedOut,
    /// Listing failed too often.
    ListingFailed,
    /// The connection ended.
    Lost,
    /// The server lets nobody in who has not logged in.
    LoginRequired,
    /// Calls failed in transport or timed out too often.
    CallsFailed,
    /// Probes were missed too often.
    ProbesMissed,
    /// Nobody used the server for its idle time.
    WentIdle,
    /// It is time for the next slow probe.
    SlowProbe,
    /// Somebody is there again where nobody was.
    Reachable,
    /// What was closing is closed.
    Closed,
    /// The task that kept the server failed, and begins again.
    KeeperFailed,
}

impl Cause {
    /// The cause as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::Restarted => "restarted",
            Self::Replaced => "replaced",
            Self::Demanded => "demanded",
            Self::LoggedIn => "logged_in",
            Self::Listed => "listed",
            Self::OpenFailed => "open_failed",
            Self::OpenTimedOut => "open_timed_out",
            Self::ListingFailed => "listing_failed",
            Self::Lost => "lost",
            Self::LoginRequired => "login_required",
            Self::CallsFailed => "calls_failed",
            Self::ProbesMissed => "probes_missed",
            Self::WentIdle => "went_idle",
            Self::SlowProbe => "slow_probe",
            Self::Reachable => "reachable",
            Self::Closed => "closed",
            Self::KeeperFailed => "keeper_failed",
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
