//! Files that other programs own, too: read once, and replaced only if they are still as they were read.
//!
//! A file is replaced as a whole by a rename, so that no reader sees half of it, and keeps its mode, its owner and the
//! symbolic links that lead to it. What was there before is kept beside it first. A lock on the folder keeps two runs of
//! Mainstay apart; other programs are noticed by what they wrote.

mod backup;
mod error;
mod lock;
mod write;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use backup::{Keep, backups_of};
pub use error::FileError;
use lock::FolderLock;
use rustix::fs::{Access, access};
use rustix::io::Errno;

/// The largest file that is edited; the reader of configurations has the same bound.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A file as it was read.
pub struct FileSnapshot {
    /// As it was asked for.
    path: PathBuf,
    /// Where the links lead.
    target: PathBuf,
    text: String,
    mode: u32,
    owner: (u32, u32),
}

impl FileSnapshot {
    /// Reads a file; `None` if it does not exist.
    pub fn read(path: &Path) -> Result<Option<Self>, FileError> {
        let failed = |source: std::io::Error| FileError::of_read(path, source);
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let metadata = fs::metadata(&target).map_err(failed)?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile {
                path: path.to_owned(),
            });
        }
        let text = read_text(path, &target)?;
        Ok(Some(Self {
            path: path.to_owned(),
            target,
            text,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
        }))
    }

    /// The file, as it was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the file, if it is still as it was read. Returns where the old text was kept.
    pub fn replace(&self, text: &str, keep: Keep) -> Result<Option<PathBuf>, FileError> {
        self.check_writable()?;
        let _lock = FolderLock::take(&self.path, folder(&self.target))?;
        self.check_unchanged()?;
        let kept = backup::keep(&self.target, &self.text, self.mode, keep)?;
        write::replace(self, text)?;
        Ok(kept)
    }

    /// Whether the file may be replaced at all.
    pub fn check_writable(&self) -> Result<(), FileError> {
        let refused = match access(&self.target, Access::WRITE_OK) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => true,
            // What else may be wrong is found when it is written.
            Ok(()) | Err(_) => false,
        };
        // The superuser may write everything, but a file that its owner must not write is not meant to be.
        if refused || self.mode & 0o222 == 0 {
            return Err(FileError::ReadOnly {
                path: self.path.clone(),
            });
        }
        let links = fs::metadata(&self.target).map_or(1, |metadata| metadata.nlink());
        if links > 1 {
            return Err(FileError::HardLinked {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    fn check_unchanged(&self) -> Result<(), FileError> {
        let path = self.path.clone();
        match fs::canonicalize(&self.path) {
            Ok(target) if target == self.target => {}
            Ok(_) => return Err(FileError::Changed { path }),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(FileError::Vanished { path }),
            Err(error) => return Err(FileError::of_read(&self.path, error)),
        }
        if read_text(&self.path, &self.target)? != self.text {
            return Err(FileError::Changed { path });
        }
        Ok(())
    }
}

/// Makes a file that does not exist yet, readable for its owner alone, and the folders on the way.
pub fn create(path: &Path, text: &str) -> Result<(), FileError> {
    write::create(path, text)
}

fn read_text(path: &Path, target: &Path) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    File::open(target)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|source| FileError::of_read(path, source))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
        });
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText {
        path: path.to_owned(),
    })
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}
