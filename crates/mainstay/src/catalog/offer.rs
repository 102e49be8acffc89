//! An item as callers see it: under its public name, through the view of its server.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::names::{CatalogHash, Hasher, public_name};
use super::{Hints, Item, Kind, ServerCatalog};
use crate::config::ToolView;
use crate::wire::{Object, RawJson};

/// A published tool.
pub type PublicTool = Offer<OfTools>;
/// A published prompt.
pub type PublicPrompt = Offer<OfPrompts>;
/// A published resource; its public name is its uri.
pub type PublicResource = Offer<OfResources>;
/// A published resource template; its public name is its uri template.
pub type PublicTemplate = Offer<OfTemplates>;

/// Marks an [`Offer`] as a tool. It has no values.
#[derive(Debug)]
pub enum OfTools {}
/// Marks an [`Offer`] as a prompt. It has no values.
#[derive(Debug)]
pub enum OfPrompts {}
/// Marks an [`Offer`] as a resource. It has no values.
#[derive(Debug)]
pub enum OfResources {}
/// Marks an [`Offer`] as a resource template. It has no values.
#[derive(Debug)]
pub enum OfTemplates {}

/// An item as callers see it. `K` marks its kind, so that a tool is never taken for a prompt.
pub struct Offer<K> {
    name: Arc<str>,
    server: Arc<str>,
    item: Item,
    published: RawJson,
    digest: CatalogHash,
    kind: PhantomData<fn() -> K>,
}

impl<K> Offer<K> {
    /// The name (for resources, the uri) by which callers know it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server that offers it.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The name (for resources, the uri) by which its server knows it.
    pub fn original(&self) -> &str {
        self.item.key()
    }

    /// The item exactly as the server sent it.
    pub fn raw(&self) -> &RawJson {
        self.item.raw()
    }

    /// The item with its public name and, where the view gives one, its description; every other byte as the server
    /// sent it.
    pub fn published(&self) -> &RawJson {
        &self.published
    }

    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn digest(&self) -> &CatalogHash {
        &self.digest
    }

    fn new(kind: Kind, server: &Arc<str>, item: &Item, name: Arc<str>, published: RawJson) -> Self {
        let mut hasher = Hasher::default();
        hasher
            .count(kind.index())
            .part(server.as_bytes())
            .part(item.key().as_bytes())
            .part(published.as_bytes());
        Self {
            name,
            server: Arc::clone(server),
            item: item.clone(),
            published,
            digest: hasher.finish(),
            kind: PhantomData,
        }
    }

    /// An item under `server__name`.
    fn renamed(kind: Kind, server: &Arc<str>, item: &Item, name: &str, description: Option<&str>) -> Self {
        let name = public_name(server, name);
        let text = |text: &str| RawJson::from_value(text).expect("a string can be written");
        let mut object = Object::parse(item.raw()).expect("an item was read as an object");
        object.set("name", text(&name));
        if let Some(description) = description {
            object.set("description", text(description));
        }
        Self::new(kind, server, item, name.into(), object.to_raw())
    }

    /// An item known by its uri, which means the same on every server.
    fn unchanged(kind: Kind, server: &Arc<str>, item: &Item) -> Self {
        Self::new(kind, server, item, item.key().into(), item.raw().clone())
    }
}

impl Offer<OfTools> {
    /// What the tool is for, in the words of its server or of the configuration.
    pub fn description(&self) -> Option<String> {
        self.member("description")?.parse().ok()
    }

    /// The JSON Schema of the tool's arguments.
    pub fn input_schema(&self) -> RawJson {
        self.member("inputSchema").unwrap_or(RawJson::EMPTY_OBJECT)
    }

    /// What the server says of the tool's behaviour, as it sent it. [`hints`](Self::hints) reads it with caution.
    pub fn annotations(&self) -> Option<RawJson> {
        self.member("annotations")
    }

    fn member(&self, name: &str) -> Option<RawJson> {
        let [member] = Object::find(&self.published, [name])?;
        member
    }

    /// What the tool says of its effects.
    pub fn hints(&self) -> Hints {
        self.item.hints()
    }
}

impl<K> Clone for Offer<K> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            server: Arc::clone(&self.server),
            item: self.item.clone(),
            published: self.published.clone(),
            digest: self.digest,
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Offer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("name", &self.name)
            .field("server", &self.server)
            .field("original", &self.original())
            .finish_non_exhaustive()
    }
}

/// All that one server offers, as callers would see it if no other server were there.
#[derive(Debug)]
pub(super) struct ServerSection {
    pub(super) tools: Vec<PublicTool>,
    pub(super) prompts: Vec<PublicPrompt>,
    pub(super) resources: Vec<PublicResource>,
    pub(super) templates: Vec<PublicTemplate>,
}

impl ServerSection {
    pub(super) fn new(server: &Arc<str>, catalog: &ServerCatalog, view: &ToolView) -> Self {
        let items = |kind: Kind| catalog.items(kind).iter();
        let tool = |item: &Item| {
            let name = view.public_name(item.key());
            Offer::renamed(Kind::Tool, server, item, name, view.describe(item.key()))
        };
        let prompt = |item: &Item| Offer::renamed(Kind::Prompt, server, item, item.key(), None);
        Self {
            tools: items(Kind::Tool)
                .filter(|item| view.admits(item.key()))
                .map(tool)
                .collect(),
            prompts: items(Kind::Prompt).map(prompt).collect(),
            resources: items(Kind::Resource)
                .map(|item| Offer::unchanged(Kind::Resource, server, item))
                .collect(),
            templates: items(Kind::Template)
                .map(|item| Offer::unchanged(Kind::Template, server, item))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests;
