//! What the store has of a server: read when the fleet starts, written after each listing that changed something.
//!
//! A disk that hangs blocks nothing else: reading and writing happen on threads that may block, a start waits for the reads
//! a bounded time, and while one write runs at most one more waits, the latest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::inbox::KeeperMessage;
use crate::catalog::{CatalogStore, PreparedOffers, STORE_TARGET, ServerCatalog, Stored};
use crate::config::Target;
use crate::protocol::Dialect;
use crate::server::Slot;
use crate::wire::RawJson;

/// How long the start of a fleet waits for the stored catalogs. What is read later is published when it is there.
const LOAD_GRACE: Duration = Duration::from_millis(500);

/// How long the end of a server waits for its catalog to be written.
const SAVE_GRACE: Duration = Duration::from_secs(1);

/// An unchanged listing is written again after this time: the file says when the server was last listed.
const REWRITE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What the store had of a server at the start.
#[derive(Debug)]
pub(crate) struct LoadedCatalog {
    pub(super) offers: PreparedOffers,
    pub(super) on_disk: OnDisk,
}

/// Reads what the store has of these servers, all at once, on threads that may block. Blocks for at most [`LOAD_GRACE`];
/// the keepers get the rest when it is read.
pub(crate) fn load_stored(slots: &[Arc<Slot>]) -> BTreeMap<Arc<str>, LoadedCatalog> {
    let mut loaded = BTreeMap::new();
    let (sender, receiver) = mpsc::channel();
    // What the reads log goes where the caller's lines go.
    let log = tracing::dispatcher::get_default(Clone::clone);
    let mut pending = 0;
    for slot in slots {
        let Some(store) = slot.shared.store.clone() else {
            continue;
        };
        let (slot, sender, log) = (slot.clone(), sender.clone(), log.clone());
        pending += 1;
        spawn_blocking(move || {
            let read = tracing::dispatcher::with_default(&log, || load(&slot, &*store));
            // The receiver lives until every sender is gone.
            let _ = sender.send((slot, read));
        });
    }
    drop(sender);
    let deadline = Instant::now() + LOAD_GRACE;
    while pending > 0 {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((slot, read)) => {
                pending -= 1;
                loaded.extend(read.map(|read| (slot.name.clone(), read)));
            }
            Err(_) => {
                tracing::warn!(target: STORE_TARGET, pending, "stored catalogs take long to read");
                spawn_blocking(move || {
                    for (slot, read) in receiver {
                        if let Some(read) = read {
                            slot.inbox.post(KeeperMessage::Loaded(Box::new(read)));
                        }
                    }
                });
                break;
            }
        }
    }
    loaded
}

fn load(slot: &Slot, store: &dyn CatalogStore) -> Option<LoadedCatalog> {
    let settings = slot.settings.load();
    let identity = slot.shared.stored_as(settings.identity(), settings.target());
    let stored = match store.load(&identity) {
        Ok(stored) => stored?,
        Err(error) => {
            tracing::warn!(target: STORE_TARGET, server = %slot.name, %error, "the stored catalog could not be read");
            return None;
        }
    };
    let dialect = stored.era.as_deref().and_then(Dialect::from_word);
    if let Some(declared) = &stored.extensions {
        slot.change_interests(|interests| interests.extensions.add(declared));
    }
    let catalog = Arc::new(stored.catalog);
    Some(LoadedCatalog {
        on_disk: OnDisk {
            identity,
            dialect,
            is_private: catalog.is_private(),
            is_removed: false,
            listed_at: stored.listed_at,
            extensions: stored.extensions,
        },
        offers: PreparedOffers::new(&slot.name, catalog, settings.view.clone()),
    })
}

/// What a file of the store says beside the content of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OnDisk {
    pub(super) identity: String,
    pub(super) dialect: Option<Dialect>,
    pub(super) listed_at: SystemTime,
    /// What the server's clients declared.
    extensions: Option<RawJson>,
    is_private: bool,
    /// The file was removed instead.
    is_removed: bool,
}

/// Writes the catalogs of one server.
pub(super) struct CatalogWriter {
    writes: LatestWriter<(Arc<Stored>, bool)>,
    /// What was written last, or is to be.
    on_disk: Option<OnDisk>,
    has_failed: Arc<AtomicBool>,
}

impl CatalogWriter {
    /// `None` where nothing is kept on disk.
    pub(super) fn start(slot: &Slot, on_disk: Option<OnDisk>) -> Option<Self> {
        let store = slot.shared.store.clone()?;
        let has_failed = Arc::new(AtomicBool::new(false));
        let failed = has_failed.clone();
        let write = move |(stored, is_removed): (Arc<Stored>, bool)| {
            let written = if is_removed {
                store.remove(&stored.identity)
            } else {
                store.save(&stored)
            };
            if let Err(error) = written {
                failed.store(true, Ordering::Relaxed);
                tracing::warn!(target: STORE_TARGET, %error, "the catalog could not be stored");
            }
        };
        Some(Self {
            writes: LatestWriter::start(write),
            on_disk,
            has_failed,
        })
    }

