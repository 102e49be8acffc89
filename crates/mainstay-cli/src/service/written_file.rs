//! A file that this program writes, and that a person may have changed since.
//!
//! The file carries a digest of the rest of it. If the two do not fit, a person changed the file. A file without a digest is a
//! person's own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// Stands before the digest.
const MARK: &str = "Written by `mainstay service install`. Digest of the rest of this file: ";

/// How the file's format writes a comment.
#[derive(Clone, Copy)]
pub(super) enum CommentStyle {
    /// `# …`, as the first line.
    Hash,
    /// `<!-- … -->`, as the second line: the first is the declaration of XML.
    Xml,
}

/// A file with the text that it should have.
pub(super) struct WrittenFile {
    path: PathBuf,
    text: String,
}

/// What is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileStanding {
    Missing,
    /// As this program would write it.
    Current,
    /// As an earlier program, or this one from another place, wrote it.
    Outdated,
    /// A person wrote or changed it.
    Changed,
}

impl FileStanding {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "not installed",
            Self::Current => "installed",
            Self::Outdated => {
                "installed by another version or from another place; `mainstay service install` renews it"
            }
            Self::Changed => "changed by hand",
        }
    }
}

impl WrittenFile {
    /// A file with this text and, in a comment, its digest.
    pub(super) fn new(path: PathBuf, text: &str, style: CommentStyle) -> Self {
        let digest = digest(text);
        let text = match style {
            CommentStyle::Hash => format!("# {MARK}{digest}\n{text}"),
            CommentStyle::Xml => {
                let (declaration, rest) = text.split_once('\n').unwrap_or(("", text));
                format!("{declaration}\n<!-- {MARK}{digest} -->\n{rest}")
            }
        };
        Self { path, text }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn standing(&self) -> FileStanding {
        match fs::read_to_string(&self.path) {
            Ok(found) if found == self.text => FileStanding::Current,
            Ok(found) if is_as_written(&found) => FileStanding::Outdated,
            Ok(_) => FileStanding::Changed,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => FileStanding::Missing,
            // A directory, a file of another user, or no text: not this program's.
            Err(_) => FileStanding::Changed,
        }
    }

    /// Writes the file beside its place and moves it there, so that the manager never reads half of it.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let failed = || format!("cannot write {}", self.path.display());
        fs::create_dir_all(directory).with_context(failed)?;
        let beside = self.path.with_extension(format!("{}.new", std::process::id()));
        let write = || {
            let mut file = fs::File::create_new(&beside)?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)
        };
        write()
            .inspect_err(|_| drop(fs::remove_file(&beside)))
            .with_context(failed)
    }

    /// Removes the file; `false` if there was none.
    pub(super) fn remove(&self) -> anyhow::Result<bool> {
        match fs::remove_file(&self.path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot remove {}", self.path.display())),
        }
    }

    /// The program that the installed file starts, where it says so plainly.
    pub(super) fn program(&self) -> Option<PathBuf> {
        let found = fs::read_to_string(&self.path).ok()?;
        let line = found.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
        let program = match line.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next()?,
            None => line.split(' ').next()?,
        };
        Some(PathBuf::from(program.replace("%%", "%")))
    }
}

/// Whether a text has the digest that it says it has.
fn is_as_written(found: &str) -> bool {
    let marked = found.lines().take(2).find_map(|line| {
        let (_, rest) = line.split_once(MARK)?;
        Some((line, rest.trim_end_matches("-->").trim()))
    });
    let Some((line, noted)) = marked else { return false };
    digest(&found.replacen(&format!("{line}\n"), "", 1)) == noted
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_again_until_a_person_changes_it() {
        let directory = tempfile::tempdir().unwrap();
        for (style, old, new) in [
            (CommentStyle::Hash, "[Unit]\nA=1\n", "[Unit]\nA=2\n"),
            (CommentStyle::Xml, "<?xml?>\n<a/>\n", "<?xml?>\n<b/>\n"),
        ] {
            let path = directory.path().join("below/file");
            let first = WrittenFile::new(path.clone(), old, style);
            assert_eq!(first.standing(), FileStanding::Missing);
            first.write().unwrap();
            assert_eq!(first.standing(), FileStanding::Current);
            let second = WrittenFile::new(path.clone(), new, style);
            assert_eq!(second.standing(), FileStanding::Outdated);
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text + "# mine\n").unwrap();
            assert_eq!(first.standing(), FileStanding::Changed);
            fs::write(&path, old).unwrap();
            assert_eq!(first.standing(), FileStanding::Changed, "without a digest");
            assert!(first.remove().unwrap());
            assert!(!first.remove().unwrap());
        }
        let left: Vec<_> = fs::read_dir(directory.path().join("below")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
