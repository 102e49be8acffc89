//! An item as callers see it: under its public name, through the view of its server.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::names::{CatalogHash, Hasher, public_name};
use super::{Hints, Item, Kind};
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

/// An item as callers see it. `K` marks its kind, so that a tool is never taken for a prompt. Clones share everything.
pub struct Offer<K> {
    parts: Arc<OfferParts>,
    kind: PhantomData<fn() -> K>,
}

struct OfferParts {
    name: Arc<str>,
    server: Arc<str>,
    item: Item,
    published: RawJson,
    digest: CatalogHash,
}

impl<K> Offer<K> {
    /// The name (for resources, the uri) by which callers know it.
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// The server that offers it.
    pub fn server(&self) -> &str {
        &self.parts.server
    }

    /// The name (for resources, the uri) by which its server knows it.
    pub fn original(&self) -> &str {
        self.parts.item.key()
    }

    /// The item exactly as the server sent it.
    pub fn raw(&self) -> &RawJson {
        self.parts.item.raw()
    }

    /// The item with its public name and, where the view gives one, its description; every other byte as the server
    /// sent it.
    pub fn published(&self) -> &RawJson {
        &self.parts.published
    }

    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.parts.name
    }

    pub(super) fn shared_server(&self) -> &Arc<str> {
        &self.parts.server
    }

    pub(super) fn digest(&self) -> &CatalogHash {
        &self.parts.digest
    }

    /// Whether both are clones of one offer.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.parts, &other.parts)
    }

    /// Where it stands among the offers of all servers. No two offers of a kind have the same place.
    pub(super) fn place(&self) -> (&str, &str) {
        (self.server(), self.original())
    }

    fn new(kind: Kind, server: &Arc<str>, item: &Item, name: Arc<str>, published: RawJson) -> Self {
        let mut hasher = Hasher::default();
        hasher
            .count(kind.index())
            .part(server.as_bytes())
            .part(item.key().as_bytes())
            .part(published.as_bytes());
        let parts = OfferParts {
            name,
            server: Arc::clone(server),
            item: item.clone(),
            published,
            digest: hasher.finish(),
        };
        Self {
            parts: Arc::new(parts),
            kind: PhantomData,
        }
    }

    /// An item under `server__name`.
    pub(super) fn renamed(
        kind: Kind,
        server: &Arc<str>,
        item: &Item,
        name: &str,
        description: Option<&str>,
    ) -> Self {
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
    pub(super) fn unchanged(kind: Kind, server: &Arc<str>, item: &Item) -> Self {
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
        let [member] = Object::find(self.published(), [name])?;
        member
    }

    /// What the tool says of its effects.
    pub fn hints(&self) -> Hints {
        self.parts.item.hints()
    }
}

impl<K> Clone for Offer<K> {
    fn clone(&self) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Offer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("name", &self.name())
            .field("server", &self.server())
            .field("original", &self.original())
            .finish_non_exhaustive()
    }
}
