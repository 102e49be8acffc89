//! What can be seen of a server without touching it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Desired, Generation, StateKind};
use tokio::time::Instant;

use crate::config::{HttpTarget, OAuthSetting, Target};
use crate::event::Failure;
use crate::keeper::Listings;
use crate::protocol::{Dialect, Era};

/// A snapshot of one server. Reading it starts nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The server's name.
    pub server: Arc<str>,
    /// Where it is in its life.
    pub state: StateKind,
    /// Since when.
    pub since: SystemTime,
    /// What is wanted of it.
    pub desired: Desired,
    /// Why a disconnected server is so.
    pub reason: Option<Reason>,
    /// The generation that is being opened or is live.
    pub generation: Option<Generation>,
    /// Failures in a row so far.
    pub attempt: u32,
    /// How many failures in a row the budget allows.
    pub budget: u32,
    /// When the next attempt starts, where one is planned.
    pub next_retry: Option<SystemTime>,
    /// The moment before which no attempt starts, where that is certain. It is not where a port is watched for a server's
    /// return.
    pub(crate) no_attempt_before: Option<Instant>,
    /// Until when calls fail at once, where the server asked to be left alone. A moment that is over holds nothing up.
    pub calls_held_until: Option<SystemTime>,
    /// Since when the live connection has been silent, where the server has not answered a probe since. If calls are running
    /// it may be at work on them, and it stays connected until their time is up.
    pub silent_since: Option<SystemTime>,
    /// What the server does while a connection is being opened: it waits for its turn, installs, starts.
    pub start: Option<StartProgress>,
    /// What went wrong last. It stays after a recovery, so that it can be read later.
    pub last_error: Option<Arc<Failure>>,
    /// The process, where there is one.
    pub pid: Option<i32>,
    /// The era and version that the live connection speaks.
    pub protocol: Option<(Era, Arc<str>)>,
    /// How the live connection travels.
    pub transport: Option<TransportKind>,
    /// The id of the session that the server opened for the live connection, where it did. A reader who knows it can act as
    /// this client.
    pub session: Option<Arc<str>>,
    /// When a call was last answered with a result.
    pub last_success: Option<SystemTime>,
    /// Calls on the live connection that failed in transport or timed out, in a row.
    pub call_failures: u32,
    /// The server was removed from the fleet, or the fleet was closed: this handle is of no more use. A server that was added
    /// again under this name is another one, and is looked up in the fleet.
    pub removed: bool,
    /// The server was removed from a fleet that stays: it is being stopped for good.
    pub(crate) is_leaving: bool,
    /// When the catalog was last listed with success.
    pub listed_at: Option<SystemTime>,
    /// Since when the catalog is stale, if it is.
    pub stale_since: Option<SystemTime>,
    /// Why the last listing on this connection failed, if it did. What was listed before stays published; calls go on.
    pub listing_failure: Option<Arc<Failure>>,
    /// When a connected server is listed again after a listing that failed.
    pub next_listing: Option<SystemTime>,
    /// Reports of old generations that came late and changed nothing.
    pub stale_reports: u64,
    /// How many subscriptions, with the log level, the live connection has not got yet, or does not accept. They are
    /// tried again for some minutes, and on the next connection.
    pub unrestored: usize,
    /// The last live connection that ended, and why.
    pub(crate) ended: Option<Ended>,
    pub(crate) listings: Listings,
    /// How often the server was started.
    pub starts: u64,
    pub(crate) start_tokens: StartTokens,
    /// How often the task that owns the server failed and was started again.
    pub keeper_failures: u64,
}

/// The bucket of starts, as the machine left it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartTokens {
    pub(crate) left: u32,
    pub(crate) size: u32,
    /// When the next token returns, if one is missing, and how long each takes.
    pub(crate) refill: Option<(Instant, Duration)>,
}

/// The end of a live connection.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) generation: Generation,
    /// What went wrong; `None` where it was ended on purpose.
    pub(crate) failure: Option<Arc<Failure>>,
}

/// What a server does that is being started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StartProgress {
    /// How far the start is.
    pub stage: StartStage,
    /// Since when this attempt waits, its process runs, or it lists.
    pub since: SystemTime,
    /// The program that works, by its name; `None` while nothing is seen to work.
    pub program: Option<Arc<str>>,
}

/// How far a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartStage {
    /// Other servers start first. Nothing of this one runs yet.
    Waiting,
    /// A package runner fetches the server.
    Installing,
    /// The server's program runs and has not answered yet; or its address is being reached.
    Starting,
    /// The server's program has read its input, does nothing, and has not answered. It may be no MCP server.
    Unanswered,
    /// The server has answered, and lists what it offers.
    Listing,
}

/// What lets the requests to a server over HTTP in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CredentialKind {
    /// A login, or what another provider of credentials has. A person may have to log in first.
    Login,
    /// A token or a header `Authorization` of the configuration. No login takes its place.
    Configured,
    /// Nothing: the configuration has no token, and turns logins off.
    None,
}

/// How the messages of a connection travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportKind {
    /// On the standard input and output of a program.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, of 2024-11-05.
    Sse,
    /// A transport of the embedder's own.
    Custom,
}

