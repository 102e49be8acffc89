//! Notices that the socket was removed or replaced under the daemon, as a cleaner of temporary files or a logout does. No bridge finds
//! such a daemon any more, so it ends, and the next one starts the servers again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

pub(super) struct SocketWatch {
    socket: PathBuf,
    /// Device and number of the socket's file.
    identity: Option<(u64, u64)>,
    changed: Arc<Notify>,
    /// `None` if the system gives out no more watches: then a loss is not noticed.
    _watcher: Option<RecommendedWatcher>,
}

impl SocketWatch {
    pub(super) fn new(socket: PathBuf) -> Self {
        let changed = Arc::<Notify>::default();
        let identity = identity(&socket);
        let noted = changed.clone();
        let watcher = notify::recommended_watcher(move |_event| noted.notify_one());
        let watcher = watcher.and_then(|mut watcher| {
            let directory = socket.parent().unwrap_or(Path::new("/"));
            watcher.watch(directory, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        Self {
            socket,
            identity,
            changed,
            _watcher: watcher.ok(),
        }
    }

    /// Whether the socket is still the one that this daemon listens on.
    pub(super) fn is_there(&self) -> bool {
        identity(&self.socket) == self.identity
    }

    /// Waits until the socket is gone.
    ///
    /// Cancel safety: dropped, the loss is noticed by the next call.
    pub(super) async fn lost(&self) {
        while self.is_there() {
            self.changed.notified().await;
        }
    }
}

fn identity(socket: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(socket).ok()?;
    Some((found.dev(), found.ino()))
}
