//! How a live configuration is begun, what it reports, and the handle to it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mainstay::config::Problem;
use mainstay::{Configuration, ServerConfig};
use mainstay_gateway::Gateway;
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot, watch};

use super::environment::EnvironmentOwner;
use super::host_switches::HostSwitches;
use super::reload::{InForce, ReloadError, Reloaded, new_errors};
use super::switches::{SwitchError, Switched, Switches, SwitchesError};
use super::task::{LiveRequest, LiveTask};
use super::watch::WatchError;

/// How many requests wait for the task. Each is a person's command.
const MAX_REQUESTS: usize = 16;

/// Why a configuration was read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReloadTrigger {
    /// The file changed.
    FileChanged,
    /// SIGHUP came.
    Hangup,
    /// A person asked for it.
    Request,
}

/// What happened to a live configuration.
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveEvent<'a> {
    /// A file was applied.
    Reloaded(ReloadTrigger, &'a Reloaded),
    /// A file was refused; what was in force stays in force.
    Refused(ReloadTrigger, &'a ReloadError),
    /// Changes of the file are not noticed from now on. SIGHUP and requests still work.
    NotWatched(&'a WatchError),
}

/// Takes the reports of a live configuration.
pub type LiveReport = Box<dyn Fn(LiveEvent<'_>) + Send + Sync>;

/// A configuration that is about to be followed.
///
/// The servers to start come from [`servers`](Self::servers); then [`follow`](Self::follow) takes the gateway that serves them.
#[derive(Debug)]
pub struct LiveStart {
    pub(super) file: Option<PathBuf>,
    pub(super) was_read: bool,
    pub(super) is_dormant: bool,
    pub(super) wakes_with_file: bool,
    pub(super) in_force: InForce,
    pub(super) switches: Switches,
    pub(super) environment: EnvironmentOwner,
    ignored: Option<SwitchesError>,
    host_switches: HostSwitches,
    health: FileHealth,
}

/// What is known of the file beside what is in force.
#[derive(Clone, Debug, Default)]
pub(super) struct FileHealth {
    /// The file never existed since the program started. Other servers may stand in for it.
    pub(super) is_missing: bool,
    /// Nothing is in force: the file could not be used yet.
    pub(super) is_unusable: bool,
    /// Why the file, as it was last read, is not applied.
    pub(super) problem: Option<Arc<str>>,
    /// The servers in force that are not used for their errors.
    pub(super) refused: Arc<BTreeSet<String>>,
}

impl LiveStart {
    /// Begins with what was read from a file: its servers, those that are not used for their errors, and its problems. What a
    /// person switched in an earlier run is read from the state directory. May block.
    pub fn of_file(
        file: &Path,
        servers: Vec<ServerConfig>,
        refused: BTreeSet<String>,
        problems: Vec<Problem>,
        state: Option<&Path>,
    ) -> Self {
        let health = FileHealth {
            refused: Arc::new(refused.clone()),
            ..FileHealth::default()
        };
        let in_force = InForce {
            servers,
            refused,
            problems,
        };
        let file = absolute(file);
        let (switches, ignored) = Switches::load(state, &file);
        let (host_switches, host_ignored) = HostSwitches::load(state);
        Self {
            file: Some(file),
            was_read: true,
            is_dormant: false,
            wakes_with_file: false,
            in_force,
            switches,
            environment: EnvironmentOwner::default(),
            ignored: ignored.or(host_ignored),
            host_switches,
            health,
        }
    }

    /// Begins with nothing, for this reason, because the file cannot be used. It is followed all the same, and applied once it can be.
    /// May block.
    pub fn unusable(file: Option<&Path>, why: &str, state: Option<&Path>) -> Self {
        Self {
            health: FileHealth {
                is_unusable: true,
                problem: Some(why.into()),
                ..FileHealth::default()
            },
            ..Self::standing_in(file, Vec::new(), state)
        }
    }

    /// Begins with servers that stand in for a file that does not exist yet. Without a file there is nothing to follow. May
    /// block.
    pub fn standing_in(file: Option<&Path>, servers: Vec<ServerConfig>, state: Option<&Path>) -> Self {
        let file = file.map(absolute);
        let (switches, ignored) = match &file {
            Some(file) => Switches::load(state, file),
            None => (Switches::default(), None),
        };
        let (host_switches, host_ignored) = HostSwitches::load(state);
        Self {
            file,
            was_read: false,
            is_dormant: false,
            wakes_with_file: false,
            in_force: InForce {
                servers,
                ..InForce::default()
            },
            switches,
            environment: EnvironmentOwner::default(),
            ignored: ignored.or(host_ignored),
            host_switches,
            health: FileHealth {
                is_missing: true,
                ..FileHealth::default()
            },
        }
    }

    /// Says of variables that are not set how they get into this environment.
    #[must_use]
    pub fn in_environment_of(mut self, owner: EnvironmentOwner) -> Self {
        owner.explain(&mut self.in_force.problems);
        self.environment = owner;
        self
    }

    /// Begins with a gateway that has no server yet: they are added when [`LiveConfiguration::start`] is called. Changes of the
    /// file before that start nothing, unless it [wakes with its file](Self::waking_with_file).
    #[must_use]
    pub fn dormant(mut self) -> Self {
        self.is_dormant = true;
        self
    }

    /// Adds the servers of the file when it is first there, though other servers stand in for it until then and are not wanted.
    #[must_use]
    pub fn waking_with_file(mut self) -> Self {
        self.wakes_with_file = true;
        self
    }

    /// The servers to start, enabled and disabled as a person last wanted them.
    pub fn servers(&self) -> Vec<ServerConfig> {
        self.switches.applied_to(&self.in_force.all_servers())
    }

    /// Whether other servers stand in for a file that does not exist.
    pub fn stands_in(&self) -> bool {
        !self.was_read && !self.health.is_unusable
    }

    /// The servers that do not run only because a person disabled them in an earlier run.
    pub fn still_disabled(&self) -> Vec<&str> {
        let servers = self.in_force.servers.iter().map(ServerConfig::name);
        servers.filter(|name| self.switches.disables(name)).collect()
    }

    /// Why the state of an earlier run is ignored, if it is.
    pub fn ignored_state(&self) -> Option<&SwitchesError> {
        self.ignored.as_ref()
    }

    /// Follows the file until all handles are dropped, and reports what happens. Each SIGHUP makes it read the file.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn follow(
        mut self,
        gateway: Gateway,
        hangup: Option<Signal>,
        report: impl Fn(LiveEvent<'_>) + Send + Sync + 'static,
    ) -> LiveConfiguration {
        let (requests, inbox) = mpsc::channel(MAX_REQUESTS);
        let (health, watched) = watch::channel(self.health.clone());
        let file = self.file.as_deref().map(Arc::from);
        let environment = self.environment.clone();
        let host_switches = Arc::new(std::mem::take(&mut self.host_switches));
        let task = LiveTask::new(self, gateway, health, Box::new(report));
        tokio::spawn(task.run(inbox, hangup));
        LiveConfiguration {
            file,
            requests,
            environment,
            host_switches,
            health: watched,
        }
    }
}

/// A configuration that follows its file. Clones are handles of the same one; it ends with the last.
#[derive(Clone, Debug)]
pub struct LiveConfiguration {
    file: Option<Arc<Path>>,
    requests: mpsc::Sender<LiveRequest>,
    environment: EnvironmentOwner,
    host_switches: Arc<HostSwitches>,
    health: watch::Receiver<FileHealth>,
}

impl LiveConfiguration {
    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Whether the file does not exist, and never did since the program started.
    pub fn is_missing(&self) -> bool {
        self.health.borrow().is_missing
    }

    /// What a person disabled of the servers that hosts bring.
    pub(crate) fn host_switches(&self) -> &Arc<HostSwitches> {
        &self.host_switches
    }

    /// Why the file, as it was last read, is not applied; `None` if it is.
    pub fn problem(&self) -> Option<Arc<str>> {
        self.health.borrow().problem.clone()
    }

    /// Why a configuration would be refused if the file had it.
    pub(super) fn refuses(&self, configuration: &Configuration) -> Vec<Problem> {
        let health = self.health.borrow().clone();
        if health.is_unusable {
            // Nothing is in force that an error could cost.
            return Vec::new();
        }
        let mut errors = new_errors(&health.refused, configuration);
        self.environment.explain(&mut errors);
        errors
    }

    /// Why there is no configuration: the file could not be used when the program started, and was not fixed since.
    pub fn unusable(&self) -> Option<Arc<str>> {
        let health = self.health.borrow();
        health.is_unusable.then(|| health.problem.clone()).flatten()
    }

    /// Adds the servers to the gateway of a configuration that began [dormant](LiveStart::dormant). Has no effect on another.
    ///
    /// Cancel safety: dropped, the servers are added all the same.
    pub async fn start(&self) {
        let (reply, started) = oneshot::channel();
        if self.requests.send(LiveRequest::Start(reply)).await.is_ok() {
            // An error means that the program ends.
            let _ = started.await;
        }
    }

    /// Reads the file and applies what changed, even if no change was noticed.
    ///
    /// Cancel safety: dropped, the file is either read and applied, or not.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(LiveRequest::Reload(reply)).await;
        sent.map_err(|_| ReloadError::Ending)?;
        answer.await.unwrap_or(Err(ReloadError::Ending))
    }

    /// Enables or disables a server, and keeps that for the next start.
    ///
    /// Cancel safety: dropped, the server is either switched or not.
    pub async fn switch(&self, server: &str, enabled: bool) -> Result<Switched, SwitchError> {
        let (reply, answer) = oneshot::channel();
        let request = LiveRequest::Switch {
            server: server.to_owned(),
            enabled,
            reply,
        };
        let sent = self.requests.send(request).await;
        sent.map_err(|_| SwitchError::Ending)?;
        answer.await.unwrap_or(Err(SwitchError::Ending))
    }
}

/// Where even the working directory is unknown, a relative path stays as it is.
fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
