//! What was asked of a server for longer than one connection: resource subscriptions, tasks that are followed, and the log
//! level. They are restored on each new generation.

use std::collections::BTreeSet;

use super::Connection;
use crate::protocol::Era;
use crate::wire::{RawJson, RequestError};

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
    /// Makes the wishes known to a new generation. A legacy server is told them one by one, and this comes back when each
    /// was tried once; what is left is tried again in the background. A modern server is told all at once. Where requests
    /// may overtake each other, this waits for the one that must not be overtaken.
    ///
    /// Cancel safety: the wishes are made known all the same.
    pub(crate) async fn restore(&mut self, in_order: bool) {
        match self.greeting.era {
            Era::Legacy => self.restoring.start().await,
            // The level travels with each request; one listen carries the changes of lists, the subscriptions and the tasks.
            Era::Modern => {
                self.listened_for = self.inbound.interests();
                let taken = self.inbound.next_listen();
                self.listen();
                if !in_order {
                    taken.await;
                }
            }
        }
    }

    /// Makes the wishes known that came while the connection was opened but nobody could use it yet.
    pub(crate) fn catch_up(&self) {
        match self.greeting.era {
            Era::Legacy => drop(self.restoring.start()),
            Era::Modern => {
                let is_listened_for = |wanted: &Interests| *wanted == self.listened_for;
                if !self.inbound.with_interests(is_listened_for) {
                    self.listen();
                }
            }
        }
    }

    /// How many wishes a legacy server was not told yet.
    pub(crate) fn unrestored(&self) -> usize {
        self.restoring.missing()
    }

    pub(crate) async fn subscribe(&self, uri: &str) -> Result<(), RequestError> {
        self.restoring.subscribe(uri).await
    }

    pub(crate) async fn unsubscribe(&self, uri: &str) -> Result<(), RequestError> {
        self.restoring.unsubscribe(uri).await
    }

    pub(crate) async fn set_log_level(&self, level: &RawJson) -> Result<(), RequestError> {
        self.restoring.set_log_level(level).await
    }
}
