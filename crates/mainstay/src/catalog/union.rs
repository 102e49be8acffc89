//! Joins the catalogs of all servers into the published one.
//!
//! Servers are taken in the order of their names and items in the order of theirs, so the same servers give the same catalog, collisions
//! included, whatever came before. A change costs what its server offers, and a pointer for each other server: names, rewritten bytes and
//! hashes are made once, with the [`PreparedOffers`]; readers make the lists and diagnostics of a revision when they ask for them.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use super::claims::{NameClaims, TouchedServers};
use super::names::CatalogHash;
use super::offer::{OfPrompts, OfResources, OfTemplates, OfTools};
use super::published::{CatalogContent, Freshness, OfferTable};
use super::section::{OfKind, SectionList, ServerSection, hash_of};
use super::servers::{ListHashes, PublishedServer, ServerLists};
use super::{Catalog, Kind, ServerCatalog};
use crate::config::ToolView;

/// What one server offers as callers see it: its catalog through its view.
///
/// Making it takes the time (names, rewritten bytes, hashes), so a large one is made on a thread that may block.
#[derive(Clone, Debug)]
pub(crate) struct PreparedOffers {
    catalog: Arc<ServerCatalog>,
    view: Arc<ToolView>,
    section: ServerSection,
}

impl PreparedOffers {
    pub(crate) fn new(server: &Arc<str>, catalog: Arc<ServerCatalog>, view: Arc<ToolView>) -> Self {
        Self {
            section: ServerSection::new(server, &catalog, &view),
            catalog,
            view,
        }
    }

    /// The successor of `previous`. It shares the work of `previous` where content and view are the same.
    pub(crate) fn after(
        previous: Option<&Self>,
        server: &Arc<str>,
        catalog: Arc<ServerCatalog>,
        view: Arc<ToolView>,
    ) -> Self {
        match previous {
            Some(previous) if *previous.catalog == *catalog && previous.is_through(&view) => Self {
                section: previous.section.clone(),
                catalog,
                view,
            },
            Some(_) | None => Self::new(server, catalog, view),
        }
    }

    /// The same offers, with a catalog of the same content.
    pub(crate) fn with_catalog(self, catalog: Arc<ServerCatalog>) -> Self {
        Self { catalog, ..self }
    }

    pub(crate) fn catalog(&self) -> &Arc<ServerCatalog> {
        &self.catalog
    }

    /// Whether this is how `view` shows the catalog.
    pub(crate) fn is_through(&self, view: &Arc<ToolView>) -> bool {
        Arc::ptr_eq(&self.view, view)
    }

    /// One server's part of the union.
    pub(super) fn listed(self, server: &str, freshness: Freshness) -> PublishedServer {
        PublishedServer {
            name: server.into(),
            catalog: self.catalog,
            freshness,
            section: self.section,
            // Known when it is joined with the others.
            published: ServerLists::NOTHING.published,
        }
    }
}

impl Catalog {
    /// See [`crate::gateway::catalog_of`].
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = (&'a str, &'a Self)>) -> Self {
        let mut union = Union::default();
        for part in parts.into_iter().filter_map(|(server, of)| of.listed(server)) {
            union.put(PublishedServer::clone(part));
        }
        union.catalog
    }
}

/// The catalogs of all servers, joined.
#[derive(Debug, Default)]
pub(super) struct Union {
    tools: NameClaims<OfTools>,
    prompts: NameClaims<OfPrompts>,
    resources: NameClaims<OfResources>,
    templates: NameClaims<OfTemplates>,
    /// What they are together.
    catalog: Catalog,
}

impl Union {
    /// What the servers offer together.
    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Takes what a server offers, in place of what it offered before.
    pub(super) fn put(&mut self, mut listed: PublishedServer) {
        let before = self.catalog.listed(&listed.name).cloned();
        listed.published = ServerLists::NOTHING.published;
        if let Some(before) = &before {
            listed.section = listed.section.sharing_with(&before.section);
            listed.published = before.published;
        }
        let before = before.as_ref().map(|before| &before.section);
        let mut touched = self.replace(before, Some(&listed.section));
        touched.insert(Arc::clone(&listed.name));
        self.catalog.servers.put(listed);
        let changed = self.publish_again(touched);
        self.renew(changed);
    }

    /// Takes away what a server offers; `false` when it offers nothing.
    pub(super) fn remove(&mut self, server: &str) -> bool {
        let Some(removed) = self.catalog.servers.remove(server) else {
            return false;
        };
        let touched = self.replace(Some(&removed.section), None);
        let mut changed = self.publish_again(touched);
        changed.compare(&removed.published, &ServerLists::NOTHING.published);
        self.renew(changed);
        true
    }

