//! Keeps each server's catalog, so that a fresh start has something to serve before the server is up.
//!
//! [`CatalogStore`] is what keepers use. [`CatalogDirectory`] keeps the catalogs on disk: one file for each server identity, replaced atomically, readable by its owner alone. A file is a help and never a
//! hindrance: one that is damaged, foreign, of another version or too large is ignored with a warning, as if it were
//! not there. What a server marks private is kept only in a directory that this user alone can enter, and in a file that
//! this user alone can read. Everything here blocks; call it where blocking is allowed.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use super::ServerCatalog;
use super::pages::MAX_BYTES;
use crate::wire::RawJson;

mod file;
#[cfg(any(test, fuzzing))]
pub(crate) use self::file::fuzz;

/// The largest file that is read or written: a full catalog, with room for what is written around its items.
const MAX_FILE_BYTES: u64 = MAX_BYTES as u64 + 8 * 1024 * 1024;
/// Files looked at in one round of housekeeping; a directory with more is cleaned up over several.
const MAX_PRUNED: usize = 10_000;
/// An identity is a hash in hex; this has room for the longest in use (SHA-512).
const MAX_IDENTITY: usize = 128;
/// The target of the log's lines on what cannot be kept or read, whatever module writes them.
pub(crate) const STORE_TARGET: &str = "mainstay::store";
const EXTENSION: &str = "catalog";
const TEMPORARY: &str = "tmp";

/// Where catalogs are kept between two runs, by the identity of their server. Its functions may block.
pub(crate) trait CatalogStore: fmt::Debug + Send + Sync {
    /// What is stored under `identity`; `None` when there is nothing, or nothing that can be used.
    fn load(&self, identity: &str) -> Result<Option<Stored>, StoreError>;

    /// Stores a catalog in place of the one before it, or forgets that one if this one must not be kept here.
    fn save(&self, stored: &Stored) -> Result<(), StoreError>;

    /// Forgets what is stored under `identity`.
    fn remove(&self, identity: &str) -> Result<(), StoreError>;

    /// Forgets what was stored before `older_than`, but for the identities in `keep`; answers how many.
    fn prune(&self, keep: &BTreeSet<String>, older_than: SystemTime) -> Result<usize, StoreError>;
}

/// A directory of stored catalogs.
#[derive(Debug)]
pub(crate) struct CatalogDirectory {
    dir: PathBuf,
    /// That private catalogs are not kept here was said already.
    warned: AtomicBool,
}

/// What is kept of one server.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// The hash, in hex, of everything that makes this server this server.
    pub(crate) identity: String,
    /// The server's name when it was stored; for a person who looks into the file.
    pub(crate) server: String,
    /// The dialect that last worked.
    pub(crate) era: Option<String>,
    /// When the server listed it; kept to the millisecond.
    pub(crate) listed_at: SystemTime,
    pub(crate) catalog: ServerCatalog,
    /// The extensions that the server's clients declared, as one object.
    pub(crate) extensions: Option<RawJson>,
}

/// Why the store could not do its work. A file that cannot be understood is not among the reasons.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StoreError {
    /// The identity cannot name a file.
    #[error("the identity is no hexadecimal text of at most {MAX_IDENTITY} digits")]
    Identity,
    /// The catalog takes more room than a file may.
    #[error("the catalog needs {bytes} bytes on disk, more than {MAX_FILE_BYTES}")]
    TooLarge { bytes: u64 },
    /// The file system refused.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl CatalogDirectory {
    /// Opens the directory, and makes it (for its owner alone) if it is not there.
    pub(crate) fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&dir).map_err(failed("make", &dir))?;
        Ok(Self {
            dir,
            warned: AtomicBool::new(false),
        })
    }
}

impl CatalogStore for CatalogDirectory {
    fn load(&self, identity: &str) -> Result<Option<Stored>, StoreError> {
        let path = self.path(identity)?;
        let Some(bytes) = read(&path).map_err(failed("read", &path))? else {
            return Ok(None);
        };
        match file::decode(&bytes, identity) {
            Ok(stored) if stored.catalog.is_private() && !self.keeps_secrets(Some(&path)) => {
                self.remove(identity)?;
                Ok(None)
            }
            Ok(stored) => Ok(Some(stored)),
            Err(why) => {
                tracing::warn!(target: STORE_TARGET, path = %path.display(), %why, "ignored a stored catalog");
                Ok(None)
            }
        }
    }

