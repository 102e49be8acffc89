//! The files of the runtime directory: each is a regular file, and opening one of them never waits.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file of the runtime directory as `options` say; one that is created belongs to this user alone.
///
/// Whatever is not a regular file is refused: a link leads elsewhere, and a pipe has neither a content nor an end.
pub fn open_runtime_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // A pipe that is opened without this flag waits for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = options.mode(0o600).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match fs::symlink_metadata(path) {
        // A link, a socket, and a pipe that no process reads have errors that say nothing of that.
        Ok(found) if !found.is_file() => not_a_file(),
        Ok(_) | Err(_) => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_a_file()),
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not a regular file: remove it, so that the daemon can create one",
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["pipe", "pipe with both ends"] {
            assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
        }
        let mut both = OpenOptions::new();
        let _ends = both.read(true).write(true).open(path("pipe with both ends"));
        fs::create_dir(path("directory")).unwrap();
        let _listener = UnixListener::bind(path("socket")).unwrap();
        symlink("/dev/null", path("link")).unwrap();
        let opened = [
            ("to read", OpenOptions::new().read(true).clone()),
            ("to write", OpenOptions::new().write(true).create(true).clone()),
            ("to append", OpenOptions::new().append(true).create(true).clone()),
            ("for both", OpenOptions::new().read(true).write(true).clone()),
        ];
        for name in ["pipe", "pipe with both ends", "directory", "socket", "link"] {
            for (how, mut options) in opened.clone() {
                let error = open_runtime_file(&mut options, &path(name)).unwrap_err();
                assert!(
                    error
                        .to_string()
                        .starts_with("it is not a regular file: remove it"),
                    "{name}, opened {how}: {error}"
                );
            }
        }
    }
}
