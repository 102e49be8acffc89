//! Reads the text files that a person names, and notes those that a configuration depends on.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::bounded::read_at_most;

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
