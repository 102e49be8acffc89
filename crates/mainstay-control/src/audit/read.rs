//! Reads the audit log again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use super::AuditRecord;
use super::file::{CURRENT, FILE_LIMIT, PREVIOUS};

/// Bytes that are read of one file. A batch of lines may be longer than what was left of the file's limit.
const READ_LIMIT: u64 = 2 * FILE_LIMIT;

/// What the files hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditReading {
    /// The records, in the order of their times.
    pub records: Vec<AuditRecord>,
    /// Lines that are no records.
    pub unreadable: usize,
}

/// Reads the audit log in this directory. A file that does not exist holds nothing.
///
/// Blocks the thread for as long as the file system takes.
pub fn read_audit(directory: &Path) -> io::Result<AuditReading> {
    let mut reading = AuditReading::default();
    for name in [PREVIOUS, CURRENT] {
        match open(&directory.join(name)) {
            Ok(file) => reading.add(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    // Stable: within a millisecond the order of the file stays.
    reading.records.sort_by_key(|record| record.event.at_ms);
    Ok(reading)
}

impl AuditReading {
    fn add(&mut self, file: File) -> io::Result<()> {
        let mut text = Vec::new();
        file.take(READ_LIMIT).read_to_end(&mut text)?;
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(record) => self.records.push(record),
                Err(_) => self.unreadable += 1,
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
