//! The published catalog: an immutable picture of what the whole fleet offers.
//!
//! Names are looked up in an index that is there from the start. Lists, hash and diagnostics are made of the servers when the first reader
//! asks for them: many revisions come and go without such a reader.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use mainstay_lifecycle::Generation;

use super::addresses::overlaps;
use super::findings;
use super::name_index::NameIndex;
use super::names::{CatalogHash, Hasher};
use super::offer::{OfPrompts, OfResources, OfTemplates, OfTools, Offer};
use super::section::OfKind;
use super::server::Diagnostic;
use super::servers::{PublishedServer, ServerTable};
use super::{PublicPrompt, PublicResource, PublicTemplate, PublicTool, ServerCatalog};

/// What the whole fleet offers, at one revision. It never changes; a newer one takes its place.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    pub(super) content: Arc<CatalogContent>,
    pub(super) servers: ServerTable,
    pub(super) diagnostics: Arc<OnceLock<Box<[Diagnostic]>>>,
}

/// When a server's catalog was listed, and since when it may be out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// When the server last listed it.
    pub listed_at: SystemTime,
    /// Since when the server cannot be asked; `None` while it can.
    pub stale_since: Option<SystemTime>,
    /// The connection that listed it; `None` where it was listed by an earlier process and is known from disk.
    pub generation: Option<Generation>,
}

impl Catalog {
    /// The number of this content. It grows by one with each change of content, and only then.
    pub fn revision(&self) -> u64 {
        self.content.revision
    }

    /// The hash of everything published. Equal content has an equal hash in every process.
    pub fn hash(&self) -> CatalogHash {
        *made_once(&self.content.hash, || {
            let mut hasher = Hasher::default();
            let lists = self.servers.iter().flat_map(|listed| &listed.published);
            for list in lists.filter(|list| **list != CatalogHash::NOTHING) {
                hasher.part(list.as_bytes());
            }
            hasher.finish()
        })
    }

    /// All tools, sorted by server and original name.
    pub fn tools(&self) -> &[PublicTool] {
        self.content.tools.list(&self.servers)
    }

    /// The tool with this public name.
    pub fn tool(&self, name: &str) -> Option<&PublicTool> {
        self.content.tools.owners.get(name)
    }

    /// All prompts, sorted by server and original name.
    pub fn prompts(&self) -> &[PublicPrompt] {
        self.content.prompts.list(&self.servers)
    }

    /// The prompt with this public name.
    pub fn prompt(&self, name: &str) -> Option<&PublicPrompt> {
        self.content.prompts.owners.get(name)
    }

    /// All resources, sorted by server and uri.
    pub fn resources(&self) -> &[PublicResource] {
        self.content.resources.list(&self.servers)
    }

    /// The resource with this uri; of the first server where several offer it.
    pub fn resource(&self, uri: &str) -> Option<&PublicResource> {
        self.content.resources.owners.get(uri)
    }

    /// All resource templates, sorted by server and uri template.
    pub fn templates(&self) -> &[PublicTemplate] {
        self.content.templates.list(&self.servers)
    }

    /// The resource template spelt like this; of the first server where several offer it.
    pub fn template(&self, uri_template: &str) -> Option<&PublicTemplate> {
        self.content.templates.owners.get(uri_template)
    }

    /// The servers whose offers are published, sorted by name.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|listed| &*listed.name)
    }

    /// What one server offers, before any view and name is applied.
    pub fn server(&self, server: &str) -> Option<&Arc<ServerCatalog>> {
        self.servers.get(server).map(|listed| &listed.catalog)
    }

    /// How fresh a server's part is; `None` when nothing of it is published.
    pub fn freshness(&self, server: &str) -> Option<Freshness> {
        self.servers.get(server).map(|listed| listed.freshness)
    }

    /// Everything that was set aside, server by server.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        made_once::<Box<[_]>>(&self.diagnostics, || {
            let mut found = findings::of(&self.servers);
            found.extend(overlaps(self.resources(), self.templates()));
            found.into()
        })
    }

    /// One server's part.
    pub(super) fn listed(&self, server: &str) -> Option<&Arc<PublishedServer>> {
        self.servers.get(server)
    }
}

/// What a revision stands for.
#[derive(Debug, Default)]
pub(super) struct CatalogContent {
    pub(super) revision: u64,
    pub(super) hash: OnceLock<CatalogHash>,
    pub(super) tools: Arc<OfferTable<OfTools>>,
    pub(super) prompts: Arc<OfferTable<OfPrompts>>,
    pub(super) resources: Arc<OfferTable<OfResources>>,
    pub(super) templates: Arc<OfferTable<OfTemplates>>,
}

/// What is published of one kind.
#[derive(Debug)]
pub(super) struct OfferTable<K> {
    owners: Arc<NameIndex<K>>,
    /// In the order of the servers and of their items.
    list: OnceLock<Box<[Offer<K>]>>,
}

impl<K> OfferTable<K> {
    /// What is published where these own their names.
    pub(super) fn new(owners: Arc<NameIndex<K>>) -> Self {
        Self {
            owners,
            list: OnceLock::new(),
        }
    }
}

impl<K: OfKind> OfferTable<K> {
    /// The list. It is the same for all catalogs of one revision, so it is made of the servers of any of them.
    fn list(&self, servers: &ServerTable) -> &[Offer<K>] {
        made_once::<Box<[_]>>(&self.list, || {
            let mut all = Vec::new();
            for listed in servers.iter() {
                let list = K::list(&listed.section);
                match listed.published[K::KIND.index()] == list.hash {
                    true => all.extend_from_slice(&list.offers),
                    false => all.extend(list.owning(&self.owners).cloned()),
                }
            }
            all.into()
        })
    }
}

impl<K> Default for OfferTable<K> {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

/// The value of this cell, made by the first reader. Readers that come at the same time each make it, so that none waits for another;
/// the one that is there first stays.
fn made_once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    match cell.get() {
        Some(made) => made,
        None => {
            let made = make();
            cell.get_or_init(|| made)
        }
    }
}
