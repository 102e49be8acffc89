//! One lock for each login, across processes.
//!
//! The system releases an `flock` when its holder dies. The lock file stays: removing it would let two processes hold
//! locks of the same name.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::folder::failed;
use super::{LoginStoreError, StoreLock};

/// The first and the longest pause between two attempts. There is no wait for an `flock` with a deadline.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// A held lock. Closing the file releases it.
pub(super) struct FileLock {
    _file: File,
}

impl StoreLock for FileLock {}

/// Takes the lock. Blocks for at most `within`.
pub(super) fn lock_file(path: &Path, within: Duration) -> Result<FileLock, LoginStoreError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("open", path))?;
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(FileLock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("lock", path)(error.into())),
        }
        if began.elapsed() >= within {
            let path = path.to_owned();
            return Err(LoginStoreError::Locked { path, within });
        }
        sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
