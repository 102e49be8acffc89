//! Notices that a file may have changed.
//!
//! Directories are watched, not files: editors replace a file by renaming another one over it, and a watched file that was
//! deleted is never seen again. The operating system reports; nothing is polled. Only events of the places that decide about
//! the files count.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use rustix::io::Errno;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::links::links_of;

/// How long no further change may come before a change counts as complete. An editor's rename and write follow each other
/// within a few milliseconds.
const QUIET_PERIOD: Duration = Duration::from_millis(100);

/// The same while a program still has the file open for writing, where the system tells.
const WRITING_QUIET_PERIOD: Duration = Duration::from_secs(2);

/// A file that changes all the time is read this often all the same.
const LONGEST_CHANGE: Duration = Duration::from_secs(5);

/// How often the places are found again because they changed while they were being watched.
const MAX_ROUNDS: usize = 4;

/// Changes of a file are not noticed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The system gives out no more watches.
    #[error("the limit of inotify watches is reached (fs.inotify.max_user_watches)")]
    TooManyWatches,
    /// The system gives out no more watchers.
    #[error("the limit of inotify instances is reached (fs.inotify.max_user_instances)")]
    TooManyWatchers,
    /// Anything else.
    #[error("{}: {reason}", directory.display())]
    Directory {
        /// The directory that cannot be watched.
        directory: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The changes that were noticed and not yet acted upon.
#[derive(Default)]
pub(super) struct Noticed {
    state: Mutex<NoticedState>,
    wake: Notify,
}

#[derive(Default)]
struct NoticedState {
    /// The entries that decide about the files.
    entries: BTreeSet<PathBuf>,
    /// The directories that they are in.
    directories: BTreeSet<PathBuf>,
    /// Directories that were moved or removed themselves: what is watched is no longer what their path names.
    lost: BTreeSet<PathBuf>,
    has_changed: bool,
    is_being_written: bool,
}

/// What an event says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// A program writes to it, and has not closed it.
    Writing,
    /// It may be complete.
    Complete,
}

impl Noticed {
    /// Waits until something has changed, and nothing has for a while.
    ///
    /// Cancel safety: dropped, the change is noticed by the next call.
    pub(super) async fn settled(&self) {
        while !self.lock().has_changed {
            self.wake.notified().await;
        }
        let latest = Instant::now() + LONGEST_CHANGE;
        loop {
            let quiet = match self.lock().is_being_written {
                true => WRITING_QUIET_PERIOD,
                false => QUIET_PERIOD,
            };
            let until = latest.min(Instant::now() + quiet);
            if timeout_at(until, self.wake.notified()).await.is_err() {
                break;
            }
        }
        let mut state = self.lock();
        state.has_changed = false;
        state.is_being_written = false;
    }

    fn note(&self, event: &Event) {
        let mut state = self.lock();
        let Some(change) = state.change(event) else { return };
        state.has_changed = true;
        state.is_being_written = change == Change::Writing;
        drop(state);
        self.wake.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NoticedState> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NoticedState {
    /// What an event means for the files; `None` if nothing.
    fn change(&mut self, event: &Event) -> Option<Change> {
        if event.need_rescan() {
            return Some(Change::Complete);
        }
        let change = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => Change::Complete,
            // Reading, by this program too.
            EventKind::Access(_) => return None,
            // Only where a close is reported can one be awaited.
            EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => Change::Writing,
            EventKind::Modify(_)
            | EventKind::Create(_)
            | EventKind::Remove(_)
            | EventKind::Any
            | EventKind::Other => Change::Complete,
        };
        let moves = matches!(
            event.kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        );
        let mut concerns = false;
        for path in &event.paths {
            if moves && self.directories.contains(path) {
                self.lost.insert(path.clone());
                concerns = true;
            }
            concerns |= self.entries.contains(path);
        }
        concerns.then_some(change)
    }
}

/// Watches the directories that decide about some files. Its functions may block.
pub(super) struct FileWatch {
    noticed: Arc<Noticed>,
    /// Made at the first use, and again after it could not be made.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl FileWatch {
    pub(super) fn new(noticed: Arc<Noticed>) -> Self {
        Self {
            noticed,
            watcher: None,
            watched: BTreeSet::new(),
        }
    }

    /// Watches these files, which have absolute paths, and no others. What can be watched is, even if something cannot.
    pub(super) fn watch(&mut self, files: &BTreeSet<PathBuf>) -> Result<(), WatchError> {
        let mut result = Ok(());
        for _ in 0..MAX_ROUNDS {
            let (entries, directories) = places(files);
            let lost = {
                let mut state = self.noticed.lock();
                state.entries = entries;
                state.directories.clone_from(&directories);
                std::mem::take(&mut state.lost)
            };
            if lost.is_empty() && directories == self.watched {
                return result;
            }
            result = self.change_to(directories, &lost);
        }
        result
    }

