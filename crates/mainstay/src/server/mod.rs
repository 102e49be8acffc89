//! The stable handle of a server: obtained once, it works for ever, across any number of reconnects.
//!
//! Status and catalog are read without waiting; calls lease the live connection; everything that changes a server's
//! life is a request to its keeper.

mod ask;
mod attempt;
mod call;
pub(crate) mod counts;
mod error;
mod history;
mod lease;
pub(crate) mod noise;
pub(crate) mod operations;
mod options;
mod pending_calls;
mod refresh;
mod slot;
mod status;
#[cfg(test)]
mod tests;
mod traced;

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::{Generation, StateKind};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

pub(crate) use attempt::tool_name;
pub use call::{Call, CallFuture, Reply};
pub(crate) use call::{Repeatable, Request};
pub(crate) use counts::CallCounters;
pub use counts::{CallCounts, CallDurations, DurationCounts};
pub use error::{CallError, CallErrorKind, NotConnected};
pub use history::LifecycleCounts;
pub(crate) use history::{ConnectionTimes, LifecycleCounters};
use lease::Wait;
pub use operations::{OperationCounts, OperationError};
pub(crate) use operations::{OperationTable, ToolPlaces};
pub use options::{CallOptions, Waiting};
pub use pending_calls::{BadPendingCallId, PendingCall, PendingCallId};
pub use refresh::RefreshError;
pub(crate) use slot::{Settings, Slot};
pub use status::{CredentialKind, Reason, StartProgress, StartStage, Status, TransportKind};
pub(crate) use status::{Ended, StartTokens};

pub use crate::lack::Lack;
pub use crate::wire::{BadAnswer, TimeoutKind};

use crate::catalog::{About, ServerCatalog};
use crate::config::Target;
use crate::deadline;
use crate::keeper::{Ack, CommandRefusal, ServerCommand};
use crate::process::{StderrFollower, StderrLine};
use crate::recorder::Recording;
use crate::transport::http::{BeginningLogin, Credentials, PendingLogin, ServerLoginError};

/// A server of a fleet. Clones are handles of the same server.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Slot>);

/// The answer to a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pong {
    /// The connection that answered.
    pub generation: Generation,
    /// From the ping to the answer.
    pub round_trip: Duration,
}

/// A command was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// A disabled server cannot be restarted: enable it.
    #[error("server {0} is disabled: enable it first")]
    Disabled(Arc<str>),
    /// The server was removed from the fleet, or the fleet was closed.
    #[error("server {0} is gone from the fleet")]
    Gone(Arc<str>),
    /// The task that owns the server failed before it took the command; it begins again.
    #[error("the keeper of server {0} failed and restarts; the command was not taken")]
    KeeperFailed(Arc<str>),
}

impl Server {
    /// The server's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What can be seen of the server now. Starts nothing.
    pub fn status(&self) -> Status {
        let status = self.0.status.borrow().clone();
        let current = self.0.current.load_full();
        Status {
            silent_since: current.and_then(|connection| connection.silent_since()),
            stale_reports: self.0.stale_reports(),
            last_success: self.0.last_success(),
            removed: self.0.inbox.is_closed(),
            ..(*status).clone()
        }
    }

    /// The status as a value to watch.
    pub fn watch(&self) -> watch::Receiver<Arc<Status>> {
        self.0.status.subscribe()
    }

    /// What the server said of itself when it was last connected, in this process or, as the store has it, in an earlier one.
    /// `None` where it never was.
    pub fn about(&self) -> Option<Arc<About>> {
        self.0.about.load_full()
    }

    /// What the server offered when it was last listed with success.
    pub fn catalog(&self) -> Option<Arc<ServerCatalog>> {
        self.0.catalog.load_full()
    }

    /// What became of its calls, and how many wait and run now.
    pub fn call_counts(&self) -> CallCounts {
        self.0.call_counts()
    }

    /// How long its requests ran on their connections, by method, tool and error. Empty unless the fleet is
    /// [measured](crate::FleetBuilder::measured).
    pub fn operations(&self) -> Vec<OperationCounts> {
        self.0
            .operations
            .as_ref()
            .map_or_else(Vec::new, OperationTable::read)
    }

