//! The place of the one daemon: the process that holds the lock is the daemon, and binds the socket.
//!
//! Two locks. The daemon holds `daemon.lock` for its life. A process that wants to become the daemon holds `daemon.start.lock` while it
//! waits for the other lock: so at most one process waits, and a program that takes over is not overtaken by one that a bridge started.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use mainstay_bridge::hello::Ask;
use mainstay_bridge::lock::{LockFile, noted_pid};
use mainstay_bridge::{RuntimeDirError, RuntimeDirectory, end, is_listening};

/// How long a process waits for the end of the last daemon: longer than that lets calls finish and its servers end.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// The system gives no event for a lock that becomes free.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The place of the daemon, taken by this process.
pub struct Place {
    pub(super) directory: RuntimeDirectory,
    pub(super) listener: UnixListener,
    /// Whether a service manager made the socket, and keeps it after this daemon.
    pub(super) is_inherited: bool,
    /// Released last.
    _lock: LockFile,
}

/// Why this process is not the daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Another daemon runs, or is about to.
    #[error("a daemon runs already")]
    Running,
    /// The last daemon does not end.
    #[error(
        "the daemon that runs{} has not ended within {:.0} s: end that process with `kill -9`",
        pid.map_or_else(String::new, |pid| format!(" (process {pid})")),
        WAIT_TIMEOUT.as_secs_f64()
    )]
    DoesNotEnd {
        /// Its process.
        pid: Option<u32>,
    },
    /// The standard input is not the socket of the daemon.
    #[error(
        "the standard input is not a socket that listens at `{}`: let the service manager pass that one (`mainstay service install`)",
        path.display()
    )]
    NotTheSocket {
        /// Where the daemon listens.
        path: PathBuf,
    },
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] RuntimeDirError),
}

impl Place {
    /// Whether a service manager made the socket, and starts the next daemon.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Takes the place. If another daemon runs, this fails, or ends that one first if `takes_over`.
    ///
    /// Blocks until the last daemon has ended.
    pub fn take(directory: RuntimeDirectory, takes_over: bool) -> Result<Self, PlaceError> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        let start_path = directory.start_lock();
        let acquire = |path: &std::path::Path| {
            LockFile::try_acquire(path).map_err(|error| directory.error(path, error))
        };
        let starting = loop {
            match acquire(&start_path)? {
                Some(lock) => break lock,
                None if takes_over && Instant::now() < deadline => thread::sleep(LOCK_POLL_INTERVAL),
                None => return Err(PlaceError::Running),
            }
        };
        if takes_over {
            // If it does not answer, it may still end by itself.
            let _ = end(&directory, Ask::Restart, WAIT_TIMEOUT);
        }
        let lock_path = directory.lock();
        let mut lock = loop {
            if let Some(lock) = acquire(&lock_path)? {
                break lock;
            }
            // The socket of a daemon that ends is gone.
            if !takes_over && is_listening(&directory.socket()) {
                return Err(PlaceError::Running);
            }
            if Instant::now() >= deadline {
                let pid = noted_pid(&lock_path);
                return Err(PlaceError::DoesNotEnd { pid });
            }
            thread::sleep(LOCK_POLL_INTERVAL);
        };
        lock.note_pid()
            .map_err(|error| directory.error(&lock_path, error))?;
        let listener = bind(&directory)?;
        drop(starting);
        Ok(Self {
            directory,
            listener,
            is_inherited: false,
            _lock: lock,
        })
    }

    /// Takes the place with the socket that a service manager listens on and passes as the standard input.
    ///
    /// Blocks until the last daemon has ended.
    pub fn inherit(directory: RuntimeDirectory) -> Result<Self, PlaceError> {
        let listener = inherited(&directory)?;
        let deadline = Instant::now() + WAIT_TIMEOUT;
        let lock_path = directory.lock();
        let unusable = |error| PlaceError::Directory(directory.error(&lock_path, error));
        let mut lock = loop {
            if let Some(lock) = LockFile::try_acquire(&lock_path).map_err(unusable)? {
                break lock;
            }
            if Instant::now() >= deadline {
                let pid = noted_pid(&lock_path);
                return Err(PlaceError::DoesNotEnd { pid });
            }
            thread::sleep(LOCK_POLL_INTERVAL);
        };
        lock.note_pid().map_err(unusable)?;
        Ok(Self {
            directory,
            listener,
            is_inherited: true,
            _lock: lock,
        })
    }
}

