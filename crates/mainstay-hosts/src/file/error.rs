//! Why a file cannot be read or replaced.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A file that cannot be read or replaced. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It is a folder, a device or a socket.
    #[error("{}: this is no file; remove it, or name another", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("{}: the file cannot be read; check its owner and mode", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is larger than a configuration can sensibly be.
    #[error("{}: the file is larger than 4 MiB; is it a configuration?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not text.
    #[error("{}: the file is not UTF-8 text; save it as UTF-8", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// It must not be written.
    #[error("{}: the file is read-only, so it was not changed; if another tool makes it, make the change there, otherwise allow writing: chmod u+w", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// It has more than one name, and replacing it would part them.
    #[error("{}: the file has several names (hard links), and replacing it would leave the others with the old text; copy it to a file of its own, or use a symbolic link", path.display())]
    HardLinked {
        /// The file.
        path: PathBuf,
    },
    /// Another program wrote it since it was read.
    #[error("{}: another program changed the file meanwhile, so it was not written; run the command again, with that program closed if it happens often", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// It was removed since it was read.
    #[error("{}: the file was removed meanwhile, so it was not written; run the command again", path.display())]
    Vanished {
        /// The file.
        path: PathBuf,
    },
    /// Another run of Mainstay edits files of this folder.
    #[error("{}: another run of mainstay edits this folder; wait for its end and run the command again", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("{}: the file cannot be written; check the space and the permissions of its folder", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its owner could not be kept.
    #[error("{}: the file belongs to another user, and would change its owner; run the command as that user", path.display())]
    OtherOwner {
        /// The file.
        path: PathBuf,
    },
    /// There are too many copies of it beside it.
    #[error("{}: there are too many copies of this file beside it, so none was added and the file was not changed; remove those that are not needed", path.display())]
    TooManyBackups {
        /// The file.
        path: PathBuf,
    },
}

impl FileError {
    pub(super) fn of_read(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::NotFound => Self::Vanished { path },
            _ => Self::Unreadable { path, source },
        }
    }

    pub(super) fn of_write(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            _ => Self::Unwritable { path, source },
        }
    }
}
