//! Waits for servers to come up, as far as a person at a terminal would wait, and shows how they do.

mod board;
mod progress;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay::lifecycle::Desired;
use mainstay::server::Reason;
use mainstay::{Fleet, Server, StateKind, Status};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

pub(crate) use board::{Row, board, doing};
pub(crate) use progress::Progress;

/// Failures in a row after which a command stops waiting for a server. One may be bad luck; a server that fails three
/// times is shown to the person, who can fix it, instead of waiting longer.
const ATTEMPTS: u32 = 3;

/// How often the elapsed time on a terminal is updated.
const TICK: Duration = Duration::from_millis(100);

/// The state of a server, for a command that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may come up yet.
    Starting,
    /// It is connected, or was, and rests until it is needed.
    Up,
    /// It is not worth waiting for.
    Down,
    /// It is disabled.
    Off,
}

impl Standing {
    pub(crate) fn of(status: &Status) -> Self {
        match (status.state, status.reason) {
            (StateKind::Connected, _) => Self::Up,
            (StateKind::Connecting | StateKind::Reconnecting, _) if status.attempt < ATTEMPTS => {
                Self::Starting
            }
            (StateKind::Connecting | StateKind::Reconnecting | StateKind::PermanentlyFailed, _) => Self::Down,
            (StateKind::Disconnected, Some(Reason::Idle)) if status.starts > 0 => Self::Up,
            (StateKind::Disconnected, Some(Reason::Idle)) => Self::Starting,
            (
                StateKind::Disconnected,
                Some(Reason::AuthRequired | Reason::BudgetSpent | Reason::Lost) | None,
            ) => Self::Down,
            // Its keeper has not taken the first step yet.
            (StateKind::Disabled, _) if status.desired == Desired::Enabled => Self::Starting,
            (StateKind::Disabled | StateKind::Disabling, _) => Self::Off,
        }
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn is_settled(self) -> bool {
        match self {
            Self::Starting => false,
            Self::Up | Self::Down | Self::Off => true,
        }
    }
}

/// The servers as they come up.
pub(crate) struct Startup {
    began: SystemTime,
    servers: Vec<Server>,
}

impl Startup {
    pub(crate) fn of(fleet: &Fleet) -> Self {
        Self {
            began: SystemTime::now(),
            servers: fleet.servers(),
        }
    }

    /// How the servers are now.
    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.servers.iter().map(Server::status).collect()
    }

    /// How long a server took to come up, or is taking.
    pub(crate) fn took(&self, status: &Status) -> Duration {
        let until = match Standing::of(status) {
            Standing::Up => status.since,
            Standing::Starting | Standing::Down | Standing::Off => SystemTime::now(),
        };
        until.duration_since(self.began).unwrap_or_default()
    }

    /// Waits until no server is worth waiting for, or the time is over. The watcher is shown each change, and the
    /// time as it passes. Lazy servers are woken.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(crate) async fn settle(&self, within: Duration, mut watch: impl FnMut(&[Status])) -> Vec<Status> {
        let deadline = Instant::now() + within;
        let changed = Arc::new(Notify::new());
        let mut watchers = JoinSet::new();
        for server in &self.servers {
            let (waiting, watching, changed) = (server.clone(), server.clone(), changed.clone());
            watchers.spawn(async move {
                // Waiting is what wakes a lazy server; what comes of it is seen in the status.
                let _ = waiting.wait_connected(within).await;
            });
            watchers.spawn(async move {
                let mut status = watching.watch();
                while status.changed().await.is_ok() {
                    changed.notify_one();
                }
            });
        }
        let mut tick = interval(TICK);
        loop {
            let statuses = self.statuses();
            watch(&statuses);
            if statuses.iter().all(|status| Standing::of(status).is_settled()) {
                return statuses;
            }
            tokio::select! {
                () = changed.notified() => {}
                _ = tick.tick() => {}
                () = sleep_until(deadline) => return self.statuses(),
            }
        }
    }
}
