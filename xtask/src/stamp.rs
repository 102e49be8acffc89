//! What was installed where, so that nothing is installed twice. The stamp is written last: without it, an installation was
//! never finished.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::project::Project;

/// What is, or is to be, installed in one directory: the manifests, and the directory itself, because what npm and
/// pip install does not survive being moved.
pub(crate) struct Stamp {
    home: PathBuf,
    manifests: Vec<(&'static str, String)>,
}

impl Stamp {
    /// The manifests of these names, from the project's directory `source`, to be installed in `home`.
    pub(crate) fn of(project: &Project, source: &str, home: &Path, names: &[&'static str]) -> Result<Self> {
        let read = |&name: &&'static str| {
            let path = project.source(source).join(name);
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok((name, text))
        };
        Ok(Self {
            home: home.to_owned(),
            manifests: names.iter().map(read).collect::<Result<_>>()?,
        })
    }

    /// Whether just this is installed there.
    pub(crate) fn is_current(&self) -> bool {
        fs::read_to_string(self.path()).is_ok_and(|installed| installed == self.text())
    }

    /// Puts the manifests where the installer runs, and withdraws the old stamp: from here on the directory is in
    /// between.
    pub(crate) fn copy_manifests(&self) -> Result<()> {
        if self.path().exists() {
            fs::remove_file(self.path()).context("cannot remove an old stamp")?;
        }
        self.manifests
            .iter()
            .try_for_each(|(name, text)| write(&self.home.join(name), text))
    }

    /// All is installed.
    pub(crate) fn write(&self) -> Result<()> {
        write(&self.path(), &self.text())
    }

    fn path(&self) -> PathBuf {
        self.home.join("installed.stamp")
    }

    fn text(&self) -> String {
        let manifests = self
            .manifests
            .iter()
            .map(|(_, text)| text.as_str())
            .collect::<String>();
        format!("{}\n{manifests}", self.home.display())
    }
}

/// Writes a file, and the directories it needs.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let parent = path
        .parent()
        .with_context(|| format!("{} has no parent", path.display()))?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
