//! What a person should know of a union: the offers that were set aside, or that are not read, because another has their name.

use std::collections::HashMap;

use super::claims::gives_way;
use super::offer::Offer;
use super::section::OfKind;
use super::server::{CatalogFault, Diagnostic, DiagnosticList};
use super::servers::{PublishedServer, ServerTable};
use super::{Kind, OfPrompts, OfResources, OfTemplates, OfTools};

/// The findings of all servers, in the order of the servers.
pub(super) fn of(servers: &ServerTable) -> Vec<Diagnostic> {
    let mut join = Join::default();
    for listed in servers.iter() {
        join.add(listed);
    }
    join.diagnostics
}

/// A join under way: the first offer of each name so far, or the one that took its place.
#[derive(Default)]
struct Join<'a> {
    tools: HashMap<&'a str, &'a Offer<OfTools>>,
    prompts: HashMap<&'a str, &'a Offer<OfPrompts>>,
    resources: HashMap<&'a str, &'a Offer<OfResources>>,
    templates: HashMap<&'a str, &'a Offer<OfTemplates>>,
    diagnostics: Vec<Diagnostic>,
}

impl<'a> Join<'a> {
    fn add(&mut self, listed: &'a PublishedServer) {
        self.diagnostics.extend_from_slice(listed.catalog.diagnostics());
        let mut found = ServerFindings {
            own: DiagnosticList::of(&listed.name),
            displaced: Vec::new(),
        };
        found.meet(listed, &mut self.tools, "is set aside");
        found.meet(listed, &mut self.prompts, "is set aside");
        found.meet(listed, &mut self.resources, "is listed, but not read from here");
        found.meet(listed, &mut self.templates, "is listed, but not read from here");
        self.diagnostics.extend(found.displaced);
        self.diagnostics.extend(found.own.finish());
    }
}

/// What is found where one server's offers meet those before it.
struct ServerFindings<'a> {
    own: DiagnosticList<'a>,
    /// What is to be said of offers of other servers that give way to this one's.
    displaced: Vec<Diagnostic>,
}

impl ServerFindings<'_> {
    fn meet<'a, K: OfKind>(
        &mut self,
        listed: &'a PublishedServer,
        names: &mut HashMap<&'a str, &'a Offer<K>>,
        fate: &str,
    ) {
        for offer in &K::list(&listed.section).offers {
            match names.get(offer.name()) {
                None => {
                    names.insert(offer.name(), offer);
                }
                Some(owner) if gives_way(owner, offer) => {
                    let mut found = DiagnosticList::of(owner.server());
                    note_collision(&mut found, K::KIND, owner, offer, fate);
                    self.displaced.extend(found.finish());
                    names.insert(offer.name(), offer);
                }
                Some(owner) => note_collision(&mut self.own, K::KIND, offer, owner, fate),
            }
        }
    }
}

/// Notes what becomes of an offer whose name belongs to another.
fn note_collision<K>(
    findings: &mut DiagnosticList<'_>,
    kind: Kind,
    offer: &Offer<K>,
    owner: &Offer<K>,
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
