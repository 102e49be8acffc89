//! Start-up of the whole fleet. Only a server marked required can fail it, and all such failures are reported together.

use std::time::Duration;

use mainstay_lifecycle::{Desired, StateKind};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::Fleet;
use crate::deadline;
use crate::server::{CallError, NotConnected, Server, Status};

/// Required servers that did not come up.
#[derive(Debug, thiserror::Error)]
#[error("{} required server(s) did not come up: {}", .0.len(), list(.0))]
pub struct StartupError(
    /// Each with its reason, by name.
    pub Vec<(String, CallError)>,
);

/// The servers of a fleet once each of them is up or has failed to come up. Disabled ones are in neither list.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settled {
    /// The servers that are connected, and those that the first call starts.
    pub up: Vec<Server>,
    /// The servers that are not, each with its state and reason.
    pub down: Vec<NotConnected>,
}

impl Fleet {
    /// Waits until each server is up, or its first attempt has failed, or the time is over. The result says why the others
    /// are not up.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn wait_settled(&self, within: Duration) -> Settled {
        let deadline = deadline::within(within);
        let mut settled = Settled::default();
        // One after another: they start at the same time, and the deadline is the same for all.
        for server in self.servers() {
            let mut status = server.watch();
            let _ = timeout_at(deadline, status.wait_for(|status| has_settled(status))).await;
            let status = server.status();
            if status.is_up() {
                settled.up.push(server);
            } else if status.desired == Desired::Enabled {
                settled.down.push(NotConnected::from(&status));
            }
        }
        settled
    }

    /// Waits until every required server is connected, or has failed. Servers that are not required delay nothing.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn wait_required(&self, within: Duration) -> Result<(), StartupError> {
        let mut waits = JoinSet::new();
        for server in self.servers() {
            let settings = server.0.settings.load();
            // A disabled server is not wanted, and a lazy one not yet.
            if settings.required() && settings.enabled() && !settings.lazy() {
                let server = server.clone();
                waits.spawn(async move { (server.name().to_owned(), server.wait_connected(within).await) });
            }
        }
        let mut failures = Vec::new();
        while let Some(waited) = waits.join_next().await {
            if let Ok((name, Err(error))) = waited {
                failures.push((name, error));
            }
        }
        failures.sort_by(|(one, _), (other, _)| one.cmp(other));
        if failures.is_empty() {
            Ok(())
        } else {
            Err(StartupError(failures))
        }
    }

    /// Whether every required server is up. If none is required: whether the first attempt of every server has ended, with success
    /// or not. A server that was stopped as idle counts as up, since the next call starts it. A disabled server does not count.
    pub fn is_ready(&self) -> bool {
        self.unready().is_empty()
    }

    /// The servers because of which the fleet is not [ready](Self::is_ready), by name.
    pub fn unready(&self) -> Vec<Status> {
        let servers = self.servers().into_iter().map(|server| {
            let is_required = server.0.settings.load().required();
            (is_required, server.status())
        });
        let wanted: Vec<_> = servers
            .filter(|(_, status)| status.desired == Desired::Enabled)
            .collect();
        let some_are_required = wanted.iter().any(|(is_required, _)| *is_required);
        let holds_up = |(is_required, status): &(bool, Status)| match some_are_required {
            true => *is_required && !status.is_up(),
            false => !has_settled(status),
        };
        let unready = wanted.into_iter().filter(holds_up);
        unready.map(|(_, status)| status).collect()
    }
}

/// Whether the server's first attempt has ended.
fn has_settled(status: &Status) -> bool {
    match status.state {
        StateKind::Connecting => false,
        // A new server is shown as disabled until its keeper runs.
        StateKind::Disabled | StateKind::Disabling => status.desired == Desired::Disabled,
        StateKind::Connected
        | StateKind::Reconnecting
        | StateKind::Disconnected
        | StateKind::PermanentlyFailed => true,
    }
}

fn list(failures: &[(String, CallError)]) -> String {
    let reasons: Vec<_> = failures.iter().map(|(_, error)| error.to_string()).collect();
    reasons.join("; ")
}
