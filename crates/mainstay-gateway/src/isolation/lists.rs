//! Changes of what a session's own server lists: told to that session, and to nobody else.

use std::sync::{Arc, Weak};

use mainstay::catalog::Kind;
use mainstay::{Catalog, CatalogReader, Status};
use tokio::sync::watch;

use super::OwnServers;
use crate::router::fingerprint_of;

/// Tells a session when its own server lists something else than the session was shown.
pub(super) struct ListWatch {
    own: Weak<OwnServers>,
    name: Arc<str>,
    seen: [u64; Kind::ALL.len()],
}

impl ListWatch {
    /// The session was shown this catalog so far.
    pub(super) fn new(own: &Arc<OwnServers>, name: &str, shown: &Catalog) -> Self {
        Self {
            own: Arc::downgrade(own),
            name: name.into(),
            seen: fingerprints(shown, name),
        }
    }

    pub(super) async fn run(mut self, mut status: watch::Receiver<Arc<Status>>, mut catalogs: CatalogReader) {
        // An empty list is no change of the catalog, but it is one of what the pattern showed.
        let _ = status.wait_for(|status| status.listed_at.is_some()).await;
        let mut catalog = catalogs.load();
        loop {
            let now = fingerprints(&catalog, &self.name);
            let Some(own) = self.own.upgrade() else { return };
            let before = std::mem::replace(&mut self.seen, now);
            let changed = Kind::ALL.into_iter().zip(before.iter().zip(now));
            let changed = changed.filter_map(|(kind, (before, now))| (*before != now).then_some(kind));
            let changed: Vec<Kind> = changed.collect();
            own.lists_changed(&self.name, &changed);
            drop(own);
            match catalogs.changed().await {
                Some(next) => catalog = next,
                None => return,
            }
        }
    }
}

fn fingerprints(catalog: &Catalog, server: &str) -> [u64; Kind::ALL.len()] {
    Kind::ALL.map(|kind| fingerprint_of(catalog, server, kind))
}
