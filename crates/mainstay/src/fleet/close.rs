//! The end of a fleet: all servers at once, so that it takes the time of the slowest, not the sum.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{Fleet, Stopping};
use crate::deadline;
use crate::keeper::{Ending, ServerCommand};
use crate::process::Rung;
use crate::server::Server;

/// How long a kill may take until it is believed to have done its work.
const KILL_TIME: Duration = Duration::from_secs(1);

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
    /// It was not closed by the deadline, and was killed.
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
    /// Stops every server and waits until nothing is left. Afterwards the fleet has no servers, and gets none any more.
    ///
    /// A server's input is closed; if it has not ended two seconds later it is sent SIGTERM, and two more seconds later it is
    /// killed. Where `within` is less than all of that takes (a little over five seconds), every step comes sooner, in
    /// proportion: within 800 ms, SIGTERM after 300 and SIGKILL after 600. Servers that are being stopped already, for
    /// whatever reason, are stopped sooner too, and so is a close that is under way with more time. What is not closed at the
    /// deadline all the same is killed.
    ///
    /// Cancel safety: dropped, the servers go on stopping.
    pub async fn close(&self, within: Duration) -> CloseReport {
        let shutdown_deadline = &self.0.shared.shutdown_deadline;
        // Before the lock: its holder waits for a stop, which this deadline shortens too.
        shutdown_deadline.call(deadline::within(within));
        let mut leaving = self.0.leaving.lock().await;
        let servers = self.0.servers.swap(std::sync::Arc::default());
        // All of them stop at the same time; waiting for one after the other adds nothing.
        let mut stopping_servers = std::mem::take(&mut *leaving);
        for (name, server) in &*servers {
            stopping_servers.insert(name.clone(), Stopping::begin(server.clone()));
        }
        let mut report = CloseReport::default();
        let mut overdue = Vec::new();
        for mut stopping in stopping_servers.into_values() {
            tokio::select! {
                biased;
                ending = &mut stopping.end => {
                    let ending = ending.unwrap_or_default();
                    report.servers.push(closed(&stopping.server, &ending, false));
                }
                () = shutdown_deadline.over() => {
                    stopping.server.0.inbox.command(ServerCommand::Abort);
                    overdue.push(stopping);
                }
            }
        }
        let killed_by = Instant::now() + KILL_TIME;
        for stopping in overdue {
            let ending = timeout_at(killed_by, stopping.end).await;
            let ending = ending.ok().and_then(Result::ok).unwrap_or_default();
            report.servers.push(closed(&stopping.server, &ending, true));
        }
        report.servers.sort_by(|one, other| one.server.cmp(&other.server));
        report
    }
}

fn closed(server: &Server, ending: &Ending, overdue: bool) -> ClosedServer {
    let stopped = ending.stopped.as_ref();
    ClosedServer {
        server: server.name().to_owned(),
        killed: stopped.is_some_and(|stopped| stopped.by == Rung::Killed),
        swept: stopped.map_or(0, |stopped| stopped.swept),
        overdue,
    }
}
