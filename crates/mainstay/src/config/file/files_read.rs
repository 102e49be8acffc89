//! The files beside the configuration whose text it holds: `${file:…}` and `envFile`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::env_file::{self, ReadError};

/// How many files are noted. A person names a few; a hostile file could name thousands.
const MAX_FILES: usize = 256;

/// Reads files, and notes which. A file that cannot be read is noted too: it may be there the next time.
#[derive(Debug, Default)]
pub(super) struct FilesRead(RefCell<BTreeSet<PathBuf>>);

impl FilesRead {
    /// Reads a text file of at most so many bytes.
    pub(super) fn read_text(&self, path: &Path, limit: usize) -> Result<String, ReadError> {
        let mut noted = self.0.borrow_mut();
        if noted.len() < MAX_FILES {
            noted.insert(path.to_owned());
        }
        env_file::read_text(path, limit)
    }

    /// All files that were noted.
    pub(super) fn into_paths(self) -> BTreeSet<PathBuf> {
        self.0.into_inner()
    }
}
