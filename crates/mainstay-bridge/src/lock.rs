//! Locks on files: held by an open description of the file, so that the system releases them however a process ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::runtime_file::open_runtime_file;

/// A lock that this process holds. When it is dropped, the file is removed and the lock released.
pub struct LockFile {
    file: File,
    path: PathBuf,
}

/// What came of locking an open file.
enum LockAttempt {
    Taken(LockFile),
    /// Another process holds it.
    Held,
    /// It is no longer the file at the path.
    Removed,
}

impl LockFile {
    /// Takes the lock; `None` if another process holds it.
    pub fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = open_runtime_file(&mut options, path)?;
            match Self::lock(file, path)? {
                LockAttempt::Taken(lock) => return Ok(Some(lock)),
                LockAttempt::Held => return Ok(None),
                LockAttempt::Removed => {}
            }
        }
    }

    /// Locks an open file.
    fn lock(file: File, path: &Path) -> io::Result<LockAttempt> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(LockAttempt::Held),
            Err(error) => return Err(error.into()),
        }
        // The last holder may have removed the file since it was opened. A lock on a removed file keeps no process away.
        if !is_at(&file, path)? {
            return Ok(LockAttempt::Removed);
        }
        let path = path.to_owned();
        Ok(LockAttempt::Taken(Self { file, path }))
    }

    /// Writes the number of this process into the file, for messages.
    pub fn note_pid(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        writeln!(self.file, "{}", std::process::id())
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Still locked: no other process can have taken it as its own. If the directory was replaced, the file there is another's.
        if is_at(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The number of the process that holds the lock, as that process noted it.
pub fn noted_pid(path: &Path) -> Option<u32> {
    let mut noted = String::new();
    open(path)
        .ok()?
        .take(NOTE_LIMIT)
        .read_to_string(&mut noted)
        .ok()?;
    noted.trim().parse().ok()
}

/// More than a number takes.
const NOTE_LIMIT: u64 = 64;

/// Opens the file to look at it.
fn open(path: &Path) -> io::Result<File> {
    open_runtime_file(OpenOptions::new().read(true), path)
}

/// Whether another process holds the lock now.
pub fn is_held(path: &Path) -> bool {
    let Ok(file) = open(path) else { return false };
    // Released at once, when the file is closed. A process that tries to lock it at this moment finds it taken, and its
    // starter tries again.
    matches!(
        flock(&file, FlockOperation::NonBlockingLockShared),
        Err(Errno::WOULDBLOCK)
    )
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let locked = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (locked.dev(), locked.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_and_the_file_goes_with_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let mut first = LockFile::try_acquire(&path).unwrap().expect("it is free");
        first.note_pid().unwrap();
        assert_eq!(noted_pid(&path), Some(std::process::id()));
        assert!(LockFile::try_acquire(&path).unwrap().is_none());
        assert!(is_held(&path));
        drop(first);
        assert!(!is_held(&path));
        assert!(!path.exists());
        LockFile::try_acquire(&path).unwrap().expect("it is free again");
    }

    #[test]
    fn a_file_that_a_dead_process_left_is_no_lock() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        fs::write(&path, "1\n").unwrap();
        LockFile::try_acquire(&path).unwrap().expect("it is free");
    }

    #[test]
    fn a_lock_on_a_file_that_its_last_holder_removed_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let last = LockFile::try_acquire(&path).unwrap().expect("it is free");
        let [removed, replaced] = [(); 2].map(|()| File::open(&path).unwrap());
        drop(last);
        assert!(matches!(LockFile::lock(removed, &path), Ok(LockAttempt::Removed)));
        let _next = LockFile::try_acquire(&path).unwrap().expect("it is free again");
        assert!(matches!(
            LockFile::lock(replaced, &path),
            Ok(LockAttempt::Removed)
        ));
    }

    #[test]
    fn the_lock_file_of_another_process_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = LockFile::try_acquire(&path).unwrap().expect("it is free");
        fs::remove_file(&path).unwrap();
        let _second = LockFile::try_acquire(&path).unwrap().expect("it is another file");
        drop(first);
        assert!(is_held(&path), "the second one still holds it");
    }

    #[test]
    fn threads_that_take_it_in_turn_never_hold_it_together() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let (holders, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Some(held) = LockFile::try_acquire(&path).unwrap() {
                            most.fetch_max(holders.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            std::thread::yield_now();
                            holders.fetch_sub(1, Ordering::SeqCst);
                            drop(held);
                        }
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }
}
