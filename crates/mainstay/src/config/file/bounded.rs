//! Reads files that a person names: no more than a limit, and without an endless wait for the writer of a pipe.
//! Notes the files that a configuration depends on.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a pipe may take in all. The program that writes to it may ask a person for a passphrase first.
const PIPE_TIMEOUT: Duration = Duration::from_secs(60);

/// The writer of a pipe neither closed it nor ended. It is the source of an [`io::Error`] of the kind `TimedOut`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is a pipe, and its writer did not close it within {0:?}")]
pub(super) struct PipeNotClosed(Duration);

impl From<PipeNotClosed> for io::Error {
    fn from(error: PipeNotClosed) -> Self {
        Self::new(io::ErrorKind::TimedOut, error)
    }
}

/// The first bytes of a file, so many at most. A pipe is read to its end: a shell passes the output of a program so
/// (`--config <(program)`). One that no process writes to is empty, and one that stays open is an error after a while.
pub(super) fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_within(path, limit, PIPE_TIMEOUT)
}

#[cfg(unix)]
fn read_within(path: &Path, limit: u64, timeout: Duration) -> io::Result<Vec<u8>> {
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    use std::time::Instant;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::OFlags;
    use rustix::io::Errno;

    if !fs::metadata(path)?.file_type().is_fifo() {
        return read(File::open(path)?, limit);
    }
    let deadline = Instant::now() + timeout;
    // Neither the open waits for a writer, nor a read for its bytes.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut pipe = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?
        .take(limit);
    let mut bytes = Vec::new();
    loop {
        // What was read before an error stays in `bytes`.
        match pipe.read_to_end(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done.map(|_| bytes),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PipeNotClosed(timeout).into());
        }
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(&mut [PollFd::new(pipe.get_ref(), PollFlags::IN)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(not(unix))]
fn read_within(path: &Path, limit: u64, _timeout: Duration) -> io::Result<Vec<u8>> {
    read(File::open(path)?, limit)
}

fn read(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How many files are noted. A person names a few; a hostile file could name thousands.
const MAX_FILES: usize = 256;

/// Reads the files beside the configuration whose text it holds (`${file:…}` and `envFile`), and notes which. A file that
/// cannot be read is noted too: it may be there the next time.
#[derive(Debug, Default)]
pub(super) struct FilesRead(RefCell<BTreeSet<PathBuf>>);

impl FilesRead {
    /// Reads a text file of at most so many bytes.
    pub(super) fn read_text(&self, path: &Path, limit: usize) -> Result<String, ReadError> {
        let mut noted = self.0.borrow_mut();
        if noted.len() < MAX_FILES {
            noted.insert(path.to_owned());
        }
        read_text(path, limit)
    }

    /// All files that were noted.
    pub(super) fn paths(&self) -> BTreeSet<PathBuf> {
        self.0.borrow().clone()
    }
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("is larger than {0} bytes")]
    TooLarge(usize),
    #[error("is not UTF-8 text")]
    NotText,
}

/// Reads a text file of at most so many bytes.
pub(super) fn read_text(path: &Path, limit: usize) -> Result<String, ReadError> {
    let bytes = read_at_most(path, limit as u64 + 1).map_err(ReadError::Unreadable)?;
    if bytes.len() > limit {
        return Err(ReadError::TooLarge(limit));
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotText)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::thread;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    fn pipe(directory: &tempfile::TempDir) -> PathBuf {
        let path = directory.path().join("pipe");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        path
    }

    /// A writer that is also a reader, so that opening it waits for no reader.
    fn writer(path: &Path) -> File {
        let both = OpenOptions::new().read(true).write(true).open(path);
        both.expect("the pipe is open")
    }

    #[test]
    fn a_pipe_whose_writer_never_closes_it_is_given_up_at_the_deadline() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = pipe(&directory);
        let mut writer = writer(&path);
        writer.write_all(b"{}").expect("written");
        let timeout = Duration::from_millis(20);
        let error = read_within(&path, 100, timeout).expect_err("it is still open");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let source = error.get_ref().and_then(|source| source.downcast_ref());
        assert_eq!(source, Some(&PipeNotClosed(timeout)));
    }

    #[test]
    fn a_pipe_is_read_to_its_end_however_its_bytes_come_but_not_beyond_the_limit() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = pipe(&directory);
        for (limit, expected) in [(10, "abcdef"), (4, "abcd")] {
            let mut writer = writer(&path);
            let reading = {
                let path = path.clone();
                thread::spawn(move || read_within(&path, limit, SOON))
            };
            for (piece, written) in [("ab", 2), ("cd", 4), ("ef", 6)] {
                writer.write_all(piece.as_bytes()).expect("written");
                // The next piece comes when the reader has taken this one.
                while written <= limit && rustix::io::ioctl_fionread(&writer).expect("a count") > 0 {
                    thread::yield_now();
                }
            }
            drop(writer);
            let read = reading.join().expect("no panic").expect("read");
            assert_eq!(String::from_utf8_lossy(&read), expected);
        }
    }

    #[test]
    fn a_pipe_without_a_writer_is_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = pipe(&directory);
        assert_eq!(read_within(&path, 10, SOON).expect("read"), b"");
    }
}