    fn change_to(&mut self, wanted: BTreeSet<PathBuf>, lost: &BTreeSet<PathBuf>) -> Result<(), WatchError> {
        let noticed = self.noticed.clone();
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => none.insert(
                notify::recommended_watcher(move |event: notify::Result<Event>| match event {
                    Ok(event) => noticed.note(&event),
                    // Events may be missing: the files are read to be sure.
                    Err(_) => {
                        noticed.note(&Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan));
                    }
                })
                .map_err(|error| watch_error(Path::new("/"), error))?,
            ),
        };
        let kept: BTreeSet<_> = self.watched.difference(lost).cloned().collect();
        for gone in self
            .watched
            .iter()
            .filter(|path| lost.contains(*path) || !wanted.contains(*path))
        {
            // One whose directory is gone is gone itself.
            let _ = watcher.unwatch(gone);
        }
        let mut result = Ok(());
        let mut watched = BTreeSet::new();
        for directory in wanted {
            if kept.contains(&directory) {
                watched.insert(directory);
                continue;
            }
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    watched.insert(directory);
                }
                Err(error) => result = result.and(Err(watch_error(&directory, error))),
            }
        }
        self.watched = watched;
        result
    }
}

/// The entries that decide about these files, and the directories that those are in.
fn places(files: &BTreeSet<PathBuf>) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let links = || files.iter().flat_map(|file| links_of(file));
    (
        links().map(|link| link.path()).collect(),
        links().map(|link| link.directory).collect(),
    )
}

