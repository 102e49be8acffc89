//! The file of the audit log: for this user alone, bounded, with one previous file.

use std::fs::{DirBuilder, File, OpenOptions, rename};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

/// How long the file may become, in bytes: some ten thousand commands.
pub(super) const FILE_LIMIT: u64 = 4 * 1024 * 1024;

/// The current file.
pub(super) const CURRENT: &str = "audit.jsonl";

/// The file before it.
pub(super) const PREVIOUS: &str = "audit.previous.jsonl";

/// How often another program may replace the file while this one opens it.
const OPEN_ATTEMPTS: usize = 8;

/// Where lines are appended. Several programs of one user may append to the same file.
pub(super) struct AuditFile {
    directory: PathBuf,
    limit: u64,
}

impl AuditFile {
    pub(super) fn new(directory: &Path) -> Self {
        Self::with_limit(directory, FILE_LIMIT)
    }

    pub(super) fn with_limit(directory: &Path, limit: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            limit,
        }
    }

    pub(super) fn shown(&self) -> std::path::Display<'_> {
        self.directory.display()
    }

    /// Appends whole lines. If the file would become too long, it takes the place of the previous one, and a new one begins.
    pub(super) fn append(&mut self, lines: &str) -> io::Result<()> {
        let mut file = self.open()?;
        let length = file.metadata()?.len();
        if length > 0 && length.saturating_add(lines.len() as u64) > self.limit {
            rename(self.directory.join(CURRENT), self.directory.join(PREVIOUS))?;
            // The lock of the old file ends with it; who waited for it sees that the file is another.
            file = self.open()?;
        }
        // One write, so that a program that dies leaves no half line between those of others.
        file.write_all(lines.as_bytes())
    }

    /// The current file, locked: no other program renames it meanwhile.
    fn open(&self) -> io::Result<File> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        let path = self.directory.join(CURRENT);
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        for _ in 0..OPEN_ATTEMPTS {
            let mut options = OpenOptions::new();
            let file = options
                .append(true)
                .create(true)
                .mode(0o600)
                .custom_flags(flags)
                .open(&path)?;
            let about = file.metadata()?;
            if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
                let why = "it is no plain file of this user";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            if about.mode() & 0o077 != 0 {
                rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
            }
            flock(&file, FlockOperation::LockExclusive)?;
            let is_current = |now: &std::fs::Metadata| (now.dev(), now.ino()) == (about.dev(), about.ino());
            if path.symlink_metadata().as_ref().is_ok_and(is_current) {
                return Ok(file);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::WouldBlock,
            "another program replaces it again and again",
        ))
    }
}
