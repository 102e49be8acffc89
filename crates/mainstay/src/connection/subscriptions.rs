//! What was asked of a server for longer than one connection: resource subscriptions, tasks that are followed, and the log
//! level. They are restored on each new generation.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::Connection;
use crate::protocol::Era;
use crate::wire::{RawJson, RequestError, RequestOptions};

/// How long a server may take to grant one wish.
const WISH_TIMEOUT: Duration = Duration::from_secs(10);

/// Subscriptions of one server; more are refused.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 10_000;

/// Tasks of one server that are followed; more are refused. Each listen names them all.
pub(crate) const MAX_TASKS: usize = 1024;

/// The lasting wishes of a server's callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interests {
    pub(crate) resources: BTreeSet<String>,
    /// Only modern servers can be asked to tell of tasks.
    pub(crate) tasks: BTreeSet<String>,
    pub(crate) log_level: Option<RawJson>,
}

impl Connection {
    /// Makes the wishes known to a new generation. One that the server refuses is logged, and keeps nothing else from
    /// being restored. Where requests may overtake each other, it waits for the one that must not be overtaken.
    pub(crate) async fn restore(&mut self, interests: Interests, in_order: bool) {
        self.restored = interests;
        match self.greeting.era {
            Era::Legacy => self.tell_changes(&Interests::default(), &self.restored).await,
            // The level travels with each request; one listen carries the changes of lists, the subscriptions and the tasks.
            Era::Modern => {
                let taken = self.reception.next_listen();
                self.listen();
                if !in_order {
                    taken.await;
                }
            }
        }
    }

    /// Makes the wishes known that came while the connection was opened but nobody could use it yet.
    pub(crate) fn catch_up(self: &Arc<Self>, interests: Interests) {
        if interests == self.restored {
            return;
        }
        match self.greeting.era {
            Era::Legacy => {
                let this = self.clone();
                tokio::spawn(async move { this.tell_changes(&this.restored, &interests).await });
            }
            Era::Modern => self.listen(),
        }
    }

    async fn tell_changes(&self, before: &Interests, after: &Interests) {
        if let Some(level) = &after.log_level
            && after.log_level != before.log_level
        {
            self.note(self.set_log_level(level).await, "logging/setLevel");
        }
        for uri in after.resources.difference(&before.resources) {
            self.note(self.subscribe(uri).await, "resources/subscribe");
        }
        for uri in before.resources.difference(&after.resources) {
            self.note(self.unsubscribe(uri).await, "resources/unsubscribe");
        }
    }

    pub(crate) async fn subscribe(&self, uri: &str) -> Result<(), RequestError> {
        self.wish("resources/subscribe", json!({ "uri": uri })).await
    }

    pub(crate) async fn unsubscribe(&self, uri: &str) -> Result<(), RequestError> {
        self.wish("resources/unsubscribe", json!({ "uri": uri })).await
    }

    pub(crate) async fn set_log_level(&self, level: &RawJson) -> Result<(), RequestError> {
        self.wish("logging/setLevel", json!({ "level": level })).await
    }

    async fn wish(&self, method: &str, params: serde_json::Value) -> Result<(), RequestError> {
        let Ok(params) = RawJson::from_value(&params) else {
            return Ok(());
        };
        let options = RequestOptions::within(WISH_TIMEOUT);
        self.peer.request(method, Some(params), options).await.map(drop)
    }

    fn note(&self, restored: Result<(), RequestError>, what: &str) {
        if let Err(error) = restored {
            tracing::warn!(generation = self.generation.0, %error, "{what} could not be made known");
        }
    }
}
