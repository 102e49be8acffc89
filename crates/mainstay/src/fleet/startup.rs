//! Start-up as a whole: only a server marked required can fail it, and all such failures are reported together.

use std::time::Duration;

use mainstay_lifecycle::{Desired, StateKind};
use tokio::task::JoinSet;

use super::Fleet;
use crate::server::{CallError, Reason, Status};

/// Required servers that did not come up.
#[derive(Debug, thiserror::Error)]
#[error("{} required server(s) did not come up: {}", .0.len(), list(.0))]
pub struct StartupError(
    /// Each with its reason, by name.
    pub Vec<(String, CallError)>,
);

impl Fleet {
    /// Waits until every required server is connected, or has failed. Servers that are not required delay nothing.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn wait_required(&self, within: Duration) -> Result<(), StartupError> {
        let mut waits = JoinSet::new();
        for server in self.servers() {
            let settings = server.0.settings.load();
            // Nobody wants a disabled server, and nobody wants a lazy one yet.
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

    /// Whether the fleet can do what it is there for, as of now: every required server is up; where none is required, every
    /// server has settled, which is to say that its first attempt has come to an end, be it a good one or not. A server that
    /// was stopped because nobody used it is up, as the next call starts it; one that is disabled does not count.
    pub fn is_ready(&self) -> bool {
        let wanted = || {
            let statuses = self.servers().into_iter().map(|server| {
                let is_required = server.0.settings.load().required();
                (is_required, server.status())
            });
            statuses.filter(|(_, status)| status.desired == Desired::Enabled)
        };
        if wanted().any(|(is_required, _)| is_required) {
            wanted().all(|(is_required, status)| !is_required || is_up(&status))
        } else {
            wanted().all(|(_, status)| status.state != StateKind::Connecting)
        }
    }
}

fn is_up(status: &Status) -> bool {
    match status.state {
        StateKind::Connected => true,
        StateKind::Disconnected => status.reason == Some(Reason::Idle),
        StateKind::Disabled
        | StateKind::Connecting
        | StateKind::Reconnecting
        | StateKind::Disabling
        | StateKind::PermanentlyFailed => false,
    }
}

fn list(failures: &[(String, CallError)]) -> String {
    let reasons: Vec<_> = failures.iter().map(|(_, error)| error.to_string()).collect();
    reasons.join("; ")
}
