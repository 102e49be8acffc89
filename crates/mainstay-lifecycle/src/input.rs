//! What can happen to a server: commands, reports of its connections, and the passing of time.

use std::time::Duration;

use crate::policy::Policy;
use crate::time::{Generation, Moment};

/// One thing that happened. Every report names its generation, and the machine ignores reports of old ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A person or the configuration enables the server.
    Enable {
        /// Start at the first call, not now.
        dormant: bool,
    },
    /// A person or the configuration disables the server.
    Disable,
    /// A person wants a new connection now. A disabled server ignores it.
    Restart,
    /// The configuration now names another server. The old connection finishes its running calls, and the new one is
    /// dialled.
    Replace {
        /// Dial at once, beside the old connection. Only for two servers that are not processes, which could compete for
        /// a port or a file. Otherwise the dial waits for the close of the old connection.
        beside: bool,
    },
    /// The configuration changed the policy, and nothing else.
    Adjust(Box<Policy>),
    /// A call needs the server.
    Demand,
    /// A login took place, perhaps because the server asked for it.
    Login,
    /// The connection left the queue of starting servers, and is now being opened.
    Begun(Generation),
    /// The connection is open and its handshake is done.
    Opened(Generation),
    /// The connection could not be opened.
    OpenFailed(Generation, Recovery),
    /// The server answered a listing of everything it offers, with its lists or with an error.
    Listed(Generation, Listing),
    /// A listing got no answer of the server, on a connection that is still open. `Vitals` describes that connection.
    ListFailed(Generation, Recovery, Vitals),
    /// The server says that its lists changed.
    ListChanged(Generation),
    /// The connection ended: the process exited, the stream closed, the peer reset it.
    Lost(Generation),
    /// The server takes nothing new on this connection: it no longer knows the session, or its port is closed. Running
    /// calls may still be answered. Only for a server that is no process: the next connection is dialled beside it.
    Retired(Generation, Recovery),
    /// A call was answered, which proves the connection.
    CallAnswered(Generation),
    /// A call failed in transport, timed out, or was throttled.
    CallFailed(Generation, Recovery, OtherCalls),
    /// The connection may be dead (for example, a stream of it broke): probe it now.
    ProbeNow(Generation),
    /// The probe was answered. An error is an answer too.
    ProbeAnswered(Generation),
    /// The close of a connection ended, with or without an error.
    Closed(Generation),
    /// The address that this generation could not reach is reachable again; see
    /// [`Machine::unreachable`](crate::Machine::unreachable).
    Reachable(Generation),
    /// A deadline is over. `Vitals` describes the current connection, if there is one.
    Timer(Vitals),
}

/// The calls that run on a connection beside one that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OtherCalls {
    /// Calls run that began before the first of the failed calls in a row. They may show that the server is well, and that
    /// only those calls failed.
    pub are_older: bool,
    /// They can finish beside the next connection, because the server is no process.
    pub can_finish: bool,
}

/// The result of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listing {
    /// The catalog is published.
    Good {
        /// The time to live that the server gave.
        ttl: Option<Duration>,
    },
    /// The listing is empty and the one before it was not: a second listing decides.
    Unconfirmed,
    /// The server answered with an error. What was listed before stays published, and the listing is repeated.
    Refused,
}

/// What can resolve a failure. The code that makes the error decides, and the machine obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// A retry may help.
    Retry,
    /// A retry may help after this pause, which the server asked for.
    RetryAfter(Duration),
    /// The server's address cannot be reached. A retry may help once it can.
    RetryWhenReachable,
    /// This machine lacks a resource (descriptors, processes, memory). A retry later may help. It costs neither budget nor
    /// token, because it is not the server's failure.
    RetryLack,
    /// A login must come first.
    Login,
    /// The server refuses the credential of the configuration, which no login replaces. It may accept it later: a server that starts
    /// may refuse every credential.
    RetryCredential,
    /// No retry can help.
    GiveUp,
}

impl Recovery {
    /// Whether a retry can help soon, without a person.
    pub const fn is_retriable(self) -> bool {
        match self {
            Self::Retry | Self::RetryAfter(_) | Self::RetryWhenReachable | Self::RetryLack => true,
            Self::Login | Self::RetryCredential | Self::GiveUp => false,
        }
    }

    /// The pause that the server asked for.
    pub const fn pause(self) -> Duration {
        match self {
            Self::RetryAfter(pause) => pause,
            Self::Retry
            | Self::RetryWhenReachable
            | Self::RetryLack
            | Self::Login
            | Self::RetryCredential
            | Self::GiveUp => Duration::ZERO,
        }
    }
}

/// What the keeper sees of a connection at the moment of a timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Vitals {
    /// When the server last sent something.
    pub last_received: Moment,
    /// When a caller last used the connection.
    pub used: Moment,
    /// Calls are waiting for an answer.
    pub busy: bool,
    /// The server cannot be at work on them: its process is stopped (as by SIGSTOP), or it has not read any of them.
    pub stopped: bool,
    /// A call was answered since the last listing began.
    pub answered: bool,
}

impl Vitals {
    /// Whether the server may be at work on a call.
    pub(crate) const fn is_working(&self) -> bool {
        self.busy && !self.stopped
    }

    /// Whether calls show that the server is well, although a listing got no answer.
    pub(crate) const fn serves_calls(&self) -> bool {
        self.answered || self.is_working()
    }
}
