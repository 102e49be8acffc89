//! Reads files that a person names: no more than a limit, and without a wait for a writer that may never come.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

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
