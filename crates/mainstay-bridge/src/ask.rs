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
/// How long a daemon may close connections before it has answered: one that was killed does so until its process is gone.
const STATUS_RETRY_TIMEOUT: Duration = Duration::from_secs(5);

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

/// Asks what runs; `None` if there is no daemon. If the daemon ends while it is asked, the lock says whether there is another.
pub fn status(directory: &RuntimeDirectory) -> Result<Option<DaemonStatus>, AskError> {
    let hello = line(&Hello::asking(Ask::Status));
    let deadline = Instant::now() + STATUS_RETRY_TIMEOUT;
    // A connection would start a daemon whose socket a service manager holds.
    while directory.has_daemon() {
        match dial_running(directory, &hello) {
            Ok(dialed) => return Ok(dialed.and_then(|dialed| dialed.reply.status)),
            Err(ConnectError::Socket { .. }) if Instant::now() < deadline => sleep(LOOK_INTERVAL),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::thread;

    use super::*;
    use crate::hello::HelloReply;
    use crate::lock::LockFile;

    fn directory(runtime: &Path) -> RuntimeDirectory {
        RuntimeDirectory::find(|name| (name == "MAINSTAY_RUNTIME").then(|| runtime.into())).unwrap()
    }

    fn held(directory: &RuntimeDirectory) -> LockFile {
        LockFile::try_acquire(&directory.lock())
            .unwrap()
            .expect("it is free")
    }

    /// Takes one connection and its first line.
    fn asked(listener: &UnixListener) -> UnixStream {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while byte[0] != b'\n' {
            stream.read_exact(&mut byte).unwrap();
        }
        stream
    }

    #[test]
    fn a_daemon_that_is_killed_while_it_is_asked_does_not_run() {
        let runtime = tempfile::tempdir().unwrap();
        let directory = directory(runtime.path());
        let lock = held(&directory);
        let listener = UnixListener::bind(directory.socket()).unwrap();
        let daemon = thread::spawn(move || {
            let stream = asked(&listener);
            // A process that ends closes its descriptors one after the other.
            drop(stream);
            drop(asked(&listener));
            drop((lock, listener));
        });
        let found = status(&directory).expect("no error: there is no daemon");
        assert!(found.is_none());
        daemon.join().unwrap();
    }

    #[test]
    fn the_daemon_that_comes_after_the_one_that_was_asked_answers() {
        let runtime = tempfile::tempdir().unwrap();
        let directory = directory(runtime.path());
        let _lock = held(&directory);
        let listener = UnixListener::bind(directory.socket()).unwrap();
        let daemon = thread::spawn(move || {
            drop(asked(&listener));
            let reply = HelloReply::status(DaemonStatus {
                pid: 7,
                version: String::new(),
                since: 0,
                inherited: false,
                config: None,
                config_missing: false,
                config_problem: None,
                bridges: Vec::new(),
                servers: Vec::new(),
            });
            asked(&listener).write_all(&line(&reply)).unwrap();
        });
        let found = status(&directory).unwrap().expect("the next daemon");
        assert_eq!(found.pid, 7);
        daemon.join().unwrap();
    }
}