/// Why a server is disconnected with nothing under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was not used for its idle time; the next call starts it.
    Idle,
    /// It wants a login.
    AuthRequired,
    /// It was lost, and its configuration says that nothing but a call or a person starts it again.
    Lost,
    /// The budget of failures in a row is spent; it is probed slowly.
    BudgetSpent,
}

impl StartProgress {
    pub(crate) fn new(stage: StartStage) -> Self {
        Self {
            stage,
            since: SystemTime::now(),
            program: None,
        }
    }
}

/// Reads as `installing: npm`.
impl fmt::Display for StartProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stage {
            StartStage::Waiting => "waiting for its turn to start",
            StartStage::Installing => "installing",
            StartStage::Starting => "starting",
            StartStage::Unanswered => "reads its input and does not answer",
            StartStage::Listing => "listing what it offers: no answer yet",
        })?;
        match &self.program {
            Some(program) => write!(f, ": {program}"),
            None => Ok(()),
        }
    }
}

impl StartStage {
    /// The stage as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Installing => "installing",
            Self::Starting => "starting",
            Self::Unanswered => "unanswered",
            Self::Listing => "listing",
        }
    }
}

impl CredentialKind {
    /// The kind as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Configured => "configured",
            Self::None => "none",
        }
    }

    pub(crate) fn of(target: &HttpTarget) -> Self {
        if target.provider().is_some() {
            Self::Login
        } else if target.has_credentials() {
            Self::Configured
        } else if *target.oauth() == OAuthSetting::Off {
            Self::None
        } else {
            Self::Login
        }
    }
}

impl TransportKind {
    /// The kind as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Custom => "custom",
        }
    }

    pub(crate) fn of(target: &Target, dialect: Dialect) -> Self {
        match (target, dialect) {
            (Target::Stdio(_), _) => Self::Stdio,
            (Target::Custom(_) | Target::Unusable(_), _) => Self::Custom,
            (Target::Http(_), Dialect::LegacySse) => Self::Sse,
            (Target::Http(_), Dialect::Legacy | Dialect::Modern) => Self::Http,
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdio => "stdio",
            Self::Http => "Streamable HTTP",
            Self::Sse => "HTTP+SSE",
            Self::Custom => "a transport of its own",
        })
    }
}

impl Reason {
    /// The reason as one word, for logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::AuthRequired => "auth_required",
            Self::Lost => "lost",
            Self::BudgetSpent => "budget_spent",
        }
    }
}

impl Status {
    /// How many starts the bucket allows now without a pause.
    pub fn start_tokens(&self) -> u32 {
        let StartTokens { left, size, refill } = self.start_tokens;
        let Some((next, every)) = refill else { return left };
        let Some(since) = Instant::now().checked_duration_since(next) else {
            return left;
        };
        let returned = match every.as_nanos() {
            0 => u32::MAX,
            every => u32::try_from(since.as_nanos() / every)
                .unwrap_or(u32::MAX)
                .saturating_add(1),
        };
        left.saturating_add(returned).min(size)
    }

    /// How many starts a full bucket allows without a pause.
    pub fn start_tokens_limit(&self) -> u32 {
        self.start_tokens.size
    }

    /// Whether it works: it is connected, or was stopped because nothing used it and starts at the next use.
    pub fn is_up(&self) -> bool {
        match self.state {
            StateKind::Connected => true,
            StateKind::Disconnected => self.reason == Some(Reason::Idle),
            StateKind::Disabled
            | StateKind::Connecting
            | StateKind::Reconnecting
            | StateKind::Disabling
            | StateKind::PermanentlyFailed => false,
        }
    }

    /// Whether it waits for its turn to start. A server that a call waits for comes before the others.
    pub(crate) fn is_queued(&self) -> bool {
        let start = self.start.as_ref();
        start.is_some_and(|start| start.stage == StartStage::Waiting)
    }

    /// Whether the server is on its way up: being started, introducing itself, or listed. It is not while it waits for its next
    /// attempt after one that failed, nor while nothing is under way.
    pub fn is_starting(&self) -> bool {
        match self.state {
            StateKind::Connecting | StateKind::Reconnecting => {
                self.next_retry.is_none() || self.last_error.is_none()
            }
            StateKind::Connected
            | StateKind::Disconnected
            | StateKind::Disabled
            | StateKind::Disabling
            | StateKind::PermanentlyFailed => false,
        }
    }

    /// Whether a connection can be ready before this deadline: an attempt is under way, or the first use would begin one, and the next
    /// attempt is not known to come later.
    pub(crate) fn may_come_by(&self, deadline: Instant) -> bool {
        self.is_coming() && self.no_attempt_before.is_none_or(|at| at <= deadline)
    }

    /// Whether the first use starts it.
    pub(crate) fn is_resting(&self) -> bool {
        match self.reason {
            Some(Reason::Idle | Reason::Lost) => true,
            Some(Reason::AuthRequired | Reason::BudgetSpent) | None => false,
        }
    }

    /// Whether a call may wait for this server: something is under way, or would be at the first use.
    pub(crate) fn is_coming(&self) -> bool {
        match self.state {
            StateKind::Connecting | StateKind::Connected | StateKind::Reconnecting => true,
            StateKind::Disconnected => self.is_resting(),
            StateKind::Disabled | StateKind::Disabling | StateKind::PermanentlyFailed => false,
        }
    }
}
