//! What the machine wants done. The keeper starts each effect and awaits none.

use crate::state::StateKind;
use crate::time::{Generation, Moment};

/// The effects of one input, in the order in which to start them.
#[must_use = "the machine counts on every effect being started"]
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
    /// Dial and do the handshake; ends with `Opened` or `OpenFailed`.
    Open(Generation),
    /// Detach the connection from its callers, then close it; ends with `Closed`. Follows each `Open` exactly once.
    Close(Generation, CloseMode),
    /// End the drain early: the calls that still run fail at once.
    CutDrain(Generation),
    /// Abort the close by force: its deadline is over, or the next drain needs its place. No report is expected.
    Abandon(Generation),
    /// The server asked for a pause: calls on this connection fail at once until this moment.
    Hold(Generation, Moment),
    /// List everything the server offers; ends with `Listed` or `ListFailed`.
    List(Generation),
    /// Send a probe; any answer is reported as `ProbeAnswered`.
    Probe(Generation),
    /// Mark the published catalog as stale.
    MarkStale,
    /// Withdraw the published catalog.
    Withdraw,
    /// Report a change of state. The machine is already in the new state.
    Transition(Transition),
    /// Count a report of an old generation, which changed nothing.
    CountStale(Generation),
}

/// How a connection leaves service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseMode {
    /// Its pending calls fail at once.
    Cut,
    /// Its running calls may finish first; new calls go to the next connection.
    Drain,
}

/// One change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The state that was left.
    pub from: StateKind,
    /// The state that was entered.
    pub to: StateKind,
    /// The generation that the change is about, if there is one.
    pub generation: Option<Generation>,
    /// Why.
    pub cause: Cause,
}

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A person or the configuration enabled the server.
    Enabled,
    /// A person or the configuration disabled the server.
    Disabled,
    /// A person restarted the server.
    Restarted,
    /// The configuration now names another server.
    Replaced,
    /// A call needed the server.
    Demanded,
    /// A login took place.
    LoggedIn,
    /// The connection was opened and listed.
    Listed,
    /// The connection could not be opened.
    OpenFailed,
    /// The connection was not open by the deadline.
    OpenTimedOut,
    /// The connection was opened, and its server answered the first listing with an error.
    ListingRefused,
    /// Listings got no answer too often.
    ListingFailed,
    /// The connection ended.
    Lost,
    /// The server requires a login.
    LoginRequired,
    /// Calls failed in transport or timed out too often.
    CallsFailed,
    /// Probes were missed too often.
    ProbesMissed,
    /// No caller used the server for its idle time.
    WentIdle,
    /// The next slow probe was due.
    SlowProbe,
    /// The server's address is reachable again.
    Reachable,
    /// The last connections are closed.
    Closed,
    /// The keeper failed and started again.
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
            Self::ListingRefused => "listing_refused",
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
