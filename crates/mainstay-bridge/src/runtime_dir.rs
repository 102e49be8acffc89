//! The directory of the daemon's socket, its locks and its log. It belongs to this user, and no other user can write to it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::lock::is_held;

/// The variable that names the directory.
const OVERRIDE: &str = "MAINSTAY_RUNTIME";

/// The longest path of a unix socket: `sun_path` holds it and a NUL byte.
const SOCKET_PATH_LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Where the directory of this user is if there is no runtime directory. Not `TMPDIR`: hosts may have different ones, and all must find the
/// same daemon.
const FALLBACK: &str = "/tmp";

/// A directory that was checked.
#[derive(Clone, Debug)]
pub struct RuntimeDirectory {
    path: PathBuf,
}

/// Why there is no directory for the daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeDirError {
    /// The path does not fit into the address of a socket.
    #[error(
        "the socket's path `{}` has {length} bytes, and {SOCKET_PATH_LIMIT} are the most: set {OVERRIDE} to a shorter directory",
        path.display()
    )]
    TooLong {
        /// The socket's path.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// Something else is in its place.
    #[error("`{}` is not a directory: remove it, or set {OVERRIDE} to a directory of your own", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// It belongs to another user.
    #[error(
        "`{}` belongs to user {owner}, and you are user {user}: set {OVERRIDE} to a directory of your own",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// This user.
        user: u32,
    },
    /// Other users can put files into it.
    #[error(
        "other users can write to `{}` (mode {mode:03o}): run `chmod 700 {}`, or set {OVERRIDE} to a directory of your own",
        path.display(), path.display()
    )]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The path is not absolute.
    #[error("{OVERRIDE} is `{}`, which is no absolute path: set it to one", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// The system does not let us use it.
    #[error("cannot use `{}` ({source}){}", path.display(), remedy(.source))]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl RuntimeDirectory {
    /// Finds the directory of this user, and creates it if it is missing: `MAINSTAY_RUNTIME`, or `mainstay` in `XDG_RUNTIME_DIR`, or a
    /// directory of this user in `/tmp`.
    pub fn find(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, RuntimeDirError> {
        let (directory, user) = Self::locate(variable)?;
        directory.create()?;
        directory.check(user)?;
        Ok(directory)
    }

    /// The directory of this user as it is now; `None` if there is none yet. Creates nothing.
    pub fn existing(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, RuntimeDirError> {
        let (directory, user) = Self::locate(variable)?;
        match fs::symlink_metadata(&directory.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(_) | Err(_) => directory.check(user).map(|()| Some(directory)),
        }
    }

    /// Whether a daemon runs in this directory: one holds the lock.
    pub fn has_daemon(&self) -> bool {
        is_held(&self.lock())
    }

    /// Where the directory belongs, and the number of this user.
    fn locate(variable: impl Fn(&str) -> Option<OsString>) -> Result<(Self, u32), RuntimeDirError> {
        let set = |name: &str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let user = rustix::process::geteuid().as_raw();
        if let Some(path) = set(OVERRIDE) {
            if !path.is_absolute() {
                return Err(RuntimeDirError::Relative { path });
            }
            return Ok((Self::at(path)?, user));
        }
        let base = set("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
        if let Some(base) = base
            && let Ok(found) = fs::metadata(&base)
            && found.is_dir()
        {
            // `sudo` may leave the directory of another user there.
            if found.uid() != user {
                return Err(RuntimeDirError::Foreign {
                    path: base,
                    owner: found.uid(),
                    user,
                });
            }
            return Ok((Self::at(base.join("mainstay"))?, user));
        }
        let fallback = Path::new(FALLBACK).join(format!("mainstay-{user}"));
        Ok((Self::at(fallback)?, user))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("daemon.sock")
    }

    /// The lock that the daemon holds for its life.
    pub fn lock(&self) -> PathBuf {
        self.path.join("daemon.lock")
    }

    /// The lock that a process holds while it waits to become the daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.path.join("daemon.start.lock")
    }

    /// The port of the dashboard, once it was opened.
    pub fn page_port(&self) -> PathBuf {
        self.path.join("page.port")
    }

    /// The log of the daemon.
    pub fn log(&self) -> PathBuf {
        self.path.join("daemon.log")
    }

    /// An error at one of its files.
    pub fn error(&self, path: &Path, source: io::Error) -> RuntimeDirError {
        RuntimeDirError::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// The directory with this path, which must leave room for the name of the socket.
    fn at(path: PathBuf) -> Result<Self, RuntimeDirError> {
        let directory = Self { path };
        let socket = directory.socket();
        let length = socket.as_os_str().as_bytes().len();
        if length > SOCKET_PATH_LIMIT {
            return Err(RuntimeDirError::TooLong { path: socket, length });
        }
        Ok(directory)
    }

    fn create(&self) -> Result<(), RuntimeDirError> {
        let path = &self.path;
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(self.error(path, error)),
        }
    }

    fn check(&self, user: u32) -> Result<(), RuntimeDirError> {
        let path = &self.path;
        // Not followed: a link in `/tmp` may be another user's.
        let found = fs::symlink_metadata(path).map_err(|error| self.error(path, error))?;
        if !found.is_dir() {
            return Err(RuntimeDirError::NotADirectory { path: path.clone() });
        }
        if found.uid() != user {
            return Err(RuntimeDirError::Foreign {
                path: path.clone(),
                owner: found.uid(),
                user,
            });
        }
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(RuntimeDirError::Writable {
                path: path.clone(),
                mode,
            });
        }
        Ok(())
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room on its file system, or set MAINSTAY_RUNTIME to a directory elsewhere"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound => {
            ": set MAINSTAY_RUNTIME to a directory that you can write to"
        }
        io::ErrorKind::IsADirectory => ": remove it",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn find(variables: &[(&str, &Path)]) -> Result<RuntimeDirectory, RuntimeDirError> {
        RuntimeDirectory::find(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.as_os_str().to_owned())
        })
    }

    #[test]
    fn the_directory_is_made_for_this_user_alone() {
        let base = tempfile::tempdir().unwrap();
        let found = find(&[("XDG_RUNTIME_DIR", base.path())]).unwrap();
        assert_eq!(found.path(), base.path().join("mainstay"));
        assert_eq!(
            fs::metadata(found.path()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        find(&[("XDG_RUNTIME_DIR", base.path())]).expect("and found again");
    }

    #[test]
    fn a_named_directory_is_preferred_and_must_be_absolute() {
        let base = tempfile::tempdir().unwrap();
        let named = base.path().join("named");
        let found = find(&[("MAINSTAY_RUNTIME", &named), ("XDG_RUNTIME_DIR", base.path())]).unwrap();
        assert_eq!(found.path(), named);
        let relative = find(&[("MAINSTAY_RUNTIME", Path::new("run"))]);
        assert!(matches!(relative, Err(RuntimeDirError::Relative { .. })));
    }

    #[test]
    fn a_runtime_directory_that_does_not_exist_is_replaced_by_one_in_tmp() {
        let base = tempfile::tempdir().unwrap();
        let found = find(&[("XDG_RUNTIME_DIR", &base.path().join("gone"))]).unwrap();
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(found.path(), Path::new("/tmp").join(format!("mainstay-{user}")));
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(100));
        let refused = find(&[("MAINSTAY_RUNTIME", &long)]).unwrap_err();
        assert!(matches!(refused, RuntimeDirError::TooLong { .. }), "{refused}");
        assert!(!long.exists(), "nothing is made");
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give a directory to another user");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let foreign = base.path().join("foreign");
        DirBuilder::new().mode(0o700).create(&foreign).unwrap();
        std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
        for variables in [
            [("MAINSTAY_RUNTIME", foreign.as_path())],
            [("XDG_RUNTIME_DIR", &foreign)],
        ] {
            let refused = find(&variables).unwrap_err();
            assert!(matches!(refused, RuntimeDirError::Foreign { .. }), "{refused}");
            assert!(refused.to_string().contains("MAINSTAY_RUNTIME"), "{refused}");
        }
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused_and_so_are_links_and_files() {
        let base = tempfile::tempdir().unwrap();
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        for mode in [0o777, 0o770, 0o702] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let refused = find(&[("MAINSTAY_RUNTIME", &open)]).unwrap_err();
            assert!(matches!(refused, RuntimeDirError::Writable { .. }), "{refused}");
            assert!(refused.to_string().contains("chmod 700"), "{refused}");
        }
        fs::set_permissions(&open, fs::Permissions::from_mode(0o700)).unwrap();
        let link = base.path().join("link");
        symlink(&open, &link).unwrap();
        let refused = find(&[("MAINSTAY_RUNTIME", &link)]).unwrap_err();
        assert!(
            matches!(refused, RuntimeDirError::NotADirectory { .. }),
            "{refused}"
        );
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = find(&[("MAINSTAY_RUNTIME", &file)]).unwrap_err();
        assert!(
            matches!(refused, RuntimeDirError::NotADirectory { .. }),
            "{refused}"
        );
    }
}
