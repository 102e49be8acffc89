//! How much the servers log: a shared server logs as much as the session that wants most of it, and each session hears
//! what it asked for.
//!
//! A session that never asked hears what a server sends of its own accord; once others have made that server say more,
//! it hears `info` and above. A modern client says with each request what it wants: a modern server is told with the
//! request, a legacy one is made to log as much before it, and stays so until the sessions' wishes change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mainstay::gateway::message::{RawJson, RpcError};
use mainstay::{Era, Server};
use tokio::sync::Mutex as Turn;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::naming::string;
use super::reaching::Reached;
use super::{Level, Request, Router, Subscribers};
use crate::client::Client;
use crate::protocol::invalid_params;

/// How long all servers may take to be told of a level. Those that take longer keep the wish for their next connection.
const TELL_ALL: Duration = Duration::from_secs(2);

/// What a session hears that did not ask, of a server that others asked for more.
const UNASKED: Level = Level::Info;

/// The level that each server was told. There are as many as there were servers.
#[derive(Default)]
pub(super) struct Levels(Mutex<HashMap<String, Told>>);

/// Held by whoever tells the server, so that the last wish is told last.
type Told = Arc<Turn<Option<Level>>>;

impl Router {
    pub(super) async fn set_level(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let word = string(&request.params, "level")?;
        let level =
            Level::from_word(&word).ok_or_else(|| invalid_params(format!("there is no level {word}")))?;
        request.client.set_level(Some(level));
        let mut telling = self.tell_levels(request.client);
        // All at once, and no longer than this: the slowest of them is no concern of a client's.
        let told = async { while telling.join_next().await.is_some() {} };
        let _ = timeout(TELL_ALL, told).await;
        telling.detach_all();
        Ok(RawJson::EMPTY_OBJECT)
    }

    /// The client's wish counts no more. Nobody waits for it.
    pub(super) fn forget_level(&self, client: &Client) {
        if client.level().is_some() {
            client.set_level(None);
            self.tell_levels(client).detach_all();
        }
    }

    /// A legacy server logs as much as this request of a modern client wants; a modern one is told by the request itself.
    pub(super) async fn raise_level(&self, reached: &Reached, request: &Request<'_>) {
        let Some(level) = request.meta.log_level else {
            return;
        };
        let server = &reached.server;
        if matches!(server.status().protocol, Some((Era::Modern, _))) {
            return;
        }
        let _ = timeout(TELL_ALL, async {
            if reached.is_own {
                return tell(server, &mut None, level).await;
            }
            let mut told = self.subscribers.levels.turn(server.name()).await;
            if told.is_none_or(|told| level < told) {
                tell(server, &mut told, level).await;
            }
        })
        .await;
    }

    /// Tells the servers that a client sees what the sessions want now, if that is anything new.
    fn tell_levels(&self, client: &Client) -> JoinSet<()> {
        let mut telling = JoinSet::new();
        let shared = client.scope.servers(self.fleet()).into_iter();
        for server in shared.filter(|server| !self.isolated.holds(server.name())) {
            let subscribers = self.subscribers.clone();
            telling.spawn(async move {
                let mut told = subscribers.levels.turn(server.name()).await;
                // Looked up when it is its turn: an earlier look could overtake a later one.
                match subscribers.most_verbose(server.name()) {
                    Some(level) if *told != Some(level) => tell(&server, &mut told, level).await,
                    // There is no way to want nothing: what was told last stays.
                    Some(_) | None => {}
                }
            });
        }
        if let (Some(own), Some(level)) = (client.own(), client.level()) {
            // Nobody else's wishes count there.
            for server in own.set_log_level(&client.scope, level.word()) {
                telling.spawn(async move { tell(&server, &mut None, level).await });
            }
        }
        telling
    }
}

impl Subscribers {
    /// The least severe message that a session hears of this server which did not ask for a level.
    pub(crate) fn unasked_level(&self, server: &str) -> Level {
        match self.levels.is_told(server) {
            true => UNASKED,
            false => Level::Debug,
        }
    }
}

impl Levels {
    async fn turn(&self, server: &str) -> tokio::sync::OwnedMutexGuard<Option<Level>> {
        let told = {
            let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match table.get(server) {
                Some(told) => told.clone(),
                None => table.entry(server.to_owned()).or_default().clone(),
            }
        };
        told.lock_owned().await
    }

    /// Whether it was told anything, or is being told.
    fn is_told(&self, server: &str) -> bool {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = table.get(server);
        told.is_some_and(|told| told.try_lock().map_or(true, |told| told.is_some()))
    }
}

async fn tell(server: &Server, told: &mut Option<Level>, level: Level) {
    *told = Some(level);
    // One that cannot be told now is told when it is back; one that knows no levels logs as it likes.
    let _ = server.set_log_level(level.word()).await;
}
