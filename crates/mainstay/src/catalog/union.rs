//! Joins the catalogs of all servers into the published one.
//!
//! Servers are taken in the order of their names and items in the order of theirs, so the same inputs give the same
//! catalog, collisions included. The costly part (names, rewritten bytes, hashes) is done once for each server, when
//! its [`UnionInput`] is made; joining only copies handles.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::diagnostic::{CatalogFault, Diagnostic, DiagnosticList};
use super::hash::Hasher;
use super::offer::{Offer, ServerSection};
use super::published::{CatalogContent, Freshness, OfferTable, PublishedServer};
use super::{Catalog, Kind, ServerCatalog, addresses};
use crate::config::ToolView;

/// One server's part of the union.
#[derive(Debug)]
pub(crate) struct UnionInput {
    catalog: Arc<ServerCatalog>,
    view: Arc<ToolView>,
    freshness: Freshness,
    section: Arc<ServerSection>,
}

impl UnionInput {
    pub(crate) fn new(
        server: &Arc<str>,
        catalog: Arc<ServerCatalog>,
        view: Arc<ToolView>,
        freshness: Freshness,
    ) -> Self {
        Self {
            section: Arc::new(ServerSection::new(server, &catalog, &view)),
            catalog,
            view,
            freshness,
        }
    }

    /// Takes a newer catalog and view; what is published of them is worked out anew only if one of them changed.
    pub(super) fn update(&mut self, server: &Arc<str>, catalog: Arc<ServerCatalog>, view: Arc<ToolView>) {
        if self.catalog != catalog || !Arc::ptr_eq(&self.view, &view) {
            self.section = Arc::new(ServerSection::new(server, &catalog, &view));
        }
        self.catalog = catalog;
        self.view = view;
    }

    pub(super) fn catalog(&self) -> &Arc<ServerCatalog> {
        &self.catalog
    }

    pub(super) fn freshness_mut(&mut self) -> &mut Freshness {
        &mut self.freshness
    }
}

impl Catalog {
    /// The union of all inputs, as the successor of `previous`.
    pub(crate) fn union(inputs: &BTreeMap<Arc<str>, UnionInput>, previous: &Self) -> Self {
        let listed = |input: &UnionInput| PublishedServer {
            catalog: Arc::clone(&input.catalog),
            freshness: input.freshness,
            section: Arc::clone(&input.section),
        };
        let servers = inputs
            .iter()
            .map(|(name, input)| (Arc::clone(name), listed(input)));
        Self::join(servers.collect(), previous)
    }

    /// What these servers offer together, each as the catalog beside its name has it; a server that its catalog does not
    /// have is left out. For whoever shows one caller other servers than the next. Its revision says nothing.
    pub fn of<'a>(parts: impl IntoIterator<Item = (&'a str, &'a Self)>) -> Self {
        let listed = parts.into_iter().filter_map(|(server, of)| of.listed(server));
        let servers = listed.map(|(name, listed)| (Arc::clone(name), listed.clone()));
        Self::join(servers.collect(), &Self::empty())
    }

    fn join(servers: BTreeMap<Arc<str>, PublishedServer>, previous: &Self) -> Self {
        let mut join = Union::default();
        for (server, listed) in &servers {
            join.add(server, listed);
        }
        join.diagnostics
            .extend(addresses::overlaps(&join.resources, &join.templates));
        let content = CatalogContent {
            revision: 0,
            hash: join.hasher.finish(),
            tools: join.tools,
            prompts: join.prompts,
            resources: join.resources,
            templates: join.templates,
        };
        previous.followed_by(content, servers, join.diagnostics)
    }
}

/// A union under way.
#[derive(Default)]
struct Union {
    tools: OfferTable<rmcp::model::Tool>,
    prompts: OfferTable<rmcp::model::Prompt>,
    resources: OfferTable<rmcp::model::Resource>,
    templates: OfferTable<rmcp::model::ResourceTemplate>,
    hasher: Hasher,
    diagnostics: Vec<Diagnostic>,
}

impl Union {
    fn add(&mut self, server: &str, listed: &PublishedServer) {
        self.diagnostics.extend_from_slice(listed.catalog.diagnostics());
        let mut joint = ServerJoin {
            hasher: &mut self.hasher,
            findings: DiagnosticList::of(server),
        };
        let section = &listed.section;
        joint.add_named(Kind::Tool, &section.tools, &mut self.tools);
        joint.add_named(Kind::Prompt, &section.prompts, &mut self.prompts);
        joint.add_by_uri(Kind::Resource, &section.resources, &mut self.resources);
        joint.add_by_uri(Kind::Template, &section.templates, &mut self.templates);
        self.diagnostics.extend(joint.findings.finish());
    }
}

/// Where one server's offers meet those before it.
struct ServerJoin<'a> {
    hasher: &'a mut Hasher,
    findings: DiagnosticList<'a>,
}

impl ServerJoin<'_> {
    /// A name must lead to one thing: an offer whose name is taken is set aside.
    fn add_named<T>(&mut self, kind: Kind, offers: &[Offer<T>], table: &mut OfferTable<T>) {
        for offer in offers {
            match table.get(offer.name()) {
                Some(first) => self.collided(kind, offer, first, "is set aside"),
                None => self.keep(offer, table),
            }
        }
    }

    /// A uri means the same whoever serves it: both are listed, and the first is the one that is read.
    fn add_by_uri<T>(&mut self, kind: Kind, offers: &[Offer<T>], table: &mut OfferTable<T>) {
        for offer in offers {
            if let Some(first) = table.get(offer.name()) {
                self.collided(kind, offer, first, "is listed, but not read from here");
            }
            self.keep(offer, table);
        }
    }

    fn keep<T>(&mut self, offer: &Offer<T>, table: &mut OfferTable<T>) {
        self.hasher.part(offer.digest().as_bytes());
        table.push(offer.clone());
    }

    fn collided<T>(&mut self, kind: Kind, offer: &Offer<T>, first: &Offer<T>, fate: &str) {
        let message = format!(
            "{fate}: `{}` is already {kind} `{}` of server `{}`",
            offer.name(),
            first.original(),
            first.server()
        );
        self.findings
            .add(kind, CatalogFault::Collision, Some(offer.original()), message);
    }
}

#[cfg(test)]
mod tests;
