//! A changed configuration touches only what it changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Fleet, builder};
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
    /// Servers with nothing changed.
    pub unchanged: Vec<String>,
}

impl Fleet {
    /// Makes the fleet what the configuration says, and returns what that changed. Servers whose identity stayed the
    /// same keep their connections. Configurations are applied one after another.
    ///
    /// Cancel safety: dropped half way, some servers have the new configuration and others the old one; applying it
    /// again completes it.
    pub async fn apply(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Changes {
        let mut leaving = self.0.leaving.lock().await;
        leaving.retain(|_, end| matches!(end.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        let mut wanted: BTreeMap<Arc<str>, ServerConfig> = BTreeMap::new();
        for config in servers {
            wanted.entry(config.name().into()).or_insert(config);
        }
        let mut changes = Changes::default();
        let mut kept = BTreeMap::clone(&self.0.servers.load());
        let gone: Vec<_> = kept
            .keys()
            .filter(|name| !wanted.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(server) = kept.remove(&name) {
                changes.removed.push(name.to_string());
                let (reply, end) = oneshot::channel();
                server.0.inbox.command(Command::Stop(reply));
                leaving.insert(name, end);
            }
        }
        for (name, config) in wanted {
            match kept.get(&name) {
                Some(server) => change(server, config, &mut changes).await,
                None => {
                    if let Some(end) = leaving.remove(&name) {
                        // Its own close has a deadline, so this wait has one.
                        let _ = end.await;
                    }
                    changes.added.push(name.to_string());
                    kept.insert(name, builder::keep(&self.0.shared, &config));
                }
            }
        }
        self.0.servers.store(Arc::new(kept));
        changes
    }
}

async fn change(server: &Server, config: ServerConfig, changes: &mut Changes) {
    let name = server.name().to_owned();
    let now = server.0.settings.load_full();
    if *now.config() == config {
        return changes.unchanged.push(name);
    }
    let (was_enabled, is_enabled) = (now.enabled(), config.enabled());
    let list = if *now.identity() == config.identity() {
        &mut changes.adjusted
    } else {
        &mut changes.replaced
    };
    list.push(name.clone());
    // A keeper that is gone belongs to a fleet that is closed: nothing is left to change.
    let _ = server
        .command(|reply| Command::Configure(Box::new(config), reply))
        .await;
    match (was_enabled, is_enabled) {
        (false, true) => {
            let _ = server.enable().await;
            changes.enabled.push(name);
        }
        (true, false) => {
            let _ = server.disable().await;
            changes.disabled.push(name);
        }
        (true, true) | (false, false) => {}
    }
}
