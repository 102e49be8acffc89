//! What happened, in one sequence for the program.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CatalogChange, FailureDocument, ReloadReport, StateName};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventRecord {
    /// Grows by one with each event of this run of the program.
    pub sequence: u64,
    /// When it happened.
    pub at_ms: u64,
    /// The machine, where several are watched together.
    pub node: Option<String>,
    /// The server that it concerns, if it concerns one.
    pub server: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub detail: EventDetail,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventDetail {
    /// A server changed its state.
    Transition {
        /// The state that it left.
        from: StateName,
        /// The state that it entered.
        to: StateName,
        /// Why, in one word. Later versions may have more words.
        cause: String,
        /// The connection that it concerns.
        generation: Option<u64>,
        /// Failures in a row so far.
        attempt: u32,
        /// When the next attempt starts, if one is planned.
        next_retry_ms: Option<u64>,
        /// What went wrong, with the exit status and the last lines of stderr.
        failure: Option<FailureDocument>,
    },
    /// A person gave a command.
    Command {
        /// The command: `restart`, `refresh`, `enable`, `disable`, `reload`, `add`, `change`, `remove`, `login`, `call` with the
        /// tool, or `cancel` with the call; of a terminal also `logout`, `import`,
        /// `service install`, `service uninstall`, `daemon stop` and `daemon restart`.
        command: String,
        /// Who gave it.
        by: Actor,
        /// Why it was refused, if it was, or why the login failed.
        refused: Option<String>,
        /// What is known of a call that has ended: `answered`, `refused`, `not_sent` or `unknown`; of a login that has ended: `logged_in`,
        /// `failed`, or `given_up` for another one. Both are recorded twice: as they begin, without an outcome, and as they end.
        #[serde(default)]
        outcome: Option<String>,
    },
    /// A configuration was applied.
    Reloaded {
        /// What caused it: a command, the changed file, or a signal.
        by: Actor,
        /// What it changed.
        report: ReloadReport,
    },
    /// A configuration was not applied. The one before stays in force.
    ReloadRefused {
        /// What caused it.
        by: Actor,
        /// What is wrong.
        title: String,
        /// What helps.
        remedy: Option<String>,
    },
    /// A server offers something else than before.
    CatalogChanged {
        /// What changed.
        #[serde(flatten)]
        change: CatalogChange,
    },
    /// A browser used a link to the dashboard.
    PageLinkUsed {
        /// The number of the link.
        link: u64,
        /// Whether the link was used before. Then the page that the first use opened is logged out: one of the two was not the person.
        again: bool,
        /// The browser, as it names itself.
        agent: Option<String>,
    },
    /// A server was added.
    Added,
    /// A server was removed.
    Removed,
    /// Events of servers were lost before they were recorded, because too many came at once.
    Lost {
        /// How many.
        count: u64,
    },
    /// Something that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Actor {
    /// By what means.
    pub via: ActorKind,
    /// The program that sent the command, as it names itself.
    pub agent: Option<String>,
    /// What let the command in: the user on the daemon's socket, as `uid 1000`; over TCP `control token` or `dashboard login`.
    #[serde(default)]
    pub who: Option<String>,
}

/// By what means something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A command of the `mainstay` program.
    Command,
    /// A request to the control API by another program.
    Api,
    /// The dashboard.
    Dashboard,
    /// The terminal view `mainstay top`.
    Top,
    /// The configuration file was changed.
    File,
    /// A signal to the program.
    Signal,
    /// Means that this version does not know.
    #[serde(other)]
    Unknown,
}

impl Actor {
    /// An actor that does not name itself.
    pub fn via(via: ActorKind) -> Self {
        Self {
            via,
            agent: None,
            who: None,
        }
    }
}

impl ActorKind {
    /// The word in JSON and in the header `Mainstay-Via`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Api => "api",
            Self::Dashboard => "dashboard",
            Self::Top => "top",
            Self::File => "file",
            Self::Signal => "signal",
            Self::Unknown => "unknown",
        }
    }
}

/// The events that are kept, or a part of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// This run of the program.
    pub instance: String,
    /// How many events after the asked one are no longer kept; `null` if that cannot be known.
    pub lost: Option<u64>,
    /// The number of the last event; zero before the first.
    pub last: u64,
    /// The events, the oldest first.
    pub events: Vec<EventRecord>,
}

/// One message of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventMessage {
    /// Something happened.
    Event(Box<EventRecord>),
    /// Events are missing here.
    Lagged(LagMarker),
}

/// Events are missing at this place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LagMarker {
    /// How many; `null` if that cannot be known.
    pub lost: Option<u64>,
    /// Why.
    pub reason: LagReason,
}

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LagReason {
    /// The reader was too slow, or came too late: they are no longer kept.
    Lagged,
    /// The program was restarted since, and its numbers began again. Everything that it keeps follows.
    Restarted,
    /// A reason that this version does not know.
    #[serde(other)]
    Unknown,
}
