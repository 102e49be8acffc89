//! What the servers offer, and the one immutable picture of it that callers see.
//!
//! The path of a listing:
//!
//! 1. `Pager` turns pages into an `ItemList`. The lists become a [`ServerCatalog`], which sets malformed items aside.
//! 2. `Replacement` decides whether it replaces the last-good one.
//! 3. `Publisher` joins the catalogs of all servers, each with its `ToolView` applied, into the published [`Catalog`]. A change costs
//!    what the changed server offers.
//! 4. `CatalogStore` keeps a server's catalog for the next start.
//!
//! Invariants: items are carried as the bytes the server sent; equal offers give equal bytes and hash, and an equal union,
//! whatever order they were listed in; the revision grows only when content changes; one bad item costs none of its neighbours;
//! a reader never waits and never sees a half-built catalog.

mod addresses;
mod claims;
mod conflicts;
mod findings;
mod item;
mod mirror;
mod name_index;
mod names;
mod offer;
mod pages;
mod published;
mod publisher;
mod replacement;
mod section;
mod server;
pub(crate) mod servers;
mod store;
mod union;

#[cfg(test)]
mod fixtures;

pub(crate) use self::conflicts::log_conflicts;
pub use self::item::{Hints, Item, Kind};
pub(crate) use self::mirror::CallHeaders;
pub use self::names::{CatalogHash, public_name};
pub use self::offer::{
    OfPrompts, OfResources, OfTemplates, OfTools, Offer, PublicPrompt, PublicResource, PublicTemplate,
    PublicTool,
};
pub use self::pages::{CacheScope, Caching};
pub(crate) use self::pages::{ItemList, PageError, PageStep, Pager};
pub use self::published::{Catalog, Freshness};
pub use self::publisher::CatalogReader;
pub(crate) use self::publisher::Publisher;
pub(crate) use self::replacement::{Doubt, Replacement};
pub use self::server::{About, CatalogFault, Diagnostic, ServerCatalog};
#[cfg(any(test, fuzzing))]
pub(crate) use self::store::fuzz;
pub(crate) use self::store::{CatalogDirectory, CatalogStore, STORE_TARGET, Stored};
pub(crate) use self::union::PreparedOffers;
#[cfg(feature = "rmcp")]
pub use crate::sdk::{SdkItem, model};
