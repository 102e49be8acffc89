//! What reaches a keeper: commands of people, and reports of connections, each with its generation.

use std::sync::Arc;

use mainstay_lifecycle::{Generation, Recovery};
use tokio::sync::{mpsc, oneshot};

use super::dial::DialError;
use super::listing::ListError;
use crate::catalog::ServerCatalog;
use crate::config::ServerConfig;
use crate::connection::Connection;
use crate::event::Failure;
use crate::process::Stopped;
use crate::server::StartProgress;

/// Messages that wait for a keeper. A keeper never waits for a peer, so a long queue means a machine without CPU.
const INBOX: usize = 256;

#[derive(Debug)]
pub(crate) enum Message {
    Command(Command),
    Report(Report),
    /// What the server does that this generation starts. The status shows it; it decides nothing.
    Progress(Generation, StartProgress),
    /// A connection restores what is wanted for longer than a connection. The status shows how far it is; it decides nothing.
    Restoring,
    /// The machine's deadline has come.
    Deadline,
}

/// What a person, the configuration or a caller wants. Each is answered when the machine has taken it and the status
/// shows it, not when it is done.
#[derive(Debug)]
pub(crate) enum Command {
    Enable(Taken),
    Disable(Taken),
    Restart(Taken),
    Configure(Box<ServerConfig>, Taken),
    Demand,
    /// A new listing; answered with its number.
    Refresh(oneshot::Sender<Result<u64, Refusal>>),
    /// The login that the server asked for took place.
    Login,
    /// End for good; answered when nothing is left.
    Stop(oneshot::Sender<Ending>),
    /// End now; whatever is left is killed.
    Abort,
    #[cfg(test)]
    Panic,
}

/// Where the answer to a command goes. Dropped without one, the keeper failed, or is gone.
pub(crate) type Taken = oneshot::Sender<Result<(), Refusal>>;

/// Why a command was not taken.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A disabled server cannot be restarted.
    Disabled,
    /// The server is leaving the fleet, and no wish keeps it.
    Leaving,
}

/// How a server's last connection ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    pub(crate) stopped: Option<Stopped>,
}

/// What happened to a connection.
pub(crate) enum Report {
    /// Its turn to start has come.
    Begun(Generation),
    Opened(Arc<Connection>),
    OpenFailed(Generation, Box<DialError>, Arc<Failure>),
    Listed(Generation, Box<ServerCatalog>),
    ListFailed(Generation, ListError),
    ListChanged(Generation),
    Lost(Generation, Arc<Failure>),
    CallAnswered(Generation),
    /// A call failed; what would mend it, and what went wrong.
    CallFailed(Generation, Recovery, Arc<Failure>),
    /// Something broke that may have broken with the server.
    ProbeNow(Generation),
    ProbeAnswered(Generation),
    Closed(Generation, Option<Stopped>),
    /// Somebody is there again where this generation found nobody.
    Reachable(Generation),
}

/// The way to a keeper.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(mpsc::Sender<Message>);

impl Inbox {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(INBOX);
        (Self(sender), receiver)
    }

    /// Reports from where nothing may wait. Each source reports a thing once until it is looked at, so what waits here
    /// for a full inbox is bounded by the number of connections and calls.
    pub(crate) fn report(&self, report: Report) {
        self.post(Message::Report(report));
    }

    pub(crate) fn progress(&self, generation: Generation, progress: StartProgress) {
        self.post(Message::Progress(generation, progress));
    }

    pub(crate) fn restoring(&self) {
        self.post(Message::Restoring);
    }

    pub(crate) fn command(&self, command: Command) {
        self.post(Message::Command(command));
    }

    /// Whether the keeper is gone for good.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn post(&self, message: Message) {
        // A keeper that is gone has nothing left to decide.
        if let Err(mpsc::error::TrySendError::Full(message)) = self.0.try_send(message) {
            let sender = self.0.clone();
            tokio::spawn(async move { sender.send(message).await });
        }
    }
}

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, generation) = match self {
            Self::Begun(generation) => ("begun", *generation),
            Self::Opened(connection) => ("opened", connection.generation),
            Self::OpenFailed(generation, ..) => ("open_failed", *generation),
            Self::Listed(generation, _) => ("listed", *generation),
            Self::ListFailed(generation, _) => ("list_failed", *generation),
            Self::ListChanged(generation) => ("list_changed", *generation),
            Self::Lost(generation, _) => ("lost", *generation),
            Self::CallAnswered(generation) => ("call_answered", *generation),
            Self::CallFailed(generation, ..) => ("call_failed", *generation),
            Self::ProbeNow(generation) => ("probe_now", *generation),
            Self::ProbeAnswered(generation) => ("probe_answered", *generation),
            Self::Closed(generation, _) => ("closed", *generation),
            Self::Reachable(generation) => ("reachable", *generation),
        };
        write!(f, "{name}({generation})")
    }
}