/// The standard input as a listener, if it listens where clients look for the daemon.
fn inherited(directory: &RuntimeDirectory) -> Result<UnixListener, PlaceError> {
    let refused = || PlaceError::NotTheSocket {
        path: directory.socket(),
    };
    let stdin = io::stdin();
    let is_listening = rustix::net::sockopt::socket_acceptconn(&stdin).unwrap_or(false);
    if !is_listening {
        return Err(refused());
    }
    let listener = stdin.as_fd().try_clone_to_owned().map(UnixListener::from);
    let listener = listener.map_err(|_| refused())?;
    let address = listener.local_addr().map_err(|_| refused())?;
    if address.as_pathname() != Some(directory.socket().as_path()) {
        return Err(refused());
    }
    listener.set_nonblocking(true).map_err(|_| refused())?;
    Ok(listener)
}

/// Binds the socket. The lock is held: a socket that is there belongs to a dead daemon or to a service manager.
fn bind(directory: &RuntimeDirectory) -> Result<UnixListener, PlaceError> {
    let socket = directory.socket();
    let unusable = |error| PlaceError::Directory(directory.error(&socket, error));
    // A service manager may listen there. It starts a daemon for this connection, which gets the lock when this process ends.
    if is_listening(&socket) {
        return Err(PlaceError::Running);
    }
    match fs::remove_file(&socket) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unusable(error)),
    }
    let listener = UnixListener::bind(&socket).map_err(unusable)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).map_err(unusable)?;
    listener.set_nonblocking(true).map_err(unusable)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn directory(path: &Path) -> RuntimeDirectory {
        let named = |name: &str| (name == "MAINSTAY_RUNTIME").then(|| path.into());
        RuntimeDirectory::find(named).unwrap()
    }

    fn held(path: &Path) -> LockFile {
        LockFile::try_acquire(path).unwrap().expect("it is free")
    }

    #[test]
    fn a_process_that_is_about_to_be_the_daemon_is_not_overtaken() {
        let base = tempfile::tempdir().unwrap();
        let directory = directory(base.path());
        let starting = held(&directory.start_lock());
        let refused = Place::take(directory.clone(), false).err().expect("refused");
        assert!(matches!(refused, PlaceError::Running), "{refused}");
        assert!(!directory.socket().exists(), "nothing is bound");
        drop(starting);
        let place = Place::take(directory.clone(), false).expect("it is free");
        assert_eq!(noted_pid(&directory.lock()), Some(std::process::id()));
        assert!(
            !directory.start_lock().exists(),
            "only the one that waits holds it"
        );
        drop(place);
    }

    #[test]
    fn a_daemon_that_listens_is_not_waited_for() {
        let base = tempfile::tempdir().unwrap();
        let directory = directory(base.path());
        let _lock = held(&directory.lock());
        let _listener = UnixListener::bind(directory.socket()).unwrap();
        let refused = Place::take(directory, false).err().expect("refused");
        assert!(matches!(refused, PlaceError::Running), "{refused}");
    }

    #[test]
    fn a_socket_that_a_service_manager_listens_on_is_left_alone_and_a_dead_one_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        let directory = directory(base.path());
        let manager = UnixListener::bind(directory.socket()).unwrap();
        let refused = Place::take(directory.clone(), false).err().expect("refused");
        assert!(matches!(refused, PlaceError::Running), "{refused}");
        assert!(is_listening(&directory.socket()));
        drop(manager);
        let _place = Place::take(directory.clone(), false).expect("no process listens there");
        assert!(is_listening(&directory.socket()));
    }
}
