//! Joins the catalogs of all servers into the published one.
//!
//! Servers are taken in the order of their names and items in the order of theirs, so the same inputs give the same
//! catalog, collisions included. The costly part (names, rewritten bytes, hashes) is done once for each server, when
//! its [`PreparedOffers`] are made; joining only copies handles.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::{Hasher, SEPARATOR, public_name};
use super::offer::{OfPrompts, OfResources, OfTemplates, OfTools, Offer, ServerSection};
use super::published::{CatalogContent, Freshness, OfferTable, PublishedServer, overlaps};
use super::server::{CatalogFault, Diagnostic, DiagnosticList};
use super::{Catalog, Kind, ServerCatalog};
use crate::config::ToolView;

/// What one server offers as callers see it: its catalog through its view.
///
/// Making it takes the time (names, rewritten bytes, hashes), so a large one is made on a thread that may block.
#[derive(Clone, Debug)]
pub(crate) struct PreparedOffers {
    catalog: Arc<ServerCatalog>,
    view: Arc<ToolView>,
    section: Arc<ServerSection>,
}

impl PreparedOffers {
    pub(crate) fn new(server: &Arc<str>, catalog: Arc<ServerCatalog>, view: Arc<ToolView>) -> Self {
        Self {
            section: Arc::new(ServerSection::new(server, &catalog, &view)),
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
                section: Arc::clone(&previous.section),
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
}

/// One server's part of the union.
#[derive(Debug)]
pub(crate) struct UnionInput {
    pub(super) offers: PreparedOffers,
    pub(super) freshness: Freshness,
}

impl Catalog {
    /// The union of all inputs, as the successor of `previous`.
    pub(crate) fn union(inputs: &BTreeMap<Arc<str>, UnionInput>, previous: &Self) -> Self {
        let listed = |input: &UnionInput| PublishedServer {
            catalog: Arc::clone(&input.offers.catalog),
            freshness: input.freshness,
            section: Arc::clone(&input.offers.section),
        };
        let servers = inputs
            .iter()
            .map(|(name, input)| (Arc::clone(name), listed(input)));
        Self::join(servers.collect(), previous)
    }

    /// See [`crate::gateway::catalog_of`].
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = (&'a str, &'a Self)>) -> Self {
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
            .extend(overlaps(&join.resources, &join.templates));
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
    tools: OfferTable<OfTools>,
    prompts: OfferTable<OfPrompts>,
    resources: OfferTable<OfResources>,
    templates: OfferTable<OfTemplates>,
    hasher: Hasher,
    diagnostics: Vec<Diagnostic>,
}

impl Union {
    fn add(&mut self, server: &str, listed: &PublishedServer) {
        self.diagnostics.extend_from_slice(listed.catalog.diagnostics());
        let mut joint = ServerJoin {
            hasher: &mut self.hasher,
            findings: DiagnosticList::of(server),
            displaced: Vec::new(),
        };
        let section = &listed.section;
        joint.add_named(Kind::Tool, &section.tools, &mut self.tools);
        joint.add_named(Kind::Prompt, &section.prompts, &mut self.prompts);
        joint.add_by_uri(Kind::Resource, &section.resources, &mut self.resources);
        joint.add_by_uri(Kind::Template, &section.templates, &mut self.templates);
        self.diagnostics.extend(joint.displaced);
        self.diagnostics.extend(joint.findings.finish());
    }
}

/// Where one server's offers meet those before it.
struct ServerJoin<'a> {
    hasher: &'a mut Hasher,
    findings: DiagnosticList<'a>,
    /// What is to be said of offers of other servers that give way to this one's.
    displaced: Vec<Diagnostic>,
}

impl ServerJoin<'_> {
    /// A name must lead to one thing: an offer whose name is taken is set aside. One that is really called so comes before one whose
    /// name had to be changed, so its name leads to it whichever of their servers is listed first.
    fn add_named<T>(&mut self, kind: Kind, offers: &[Offer<T>], table: &mut OfferTable<T>) {
        for offer in offers {
            match table.get(offer.name()).cloned() {
                Some(first) if is_changed(&first) && is_exact(offer) => {
                    let mut finding = DiagnosticList::of(first.server());
                    note_collision(&mut finding, kind, &first, offer, SET_ASIDE);
                    self.displaced.extend(finding.finish());
                    self.hasher.part(offer.digest().as_bytes());
                    table.replace(offer.clone());
                }
                Some(first) => note_collision(&mut self.findings, kind, offer, &first, SET_ASIDE),
                None => self.keep(offer, table),
            }
        }
    }

    /// A uri means the same on every server: both are listed, and the first server is read.
    fn add_by_uri<T>(&mut self, kind: Kind, offers: &[Offer<T>], table: &mut OfferTable<T>) {
        for offer in offers {
            if let Some(first) = table.get(offer.name()) {
                let fate = "is listed, but not read from here";
                note_collision(&mut self.findings, kind, offer, first, fate);
            }
            self.keep(offer, table);
        }
    }

    fn keep<T>(&mut self, offer: &Offer<T>, table: &mut OfferTable<T>) {
        self.hasher.part(offer.digest().as_bytes());
        table.push(offer.clone());
    }
}

const SET_ASIDE: &str = "is set aside";

/// Notes what becomes of an offer whose name belongs to another.
fn note_collision<T>(
    findings: &mut DiagnosticList<'_>,
    kind: Kind,
    offer: &Offer<T>,
    owner: &Offer<T>,
    fate: &str,
) {
    let message = format!(
        "{fate}: `{}` is already {kind} `{}` of server `{}`",
        offer.name(),
        owner.original(),
        owner.server()
    );
    findings.add(kind, CatalogFault::Collision, Some(offer.original()), message);
}

/// Whether an offer's public name is made of the very names of its server and of itself.
fn is_exact<T>(offer: &Offer<T>) -> bool {
    let name = offer.name().strip_prefix(offer.server());
    let name = name.and_then(|rest| rest.strip_prefix(SEPARATOR));
    name == Some(offer.original())
}

/// Whether characters of these names had to be replaced. A name that the configuration gave is not changed.
fn is_changed<T>(offer: &Offer<T>) -> bool {
    !is_exact(offer) && public_name(offer.server(), offer.original()) == offer.name()
}

#[cfg(test)]
mod tests;
