//! What commands ask of the daemon that runs.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::dial::{ConnectError, EndReply, dial_running, order_end};
use crate::hello::{Ask, DaemonStatus, Hello, line};
use crate::lock::{is_held, noted_pid};
use crate::runtime_dir::RuntimeDirectory;
use crate::wait::wait_readable;

/// How long a daemon may take to end after SIGTERM if it does not answer: its servers end with it.
const TERMINATE_GRACE: Duration = Duration::from_secs(10);
/// How long the system may take to end it after SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(5);
/// From one look at the lock to the next: its release is no event.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

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
    // A connection would start a daemon whose socket a service manager holds.
    if !directory.has_daemon() {
        return Ok(None);
    }
    let dialed = dial_running(directory, &line(&Hello::asking(Ask::Status)))?;
    Ok(dialed.and_then(|dialed| dialed.reply.status))
}

/// Stops the daemon, and waits until it has ended; `false` if there is none.
pub fn stop(directory: &RuntimeDirectory, within: Duration) -> Result<bool, AskError> {
    end(directory, Ask::Stop, within)
}

/// Asks the daemon to end, and waits for the end of its process, which is the end of the connection. A daemon that does not answer,
/// does not know the order or does not end in time is ended by signals.
pub fn end(directory: &RuntimeDirectory, ask: Ask, within: Duration) -> Result<bool, AskError> {
    let holder = LockHolder::of(directory);
    // A connection would start a daemon whose socket a service manager holds.
    if !holder.is_there() {
        return Ok(false);
    }
    let grace = match order_end(directory, ask) {
        EndReply::NoDaemon => return Ok(false),
        EndReply::Accepted(stream) => {
            if closes(stream, within) && !holder.is_there() {
                return Ok(true);
            }
            TERMINATE_GRACE
        }
        // It runs, and lets calls finish first.
        EndReply::Refused => within,
        EndReply::Unanswered => TERMINATE_GRACE,
    };
    holder.end_by_signals(grace)
}

/// Waits for the end of a connection; `false` if the time is over first.
fn closes(mut stream: UnixStream, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !matches!(wait_readable(&stream, left), Ok(true)) {
            return false;
        }
        if matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_)) {
            return true;
        }
    }
}

/// The process that holds the daemon's lock. It holds the lock for as long as it lives, so the number that it noted there is its own.
struct LockHolder {
    lock: PathBuf,
    noted: Option<u32>,
}

impl LockHolder {
    fn of(directory: &RuntimeDirectory) -> Self {
        let lock = directory.lock();
        Self {
            noted: noted_pid(&lock),
            lock,
        }
    }

    /// Whether this process holds the lock still. The next daemon may hold it already.
    fn is_there(&self) -> bool {
        is_held(&self.lock) && noted_pid(&self.lock) == self.noted
    }

    /// Ends it, with this much time between SIGTERM and SIGKILL.
    fn end_by_signals(&self, grace: Duration) -> Result<bool, AskError> {
        let pid = self.noted.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        for (signals, grace) in [
            // A stopped process takes SIGTERM only once it goes on.
            (&[Signal::TERM, Signal::CONT][..], grace),
            (&[Signal::KILL], KILL_GRACE),
        ] {
            if !self.is_there() {
                return Ok(true);
            }
            for signal in signals {
                // It may have ended meanwhile.
                let _ = pid.map(|pid| kill_process(pid, *signal));
            }
            let deadline = Instant::now() + grace;
            while Instant::now() < deadline {
                if !self.is_there() {
                    return Ok(true);
                }
                sleep(LOOK_INTERVAL);
            }
        }
        Err(AskError::DoesNotEnd {
            pid: self.noted,
            within: grace,
        })
    }
}
