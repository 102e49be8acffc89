//! What was asked of a server for longer than one connection: resource subscriptions, tasks that are followed, and the log
//! level. They are restored on each new generation.

use std::collections::BTreeSet;

use super::Connection;
use crate::protocol::{ClientExtensions, Era};
use crate::wire::{RawJson, RequestError};

/// Subscriptions of one server; more are refused.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 10_000;

/// Tasks of one server that are followed; more are refused. Each listen names them all.
pub(crate) const MAX_TASKS: usize = 1024;

/// What callers want of every generation of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interests {
    pub(crate) resources: BTreeSet<String>,
    /// Only modern servers report on tasks.
    pub(crate) tasks: BTreeSet<String>,
    pub(crate) log_level: Option<RawJson>,
    /// The extensions that clients behind this one declare. A server receives them with its next connection.
    pub(crate) extensions: ClientExtensions,
}

impl Connection {
    /// Restores the interests on a new generation. A legacy server gets one request for each, and this returns when each was
    /// tried once; failed ones are retried in the background. A modern server gets one listen for all. If requests may
    /// overtake each other, this waits until the server has taken the listen.
    ///
    /// Cancel safety: the interests are restored all the same.
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

    /// Restores the interests that were added while the connection was being opened.
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

    /// How many interests are not restored yet on a legacy server.
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