    /// Where others can look into the directory, a private catalog is not stored, and the one before it is removed: what it says may
    /// no longer be meant for everyone.
    fn save(&self, stored: &Stored) -> Result<(), StoreError> {
        if stored.catalog.is_private() && !self.keeps_secrets(None) {
            return self.remove(&stored.identity);
        }
        let path = self.path(&stored.identity)?;
        let bytes = file::encode(stored);
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let bytes = bytes.len() as u64;
            return Err(StoreError::TooLarge { bytes });
        }
        self.replace(&path, &bytes).map_err(failed("write", &path))
    }

    fn remove(&self, identity: &str) -> Result<(), StoreError> {
        let path = self.path(identity)?;
        remove_if_there(&path).map_err(failed("remove", &path))
    }

    /// What a crash left half-written goes too.
    fn prune(&self, keep: &BTreeSet<String>, older_than: SystemTime) -> Result<usize, StoreError> {
        let mut removed = 0;
        let entries = fs::read_dir(&self.dir).map_err(failed("list", &self.dir))?;
        for entry in entries.take(MAX_PRUNED) {
            let path = entry.map_err(failed("list", &self.dir))?.path();
            if is_garbage(&path, keep) && written_before(&path, older_than) {
                remove_if_there(&path).map_err(failed("remove", &path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

impl CatalogDirectory {
    /// Whether this user alone can enter the directory, and read the file where one is given. Looked at each time: a mode may
    /// change while the program runs. The first time that others can, a warning says so.
    fn keeps_secrets(&self, file: Option<&Path>) -> bool {
        let open_to_others = [Some(self.dir.as_path()), file]
            .into_iter()
            .flatten()
            .find(|path| !is_for_this_user_alone(path));
        let Some(path) = open_to_others else {
            return true;
        };
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: STORE_TARGET,
                path = %path.display(),
                "lists that servers mark private are not kept on disk: others can read it, or it is not this user's \
                 (chmod 700)",
            );
        }
        false
    }

    fn path(&self, identity: &str) -> Result<PathBuf, StoreError> {
        let hex = identity.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hex || identity.is_empty() || identity.len() > MAX_IDENTITY {
            return Err(StoreError::Identity);
        }
        Ok(self.dir.join(identity).with_extension(EXTENSION))
    }

    /// Written beside the old file and moved over it: a reader finds the old one or the new one, whole, and so does
    /// the next start after a crash at any moment.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = path.with_extension(format!("{}.{TEMPORARY}", unique()));
        let written = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            _ = fs::remove_file(&temporary);
        }
        written?;
        sync_dir(&self.dir)
    }
}

/// Whether it belongs to this user, and its mode admits no other user.
#[cfg(unix)]
fn is_for_this_user_alone(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    const OF_OTHERS: u32 = 0o077;
    let user = rustix::process::geteuid().as_raw();
    fs::metadata(path).is_ok_and(|found| found.uid() == user && found.mode() & OF_OTHERS == 0)
}

/// Where there are no modes to look at, nothing is known to be secret.
#[cfg(not(unix))]
fn is_for_this_user_alone(_path: &Path) -> bool {
    false
}

/// The file's bytes; `None` when it is not there, or is nothing that `save` could have written.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let mut bytes = Vec::new();
    if found.is_file() {
        File::open(path)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)?;
    }
    if !found.is_file() || bytes.len() as u64 > MAX_FILE_BYTES {
        let bytes = found.len();
        tracing::warn!(target: STORE_TARGET, path = %path.display(), bytes, "ignored a stored catalog: no file, or too large");
        return Ok(None);
    }
    Ok(Some(bytes))
}

/// A word that no other writer uses: neither another thread, nor another process, nor an earlier one that had the
/// same process id and left its file behind.
fn unique() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!("{}-{}-{count}", std::process::id(), now.as_nanos())
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes a rename last through a power cut. Only Unix lets a directory be opened for it.
fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(dir)?.sync_all()
    } else {
        Ok(())
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Whether a file is one of the store's own that is no longer needed. Files of other programs stay.
fn is_garbage(path: &Path, keep: &BTreeSet<String>) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match (extension, path.file_stem().and_then(|stem| stem.to_str())) {
        (Some(EXTENSION), Some(identity)) => !keep.contains(identity),
        (extension, _) => extension == Some(TEMPORARY),
    }
}

fn written_before(path: &Path, moment: SystemTime) -> bool {
    let written = fs::symlink_metadata(path).and_then(|found| found.modified());
    written.is_ok_and(|written| written < moment)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}

#[cfg(test)]
mod tests;
