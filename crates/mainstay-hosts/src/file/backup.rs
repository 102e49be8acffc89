//! Copies of a file as it was, beside it.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{FileError, write};

/// What a copy that is never overwritten is called behind the file's own name.
const BACKUP: &str = ".mainstay-backup";
/// What the previous version of Mainstay's own file is called behind its name.
const PREVIOUS: &str = ".previous";
/// How many copies of one file are kept. Each is of a state before a rewriting, and a person makes a handful of those.
const BACKUP_LIMIT: usize = 50;

/// What becomes of the old text of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// A copy `FILE.mainstay-backup`; if there is another already, `FILE.mainstay-backup-2` and so on.
    Backup,
    /// A copy `FILE.previous`, in the place of an older one.
    Previous,
    /// None: the caller holds that the old text can be made again.
    Nothing,
}

/// The copies of a file that are there, the oldest first. `target` is the file itself, not a link to it.
pub fn backups_of(target: &Path) -> Vec<PathBuf> {
    let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    let names = (1..=BACKUP_LIMIT).map(|n| backup_name(&target, n));
    names.filter(|path| path.is_file()).collect()
}

pub(super) fn keep(target: &Path, text: &str, mode: u32, keep: Keep) -> Result<Option<PathBuf>, FileError> {
    let failed = |source| FileError::of_write(target, source);
    match keep {
        Keep::Previous => {
            let path = beside(target, PREVIOUS);
            write::overwrite(&path, text, mode).map_err(failed)?;
            Ok(Some(path))
        }
        Keep::Nothing => Ok(None),
        Keep::Backup => {
            for n in 1..=BACKUP_LIMIT {
                let path = backup_name(target, n);
                match write::copy(&path, text, mode) {
                    Ok(()) => return Ok(Some(path)),
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                        if fs::read(&path).is_ok_and(|kept| kept == text.as_bytes()) {
                            return Ok(Some(path));
                        }
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            Err(FileError::TooManyBackups {
                path: target.to_owned(),
            })
        }
    }
}

fn backup_name(target: &Path, n: usize) -> PathBuf {
    match n {
        1 => beside(target, BACKUP),
        n => beside(target, &format!("{BACKUP}-{n}")),
    }
}

fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = target.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