    /// Notes that a server cannot be asked since `at`. The first such moment counts. `None` when nothing of it is published, otherwise
    /// whether this is news.
    pub(super) fn mark_stale(&mut self, server: &str, at: SystemTime) -> Option<bool> {
        let listed = self.catalog.listed(server)?;
        if listed.freshness.stale_since.is_some() {
            return Some(false);
        }
        let mut listed = PublishedServer::clone(listed);
        listed.freshness.stale_since = Some(at);
        self.catalog.servers.put(listed);
        Some(true)
    }

    /// Replaces the claims of one server. Returns the servers, perhaps itself among them, that got or lost a name.
    fn replace(&mut self, before: Option<&ServerSection>, after: Option<&ServerSection>) -> TouchedServers {
        let mut touched = TouchedServers::new();
        replace_list(&mut self.tools, before, after, &mut touched);
        replace_list(&mut self.prompts, before, after, &mut touched);
        replace_list(&mut self.resources, before, after, &mut touched);
        replace_list(&mut self.templates, before, after, &mut touched);
        touched
    }

    /// Finds out again what is published of these servers, and which kinds changed by it.
    fn publish_again(&mut self, servers: TouchedServers) -> ChangedKinds {
        let mut changed = ChangedKinds::default();
        for server in servers {
            let Some(listed) = self.catalog.listed(&server) else {
                continue;
            };
            let published = [
                published(&self.tools, &listed.section.tools),
                published(&self.prompts, &listed.section.prompts),
                // A uri means the same on every server: all are listed, and the first server is read.
                listed.section.resources.hash,
                listed.section.templates.hash,
            ];
            if listed.published != published {
                changed.compare(&listed.published, &published);
                let listed = PublishedServer::clone(listed);
                self.catalog.servers.put(PublishedServer { published, ..listed });
            }
        }
        changed
    }

    /// The next catalog: it counts as new, and gets the next revision, if a list changed.
    fn renew(&mut self, ChangedKinds(changed): ChangedKinds) {
        self.catalog.diagnostics = Arc::default();
        if changed == [false; Kind::ALL.len()] {
            return;
        }
        let [tools, prompts, resources, templates] = changed;
        let content = &self.catalog.content;
        self.catalog.content = Arc::new(CatalogContent {
            revision: content.revision + 1,
            hash: OnceLock::new(),
            tools: next(&content.tools, tools, &self.tools),
            prompts: next(&content.prompts, prompts, &self.prompts),
            resources: next(&content.resources, resources, &self.resources),
            templates: next(&content.templates, templates, &self.templates),
        });
    }
}

/// The kinds whose lists changed, in the order of [`Kind::ALL`].
#[derive(Default)]
struct ChangedKinds([bool; Kind::ALL.len()]);

impl ChangedKinds {
    fn compare(&mut self, before: &ListHashes, after: &ListHashes) {
        for (changed, (before, after)) in self.0.iter_mut().zip(before.iter().zip(after)) {
            *changed |= before != after;
        }
    }
}

fn replace_list<K: OfKind>(
    claims: &mut NameClaims<K>,
    before: Option<&ServerSection>,
    after: Option<&ServerSection>,
    touched: &mut TouchedServers,
) {
    let (before, after) = (before.map(K::list), after.map(K::list));
    if let (Some(before), Some(after)) = (before, after)
        && Arc::ptr_eq(before, after)
    {
        return;
    }
    for offer in before.iter().flat_map(|list| &list.offers) {
        claims.remove(offer, touched);
    }
    for offer in after.iter().flat_map(|list| &list.offers) {
        claims.add(offer, touched);
    }
}

/// The hash of what is published of a list: a name must lead to one thing, so an offer whose name leads to another is set aside.
fn published<K>(claims: &NameClaims<K>, list: &SectionList<K>) -> CatalogHash {
    match claims.has_contested() {
        true => hash_of(list.owning(claims.owners())),
        false => list.hash,
    }
}

fn next<K>(last: &Arc<OfferTable<K>>, is_changed: bool, claims: &NameClaims<K>) -> Arc<OfferTable<K>> {
    match is_changed {
        true => Arc::new(OfferTable::new(Arc::clone(claims.owners()))),
        false => Arc::clone(last),
    }
}

#[cfg(test)]
mod tests;
