//! A changed configuration touches only what it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainstay_lifecycle::Desired;
use tokio::sync::oneshot;

use super::builder::NewServer;
use super::{Fleet, Stopping};
use crate::config::ServerConfig;
use crate::keeper::Command;
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

impl Fleet {
    /// Makes the fleet what the configuration says, and returns what that changed. Servers whose identity stayed the
    /// same keep their connections. Configurations are applied one after another. A fleet that is being closed, or was,
    /// gets no new servers.
    ///
    /// Cancel safety: dropped half way, some servers have the new configuration and others the old one; applying it
    /// again completes it.
    pub async fn apply(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Changes {
        let mut leaving = self.0.leaving.lock().await;
        let shutdown_deadline = &self.0.shared.shutdown_deadline;
        leaving
            .retain(|_, parting| matches!(parting.end.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        let mut wanted: BTreeMap<Arc<str>, ServerConfig> = BTreeMap::new();
        for config in servers {
            wanted.entry(config.name().into()).or_insert(config);
        }
        let mut changes = Changes::default();
        for (name, server) in &**self.0.servers.load() {
            if !wanted.contains_key(name) {
                changes.removed.push(name.to_string());
                leaving.insert(name.clone(), Stopping::begin(server.clone()));
                self.put(name, None);
            }
        }
        // Those whose predecessor is still leaving come last: they wait, and nobody waits for them.
        let (later, now): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|(name, _)| leaving.contains_key(name));
        for (name, config) in now.into_iter().chain(later) {
            if let Some(server) = self.server(&name) {
                change(&server, config, &mut changes).await;
                continue;
            }
            if let Some(parting) = leaving.get_mut(&name) {
                tokio::select! {
                    // Its own close has a deadline, so this wait has one.
                    _ = &mut parting.end => {}
                    // It is left for whoever closes the fleet.
                    () = shutdown_deadline.called() => break,
                }
                leaving.remove(&name);
            }
            if shutdown_deadline.at().is_some() {
                break;
            }
            let new = NewServer::new(&self.0.shared, config);
            let stored = new.load_stored().await;
            if shutdown_deadline.at().is_some() {
                break;
            }
            changes.added.push(name.to_string());
            self.put(&name, Some(new.keep(stored)));
        }
        changes.added.sort();
        changes
    }

    /// Puts a server in its place, or takes it out. Only whoever holds `leaving` may, so no change is lost.
    fn put(&self, name: &Arc<str>, server: Option<Server>) {
        let mut servers = BTreeMap::clone(&self.0.servers.load());
        match server {
            Some(server) => servers.insert(name.clone(), server),
            None => servers.remove(name),
        };
        self.0.servers.store(Arc::new(servers));
    }
}

async fn change(server: &Server, config: ServerConfig, changes: &mut Changes) {
    let name = server.name().to_owned();
    let now = server.0.settings.load_full();
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
    // A keeper that is gone belongs to a fleet that is closed: nothing is left to change.
    let _ = server
        .command(|taken| Command::Configure(Box::new(config), taken))
        .await;
    if is_wanted && server.status().desired == Desired::Disabled {
        changes.still_disabled.push(server.name().to_owned());
    }
}
