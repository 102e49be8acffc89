//! What can happen to a server: wishes of people, reports of connections, and the passing of time.

use std::time::Duration;

use crate::policy::Policy;
use crate::time::{Generation, Moment};

/// One thing that happened. Every report names the generation it speaks of; the machine ignores those of old ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A person or the configuration wants the server. A dormant one is started by its first use only.
    Enable {
        /// Start at the first use, not now.
        dormant: bool,
    },
    /// A person or the configuration does not want the server.
    Disable,
    /// A person wants a new connection, now, whatever happened before. Means nothing to a disabled server.
    Restart,
    /// The configuration now names another server: the old connection finishes its running calls, and the new one is
    /// dialled.
    Replace {
        /// Dial at once, beside the old connection: neither of the two is a process that could be in the other's way.
        /// Otherwise the dial waits for the end of the old connection.
        beside: bool,
    },
    /// The configuration changed how the server is kept, and nothing else.
    Adjust(Box<Policy>),
    /// A call wants the server.
    Demand,
    /// A login took place, which the server may have asked for.
    Login,
    /// The turn of the connection to start has come: from here on it is being opened.
    Begun(Generation),
    /// The connection is open and its handshake is done.
    Opened(Generation),
    /// The connection could not be opened.
    OpenFailed(Generation, Recovery),
    /// Everything the server offers has been listed.
    Listed(Generation, Listing),
    /// A listing failed on a connection that still stands.
    ListFailed(Generation, Recovery),
    /// The server says that what it offers changed.
    ListChanged(Generation),
    /// The connection ended: the process exited, the stream closed, the peer reset it.
    Lost(Generation),
    /// A call was answered: the connection has proved itself.
    CallAnswered(Generation),
    /// A call failed in transport, timed out, or was refused for now.
    CallFailed(Generation, Recovery),
    /// Something broke that may have broken with the server: it is asked for a sign of life at once.
    ProbeNow(Generation),
    /// The probe was answered, with whatever answer.
    ProbeAnswered(Generation),
    /// The close of a connection came to its end, well or badly.
    Closed(Generation),
    /// Somebody is there again where this generation found nobody; see [`Machine::unreachable`](crate::Machine::unreachable).
    Reachable(Generation),
    /// Time passed; `Vitals` is what can be seen of the current connection, if there is one.
    Timer(Vitals),
}

/// What a listing is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listing {
    /// Its content is published.
    Good {
        /// How long the server says that it is current.
        ttl: Option<Duration>,
    },
    /// It came back empty where there was something before: a second listing decides.
    Unconfirmed,
}

/// What can mend a failure. Decided in one place, where the error is made; the machine obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Trying again may help.
    Retry,
    /// Trying again in another way may help, and there is nothing to wait for: it was the way that failed.
    RetryOtherEra,
    /// Trying again may help, but not sooner than this: the server said so.
    RetryAfter(Duration),
    /// Nobody is where the server should be: trying again may help, and will hardly do so before somebody is.
    RetryWhenReachable,
    /// This machine lacks something (descriptors, processes, memory): trying again later may help, and the server is not to
    /// blame. It costs neither budget nor token.
    RetryLack,
    /// A login is needed first.
    Login,
    /// No retry can mend it.
    GiveUp,
}

impl Recovery {
    /// Whether it is only a matter of time.
    pub const fn comes_with_time(self) -> bool {
        match self {
            Self::Retry
            | Self::RetryOtherEra
            | Self::RetryAfter(_)
            | Self::RetryWhenReachable
            | Self::RetryLack => true,
            Self::Login | Self::GiveUp => false,
        }
    }

    /// How long the server wants to be left alone.
    pub const fn pause(self) -> Duration {
        match self {
            Self::RetryAfter(pause) => pause,
            Self::Retry
            | Self::RetryOtherEra
            | Self::RetryWhenReachable
            | Self::RetryLack
            | Self::Login
            | Self::GiveUp => Duration::ZERO,
        }
    }
}

/// What can be seen of a connection from outside, at the moment of a timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vitals {
    /// When the server was last heard.
    pub heard: Moment,
    /// When a caller last used the connection.
    pub used: Moment,
    /// Calls are waiting for an answer.
    pub busy: bool,
    /// The server's process is stopped (as by SIGSTOP): it neither works on a call nor answers a probe.
    pub stopped: bool,
}

impl Vitals {
    /// Whether the server may be at work on a call.
    pub(crate) const fn is_working(&self) -> bool {
        self.busy && !self.stopped
    }
}