fn watch_error(directory: &Path, error: notify::Error) -> WatchError {
    // What the system answers when a user has all the watchers it may have.
    let too_many = |error: &io::Error| error.raw_os_error() == Some(Errno::MFILE.raw_os_error());
    match error.kind {
        ErrorKind::MaxFilesWatch => WatchError::TooManyWatches,
        ErrorKind::Io(error) if too_many(&error) => WatchError::TooManyWatchers,
        ErrorKind::Io(error) => WatchError::Directory {
            directory: directory.to_owned(),
            reason: error.to_string(),
        },
        other => WatchError::Directory {
            directory: directory.to_owned(),
            reason: notify::Error::new(other).to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use notify::event::{CreateKind, DataChange, MetadataKind, RemoveKind, RenameMode};

    use super::*;

    /// Longer than a change takes to be noticed on a busy machine; reached only by a test that fails.
    const LONG: Duration = Duration::from_secs(30);

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(path.into())
    }

    fn state() -> NoticedState {
        NoticedState {
            entries: BTreeSet::from(["/etc/m/mcp.json".into()]),
            directories: BTreeSet::from(["/etc/m".into()]),
            ..NoticedState::default()
        }
    }

    #[test]
    fn only_events_that_can_change_the_file_count() {
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let closed = |mode| EventKind::Access(AccessKind::Close(mode));
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let removed = EventKind::Remove(RemoveKind::Folder);
        let touched = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        for (kind, path, change) in [
            (
                closed(AccessMode::Write),
                "/etc/m/mcp.json",
                Some(Change::Complete),
            ),
            (closed(AccessMode::Read), "/etc/m/mcp.json", None),
            (
                EventKind::Access(AccessKind::Open(AccessMode::Any)),
                "/etc/m/mcp.json",
                None,
            ),
            (renamed, "/etc/m/mcp.json", Some(Change::Complete)),
            (renamed, "/etc/m/mcp.json.swp", None),
            (EventKind::Create(CreateKind::File), "/etc/m/other", None),
            (touched, "/etc/m", None),
            (removed, "/etc/m", Some(Change::Complete)),
        ] {
            assert_eq!(state().change(&event(kind, path)), change, "{kind:?} {path}");
        }
        #[cfg(target_os = "linux")]
        assert_eq!(
            state().change(&event(written, "/etc/m/mcp.json")),
            Some(Change::Writing)
        );
        #[cfg(not(target_os = "linux"))]
        assert_eq!(
            state().change(&event(written, "/etc/m/mcp.json")),
            Some(Change::Complete)
        );
        let mut moved = state();
        moved.change(&event(removed, "/etc/m"));
        assert!(moved.lost.contains(Path::new("/etc/m")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_being_written_is_left_alone_until_it_is_closed() {
        let noticed = Noticed::default();
        *noticed.lock() = state();
        noticed.note(&event(
            EventKind::Modify(ModifyKind::Data(DataChange::Any)),
            "/etc/m/mcp.json",
        ));
        let began = Instant::now();
        let close = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
            noticed.note(&event(closed, "/etc/m/mcp.json"));
        };
        tokio::join!(noticed.settled(), close);
        let expected = match cfg!(target_os = "linux") {
            true => Duration::from_secs(1) + QUIET_PERIOD,
            false => QUIET_PERIOD,
        };
        assert!(
            began.elapsed() >= expected && began.elapsed() < expected + QUIET_PERIOD,
            "{:?}",
            began.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_changes_all_the_time_is_read_all_the_same() {
        let noticed = Noticed::default();
        *noticed.lock() = state();
        let began = Instant::now();
        let changing = async {
            loop {
                noticed.note(&event(EventKind::Create(CreateKind::File), "/etc/m/mcp.json"));
                tokio::time::sleep(QUIET_PERIOD / 2).await;
            }
        };
        tokio::select! {
            () = noticed.settled() => {}
            () = changing => {}
        }
        assert!(began.elapsed() <= LONGEST_CHANGE + QUIET_PERIOD);
    }

    /// A directory with a watched file in it, and what is noticed.
    fn watching(root: &Path, name: &str) -> (FileWatch, Arc<Noticed>, BTreeSet<PathBuf>) {
        let noticed = Arc::new(Noticed::default());
        let mut watch = FileWatch::new(noticed.clone());
        let files = BTreeSet::from([root.join(name)]);
        watch.watch(&files).unwrap();
        (watch, noticed, files)
    }

    #[track_caller]
    fn expect(settled: Result<(), tokio::time::error::Elapsed>) {
        settled.expect("the change is noticed");
    }

    async fn settles(noticed: &Noticed) -> Result<(), tokio::time::error::Elapsed> {
        tokio::time::timeout(LONG, noticed.settled()).await
    }

    #[tokio::test]
    async fn writing_renaming_deleting_and_creating_are_noticed_again_and_again() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("mcp.json"), "1").unwrap();
        let (mut watch, noticed, files) = watching(root.path(), "mcp.json");
        for _ in 0..2 {
            fs::write(at("mcp.json"), "2").unwrap();
            expect(settles(&noticed).await);
            fs::write(at("mcp.json~"), "3").unwrap();
            fs::rename(at("mcp.json~"), at("mcp.json")).unwrap();
            expect(settles(&noticed).await);
            fs::remove_file(at("mcp.json")).unwrap();
            expect(settles(&noticed).await);
            watch.watch(&files).unwrap();
            fs::write(at("mcp.json"), "4").unwrap();
            expect(settles(&noticed).await);
        }
    }

    #[tokio::test]
    async fn a_replaced_link_is_noticed_as_kubernetes_replaces_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for version in ["1", "2", "3"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("mcp.json"), version).unwrap();
        }
        symlink("1", at("..data")).unwrap();
        symlink("..data/mcp.json", at("mcp.json")).unwrap();
        let (mut watch, noticed, files) = watching(root.path(), "mcp.json");
        for version in ["2", "3"] {
            symlink(version, at("..data_tmp")).unwrap();
            fs::rename(at("..data_tmp"), at("..data")).unwrap();
            expect(settles(&noticed).await);
            watch.watch(&files).unwrap();
            // What the link names now is watched too.
            fs::write(at(version).join("mcp.json"), "changed").unwrap();
            expect(settles(&noticed).await);
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_replaced_or_appears_later_is_watched() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let (mut watch, noticed, files) = watching(root.path(), "a/b/mcp.json");
        fs::create_dir(at("a")).unwrap();
        expect(settles(&noticed).await);
        watch.watch(&files).unwrap();
        fs::create_dir(at("a/b")).unwrap();
        expect(settles(&noticed).await);
        watch.watch(&files).unwrap();
        fs::write(at("a/b/mcp.json"), "1").unwrap();
        expect(settles(&noticed).await);
        // Another directory takes its place.
        fs::create_dir(at("a/new")).unwrap();
        fs::write(at("a/new/mcp.json"), "2").unwrap();
        fs::rename(at("a/b"), at("a/old")).unwrap();
        fs::rename(at("a/new"), at("a/b")).unwrap();
        expect(settles(&noticed).await);
        watch.watch(&files).unwrap();
        fs::write(at("a/b/mcp.json"), "3").unwrap();
        expect(settles(&noticed).await);
    }
}
