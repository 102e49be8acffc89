//! The one writer of the published catalog, and its readers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use futures_core::Stream;
use tokio::sync::watch;

use super::union::{PreparedOffers, Union};
use super::{Catalog, Freshness};

/// Publishes the union of what the servers offer. It has one owner; each method publishes in one step.
///
/// The methods that change something answer whether the content changed, in which case readers are notified, once.
#[derive(Debug)]
pub(crate) struct Publisher {
    union: Union,
    current: Arc<ArcSwap<Catalog>>,
    revision: watch::Sender<u64>,
}

/// Reads the published catalog. Clones are cheap and independent of each other. As a [`Stream`] it yields each change, as
/// [`changed`](Self::changed) does.
pub struct CatalogReader {
    current: Arc<ArcSwap<Catalog>>,
    revision: watch::Receiver<u64>,
    seen: u64,
    /// The wait for the next revision, while the reader waits as a stream.
    waiting: Option<Pin<Box<dyn Future<Output = bool> + Send + Sync>>>,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        let union = Union::default();
        let empty = union.catalog().clone();
        Self {
            union,
            revision: watch::Sender::new(empty.revision()),
            current: Arc::new(ArcSwap::from_pointee(empty)),
        }
    }

    /// A reader that has seen what is published now.
    pub(crate) fn reader(&self) -> CatalogReader {
        CatalogReader {
            current: Arc::clone(&self.current),
            revision: self.revision.subscribe(),
            seen: self.current.load().revision(),
            waiting: None,
        }
    }

    /// Publishes what `server` offers, in place of what it offered before.
    pub(crate) fn set(&mut self, server: &str, offers: PreparedOffers, freshness: Freshness) -> bool {
        self.union.put(offers.listed(server, freshness));
        self.publish()
    }

    /// Notes that `server` cannot be asked since `at`; what it offered stays. The first such moment counts. `false` when
    /// nothing of it is published.
    pub(crate) fn mark_stale(&mut self, server: &str, at: SystemTime) -> bool {
        let marked = self.union.mark_stale(server, at);
        if marked == Some(true) {
            self.publish();
        }
        marked.is_some()
    }

    /// Publishes nothing of `server` any more.
    pub(crate) fn withdraw(&mut self, server: &str) -> bool {
        self.union.remove(server) && self.publish()
    }

    /// Stores first and notifies second, so that a reader finds what it is notified of.
    fn publish(&self) -> bool {
        let next = self.union.catalog().clone();
        let revision = next.revision();
        self.current.store(Arc::new(next));
        self.revision.send_if_modified(|last| {
            let grown = revision > *last;
            *last = revision;
            grown
        })
    }
}

impl CatalogReader {
    /// Another reader, which has seen what is published now.
    pub(crate) fn renewed(&self) -> Self {
        let mut reader = self.clone();
        // In this order a change between the two is at worst reported twice; in the other it is missed.
        reader.revision.mark_unchanged();
        reader.seen = reader.load().revision();
        reader
    }

    /// The catalog published now. Takes no lock and never waits.
    pub fn load(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    /// Waits for a catalog with other content than the last one this returned (at first: than when the reader was
    /// made). Revisions that came and went meanwhile are skipped. `None` when the fleet is gone.
    ///
    /// Cancel safety: dropped before it returns, it has consumed nothing; the next call sees the same change.
    pub async fn changed(&mut self) -> Option<Arc<Catalog>> {
        loop {
            self.revision.changed().await.ok()?;
            let catalog = self.load();
            if catalog.revision() > self.seen {
                self.seen = catalog.revision();
                return Some(catalog);
            }
        }
    }
}

impl Stream for CatalogReader {
    type Item = Arc<Catalog>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<Catalog>>> {
        loop {
            let waiting = match &mut self.waiting {
                Some(waiting) => waiting,
                None => {
                    let mut revision = self.revision.clone();
                    let changed = async move { revision.changed().await.is_ok() };
                    self.waiting.insert(Box::pin(changed))
                }
            };
            let is_published = ready!(waiting.as_mut().poll(context));
            self.waiting = None;
            if !is_published {
                return Poll::Ready(None);
            }
            self.revision.mark_unchanged();
            let catalog = self.load();
            if catalog.revision() > self.seen {
                self.seen = catalog.revision();
                return Poll::Ready(Some(catalog));
            }
        }
    }
}

impl Clone for CatalogReader {
    fn clone(&self) -> Self {
        Self {
            current: Arc::clone(&self.current),
            revision: self.revision.clone(),
            seen: self.seen,
            waiting: None,
        }
    }
}

impl std::fmt::Debug for CatalogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CatalogReader")
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
