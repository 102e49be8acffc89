//! Waits for changes of a store by any process.
//!
//! On Linux the system reports changes of the directory to one thread for each store, which starts with the first waiter
//! and ends with the store. Elsewhere, or if the system has no more watches, a waiter looks every half second; it waits
//! only while a server needs a login.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

/// How often a waiter looks that gets no reports.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A watch for changes of a store.
pub struct StoreWatch(ChangeSource);

enum ChangeSource {
    Reported(watch::Receiver<u64>),
    Looking(Duration),
}

impl StoreWatch {
    /// A watch that ends a wait after each interval, whether or not something changed.
    pub fn looking_every(interval: Duration) -> Self {
        Self(ChangeSource::Looking(interval))
    }

    /// Waits until something may have changed.
    ///
    /// Cancel safety: no change is lost.
    pub fn changed(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            match &mut self.0 {
                ChangeSource::Reported(changes) => {
                    if changes.changed().await.is_err() {
                        tokio::time::sleep(LOOK_INTERVAL).await;
                    }
                }
                ChangeSource::Looking(interval) => tokio::time::sleep(*interval).await,
            }
        })
    }
}

/// Reports changes of the files in one directory.
pub(super) struct DirectoryWatcher {
    changes: Option<watch::Receiver<u64>>,
    /// Its end of a pipe; closing it ends the thread.
    #[cfg(target_os = "linux")]
    _stop: Option<rustix::fd::OwnedFd>,
}

impl DirectoryWatcher {
    pub(super) fn watch(&self) -> StoreWatch {
        match &self.changes {
            Some(changes) => StoreWatch(ChangeSource::Reported(changes.clone())),
            None => StoreWatch::looking_every(LOOK_INTERVAL),
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn start(path: &Path) -> Self {
        match reports::start(path) {
            Ok((changes, stop)) => Self {
                changes: Some(changes),
                _stop: Some(stop),
            },
            Err(error) => {
                tracing::debug!(%error, "no reports of changes; looking for them instead");
                Self {
                    changes: None,
                    _stop: None,
                }
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn start(_path: &Path) -> Self {
        Self { changes: None }
    }
}

#[cfg(target_os = "linux")]
mod reports {
    use std::io;
    use std::path::Path;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fd::OwnedFd;
    use rustix::fs::inotify;
    use rustix::pipe::{PipeFlags, pipe_with};
    use tokio::sync::watch;

    pub(super) fn start(path: &Path) -> io::Result<(watch::Receiver<u64>, OwnedFd)> {
        let reports = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        // A file is written under another name and then moved.
        let changes = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::DELETE;
        inotify::add_watch(&reports, path, changes)?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, receiver) = watch::channel(0);
        let thread = std::thread::Builder::new().name("login-store".to_owned());
        thread.spawn(move || forward(&reports, &stopped, &sender))?;
        Ok((receiver, stop))
    }

    /// What a report says does not matter: the waiters read the store again.
    fn forward(reports: &OwnedFd, stopped: &OwnedFd, changes: &watch::Sender<u64>) {
        let mut buffer = [0_u8; 4096];
        loop {
            let mut fds = [
                PollFd::new(reports, PollFlags::IN),
                PollFd::new(stopped, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            while rustix::io::read(reports, &mut buffer).is_ok_and(|read| read > 0) {}
            changes.send_modify(|count| *count += 1);
        }
    }
}
