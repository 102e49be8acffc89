//! The servers of a published catalog, and what became of their lists in it.

use std::cmp::Ordering;
use std::sync::Arc;

use super::names::CatalogHash;
use super::published::Freshness;
use super::section::ServerSection;
use super::{Catalog, Kind, ServerCatalog};

/// A hash for each list of a server, in the order of [`Kind::ALL`]. Equal lists have equal hashes in every process.
pub type ListHashes = [CatalogHash; Kind::ALL.len()];

/// The lists of one server, by their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLists {
    /// What it offers, through its view.
    pub offered: ListHashes,
    /// What of it is published beside the other servers.
    pub published: ListHashes,
}

impl ServerLists {
    /// The lists of a server that offers nothing.
    pub const NOTHING: Self = Self {
        offered: [CatalogHash::NOTHING; Kind::ALL.len()],
        published: [CatalogHash::NOTHING; Kind::ALL.len()],
    };
}

/// A server that is not the same in two catalogs.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ChangedServer<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Its lists in the earlier catalog; `None` when it was not there.
    pub before: Option<ServerLists>,
    /// Its lists in the later catalog; `None` when it is not there.
    pub now: Option<ServerLists>,
}

/// One server's part in a published catalog.
#[derive(Clone, Debug)]
pub(super) struct PublishedServer {
    pub(super) name: Arc<str>,
    pub(super) catalog: Arc<ServerCatalog>,
    pub(super) freshness: Freshness,
    /// What is published of it where no other server stands in its way.
    pub(super) section: ServerSection,
    /// What is published of it.
    pub(super) published: ListHashes,
}

impl PublishedServer {
    pub(super) fn lists(&self) -> ServerLists {
        let section = &self.section;
        ServerLists {
            offered: [
                section.tools.hash,
                section.prompts.hash,
                section.resources.hash,
                section.templates.hash,
            ],
            published: self.published,
        }
    }
}

/// Servers, sorted by name. A changed copy shares every server that is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerTable(Arc<Vec<Arc<PublishedServer>>>);

impl ServerTable {
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Arc<PublishedServer>> {
        self.0.iter()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<PublishedServer>> {
        self.place(name).ok().map(|at| &self.0[at])
    }

    pub(super) fn put(&mut self, server: PublishedServer) {
        let place = self.place(&server.name);
        let servers = Arc::make_mut(&mut self.0);
        match place {
            Ok(at) => servers[at] = Arc::new(server),
            Err(at) => servers.insert(at, Arc::new(server)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Arc<PublishedServer>> {
        let at = self.place(name).ok()?;
        Some(Arc::make_mut(&mut self.0).remove(at))
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|server| (*server.name).cmp(name))
    }
}

impl Catalog {
    /// See [`crate::gateway::server_lists`].
    pub(crate) fn lists(&self, server: &str) -> Option<ServerLists> {
        self.listed(server).map(|listed| listed.lists())
    }

    /// See [`crate::gateway::changed_servers`].
    pub(crate) fn changed_since<'a>(&'a self, earlier: &'a Self) -> Vec<ChangedServer<'a>> {
        let (mut before, mut now) = (&earlier.servers.0[..], &self.servers.0[..]);
        let mut changed = Vec::new();
        loop {
            let (old, new) = match (before, now) {
                ([], []) => return changed,
                ([old, ..], []) => (Some(old), None),
                ([], [new, ..]) => (None, Some(new)),
                ([old, ..], [new, ..]) if Arc::ptr_eq(old, new) => (Some(old), Some(new)),
                ([old, ..], [new, ..]) => match old.name.cmp(&new.name) {
                    Ordering::Less => (Some(old), None),
                    Ordering::Equal => (Some(old), Some(new)),
                    Ordering::Greater => (None, Some(new)),
                },
            };
            before = &before[usize::from(old.is_some())..];
            now = &now[usize::from(new.is_some())..];
            changed.extend(difference(old, new));
        }
    }
}

fn difference<'a>(
    before: Option<&'a Arc<PublishedServer>>,
    now: Option<&'a Arc<PublishedServer>>,
) -> Option<ChangedServer<'a>> {
    if let (Some(before), Some(now)) = (before, now)
        && Arc::ptr_eq(before, now)
    {
        return None;
    }
    Some(ChangedServer {
        name: &before.or(now)?.name,
        before: before.map(|before| before.lists()),
        now: now.map(|now| now.lists()),
    })
}
