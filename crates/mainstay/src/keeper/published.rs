//! The last-good catalog of one server: what is published of it, and what the disk remembers.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Generation, Listing};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::catalog::{Doubt, Freshness, Publisher, Replacement, STORE_TARGET, ServerCatalog, Stored};
use crate::config::Target;
use crate::protocol::Dialect;
use crate::server::Slot;

/// How long the end of a server waits for its catalog to be on disk.
const SAVING: Duration = Duration::from_secs(1);

/// What was last listed with success.
#[derive(Default)]
pub(super) struct LastGood {
    catalog: Option<Arc<ServerCatalog>>,
    listed_at: Option<SystemTime>,
    /// The connection that listed it, in this process.
    generation: Option<Generation>,
    stale_since: Option<SystemTime>,
    /// Lists that came back empty and wait for a second listing.
    doubt: Doubt,
    /// The write to disk that runs; the next one waits for it, so that the last one wins.
    saving: Option<JoinHandle<()>>,
}

impl LastGood {
    /// What the disk remembers. It is published by the machine's first effect, and stale from the start.
    pub(super) fn load(slot: &Slot) -> (Self, Option<Dialect>) {
        let identity = slot.shared.stored_as(slot.settings.load().identity());
        let stored = slot.shared.store.as_ref().map(|store| store.load(&identity));
        let stored = match stored {
            Some(Ok(stored)) => stored,
            Some(Err(error)) => {
                tracing::warn!(target: STORE_TARGET, server = %slot.name, %error, "the stored catalog could not be read");
                None
            }
            None => None,
        };
        let Some(stored) = stored else {
            return (Self::default(), None);
        };
        let dialect = stored.era.as_deref().and_then(Dialect::from_word);
        let catalog = Arc::new(stored.catalog);
        slot.about.store(Some(Arc::new(catalog.about().clone())));
        slot.catalog.store(Some(catalog.clone()));
        let last_good = Self {
            catalog: Some(catalog),
            listed_at: Some(stored.listed_at),
            stale_since: Some(stored.listed_at),
            ..Self::default()
        };
        (last_good, dialect)
    }

    pub(super) fn is_known(&self) -> bool {
        self.catalog.is_some()
    }

    pub(super) fn listed_at(&self) -> Option<SystemTime> {
        self.listed_at
    }

    pub(super) fn stale_since(&self) -> Option<SystemTime> {
        self.stale_since.filter(|_| self.catalog.is_some())
    }

    /// Takes a fresh listing: publishes it, or asks for a second one where it came back empty.
    pub(super) fn take(
        &mut self,
        slot: &Slot,
        generation: Generation,
        fresh: ServerCatalog,
        dialect: Option<Dialect>,
    ) -> Listing {
        let doubt = std::mem::take(&mut self.doubt);
        let catalog = match Replacement::decide(self.catalog.as_deref(), fresh, &doubt) {
            Replacement::Confirm(doubt) => {
                self.doubt = doubt;
                return Listing::Unconfirmed;
            }
            Replacement::Replace(catalog) | Replacement::Same(catalog) => Arc::new(catalog),
        };
        for diagnostic in catalog.diagnostics() {
            tracing::warn!(server = %slot.name, "{diagnostic}");
        }
        self.catalog = Some(catalog.clone());
        self.listed_at = Some(SystemTime::now());
        self.generation = Some(generation);
        self.stale_since = None;
        slot.catalog.store(Some(catalog.clone()));
        self.publish(slot);
        self.save(slot, &catalog, dialect);
        Listing::Good { ttl: catalog.ttl() }
    }

    /// The last-good catalog is published, and stale.
    pub(super) fn mark_stale(&mut self, slot: &Slot) {
        let since = *self.stale_since.get_or_insert_with(SystemTime::now);
        if !publisher(slot).mark_stale(&slot.name, since) {
            self.publish(slot);
        }
    }

    /// Nothing of the server is published any more. What was listed is kept for when it is wanted again.
    pub(super) fn withdraw(&mut self, slot: &Slot) {
        publisher(slot).withdraw(&slot.name);
    }

    /// The configuration shows the server's tools in another way.
    pub(super) fn set_view(&self, slot: &Slot) {
        publisher(slot).set_view(&slot.name, slot.settings.load().view.clone());
    }

    /// Comes back when what was listed last is on disk. A disk that hangs is not waited for.
    pub(super) async fn saved(&mut self) {
        if let Some(saving) = self.saving.take() {
            let _ = timeout(SAVING, saving).await;
        }
    }

    /// Another server goes by this name from now on.
    pub(super) fn forget(&mut self, slot: &Slot) {
        self.withdraw(slot);
        slot.about.store(None);
        slot.catalog.store(None);
        *self = Self {
            saving: self.saving.take(),
            ..Self::default()
        };
    }

    fn publish(&self, slot: &Slot) {
        if let (Some(catalog), Some(listed_at)) = (&self.catalog, self.listed_at) {
            let freshness = Freshness {
                listed_at,
                stale_since: self.stale_since,
                generation: self.generation,
            };
            publisher(slot).set(
                &slot.name,
                catalog.clone(),
                slot.settings.load().view.clone(),
                freshness,
            );
        }
    }

    fn save(&mut self, slot: &Slot, catalog: &ServerCatalog, dialect: Option<Dialect>) {
        let Some(store) = slot.shared.store.clone() else {
            return;
        };
        let settings = slot.settings.load();
        // Who asks is part of the identity, except where a provider says it: then a private list may be another person's.
        let of_provider = matches!(settings.target(), Target::Http(target) if target.has_provider());
        let forgotten = catalog.is_private() && of_provider;
        let stored = Stored {
            identity: slot.shared.stored_as(slot.settings.load().identity()),
            server: slot.name.to_string(),
            era: dialect.map(|dialect| dialect.as_str().to_owned()),
            listed_at: SystemTime::now(),
            catalog: catalog.clone(),
        };
        let before = self.saving.take();
        self.saving = Some(tokio::spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            let saved = tokio::task::spawn_blocking(move || {
                if forgotten {
                    store.remove(&stored.identity)
                } else {
                    store.save(&stored)
                }
            })
            .await;
            if let Ok(Err(error)) = saved {
                tracing::warn!(target: STORE_TARGET, %error, "the catalog could not be stored");
            }
        }));
    }
}

/// One keeper at a time writes the union; readers never come here.
fn publisher(slot: &Slot) -> std::sync::MutexGuard<'_, Publisher> {
    slot.shared
        .publisher
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}
