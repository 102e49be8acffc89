//! The last-good catalog of one server: what the last successful listing found, in memory and published.

use std::sync::Arc;
use std::time::SystemTime;

use mainstay_lifecycle::{Generation, Listing};

use super::inbox::KeeperMessage;
use super::stored::{CatalogWriter, LoadedCatalog};
use super::tasks::{TaskKind, Tasks};
use crate::catalog::{Doubt, Freshness, PreparedOffers, Replacement, ServerCatalog};
use crate::config::ToolView;
use crate::large;
use crate::protocol::Dialect;
use crate::server::Slot;

#[derive(Default)]
pub(super) struct LastGood {
    offers: Option<PreparedOffers>,
    listed_at: Option<SystemTime>,
    /// The connection that listed it, in this process.
    generation: Option<Generation>,
    stale_since: Option<SystemTime>,
    /// Lists that came back empty and wait for a second listing.
    doubt: Doubt,
    /// Whether the machine wants it published.
    is_published: bool,
    writer: Option<CatalogWriter>,
    /// The login that it was shown to.
    owner: Option<String>,
}

impl LastGood {
    /// Takes what the store has of the server. The machine's first effect publishes it, stale.
    pub(super) fn restore(&mut self, slot: &Slot, tasks: &mut Tasks, loaded: LoadedCatalog) {
        let catalog = loaded.offers.catalog();
        slot.about.store(Some(Arc::new(catalog.about().clone())));
        slot.catalog.store(Some(catalog.clone()));
        self.listed_at = Some(loaded.on_disk.listed_at);
        self.stale_since = self.listed_at;
        self.offers = Some(loaded.offers);
        self.owner = owner(slot);
        self.writer = CatalogWriter::start(slot, Some(loaded.on_disk));
        if self.is_published {
            self.publish(slot, tasks);
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.offers.is_some()
    }

    pub(super) fn offers(&self) -> Option<&PreparedOffers> {
        self.offers.as_ref()
    }

    pub(super) fn listed_at(&self) -> Option<SystemTime> {
        self.listed_at
    }

    pub(super) fn stale_since(&self) -> Option<SystemTime> {
        self.stale_since.filter(|_| self.is_known())
    }

    /// Takes a fresh listing: publishes and saves it, or asks for a second one where it came back empty.
    pub(super) fn take(
        &mut self,
        slot: &Slot,
        tasks: &mut Tasks,
        generation: Generation,
        fresh: PreparedOffers,
        dialect: Option<Dialect>,
    ) -> Listing {
        let doubt = std::mem::take(&mut self.doubt);
        let previous = self.offers.as_ref().map(|offers| &**offers.catalog());
        let listed = ServerCatalog::clone(fresh.catalog());
        let (catalog, is_new) = match Replacement::decide(previous, listed, &doubt) {
            Replacement::Confirm(doubt) => {
                self.doubt = doubt;
                return Listing::Unconfirmed;
            }
            Replacement::Replace(catalog) => (Arc::new(catalog), true),
            Replacement::Same(catalog) => (Arc::new(catalog), false),
        };
        for diagnostic in catalog.diagnostics() {
            tracing::warn!(server = %slot.name, "{diagnostic}");
        }
        if is_new {
            slot.lifecycle.catalog_changed();
        }
        self.offers = Some(fresh.with_catalog(catalog.clone()));
        self.listed_at = Some(SystemTime::now());
        self.generation = Some(generation);
        self.stale_since = None;
        self.owner = owner(slot);
        slot.catalog.store(Some(catalog.clone()));
        self.publish(slot, tasks);
        if self.writer.is_none() {
            self.writer = CatalogWriter::start(slot, None);
        }
        if let Some(writer) = &mut self.writer {
            writer.save(slot, &catalog, dialect, is_new);
        }
        Listing::Good { ttl: catalog.ttl() }
    }

    /// Keeps what the server's clients declare now beside the catalog.
    pub(super) fn save_extensions(&mut self, slot: &Slot) {
        if let (Some(writer), Some(offers)) = (&mut self.writer, &self.offers) {
            writer.save_extensions(slot, offers.catalog());
        }
    }

    /// Publishes the last-good catalog as stale.
    pub(super) fn mark_stale(&mut self, slot: &Slot, tasks: &mut Tasks) {
        let since = *self.stale_since.get_or_insert_with(SystemTime::now);
        if !slot.shared.publisher.lock().mark_stale(&slot.name, since) {
            self.publish(slot, tasks);
        }
    }

    /// Publishes nothing of the server any more. What was listed is kept for when the server is wanted again.
    pub(super) fn withdraw(&mut self, slot: &Slot) {
        self.is_published = false;
        slot.shared.publisher.lock().withdraw(&slot.name);
    }

    /// Publishes through the view of a new configuration.
    pub(super) fn set_view(&mut self, slot: &Slot, tasks: &mut Tasks) {
        if self.is_published {
            self.publish(slot, tasks);
        }
    }

    /// Takes the offers that were prepared in a task, unless catalog or view changed meanwhile.
    pub(super) fn take_prepared(&mut self, slot: &Slot, tasks: &mut Tasks, offers: PreparedOffers) {
        let is_current = self
            .offers
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current.catalog(), offers.catalog()));
        if is_current {
            self.offers = Some(offers);
            self.set_view(slot, tasks);
        }
    }

    /// Forgets the catalog if it was shown to another login than the one that the server gets now.
    pub(super) fn forget_if_of_other_owner(&mut self, slot: &Slot) {
        if self.is_known() && self.owner != owner(slot) {
            tracing::info!(server = %slot.name, "another login: the catalog of the last one is dropped");
            self.forget(slot);
        }
    }

    /// Forgets the catalog: another server has this name from now on.
    pub(super) fn forget(&mut self, slot: &Slot) {
        self.withdraw(slot);
        slot.about.store(None);
        slot.catalog.store(None);
        let writer = self.writer.take();
        *self = Self::default();
        self.writer = writer;
    }

    /// Waits until the last listing is on disk, for a bounded time.
    pub(super) async fn saved(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.finish().await;
        }
    }

    /// Publishes what is known. Where the configuration shows a large catalog through another view than the one it was
    /// prepared for, a task prepares it first, and what was published before stays until then.
    fn publish(&mut self, slot: &Slot, tasks: &mut Tasks) {
        self.is_published = true;
        let (Some(offers), Some(listed_at)) = (&self.offers, self.listed_at) else {
            return;
        };
        let view: Arc<ToolView> = slot.settings.load().view.clone();
        if !offers.is_through(&view) {
            let (name, catalog) = (slot.name.clone(), offers.catalog().clone());
            let length = catalog.length();
            let prepare = move || PreparedOffers::new(&name, catalog, view);
            if length > large::INLINE_LIMIT {
                tasks.abort(TaskKind::Prepare);
                tasks.spawn(TaskKind::Prepare, None, async move {
                    Some(KeeperMessage::Prepared(large::process(length, prepare).await))
                });
                return;
            }
            self.offers = Some(prepare());
        }
        let freshness = Freshness {
            listed_at,
            stale_since: self.stale_since,
            generation: self.generation,
        };
        if let Some(offers) = self.offers.clone() {
            slot.shared.publisher.lock().set(&slot.name, offers, freshness);
        }
    }
}

fn owner(slot: &Slot) -> Option<String> {
    slot.settings.load().target().credential_owner()
}
