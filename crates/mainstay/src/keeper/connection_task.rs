//! The task that owns one connection from its dial to its end: the process, the handshake, the wait for its death, the
//! close. It is told to close exactly once, and reports exactly one end.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::CloseMode;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::caught::caught;
use super::dial::{Dial, DialError};
use super::inbox::Report;
use super::recovery;
use super::tree::Tree;
use crate::connection::Connection;
use crate::deadline;
use crate::event::Failure;
use crate::process::Process;
use crate::server::{Slot, noise};

/// A process that closes its pipe mostly exits too, and one that exits closes its pipe: each is given this long to
/// follow the other, so that the last answers are read and the exit status is known.
const TOGETHER: Duration = Duration::from_millis(50);

/// The keeper's hold on a connection. Dropping it ends the task, and with it whatever it owns.
pub(crate) struct ConnectionTask {
    close: Option<oneshot::Sender<CloseMode>>,
    task: Option<JoinHandle<()>>,
}

impl ConnectionTask {
    /// Starts to open a connection, once the connection_tasks `before` it, cut short, are gone. Ends with `Opened` or
    /// `OpenFailed`, perhaps `Lost`, and, once told, `Closed`.
    pub(crate) fn start(dial: Dial, before: Vec<JoinHandle<()>>) -> Self {
        let (close, told) = oneshot::channel();
        Self {
            close: Some(close),
            task: Some(tokio::spawn(keep_and_report(dial, before, told))),
        }
    }

    /// Ends the task by force. What it owns is gone when the handle is ready, which takes as long as a kill.
    pub(crate) fn abort(mut self) -> Option<JoinHandle<()>> {
        let task = self.task.take()?;
        task.abort();
        Some(task)
    }

