//! What reaches a keeper: commands, and reports of connections, each with its generation.

use std::sync::Arc;

use mainstay_lifecycle::{Generation, Recovery};
use tokio::sync::{mpsc, oneshot};

use super::dial::DialError;
use super::listing::ListError;
use super::stored::LoadedCatalog;
use super::tasks::{KeeperTask, Panicked};
use crate::catalog::PreparedOffers;
use crate::config::ServerConfig;
use crate::connection::Connection;
use crate::event::Failure;
use crate::process::Stopped;
use crate::server::StartProgress;
use crate::transport::End;

/// Messages that wait for a keeper. A keeper never waits for a peer, so a long queue means a machine without CPU.
const INBOX_LIMIT: usize = 256;

#[derive(Debug)]
pub(crate) enum KeeperMessage {
    Command(ServerCommand),
    Report(Report),
    /// How far the start of this generation is. Only the status shows it.
    Progress(Generation, StartProgress),
    /// Something changed that only the status shows: how far a connection is with its subscriptions, or a probe that was not
    /// answered.
    Shown,
    /// A client declared an extension that no client declared before.
    ExtensionsDeclared,
    /// A task ended with a panic.
    Panicked(KeeperTask, Panicked),
    /// The stored catalog, read after the keeper was started.
    Loaded(Box<LoadedCatalog>),
    /// A large catalog is prepared for publication.
    Prepared(PreparedOffers),
    /// The machine's deadline has come.
    Deadline,
}

/// What a person, the configuration or a caller wants. The keeper acknowledges a command when the machine has taken it
/// and the status shows it, not when it is done.
#[derive(Debug)]
pub(crate) enum ServerCommand {
    Enable(Ack),
    Disable(Ack),
    Restart(Ack),
    Configure(Box<ServerConfig>, Ack),
    Demand,
    /// A new listing; answered with its number.
    Refresh(oneshot::Sender<Result<u64, CommandRefusal>>),
    /// The login that the server asked for took place.
    Login,
    /// The credential of the connected server was withdrawn, as by a logout.
    Logout,
    /// End for good; acknowledged when nothing is left.
    Stop(oneshot::Sender<Ending>),
    /// End now; whatever is left is killed.
    Abort,
    #[cfg(test)]
    Panic,
    /// Lets the task of this kind and of the current generation end with a panic.
    #[cfg(test)]
    PanicIn(super::tasks::TaskKind),
}

/// Where the acknowledgement of a command goes. Dropped without one, the keeper failed, or is gone.
pub(crate) type Ack = oneshot::Sender<Result<(), CommandRefusal>>;

/// Why a command was not taken.
#[derive(Debug)]
pub(crate) enum CommandRefusal {
    /// A disabled server cannot be restarted.
    Disabled,
    /// The server is leaving the fleet.
    Leaving,
}

/// How a server's last connection ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    pub(crate) stopped: Option<Stopped>,
}

/// What happened to a connection.
pub(crate) enum Report {
    /// It left the start queue.
    Begun(Generation),
    Opened(Arc<Connection>),
    OpenFailed(Generation, Box<DialError>, Arc<Failure>),
    Listed(Generation, PreparedOffers),
    ListFailed(Generation, ListError),
    ListChanged(Generation),
    Lost(Generation, Arc<Failure>),
    /// It takes nothing new, but its running calls may still be answered; how it ended.
    Retired(Generation, End, Arc<Failure>),
    CallAnswered(Generation),
    /// A call failed; what would resolve it, and what went wrong.
    CallFailed(Generation, Recovery, Arc<Failure>),
    /// A request broke off: the server may be gone.
    ProbeNow(Generation),
    ProbeAnswered(Generation),
    Closed(Generation, Option<Stopped>),
    /// The address accepts connections again that refused this generation.
    Reachable(Generation),
}

/// The way to a keeper.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(mpsc::Sender<KeeperMessage>);

impl Inbox {
    pub(crate) fn new() -> (Self, mpsc::Receiver<KeeperMessage>) {
        let (sender, receiver) = mpsc::channel(INBOX_LIMIT);
        (Self(sender), receiver)
    }

    /// Reports from where nothing may wait. Each source reports a thing once until it is looked at, so what waits here
    /// for a full inbox is bounded by the number of connections and calls.
    pub(crate) fn report(&self, report: Report) {
        self.post(KeeperMessage::Report(report));
    }

    pub(crate) fn progress(&self, generation: Generation, progress: StartProgress) {
        self.post(KeeperMessage::Progress(generation, progress));
    }

    pub(crate) fn extensions_declared(&self) {
        self.post(KeeperMessage::ExtensionsDeclared);
    }

    pub(crate) fn show(&self) {
        self.post(KeeperMessage::Shown);
    }

    pub(crate) fn command(&self, command: ServerCommand) {
        self.post(KeeperMessage::Command(command));
    }

    /// Whether the keeper is gone for good.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(super) fn post(&self, message: KeeperMessage) {
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
            Self::Retired(generation, ..) => ("retired", *generation),
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
