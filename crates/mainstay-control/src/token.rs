//! The token of the control API over TCP: in a file that only its user can read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use mainstay::config::Secret;
use ring::rand::{SecureRandom, SystemRandom};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The shortest token that is accepted, in characters: shorter ones can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// The longest token file, in bytes.
const FILE_LIMIT: u64 = 4096;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// The file cannot be read or made.
    #[error("cannot use the token file {}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Other users can read it, or it belongs to another user, or it is no plain file.
    #[error("the token file {} {why}: remove it, and a new one is made", .path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It does not hold a token.
    #[error(
        "the token file {} holds no token of {SHORTEST_TOKEN} or more printable ASCII characters: remove it, and a new one is made",
        .path.display()
    )]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// The system has no random numbers.
    #[error("the system has no random numbers for a token")]
    NoRandom,
}

/// The token in this file. If there is no such file, a new token is made and the file with it, for this user alone.
///
/// Blocks the thread for as long as the file system takes.
pub fn token_from_file(path: &Path) -> Result<Secret, TokenFileError> {
    let failed = |error| TokenFileError::Io {
        path: path.to_owned(),
        error,
    };
    match open(path) {
        Ok(file) => return read(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // What the system says of a symbolic link that is not followed.
        Err(error) if path.is_symlink() => {
            tracing::debug!(%error, "the token file is a symbolic link");
            let (path, why) = (path.to_owned(), "is a symbolic link");
            return Err(TokenFileError::Unsafe { path, why });
        }
        Err(error) => return Err(failed(error)),
    }
    if let Some(directory) = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
    {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(failed)?;
    }
    let token = new_token()?;
    // Written beside and linked, so that no other program ever reads half a token; the first of two programs wins.
    let draft = path.with_extension(format!("{}.new", &new_token()?[..16]));
    let written = write(&draft, &token).and_then(|()| std::fs::hard_link(&draft, path));
    let _ = std::fs::remove_file(&draft);
    match written {
        Ok(()) => Ok(Secret::new(token)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path, open(path).map_err(failed)?),
        Err(error) => Err(failed(error)),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn read(path: &Path, file: File) -> Result<Secret, TokenFileError> {
    let failed = |error| TokenFileError::Io {
        path: path.to_owned(),
        error,
    };
    let about = file.metadata().map_err(failed)?;
    let why = if !about.is_file() {
        Some("is no plain file")
    } else if about.uid() != rustix::process::geteuid().as_raw() {
        Some("belongs to another user")
    } else if about.mode() & 0o077 != 0 {
        Some("can be read or written by other users")
    } else {
        None
    };
    if let Some(why) = why {
        let path = path.to_owned();
        return Err(TokenFileError::Unsafe { path, why });
    }
    let mut text = String::new();
    let read = file.take(FILE_LIMIT).read_to_string(&mut text);
    read.map_err(failed)?;
    let token = text.trim();
    if token.len() < SHORTEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenFileError::NoToken {
            path: path.to_owned(),
        });
    }
    Ok(Secret::new(token))
}

fn write(path: &Path, token: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(token.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

fn new_token() -> Result<String, TokenFileError> {
    let mut bytes = [0; TOKEN_BYTES];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| TokenFileError::NoRandom)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_token_is_made_once_for_this_user_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state/mainstay/control-token");
        let token = token_from_file(&path).expect("made");
        assert_eq!(token.expose().len(), 2 * TOKEN_BYTES);
        assert_eq!(token_from_file(&path).expect("read").expose(), token.expose());
        let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().expect("a directory")), 0o700);
        let left = fs::read_dir(path.parent().expect("a directory")).expect("readable");
        assert_eq!(left.count(), 1, "no draft is left");
    }

    #[test]
    fn programs_that_start_together_have_one_token() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || token_from_file(&path).expect("a token"))
            })
            .collect();
        let tokens: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        let kept = token_from_file(&path).expect("made");
        for token in tokens {
            assert_eq!(token.expose(), kept.expose());
        }
    }

    #[test]
    fn a_file_that_others_can_read_a_link_a_directory_and_an_empty_file_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("token");
        let refused = |wanted: &str| {
            let error = match token_from_file(&path) {
                Ok(_) => panic!("accepted"),
                Err(error) => error.to_string(),
            };
            assert!(error.contains(wanted), "{error}");
            assert!(!error.contains("secret-secret-secret"), "{error}");
        };
        fs::write(&path, "secret-secret-secret").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
        refused("other users");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        token_from_file(&path).expect("a token");
        fs::write(&path, "short\n").expect("written");
        refused("holds no token");
        fs::write(&path, "secret-secret-secret with spaces").expect("written");
        refused("holds no token");
        fs::remove_file(&path).expect("removed");
        symlink(directory.path().join("elsewhere"), &path).expect("linked");
        refused("symbolic link");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("made");
        refused("no plain file");
    }
}
