//! Everything that a service needs: files, and the commands that make the manager read them.

use std::env;
use std::path::PathBuf;

use anyhow::Context as _;

use super::ServiceManager;
use super::place::ServicePlace;
use super::written_file::WrittenFile;
use super::{launchd, systemd};
use crate::args::Common;

/// The files of the service, and what to run.
pub(super) struct ServicePlan {
    pub(super) files: Vec<WrittenFile>,
    /// Run after the files are written.
    pub(super) install: Vec<Vec<String>>,
    /// Run before the files are removed.
    pub(super) uninstall: Vec<Vec<String>>,
    /// Run after the files are removed.
    pub(super) forget: Vec<Vec<String>>,
    /// Run to show what the manager knows.
    pub(super) status: Vec<Vec<String>>,
}

impl ServicePlan {
    pub(super) fn new(manager: ServiceManager, common: &Common) -> anyhow::Result<Self> {
        let place = ServicePlace::of_this_program(common)?;
        match manager {
            ServiceManager::Systemd => systemd::plan(&place),
            ServiceManager::Launchd => launchd::plan(&place),
        }
    }
}

/// The home directory of this user.
pub(super) fn home() -> anyhow::Result<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    home.filter(|home| home.is_absolute())
        .context("HOME is not set, so there is no place for the files of the service")
}

/// A command line from its words.
pub(super) fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
