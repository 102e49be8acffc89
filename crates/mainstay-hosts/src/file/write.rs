//! Writes a file beside its place, and moves it there in one step.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{FileError, FileSnapshot, FolderLock, folder};

/// Only its owner reads a new configuration: it may hold secrets.
const NEW_FILE_MODE: u32 = 0o600;
const NEW_FOLDER_MODE: u32 = 0o700;

/// Puts a text in the place of a file that was found unchanged.
pub(super) fn replace(snapshot: &FileSnapshot, text: &str) -> Result<(), FileError> {
    let failed = |source| FileError::of_write(&snapshot.path, source);
    let new = NewFile::write(&snapshot.target, text, snapshot.mode).map_err(failed)?;
    keep_owner(snapshot, &new)?;
    snapshot.check_unchanged()?;
    fs::rename(&new.path, &snapshot.target).map_err(failed)?;
    new.placed();
    sync_folder(&snapshot.target);
    Ok(())
}

/// Makes a file that does not exist.
pub(super) fn create(path: &Path, text: &str) -> Result<(), FileError> {
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::AlreadyExists => FileError::Changed {
            path: path.to_owned(),
        },
        _ => FileError::of_write(path, source),
    };
    let parent = folder(path);
    DirBuilder::new()
        .recursive(true)
        .mode(NEW_FOLDER_MODE)
        .create(parent)
        .map_err(failed)?;
    let _lock = FolderLock::take(path, parent)?;
    let new = NewFile::write(path, text, NEW_FILE_MODE).map_err(failed)?;
    new.place_without_replacing(path).map_err(failed)?;
    sync_folder(path);
    Ok(())
}

/// Writes a copy beside a file. It must not exist.
pub(super) fn copy(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    NewFile::write(path, text, mode)?.place_without_replacing(path)
}

/// Writes a copy beside a file, in the place of an older one.
pub(super) fn overwrite(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let new = NewFile::write(path, text, mode)?;
    fs::rename(&new.path, path)?;
    new.placed();
    Ok(())
}

fn keep_owner(snapshot: &FileSnapshot, new: &NewFile) -> Result<(), FileError> {
    let failed = |source| FileError::of_write(&snapshot.path, source);
    let metadata = fs::metadata(&new.path).map_err(failed)?;
    let (user, group) = snapshot.owner;
    if (metadata.uid(), metadata.gid()) == (user, group) {
        return Ok(());
    }
    match std::os::unix::fs::chown(&new.path, Some(user), Some(group)) {
        // Changing the owner takes away the bits that are for an owner alone.
        Ok(()) => fs::set_permissions(&new.path, Permissions::from_mode(snapshot.mode)).map_err(failed),
        Err(_) => Err(FileError::OtherOwner {
            path: snapshot.path.clone(),
        }),
    }
}

/// A complete file under a name of its own; removed unless it is moved to its place.
struct NewFile {
    path: PathBuf,
    is_placed: bool,
}

impl NewFile {
    fn write(beside: &Path, text: &str, mode: u32) -> io::Result<Self> {
        let mut name = OsString::from(".");
        name.push(beside.file_name().unwrap_or_default());
        name.push(format!(".mainstay-{}", std::process::id()));
        let path = folder(beside).join(name);
        // A file of this name was left by a process that had this number and was killed: the folder is locked.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(NEW_FILE_MODE)
            .open(&path)?;
        let new = Self {
            path,
            is_placed: false,
        };
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        Ok(new)
    }

    /// Unlike a rename, a link does not replace a file that another made meanwhile.
    fn place_without_replacing(self, path: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, path) {
            // Some file systems have no links.
            Err(error) if error.kind() != ErrorKind::AlreadyExists && !path.exists() => {
                fs::rename(&self.path, path)?;
                self.placed();
                Ok(())
            }
            linked => linked,
        }
    }

    fn placed(mut self) {
        self.is_placed = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_placed {
            // Nothing can be done about a file that cannot be removed; the next run does it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Asks for the new name to be on the disk. The text is there already; without this a power cut may bring back the old
/// one, which is whole, too.
fn sync_folder(file: &Path) {
    if let Ok(folder) = File::open(folder(file)) {
        let _ = folder.sync_all();
    }
}