    /// Writes a listing, unless the file has it already.
    pub(super) fn save(
        &mut self,
        slot: &Slot,
        catalog: &ServerCatalog,
        dialect: Option<Dialect>,
        is_new: bool,
    ) {
        let settings = slot.settings.load();
        // Headers and tokens are part of the identity. The credential of a provider that names no owner is not, so that a
        // private list may belong to another person at the next start.
        let has_provider = matches!(settings.target(), Target::Http(target) if target.provider().is_some());
        let is_owned = settings.target().credential_owner().is_some();
        let next = OnDisk {
            identity: slot.shared.stored_as(settings.identity(), settings.target()),
            dialect,
            is_private: catalog.is_private(),
            is_removed: catalog.is_private() && has_provider && !is_owned,
            listed_at: SystemTime::now(),
            extensions: declared_extensions(slot),
        };
        let has_failed = self.has_failed.swap(false, Ordering::Relaxed);
        if !is_new && !has_failed && self.on_disk.as_ref().is_some_and(|last| last.covers(&next)) {
            return;
        }
        self.write(slot, catalog, next);
    }

    /// Writes the last listing again with what the server's clients declare now.
    pub(super) fn save_extensions(&mut self, slot: &Slot, catalog: &ServerCatalog) {
        let Some(last) = &self.on_disk else {
            return;
        };
        let next = OnDisk {
            extensions: declared_extensions(slot),
            ..last.clone()
        };
        if next != *last {
            self.write(slot, catalog, next);
        }
    }

    fn write(&mut self, slot: &Slot, catalog: &ServerCatalog, next: OnDisk) {
        let stored = Stored {
            identity: next.identity.clone(),
            server: slot.name.to_string(),
            era: next.dialect.map(|dialect| dialect.as_str().to_owned()),
            listed_at: next.listed_at,
            catalog: catalog.clone(),
            extensions: next.extensions.clone(),
        };
        self.writes.write((Arc::new(stored), next.is_removed));
        self.on_disk = Some(next);
    }

    /// Waits for the writes, for at most [`SAVE_GRACE`].
    pub(super) async fn finish(self) {
        let _ = timeout(SAVE_GRACE, self.writes.finish()).await;
    }
}

fn declared_extensions(slot: &Slot) -> Option<RawJson> {
    slot.with_interests(|interests| interests.extensions.declared())
}

impl OnDisk {
    /// Whether a file that says this need not be written again to say `next`.
    fn covers(&self, next: &Self) -> bool {
        let age = next.listed_at.duration_since(self.listed_at);
        let same = Self {
            listed_at: self.listed_at,
            ..next.clone()
        };
        *self == same && age.is_ok_and(|age| age < REWRITE_INTERVAL)
    }
}

/// Writes values one at a time on a thread that may block. Of the values that come while a write runs, only the latest
/// is written.
struct LatestWriter<T> {
    latest: watch::Sender<Option<T>>,
    task: JoinHandle<()>,
}

impl<T: Clone + Send + Sync + 'static> LatestWriter<T> {
    fn start(write: impl Fn(T) + Send + Sync + 'static) -> Self {
        let (latest, mut values) = watch::channel(None);
        let write = Arc::new(write);
        let task = tokio::spawn(async move {
            while values.changed().await.is_ok() {
                let Some(value) = values.borrow_and_update().clone() else {
                    continue;
                };
                let write = write.clone();
                if let Err(error) = spawn_blocking(move || write(value)).await {
                    tracing::error!(target: STORE_TARGET, %error, "a write of the store failed");
                }
            }
        });
        Self { latest, task }
    }

    fn write(&self, value: T) {
        self.latest.send_replace(Some(value));
    }

    /// Waits until the latest value is written.
    async fn finish(self) {
        drop(self.latest);
        let _ = self.task.await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_file_is_written_again_after_a_day_or_when_it_would_say_something_else() {
        let listed_at = SystemTime::UNIX_EPOCH;
        let file = OnDisk {
            identity: "i".to_owned(),
            dialect: None,
            listed_at,
            extensions: None,
            is_private: false,
            is_removed: false,
        };
        let later = |age: Duration| OnDisk {
            listed_at: listed_at + age,
            ..file.clone()
        };
        assert!(file.covers(&later(Duration::ZERO)));
        assert!(file.covers(&later(REWRITE_INTERVAL - Duration::from_nanos(1))));
        assert!(!file.covers(&later(REWRITE_INTERVAL)));
        let private = OnDisk {
            is_private: true,
            ..file.clone()
        };
        assert!(!file.covers(&private));
        assert!(
            !later(Duration::from_secs(1)).covers(&file),
            "the clock was set back"
        );
    }

    #[tokio::test]
    async fn while_a_write_hangs_one_more_waits_and_it_is_the_latest() {
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let released = Mutex::new(released);
        let held = Arc::new(());
        let writer = LatestWriter::start(move |(number, _held): (u32, Arc<()>)| {
            begin.send(number).expect("awaited");
            released.lock().expect("not poisoned").recv().expect("released");
        });
        writer.write((0, held.clone()));
        let soon = Duration::from_secs(30);
        let begun = spawn_blocking(move || (begun.recv_timeout(soon), begun));
        let (first, begun) = begun.await.expect("no panic");
        assert_eq!(first, Ok(0));
        for number in 1..=1_000 {
            writer.write((number, held.clone()));
            tokio::task::yield_now().await;
        }
        // One is being written, one waits, and this test has one.
        assert!(Arc::strong_count(&held) <= 4, "{}", Arc::strong_count(&held));
        release.send(()).expect("awaited");
        release.send(()).expect("awaited");
        timeout(soon, writer.finish()).await.expect("in time");
        assert_eq!(begun.try_iter().collect::<Vec<_>>(), [1_000]);
    }
}
