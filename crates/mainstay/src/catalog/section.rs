//! What one server offers, list by list, as callers would see it if no other server were there.

use std::sync::Arc;

use super::name_index::NameIndex;
use super::names::{CatalogHash, Hasher};
use super::offer::{OfPrompts, OfResources, OfTemplates, OfTools, Offer};
use super::{Item, Kind, ServerCatalog};
use crate::config::ToolView;

/// All that one server offers. Sections share the lists in which they do not differ.
#[derive(Clone, Debug)]
pub(super) struct ServerSection {
    pub(super) tools: Arc<SectionList<OfTools>>,
    pub(super) prompts: Arc<SectionList<OfPrompts>>,
    pub(super) resources: Arc<SectionList<OfResources>>,
    pub(super) templates: Arc<SectionList<OfTemplates>>,
}

/// The offers of one kind of one server, sorted by their original names.
#[derive(Debug)]
pub(super) struct SectionList<K> {
    pub(super) offers: Box<[Offer<K>]>,
    /// Equal lists have equal hashes.
    pub(super) hash: CatalogHash,
}

/// A kind of offers: for what is done alike with all kinds.
pub(super) trait OfKind: Sized {
    const KIND: Kind;

    /// The list of this kind.
    fn list(section: &ServerSection) -> &Arc<SectionList<Self>>;
}

impl ServerSection {
    pub(super) fn new(server: &Arc<str>, catalog: &ServerCatalog, view: &ToolView) -> Self {
        let items = |kind: Kind| catalog.items(kind).iter();
        let tool = |item: &Item| {
            let name = view.public_name(item.key());
            Offer::renamed(Kind::Tool, server, item, name, view.describe(item.key()))
        };
        let prompt = |item: &Item| Offer::renamed(Kind::Prompt, server, item, item.key(), None);
        let resource = |item: &Item| Offer::unchanged(Kind::Resource, server, item);
        let template = |item: &Item| Offer::unchanged(Kind::Template, server, item);
        let tools = items(Kind::Tool).filter(|item| view.admits(item.key()));
        Self {
            tools: SectionList::new(tools.map(tool)),
            prompts: SectionList::new(items(Kind::Prompt).map(prompt)),
            resources: SectionList::new(items(Kind::Resource).map(resource)),
            templates: SectionList::new(items(Kind::Template).map(template)),
        }
    }

    /// The same, with the lists of `previous` where they are equal.
    pub(super) fn sharing_with(self, previous: &Self) -> Self {
        Self {
            tools: shared(self.tools, &previous.tools),
            prompts: shared(self.prompts, &previous.prompts),
            resources: shared(self.resources, &previous.resources),
            templates: shared(self.templates, &previous.templates),
        }
    }
}

fn shared<K>(list: Arc<SectionList<K>>, previous: &Arc<SectionList<K>>) -> Arc<SectionList<K>> {
    match list.hash == previous.hash {
        true => Arc::clone(previous),
        false => list,
    }
}

impl<K> SectionList<K> {
    /// The offers that own their names.
    pub(super) fn owning(&self, owners: &NameIndex<K>) -> impl Iterator<Item = &Offer<K>> {
        let owns = |offer: &&Offer<K>| {
            let owner = owners.get(offer.name());
            owner.is_some_and(|owner| owner.place() == offer.place())
        };
        self.offers.iter().filter(owns)
    }

    fn new(offers: impl Iterator<Item = Offer<K>>) -> Arc<Self> {
        let offers: Box<[Offer<K>]> = offers.collect();
        Arc::new(Self {
            hash: hash_of(&offers),
            offers,
        })
    }
}

/// The hash of these offers in this order.
pub(super) fn hash_of<'a, K: 'a>(offers: impl IntoIterator<Item = &'a Offer<K>>) -> CatalogHash {
    let mut hasher = Hasher::default();
    for offer in offers {
        hasher.part(offer.digest().as_bytes());
    }
    hasher.finish()
}

impl OfKind for OfTools {
    const KIND: Kind = Kind::Tool;

    fn list(section: &ServerSection) -> &Arc<SectionList<Self>> {
        &section.tools
    }
}

impl OfKind for OfPrompts {
    const KIND: Kind = Kind::Prompt;

    fn list(section: &ServerSection) -> &Arc<SectionList<Self>> {
        &section.prompts
    }
}

impl OfKind for OfResources {
    const KIND: Kind = Kind::Resource;

    fn list(section: &ServerSection) -> &Arc<SectionList<Self>> {
        &section.resources
    }
}

impl OfKind for OfTemplates {
    const KIND: Kind = Kind::Template;

    fn list(section: &ServerSection) -> &Arc<SectionList<Self>> {
        &section.templates
    }
}

#[cfg(test)]
mod tests;
