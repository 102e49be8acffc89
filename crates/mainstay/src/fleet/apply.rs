//! Adding, removing and changing servers. A changed configuration touches only what it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_lifecycle::Desired;
use tokio::sync::oneshot;

use super::builder::NewServer;
use super::{Fleet, Leaving, Stopping};
use crate::config::ServerConfig;
use crate::keeper::ServerCommand;
use crate::server::Server;

/// What applying a configuration did, by server name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// New servers.
    pub added: Vec<String>,
    /// Servers that are gone from the configuration. They are being stopped.
    pub removed: Vec<String>,
    /// Servers that are another server now: the old connection drains, then the new one is opened.
    pub replaced: Vec<String>,
    /// Servers that are kept or shown in another way. Their connections are not touched.
    pub adjusted: Vec<String>,
    /// Servers that were enabled.
    pub enabled: Vec<String>,
    /// Servers that were disabled.
    pub disabled: Vec<String>,
    /// Of the servers that were replaced or adjusted, those that a person has disabled: they have the new configuration, and
    /// stay disabled until they are enabled.
    pub still_disabled: Vec<String>,
    /// Servers with nothing changed.
    pub unchanged: Vec<String>,
}

/// Why a server was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The fleet has a server of this name.
    #[error("the fleet has a server {0:?} already")]
    NameTaken(String),
    /// The fleet is being closed, or was.
    #[error("the fleet is closed, and server {0:?} was not added")]
    FleetClosed(String),
}

impl Fleet {
    /// Adds a server, and returns its handle. It starts in its own time. If a server of this name was removed and still
    /// stops, the new one waits for its end.
    ///
    /// Cancel safety: dropped, the server is either added or not.
    pub async fn add(&self, config: ServerConfig) -> Result<Server, AddError> {
        let mut leaving = self.0.leaving.lock().await;
        let name: Arc<str> = config.name().into();
        if self.server(&name).is_some() {
            return Err(AddError::NameTaken(name.to_string()));
        }
        let added = self.start_server(&mut leaving, &name, config).await;
        added.ok_or_else(|| AddError::FleetClosed(name.to_string()))
    }

    /// Removes a server, and returns whether there was one. The fleet no longer has it when this returns. Its keeper then
    /// withdraws its catalog and stops its process.
    ///
    /// Cancel safety: dropped, the server is either removed or not.
    pub async fn remove(&self, name: &str) -> bool {
        let mut leaving = self.0.leaving.lock().await;
        let server = self.server(name);
        if let Some(server) = &server {
            self.stop_server(&mut leaving, server);
        }
        server.is_some()
    }

    /// Makes the fleet what the configuration says, and returns what that changed. Servers whose identity stayed the
    /// same keep their connections. Configurations are applied one after another. A fleet that is being closed, or was,
    /// gets no new servers.
    ///
    /// Cancel safety: dropped half way, some servers have the new configuration and others the old one; applying it
    /// again completes it.
    pub async fn apply(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Changes {
        let mut leaving = self.0.leaving.lock().await;
        let mut wanted: BTreeMap<Arc<str>, ServerConfig> = BTreeMap::new();
        for config in servers {
            wanted.entry(config.name().into()).or_insert(config);
        }
        let mut changes = Changes::default();
        for (name, server) in &**self.0.servers.load() {
            if !wanted.contains_key(name) {
                changes.removed.push(name.to_string());
                self.stop_server(&mut leaving, server);
            }
        }
        // Servers whose predecessor still stops come last, so that no other server waits for them.
        forget_stopped(&mut leaving);
        let (later, now): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|(name, _)| leaving.contains_key(name));
        for (name, config) in now.into_iter().chain(later) {
            if let Some(server) = self.server(&name) {
                change(&server, config, &mut changes).await;
                continue;
            }
            if self.start_server(&mut leaving, &name, config).await.is_none() {
                break;
            }
            changes.added.push(name.to_string());
        }
        changes.added.sort();
        changes
    }

    /// Takes a server out of the fleet, and begins to stop it.
    fn stop_server(&self, leaving: &mut Leaving, server: &Server) {
        let name = server.0.name.clone();
        let mut servers = BTreeMap::clone(&self.0.servers.load());
        servers.remove(&name);
        self.0.servers.store(Arc::new(servers));
        leaving.insert(name, Stopping::begin(server.clone()));
    }

    /// Puts a new server into the fleet, once its predecessor has ended. `None` if the fleet is being closed.
    async fn start_server(
        &self,
        leaving: &mut Leaving,
        name: &Arc<str>,
        config: ServerConfig,
    ) -> Option<Server> {
        let shutdown_deadline = &self.0.shared.shutdown_deadline;
        forget_stopped(leaving);
        if let Some(stopping) = leaving.get_mut(name) {
            tokio::select! {
                // The predecessor's close has a deadline, so this wait has one.
                _ = &mut stopping.end => {}
                // `close` waits for the predecessor then.
                () = shutdown_deadline.called() => return None,
            }
            leaving.remove(name);
        }
        let new = NewServer::new(&self.0.shared, self.0.shared.with_credentials(config));
        let stored = new.load_stored().await;
        if shutdown_deadline.at().is_some() {
            return None;
        }
        let server = new.keep(stored);
        let mut servers = BTreeMap::clone(&self.0.servers.load());
        servers.insert(name.clone(), server.clone());
        self.0.servers.store(Arc::new(servers));
        Some(server)
    }
}

/// Drops the servers that have ended.
fn forget_stopped(leaving: &mut Leaving) {
    leaving.retain(|_, stopping| matches!(stopping.end.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
}

async fn change(server: &Server, config: ServerConfig, changes: &mut Changes) {
    let name = server.name().to_owned();
    let now = server.0.settings.load_full();
    let config = server.0.shared.with_credentials(config);
    if *now.config() == config {
        return changes.unchanged.push(name);
    }
    if *now.identity() != config.identity() {
        changes.replaced.push(name.clone());
    } else if !now.differs_only_in_enabled(&config) {
        changes.adjusted.push(name.clone());
    }
    match (now.enabled(), config.enabled()) {
        (false, true) => changes.enabled.push(name),
        (true, false) => changes.disabled.push(name),
        (true, true) | (false, false) => {}
    }
    let is_wanted = config.enabled();
    // The keeper is gone only if the fleet is closed; then nothing is left to change.
    let _ = server
        .command(|ack| ServerCommand::Configure(Box::new(config), ack))
        .await;
    if is_wanted && server.status().desired == Desired::Disabled {
        changes.still_disabled.push(server.name().to_owned());
    }
}
