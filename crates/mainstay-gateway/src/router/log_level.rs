//! How much servers log. A shared server logs as much as the most verbose session wants, and each session gets the messages of the level
//! that it set.
//!
//! A session that never set a level gets what a server sends by default; once others have made that server more verbose, it
//! gets `info` and above. A modern client says the level with each request. A modern server gets it with the request; a legacy server is
//! set to it before the request, and stays so until a session changes its level.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainstay::Server;
use mainstay::gateway::ServerExt as _;
use mainstay::gateway::message::{Object, RawJson, RpcError};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::resolve::{Upstream, string};
use super::{RoutedRequest, Router, Subscribers};
use crate::client::Client;
use crate::lock::lock;
use crate::protocol::invalid_params;

/// The levels of the protocol, least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const WORDS: [(&str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::WORDS
            .into_iter()
            .find_map(|(known, level)| (known == word).then_some(level))
    }

    /// The level as the protocol spells it.
    pub(crate) const fn word(self) -> &'static str {
        Self::WORDS[self as usize].0
    }

    /// The level of a log message. A message without one passes every level.
    pub(crate) fn of_message(params: Option<&RawJson>) -> Self {
        params
            .and_then(Object::parse)
            .and_then(|params| params.get("level")?.parse::<String>().ok())
            .and_then(|word| Self::from_word(&word))
            .unwrap_or(Self::Emergency)
    }
}

/// How long the gateway waits until all servers have taken a level. A slower server gets it on its next connection at the latest.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(2);

/// What a session gets that never set a level, of a server that others made more verbose.
const UNSET_LEVEL: Level = Level::Info;

/// The level that each server was set to. There are as many entries as there were servers.
#[derive(Default)]
pub(super) struct ServerLevels(Mutex<HashMap<String, SharedLevel>>);

/// Locked while the server is being set, so that the last level is set last.
type SharedLevel = Arc<tokio::sync::Mutex<Option<Level>>>;

impl Router {
    pub(super) async fn set_level(&self, request: &RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let word = string(&request.params, "level")?;
        let level =
            Level::from_word(&word).ok_or_else(|| invalid_params(format!("there is no level {word}")))?;
        request.client.set_level(Some(level));
        let mut setting = self.set_server_levels(request.client);
        let all = async { while setting.join_next().await.is_some() {} };
        let _ = timeout(SET_LEVEL_TIMEOUT, all).await;
        setting.detach_all();
        Ok(RawJson::EMPTY_OBJECT)
    }

    /// The client's level does not count any more. The servers are set in the background.
    pub(super) fn forget_level(&self, client: &Client) {
        if client.level().is_some() {
            client.set_level(None);
            self.set_server_levels(client).detach_all();
        }
    }

    /// Makes a legacy server as verbose as this request of a modern client wants. A server that takes modern requests gets the level
    /// with the request.
    pub(super) async fn raise_level(&self, upstream: &Upstream, request: &RoutedRequest<'_>) {
        let Some(level) = request.meta.log_level else {
            return;
        };
        let server = &upstream.server;
        if server.takes_modern_requests() {
            return;
        }
        let _ = timeout(SET_LEVEL_TIMEOUT, async {
            if upstream.is_own {
                return set(server, &mut None, level).await;
            }
            let mut current = self.subscribers.levels.lock(server.name()).await;
            if current.is_none_or(|current| level < current) {
                set(server, &mut current, level).await;
            }
        })
        .await;
    }

    /// Sets the servers that a client sees to what the sessions want now, where that has changed.
    fn set_server_levels(&self, client: &Client) -> JoinSet<()> {
        let mut setting = JoinSet::new();
        let shared = client.scope.servers(self.fleet()).into_iter();
        for server in shared.filter(|server| !self.isolated.holds(server.name())) {
            let subscribers = self.subscribers.clone();
            setting.spawn(async move {
                let mut current = subscribers.levels.lock(server.name()).await;
                // Looked up under the lock, so that no older level overtakes a newer one.
                match subscribers.most_verbose(server.name()) {
                    Some(level) if *current != Some(level) => set(&server, &mut current, level).await,
                    // The protocol has no way to unset a level, so the last one stays.
                    Some(_) | None => {}
                }
            });
        }
        if let (Some(own), Some(level)) = (client.own(), client.level()) {
            for server in own.set_log_level(&client.scope, level.word()) {
                setting.spawn(async move { set(&server, &mut None, level).await });
            }
        }
        setting
    }
}

impl Subscribers {
    /// The least severe message of this server that a session gets which never set a level.
    pub(crate) fn unset_level(&self, server: &str) -> Level {
        match self.levels.is_set(server) {
            true => UNSET_LEVEL,
            false => Level::Debug,
        }
    }
}

impl ServerLevels {
    async fn lock(&self, server: &str) -> tokio::sync::OwnedMutexGuard<Option<Level>> {
        let level = {
            let mut table = lock(&self.0);
            match table.get(server) {
                Some(level) => level.clone(),
                None => table.entry(server.to_owned()).or_default().clone(),
            }
        };
        level.lock_owned().await
    }

    /// Whether the server was set to a level, or is being set.
    fn is_set(&self, server: &str) -> bool {
        let table = lock(&self.0);
        let level = table.get(server);
        level.is_some_and(|level| level.try_lock().map_or(true, |level| level.is_some()))
    }
}

async fn set(server: &Server, current: &mut Option<Level>, level: Level) {
    *current = Some(level);
    // A server that is not connected gets the level when it is; one that knows no levels logs as it likes.
    let _ = server.set_log_level(level.word()).await;
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn every_level_has_its_own_word() {
        for (word, level) in Level::WORDS {
            assert_eq!(level.word(), word);
            assert_eq!(Level::from_word(word), Some(level));
        }
    }
}