    pub(crate) fn close(&mut self, manner: CloseMode) {
        if let Some(close) = self.close.take() {
            // A task that is gone was aborted, and has nothing left to close.
            let _ = close.send(manner);
        }
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Keeps a connection, and reports its end where it panics on the way: what it owned is gone by then.
async fn keep_and_report(dial: Dial, before: Vec<JoinHandle<()>>, told: oneshot::Receiver<CloseMode>) {
    let (slot, generation) = (dial.slot.clone(), dial.generation);
    if let Err(panicked) = caught(keep(dial, before, told)).await {
        let message = format!("the connection was given up: {panicked}");
        let failure = Arc::new(Failure::new(&slot, Some(generation), message));
        slot.inbox.report(Report::Lost(generation, failure));
        slot.inbox.report(Report::Closed(generation, None));
    }
}

async fn keep(mut dial: Dial, before: Vec<JoinHandle<()>>, mut told: oneshot::Receiver<CloseMode>) {
    for task in before {
        // However it ended, what it owned is gone.
        let _ = task.await;
    }
    let slot = dial.slot.clone();
    let mut tree = Tree::new(slot.shared.shutdown_deadline.clone());
    let generation = dial.generation;
    let opened = tokio::select! {
        biased;
        manner = &mut told => Err(manner),
        // The connector of an embedder runs here.
        opened = caught(dial.open(&mut tree)) => Ok(opened.unwrap_or_else(|panicked| Err(panicked.into()))),
    };
    let (connection, manner) = match opened {
        Err(manner) => (None, manner),
        Ok(Err(error)) => {
            let failure = failed_to_open(&dial, &error, tree.process()).await;
            slot.inbox
                .report(Report::OpenFailed(generation, Box::new(error), failure));
            (None, told.await)
        }
        Ok(Ok(connection)) => {
            let connection = Arc::new(connection);
            slot.inbox.report(Report::Opened(connection.clone()));
            let manner = live(&slot, &connection, tree.process(), &mut told).await;
            (Some(connection), manner)
        }
    };
    // The keeper is gone when nobody told: then nothing is worth a wait.
    if let (Some(connection), Ok(CloseMode::Drain)) = (&connection, manner) {
        drain(
            connection,
            deadline::within(slot.settings.load().policy().limits.drain),
        )
        .await;
    }
    if let Some(connection) = &connection {
        connection.cut();
    }
    let stopped = tree.stop(&dial.ladder).await;
    slot.inbox.report(Report::Closed(generation, stopped));
}

/// Waits for the end of a live connection, or for the order to close it; in either case returns that order.
async fn live(
    slot: &Slot,
    connection: &Connection,
    tree: Option<&Process>,
    told: &mut oneshot::Receiver<CloseMode>,
) -> Result<CloseMode, oneshot::error::RecvError> {
    let failure = tokio::select! {
        biased;
        manner = &mut *told => return manner,
        failure = lost(slot, connection, tree) => failure,
    };
    slot.inbox.report(Report::Lost(connection.generation, failure));
    told.await
}

/// Comes back when the connection is dead, with the reason; its pending calls have failed by then.
async fn lost(slot: &Slot, connection: &Connection, tree: Option<&Process>) -> Arc<Failure> {
    let Some(process) = tree else {
        let end = connection.peer.closed().await;
        return Arc::new(Failure::new(slot, Some(connection.generation), end.to_string()));
    };
    let exit = tokio::select! {
        end = connection.peer.closed() => match timeout(TOGETHER, process.exited()).await {
            Ok(exit) => exit,
            // It lives on without its pipe, and is of no use any more.
            Err(_) => return Arc::new(Failure::new(slot, Some(connection.generation), end.to_string())),
        },
        exit = process.exited() => {
            let _ = timeout(TOGETHER, connection.peer.closed()).await;
            connection.peer.close();
            exit
        }
    };
    let _ = timeout(TOGETHER, process.last_words()).await;
    let message = format!("the server's process ended: {exit}");
    Arc::new(Failure::new(slot, Some(connection.generation), message).with_exit(Some(exit)))
}

async fn failed_to_open(dial: &Dial, error: &DialError, tree: Option<&Process>) -> Arc<Failure> {
    let (slot, generation) = (&dial.slot, dial.generation);
    let recovery = recovery::of_dial(error);
    // A dial that fails for any other reason has closed the server's input by now, and its exit tells nothing.
    let Some(process) = tree.filter(|_| error.is_loss()) else {
        let message = dial.explain(error) + &noise::say(slot.noise.of(generation).as_deref());
        let failure = Failure::new(slot, Some(generation), message).mended_by(recovery);
        return Arc::new(
            failure
                .searched(error.searched())
                .asking_for(error.challenge())
                .over_http(slot, error.http()),
        );
    };
    let exit = timeout(TOGETHER, process.exited()).await.ok();
    if exit.is_some() {
        let _ = timeout(TOGETHER, process.last_words()).await;
    }
    let message = match &exit {
        Some(exit) if error.blames_probe() => {
            format!(
                "the server's process ended while starting: {exit} (the next attempt begins with initialize)"
            )
        }
        Some(exit) if exit.code == Some(0) => {
            format!("the server's process ended while starting: {exit}; {NO_SERVER}")
        }
        Some(exit) => format!("the server's process ended while starting: {exit}"),
        None => error.to_string(),
    };
    let message = message + &noise::say(slot.noise.of(generation).as_deref());
    let failure = Failure::new(slot, Some(generation), message).with_exit(exit);
    Arc::new(failure.mended_by(recovery))
}

/// What a person should think of first when a program ends by itself, and without an error, instead of answering.
const NO_SERVER: &str = "this does not look like an MCP server, which waits for messages on stdin";

/// Lets the running calls finish, as far as the deadline and the connection last.
async fn drain(connection: &Connection, deadline: Instant) {
    tokio::select! {
        () = connection.all_calls_done() => {}
        _ = connection.peer.closed() => {}
        () = sleep_until(deadline) => {}
    }
}
