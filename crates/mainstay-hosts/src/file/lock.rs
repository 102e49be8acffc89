//! Keeps two runs of Mainstay from editing the files of one folder at once.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::FileError;

/// How long a run waits for another: an edit takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it tries; there is no lock that waits with a deadline.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The lock, held until it is dropped. It is on the folder itself, so that no file is left behind.
pub(super) struct FolderLock {
    _folder: Option<File>,
}

impl FolderLock {
    /// Takes the lock. File systems that have none are edited without one: a change by another is noticed in any case.
    pub(super) fn take(file: &Path, folder: &Path) -> Result<Self, FileError> {
        let opened = File::open(folder).map_err(|source| FileError::of_write(file, source))?;
        let started = Instant::now();
        loop {
            match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        _folder: Some(opened),
                    });
                }
                Err(Errno::AGAIN) if started.elapsed() < LOCK_TIMEOUT => thread::sleep(LOCK_INTERVAL),
                Err(Errno::AGAIN) => {
                    return Err(FileError::Locked {
                        path: file.to_owned(),
                    });
                }
                Err(Errno::INTR) => {}
                Err(_) => return Ok(Self { _folder: None }),
            }
        }
    }
}
