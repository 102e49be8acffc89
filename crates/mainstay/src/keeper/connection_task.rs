//! The task that owns one connection: its dial, its process, the wait for its end, its close. The keeper commands it once to
//! close, and it ends with one report.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::CloseMode;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::dial::{Dial, DialError};
use super::inbox::{KeeperMessage, Report};
use super::process_tree::ProcessTree;
use super::tasks::{TaskKind, Tasks};
use crate::connection::Connection;
use crate::deadline;
use crate::event::Failure;
use crate::process::{Process, ProcessExit, Stopped};
use crate::server::{Slot, noise};
use crate::transport::End;
use crate::wire::OutOfService;

/// A process that closes its pipe mostly exits too, and one that exits closes its pipe. The second of the two gets this
/// long to follow, so that the last answers are read and the exit status is known.
const EXIT_GRACE: Duration = Duration::from_millis(50);

/// The keeper's hold on the task of one connection.
pub(super) struct ConnectionTask {
    close: Option<oneshot::Sender<CloseMode>>,
}

impl ConnectionTask {
    /// Starts to open a connection. The task reports `Opened` or `OpenFailed`, perhaps `Lost`, and, after the command to close,
    /// ends with `Closed`.
    pub(super) fn start(tasks: &mut Tasks, dial: Dial) -> Self {
        let (close, closing) = oneshot::channel();
        let generation = dial.generation;
        tasks.spawn(TaskKind::Connection, Some(generation), async move {
            let stopped = keep(dial, closing).await;
            Some(KeeperMessage::Report(Report::Closed(generation, stopped)))
        });
        Self { close: Some(close) }
    }

    pub(super) fn close(&mut self, mode: CloseMode) {
        if let Some(close) = self.close.take() {
            // A task that panicked has nothing left to close.
            let _ = close.send(mode);
        }
    }
}

async fn keep(mut dial: Dial, mut closing: oneshot::Receiver<CloseMode>) -> Option<Stopped> {
    let slot = dial.slot.clone();
    let deadline = slot.shared.shutdown_deadline.clone();
    let mut tree = ProcessTree::new(deadline, dial.process_permit.clone());
    let generation = dial.generation;
    let opened = tokio::select! {
        biased;
        mode = &mut closing => Err(mode),
        opened = dial.open(&mut tree) => Ok(opened),
    };
    let (connection, mode) = match opened {
        Err(mode) => (None, mode),
        Ok(Err(error)) => {
            let failure = failed_to_open(&dial, &error, tree.process()).await;
            slot.inbox
                .report(Report::OpenFailed(generation, Box::new(error), failure));
            (None, closing.await)
        }
        Ok(Ok(connection)) => {
            let connection = Arc::new(connection);
            slot.inbox.report(Report::Opened(connection.clone()));
            let mode = live(&slot, &connection, tree.process(), &mut closing).await;
            (Some(connection), mode)
        }
    };
    // Without a mode, the keeper is gone, and no call is worth a wait.
    if let (Some(connection), Ok(CloseMode::Drain)) = (&connection, mode) {
        drain(
            connection,
            deadline::within(slot.settings.load().policy().limits.drain),
        )
        .await;
    }
    if let Some(connection) = &connection {
        connection.cut();
    }
    tree.stop(&dial.ladder).await
}

/// Waits for the order to close a live connection, and reports its loss if that comes first.
async fn live(
    slot: &Slot,
    connection: &Connection,
    process: Option<&Process>,
    closing: &mut oneshot::Receiver<CloseMode>,
) -> Result<CloseMode, oneshot::error::RecvError> {
    let report = tokio::select! {
        biased;
        mode = &mut *closing => return mode,
        report = out_of_service(slot, connection, process) => report,
    };
    slot.inbox.report(report);
    closing.await
}

/// Waits until the connection is of no use for new calls, and reports why.
async fn out_of_service(slot: &Slot, connection: &Connection, process: Option<&Process>) -> Report {
    let generation = connection.generation;
    let Some(process) = process else {
        let failure = |end: &End| Arc::new(Failure::new(slot, Some(generation), end.to_string()));
        return match connection.peer.out_of_service().await {
            OutOfService::Retired(end) => {
                let failure = failure(&end);
                Report::Retired(generation, end, failure)
            }
            OutOfService::Ended(end) => Report::Lost(generation, failure(&end)),
        };
    };
    Report::Lost(generation, lost(slot, connection, process).await)
}

/// Waits until the connection to a process is dead, and returns the reason. Its pending calls have failed by then.
async fn lost(slot: &Slot, connection: &Connection, process: &Process) -> Arc<Failure> {
    let exit = tokio::select! {
        biased;
        end = connection.peer.closed() => match exit_that_explains(&end, process).await {
            Some(exit) => exit,
            // Without its pipe, the process is of no use.
            None => return Arc::new(Failure::new(slot, Some(connection.generation), end.to_string())),
        },
        exit = process.exited() => {
            let _ = timeout(EXIT_GRACE, connection.peer.closed()).await;
            connection.peer.close();
            exit
        }
    };
    let _ = timeout(EXIT_GRACE, process.drain_stderr()).await;
    let message = format!("the server's process ended: {exit}");
    Arc::new(Failure::new(slot, Some(connection.generation), message).with_exit(Some(exit)))
}

/// The exit of a process, if its connection ended because of it. A process whose connection was ended from this side exits
/// because of that.
async fn exit_that_explains(end: &End, process: &Process) -> Option<ProcessExit> {
    match end {
        End::EndOfStream | End::Io { .. } => timeout(EXIT_GRACE, process.exited()).await.ok(),
        End::SessionLost
        | End::NotOpened(_)
        | End::Closed
        | End::Oversized
        | End::TooMuchGarbage
        | End::Aborted => None,
    }
}

async fn failed_to_open(dial: &Dial, error: &DialError, process: Option<&Process>) -> Arc<Failure> {
    let (slot, generation) = (&dial.slot, dial.generation);
    // A dial that fails for any other reason has closed the server's input by now, and its exit tells nothing.
    let Some(process) = process.filter(|_| error.is_loss()) else {
        let message = dial.explain(error) + &noise::say(slot.noise.of(generation).as_deref());
        return Arc::new(
            Failure::new(slot, Some(generation), message)
                .searched(error.searched())
                .asking_for(error.challenge())
                .over_http(slot, error.http()),
        );
    };
    let exit = timeout(EXIT_GRACE, process.exited()).await.ok();
    if exit.is_some() {
        let _ = timeout(EXIT_GRACE, process.drain_stderr()).await;
    }
    let message = match &exit {
        Some(exit) if exit.code == Some(0) => {
            format!("the server's process ended while starting: {exit}; {NO_SERVER}")
        }
        Some(exit) => format!("the server's process ended while starting: {exit}"),
        None => error.to_string(),
    };
    let message = message + &noise::say(slot.noise.of(generation).as_deref());
    Arc::new(Failure::new(slot, Some(generation), message).with_exit(exit))
}

/// The hint for a program that ends by itself without an error instead of answering.
const NO_SERVER: &str = "this does not look like an MCP server, which waits for messages on stdin";

/// Lets the running calls finish, until the deadline or the end of the connection.
async fn drain(connection: &Connection, deadline: Instant) {
    tokio::select! {
        () = connection.all_calls_done() => {}
        _ = connection.peer.closed() => {}
        () = sleep_until(deadline) => {}
    }
}
