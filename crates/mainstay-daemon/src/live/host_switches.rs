//! What a person disabled of the servers that hosts bring (`mainstay connect -- COMMAND`), kept for as long as it is wanted.
//!
//! Such a server has no entry in a configuration, and its name is one that a host chose. So it is known by its identity: the same
//! command, arguments, directory and variables, or the same address and token. The state file holds hashes and no secrets.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mainstay::ServerConfig;
use tokio::task::spawn_blocking;

use super::switches::{StateFile, SwitchesError, SwitchesToSave};

/// The servers of hosts that a person disabled.
#[derive(Debug, Default)]
pub(crate) struct HostSwitches {
    /// Where they are kept; `None`: nowhere.
    file: Option<StateFile>,
    wanted: Mutex<BTreeMap<String, bool>>,
    /// Held while the file is written, so that the last write has the last wish.
    saving: tokio::sync::Mutex<()>,
}

impl HostSwitches {
    /// Reads what is kept in this directory. May block.
    pub(super) fn load(directory: Option<&Path>) -> (Self, Option<SwitchesError>) {
        let file = directory.map(StateFile::of_hosts);
        let (wanted, error) = match file.as_ref().map(StateFile::read) {
            Some(Ok(wanted)) => (wanted, None),
            Some(Err(error)) => (BTreeMap::new(), Some(error)),
            None => (BTreeMap::new(), None),
        };
        let switches = Self {
            file,
            wanted: Mutex::new(wanted),
            saving: tokio::sync::Mutex::default(),
        };
        (switches, error)
    }

    /// The server as it is wanted.
    pub(crate) fn applied_to(&self, server: ServerConfig) -> ServerConfig {
        let is_disabled = self.wanted().get(&key(&server)) == Some(&false);
        match is_disabled {
            true => server.switched(false),
            false => server,
        }
    }

    /// Notes what is wanted of the server with this key, and keeps it; why it is not kept, if it is not.
    ///
    /// Cancel safety: dropped, the wish counts for this run, and may not be kept for the next one.
    pub(crate) async fn set(&self, key: &str, enabled: bool) -> Result<(), String> {
        let _saving = self.saving.lock().await;
        let wanted = {
            let mut wanted = self.wanted();
            match enabled {
                true => wanted.remove(key),
                false => wanted.insert(key.to_owned(), false),
            };
            wanted.clone()
        };
        let Some(file) = self.file.clone() else {
            return Err("no home directory is known to keep it in".to_owned());
        };
        let saved = spawn_blocking(move || SwitchesToSave { file, wanted }.save()).await;
        saved.unwrap_or_else(|_| Err("writing it failed".to_owned()))
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a server of a host is known by.
pub(crate) fn key(server: &ServerConfig) -> String {
    server.identity().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, argument: &str) -> ServerConfig {
        ServerConfig::stdio(name, "run").arg(argument).build().unwrap()
    }

    #[tokio::test]
    async fn a_disabled_server_is_known_by_what_it_runs_and_not_by_its_name() {
        let state = tempfile::tempdir().unwrap();
        let (switches, error) = HostSwitches::load(Some(state.path()));
        assert!(error.is_none());
        let (one, other) = (server("one", "a"), server("one", "b"));
        switches.set(&key(&one), false).await.unwrap();
        let (next, error) = HostSwitches::load(Some(state.path()));
        assert!(error.is_none());
        assert!(!next.applied_to(server("renamed", "a")).enabled());
        assert!(next.applied_to(other).enabled());
        let kept = std::fs::read_to_string(&next.file.as_ref().unwrap().path).unwrap();
        assert!(!kept.contains("run"), "{kept}");
        next.set(&key(&one), true).await.unwrap();
        assert!(next.applied_to(one).enabled());
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn without_a_place_the_wish_counts_for_this_run() {
        let (switches, _) = HostSwitches::load(None);
        let one = server("one", "a");
        assert!(switches.set(&key(&one), false).await.is_err());
        assert!(!switches.applied_to(one).enabled());
    }
}
