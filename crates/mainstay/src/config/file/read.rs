//! Reads the files that a person names: no more than a limit, and without a wait for a writer that may never come.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// How many files are noted. A person names a few; a hostile file could name thousands.
const MAX_FILES: usize = 256;

/// Reads the files beside the configuration whose text it holds (`${file:…}` and `envFile`), and notes which. A file that cannot be read is noted too: it may be there the next time.
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
    pub(super) fn into_paths(self) -> BTreeSet<PathBuf> {
        self.0.into_inner()
    }
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) enum ReadError {
    Unreadable(io::Error),
    TooLarge,
    NotText,
}

/// Reads a text file of at most so many bytes.
pub(super) fn read_text(path: &Path, limit: usize) -> Result<String, ReadError> {
    let bytes = read_at_most(path, limit as u64 + 1).map_err(ReadError::Unreadable)?;
    if bytes.len() > limit {
        return Err(ReadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotText)
}

/// The first bytes of a file, so many at most. A pipe that no process writes to is empty: a plain open would wait for a writer.
pub(super) fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    if !fs::metadata(path)?.file_type().is_fifo() {
        return File::open(path);
    }
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let pipe = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // If the pipe has a writer, the read waits for it: a shell passes the output of a program so (`--config <(program)`).
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? - OFlags::NONBLOCK)?;
    Ok(pipe)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}
