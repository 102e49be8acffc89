//! A file that only this user can read, which sends the browser on to an address.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::{BROWSER_TIMEOUT, draw_random, redirect_document};

/// How the names of such files begin.
const PREFIX: &str = "open-";

/// The file. It is removed when this is dropped, and when its time is over.
pub(super) struct RedirectFile {
    path: PathBuf,
    expiry: AbortHandle,
}

impl RedirectFile {
    /// Makes it in a directory that no other user can write to, for this time.
    pub(super) fn create(directory: &Path, address: &str, lifetime: Duration) -> io::Result<Self> {
        remove_expired(directory);
        let name = draw_random::<8>()?.map(|byte| format!("{byte:02x}")).concat();
        let path = directory.join(format!("{PREFIX}{name}.html"));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let expiry = tokio::spawn({
            let path = path.clone();
            async move {
                tokio::time::sleep(lifetime).await;
                let _ = fs::remove_file(path);
            }
        });
        let made = Self {
            path,
            expiry: expiry.abort_handle(),
        };
        file.write_all(redirect_document(address).as_bytes())?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RedirectFile {
    fn drop(&mut self) {
        self.expiry.abort();
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what killed processes left.
fn remove_expired(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(".html"));
        let age = entry.metadata().and_then(|about| about.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if is_ours && age.is_some_and(|age| age > BROWSER_TIMEOUT) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use super::*;

    fn count_of(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[tokio::test]
    async fn the_file_is_private_and_gone_when_it_was_used_or_is_too_old() {
        let directory = tempfile::tempdir().unwrap();
        let address = "http://127.0.0.1:1/secret";
        let file = RedirectFile::create(directory.path(), address, BROWSER_TIMEOUT).unwrap();
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(fs::read_to_string(file.path()).unwrap().contains("/secret"));
        drop(file);
        assert_eq!(count_of(directory.path()), 0);
        let unused = RedirectFile::create(directory.path(), address, Duration::ZERO).unwrap();
        while !unused.expiry.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(count_of(directory.path()), 0);
    }

    #[tokio::test]
    async fn a_file_that_a_killed_process_left_is_removed_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["open-00.html", "daemon.log"] {
            let file = fs::File::create(directory.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - 2 * BROWSER_TIMEOUT)
                .unwrap();
        }
        let _new = RedirectFile::create(directory.path(), "http://127.0.0.1:1/", BROWSER_TIMEOUT).unwrap();
        assert_eq!(count_of(directory.path()), 2);
        assert!(directory.path().join("daemon.log").exists());
    }
}