    /// What became of its connections.
    pub fn lifecycle_counts(&self) -> LifecycleCounts {
        self.0.lifecycle.read()
    }

    /// The last lines that the server wrote to stderr, oldest first.
    pub fn stderr_tail(&self, lines: usize) -> Vec<StderrLine> {
        self.0.stderr.tail(lines)
    }

    /// Follows what the server writes to stderr from now on, byte for byte and across restarts. A follower that does not read in
    /// time misses some of it and gets a marker; it never delays the server.
    pub fn follow_stderr(&self) -> StderrFollower<bytes::Bytes> {
        self.0.stderr.follow_bytes()
    }

    /// The same line by line, as [`stderr_tail`](Self::stderr_tail) has them: cut to a bound, without control characters.
    pub fn follow_stderr_lines(&self) -> StderrFollower<StderrLine> {
        self.0.stderr.follow_lines()
    }

    /// The last messages of its connections, as far as the recorder keeps them: see
    /// [`FleetBuilder::recorder`](crate::FleetBuilder::recorder).
    pub fn recording(&self) -> Recording {
        let settings = self.0.settings.load();
        self.0.recorder.read(settings.redaction())
    }

    /// Waits until the server is connected; one that rests is started. Fails at once where it is not coming: disabled, given
    /// up, out of budget.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn wait_connected(&self, within: Duration) -> Result<Status, CallError> {
        let began = Instant::now();
        let mut status = self.watch();
        let wait = Wait::begun(&status.borrow());
        loop {
            let seen = status.borrow_and_update().clone();
            if seen.state == StateKind::Connected {
                return Ok((*seen).clone());
            }
            wait.check(&seen)?;
            self.0.wake_if_resting(&seen);
            let waited = timeout_at(deadline::after(began, within), status.changed()).await;
            if !matches!(waited, Ok(Ok(()))) {
                return Err(self.0.wait_timed_out(began));
            }
        }
    }

    /// Opens a new connection at once, whatever happened before: skips the backoff, renews the budget. Pending calls
    /// fail. Returns when the order is taken; see [`Server::wait_connected`].
    ///
    /// Cancel safety: dropped, the order is either taken whole or not at all.
    pub async fn restart(&self) -> Result<(), CommandError> {
        self.command(ServerCommand::Restart).await
    }

    /// Says that the login which the server asked for took place: it is tried again at once. Means nothing to a server
    /// that asks for none.
    pub fn logged_in(&self) {
        self.0.inbox.command(ServerCommand::Login);
    }

    /// Enables the server: Mainstay keeps it connected. The latest command wins.
    ///
    /// Cancel safety: dropped, the command is applied completely or not at all.
    pub async fn enable(&self) -> Result<(), CommandError> {
        self.command(ServerCommand::Enable).await
    }

    /// Disables the server: nothing of it runs. The latest command wins.
    ///
    /// Cancel safety: dropped, the command is applied completely or not at all.
    pub async fn disable(&self) -> Result<(), CommandError> {
        self.command(ServerCommand::Disable).await
    }

    /// Waits until the server is in a state that `reached` accepts; `None` when the time is over.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn wait_until(&self, within: Duration, reached: impl FnMut(&Status) -> bool) -> Option<Status> {
        let mut status = self.watch();
        let mut reached = reached;
        let waited = timeout_at(
            deadline::within(within),
            status.wait_for(|status| reached(status)),
        )
        .await;
        match waited {
            Ok(Ok(status)) => Some((**status).clone()),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    pub(crate) async fn command(
        &self,
        command: impl FnOnce(Ack) -> ServerCommand,
    ) -> Result<(), CommandError> {
        let (taken, answer) = oneshot::channel();
        self.0.inbox.command(command(taken));
        let name = self.0.name.clone();
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(CommandRefusal::Disabled)) => Err(CommandError::Disabled(name)),
            Ok(Err(CommandRefusal::Leaving)) => Err(CommandError::Gone(name)),
            Err(_) if self.0.inbox.is_closed() => Err(CommandError::Gone(name)),
            Err(_) => Err(CommandError::KeeperFailed(name)),
        }
    }

    /// What is started or reached: the program without its arguments, or the address without its query. Arguments and queries
    /// may hold secrets. `None` for a transport of the embedder's own, and for a server that cannot be used.
    pub fn shown_target(&self) -> Option<String> {
        let settings = self.0.settings.load();
        match settings.config().target() {
            Target::Stdio(program) => Some(program.command().shown().to_owned()),
            Target::Http(target) => Some(without_secrets(target.url().shown())),
            Target::Custom(_) | Target::Unusable(_) => None,
        }
    }

    /// What lets the requests to a server over HTTP in. `None` for any other server.
    pub fn credential(&self) -> Option<CredentialKind> {
        let settings = self.0.settings.load();
        match settings.config().target() {
            Target::Http(target) => Some(CredentialKind::of(target)),
            Target::Stdio(_) | Target::Custom(_) | Target::Unusable(_) => None,
        }
    }

    /// Pings the live connection: with `ping` in the legacy era, with `server/discover` in the modern one. Any answer counts,
    /// "method not found" included. Without a connection it fails at once; it starts nothing, and keeps no server from its
    /// idle stop. A ping without an answer counts as a failed call.
    ///
    /// Cancel safety: dropping it leaves an answer that is dropped when it comes.
    pub async fn ping(&self, within: Duration) -> Result<Pong, CallError> {
        let asked = Instant::now();
        let connection = self
            .0
            .lease(Waiting::FailFast, None, within, deadline::after(asked, within))
            .await?;
        let generation = connection.generation;
        match connection.probe(within).await {
            Ok(()) => Ok(Pong {
                generation,
                round_trip: asked.elapsed(),
            }),
            Err(error) => {
                self.0.judge(&connection, &error);
                Err(self.0.call_error(error, generation, None))
            }
        }
    }

    /// Begins a login with the server's provider of credentials, up to where a person is needed: the result has the address to
    /// open, and completes when the person has logged in. The server is then tried again at once.
    ///
    /// The crate `mainstay-login` has providers that log in with OAuth.
    ///
    /// Cancel safety: dropping it gives the login up.
    pub async fn login(&self) -> Result<Box<dyn PendingLogin>, ServerLoginError> {
        let provider = self.provider();
        let beginning = provider.as_ref().and_then(|provider| provider.login());
        begin(beginning).await
    }

    /// Begins a [`login`](Self::login) for which the client registers itself again: the authorization server has forgotten it.
    ///
    /// Cancel safety: dropping it gives the login up.
    pub async fn login_as_new_client(&self) -> Result<Box<dyn PendingLogin>, ServerLoginError> {
        let provider = self.provider();
        let beginning = provider
            .as_ref()
            .and_then(|provider| provider.login_as_new_client());
        begin(beginning).await
    }

    /// Whether [`login`](Self::login) can begin a login: the server has a provider of credentials that offers one.
    pub fn can_log_in(&self) -> bool {
        self.provider().is_some_and(|provider| provider.login().is_some())
    }

    fn provider(&self) -> Option<Arc<dyn Credentials>> {
        let settings = self.0.settings.load();
        match settings.config().target() {
            Target::Http(target) => target.provider().cloned(),
            Target::Stdio(_) | Target::Custom(_) | Target::Unusable(_) => None,
        }
    }
}

/// Handles are equal when they are of the same server. One that was removed from the fleet and added again is another.
impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Server {}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let status = self.0.status.borrow();
        f.debug_struct("Server")
            .field("name", &self.0.name)
            .field("state", &status.state)
            .finish_non_exhaustive()
    }
}

async fn begin(login: Option<BeginningLogin<'_>>) -> Result<Box<dyn PendingLogin>, ServerLoginError> {
    match login {
        Some(login) => login.await,
        None => Err(ServerLoginError::NotOffered),
    }
}

/// The address without the user, the query and the fragment.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}
