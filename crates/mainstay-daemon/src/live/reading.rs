//! Reads the configuration file on a thread that may block, and watches what decides about it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mainstay::Configuration;
use mainstay::config::ConfigError;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::environment::EnvironmentOwner;
use super::watch::{FileWatch, Noticed, WatchError};

/// How long the file may take to be read: a file system over a network that hangs must not hold up a person for longer.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What was read, and whether its changes will be noticed.
pub(super) struct ReadFile {
    pub(super) configuration: Result<Configuration, ConfigError>,
    pub(super) watched: Result<(), WatchError>,
}

/// The file did not come in time; it is still being read.
pub(super) struct StillReading;

/// Reads one file, again and again, one read at a time.
pub(super) struct FileReader {
    file: PathBuf,
    environment: EnvironmentOwner,
    noticed: Arc<Noticed>,
    /// `None` while a read has it.
    watch: Option<FileWatch>,
    running: Option<JoinHandle<(FileWatch, ReadFile)>>,
    /// The other files that the last read found.
    other_files: BTreeSet<PathBuf>,
}

impl FileReader {
    /// A reader of this file, which has an absolute path.
    pub(super) fn new(file: PathBuf, environment: EnvironmentOwner, noticed: Arc<Noticed>) -> Self {
        Self {
            file,
            environment,
            watch: Some(FileWatch::new(noticed.clone())),
            noticed,
            running: None,
            other_files: BTreeSet::new(),
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the file, and watches it and the files that it names.
    ///
    /// Cancel safety: dropped, the read goes on, and the next call waits for its end before it reads again.
    pub(super) async fn read(&mut self) -> Result<ReadFile, StillReading> {
        if self.running.is_some() {
            self.finish().await?;
        }
        let watch = self
            .watch
            .take()
            .unwrap_or_else(|| FileWatch::new(self.noticed.clone()));
        let file = self.file.clone();
        let before = std::mem::take(&mut self.other_files);
        self.running = Some(spawn_blocking(move || read(watch, &file, before)));
        self.finish().await
    }

    async fn finish(&mut self) -> Result<ReadFile, StillReading> {
        let Some(running) = &mut self.running else {
            return Err(StillReading);
        };
        let Ok(ended) = timeout(READ_TIMEOUT, running).await else {
            return Err(StillReading);
        };
        self.running = None;
        // A read that panicked took its watch with it; the next one makes another.
        let (watch, mut read) = ended.map_err(|_| StillReading)?;
        self.watch = Some(watch);
        if let Ok(configuration) = &mut read.configuration {
            self.environment.explain(&mut configuration.problems);
            self.other_files.clone_from(&configuration.other_files);
        }
        Ok(read)
    }
}

/// Watches first, so that no change falls between the two.
fn read(mut watch: FileWatch, file: &Path, before: BTreeSet<PathBuf>) -> (FileWatch, ReadFile) {
    let mut files = before;
    files.insert(file.to_owned());
    let mut watched = watch.watch(&files);
    let mut configuration = Configuration::load(file);
    if let Ok(first) = &configuration {
        let mut named = first.other_files.clone();
        named.insert(file.to_owned());
        if named != files {
            watched = watch.watch(&named);
            // A file that was not watched before may have changed since.
            configuration = Configuration::load(file);
        }
    }
    (
        watch,
        ReadFile {
            configuration,
            watched,
        },
    )
}
