//! A directory of small files that belong to one user: each write replaces a whole file at once.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::LoginStoreError;

/// The longest file that is read. A login with the longest tokens has about 100 KiB.
const FILE_LIMIT: u64 = 1024 * 1024;

/// The most files that a listing reads.
const FILES_LIMIT: usize = 10_000;

/// A directory that only its owner may enter.
#[derive(Clone, Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
}

impl PrivateFolder {
    /// Opens the directory, and makes it if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self, LoginStoreError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(failed("make", path))?;
        let found = fs::metadata(path).map_err(failed("read", path))?;
        check_owner(path, &found, "0700")?;
        if found.mode() & 0o077 != 0 {
            let fault = "is open to other users";
            return Err(unsafe_file(path, fault, "0700"));
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names of the files that end so, sorted.
    pub(super) fn names(&self, suffix: &str) -> Result<Vec<String>, LoginStoreError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed("list", &self.path))? {
            let entry = entry.map_err(failed("list", &self.path))?;
            if let Some(name) = entry.file_name().to_str()
                && name.ends_with(suffix)
                && !name.starts_with('.')
            {
                names.push(name.to_owned());
            }
            if names.len() >= FILES_LIMIT {
                break;
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The bytes of a file; `None` if there is none. A symbolic link or a file that others may read is refused.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LoginStoreError> {
        read_private(&self.join(name))
    }

    /// Replaces a file as a whole: a reader sees the old bytes or the new ones.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), LoginStoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.join(&format!(".{name}.{}.{count}.new", std::process::id()));
        let written = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, self.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written.map_err(failed("write", &self.join(name)))?;
        // The new name must survive a power loss too: the old refresh token is worth nothing by now.
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(failed("write", &self.path))
    }

    /// Removes a file, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), LoginStoreError> {
        match fs::remove_file(self.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", &self.join(name))(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Reads a file that only its owner may read.
pub(super) fn read_private(path: &Path) -> Result<Option<Vec<u8>>, LoginStoreError> {
    let opened = OpenOptions::new().read(true).custom_flags(nofollow()).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(unsafe_file(path, "is a symbolic link", "0600"));
        }
        Err(error) => return Err(failed("open", path)(error)),
    };
    let found = file.metadata().map_err(failed("read", path))?;
    if !found.is_file() {
        return Err(unsafe_file(path, "is not a file", "0600"));
    }
    check_owner(path, &found, "0600")?;
    if found.mode() & 0o077 != 0 {
        return Err(unsafe_file(path, "is open to other users", "0600"));
    }
    let mut bytes = Vec::new();
    let read = (&mut file).take(FILE_LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(failed("read", path))?;
    if bytes.len() as u64 > FILE_LIMIT {
        let reason = format!("it is longer than {FILE_LIMIT} bytes");
        return Err(LoginStoreError::Unreadable {
            path: path.to_owned(),
            reason,
        });
    }
    Ok(Some(bytes))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn check_owner(path: &Path, found: &fs::Metadata, mode: &'static str) -> Result<(), LoginStoreError> {
    if found.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(unsafe_file(path, "belongs to another user", mode))
}

fn nofollow() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
    flags.bits().cast_signed()
}

fn unsafe_file(path: &Path, fault: &'static str, mode: &'static str) -> LoginStoreError {
    LoginStoreError::Unsafe {
        path: path.to_owned(),
        fault,
        mode,
    }
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LoginStoreError {
    let path = path.to_owned();
    move |source| LoginStoreError::Io { action, path, source }
}
