//! What commands ask of the daemon that runs.

use std::io::Read as _;
use std::time::{Duration, Instant};

use crate::dial::{ConnectError, Dialed, dial_running};
use crate::hello::{Ask, DaemonStatus, Hello, line};
use crate::lock::noted_pid;
use crate::runtime_dir::RuntimeDirectory;
use crate::wait::wait_readable;

/// Why a command got no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It could not ask.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The daemon did not end in time.
    #[error(
        "the daemon{} has not ended within {:.0} s: end that process with `kill -9`",
        pid.map_or_else(String::new, |pid| format!(" (process {pid})")),
        within.as_secs_f64()
    )]
    DoesNotEnd {
        /// Its process.
        pid: Option<u32>,
        /// How long it was given.
        within: Duration,
    },
}

/// What runs; `None` if there is no daemon.
pub fn status(directory: &RuntimeDirectory) -> Result<Option<DaemonStatus>, AskError> {
    let dialed = dial_running(directory, &line(&Hello::asking(Ask::Status)))?;
    Ok(dialed.and_then(|dialed| dialed.reply.status))
}

/// Stops the daemon, and waits until it has ended; `false` if there is none.
pub fn stop(directory: &RuntimeDirectory, within: Duration) -> Result<bool, AskError> {
    end(directory, Ask::Stop, within)
}

/// Asks the daemon to end, and waits for the end of its process, which is the end of the connection.
pub(crate) fn end(directory: &RuntimeDirectory, ask: Ask, within: Duration) -> Result<bool, AskError> {
    let Some(Dialed { mut stream, .. }) = dial_running(directory, &line(&Hello::asking(ask)))? else {
        return Ok(false);
    };
    let deadline = Instant::now() + within;
    let late = || AskError::DoesNotEnd {
        pid: noted_pid(&directory.lock()),
        within,
    };
    loop {
        let left = deadline.checked_duration_since(Instant::now()).ok_or_else(late)?;
        match wait_readable(&stream, left) {
            Ok(true) => {}
            Ok(false) | Err(_) => return Err(late()),
        }
        if matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)) {
            return Ok(true);
        }
    }
}
