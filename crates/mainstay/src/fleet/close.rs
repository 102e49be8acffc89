//! The end of a fleet: all servers at once, so that it takes the time of the slowest, not the sum.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::Fleet;
use crate::keeper::{Command, Ending};
use crate::process::Rung;

/// How the servers of a fleet ended.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Each server, by name.
    pub servers: Vec<ClosedServer>,
}

/// How one server ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClosedServer {
    /// Which server.
    pub server: String,
    /// Its process had to be killed.
    pub killed: bool,
    /// Processes that had escaped the server's process group, and were found and killed.
    pub swept: usize,
    /// It was not closed by the deadline, and was cut short by force.
    pub overdue: bool,
}

impl CloseReport {
    /// The servers that did not end by themselves.
    pub fn killed(&self) -> impl Iterator<Item = &ClosedServer> {
        self.servers
            .iter()
            .filter(|server| server.killed || server.overdue)
    }
}

impl Fleet {
    /// Stops every server and waits until nothing is left, or until the deadline; then what is left is killed.
    /// Afterwards the fleet has no servers.
    ///
    /// Cancel safety: dropped, the servers go on stopping.
    pub async fn close(&self, within: Duration) -> CloseReport {
        let mut leaving = self.0.leaving.lock().await;
        let deadline = Instant::now() + within;
        let servers = self.0.servers.swap(std::sync::Arc::default());
        let endings: Vec<_> = servers
            .values()
            .map(|server| {
                let (reply, ending) = oneshot::channel();
                server.0.inbox.command(Command::Stop(reply));
                (server.clone(), ending)
            })
            .collect();
        let mut report = CloseReport::default();
        for (server, ending) in endings {
            // All of them stop at the same time; waiting for one after the other adds nothing.
            let ended = timeout_at(deadline, ending).await;
            let overdue = ended.is_err();
            if overdue {
                server.0.inbox.command(Command::Abort);
            }
            let ending: Ending = ended.ok().and_then(Result::ok).unwrap_or_default();
            report.servers.push(ClosedServer {
                server: server.name().to_owned(),
                killed: ending
                    .stopped
                    .as_ref()
                    .is_some_and(|stopped| stopped.by == Rung::Killed),
                swept: ending.stopped.as_ref().map_or(0, |stopped| stopped.swept),
                overdue,
            });
        }
        for (_, end) in std::mem::take(&mut *leaving) {
            let _ = timeout_at(deadline, end).await;
        }
        report
    }
}
