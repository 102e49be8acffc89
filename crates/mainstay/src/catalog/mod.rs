//! What the servers offer, and the one immutable picture of it that callers see.
//!
//! The walk of a listing: [`Pager`] turns pages into a [`Listing`]; listings become a [`ServerCatalog`], which sets
//! malformed items aside; [`Replacement`] decides whether it takes the place of the last-good one; [`Publisher`] joins
//! the catalogs of all servers, each seen through its [`View`], into the published [`Catalog`]; [`Store`] keeps a
//! server's catalog on disk for the next start.
//!
//! Invariants: items are carried as the bytes the server sent; equal offers give equal bytes and hash, and an equal union,
//! whatever order they were listed in; the revision grows only when content changes; one bad item costs none of its neighbours;
//! a reader never waits and never sees a half-built catalog.

mod addresses;
mod caching;
mod diagnostic;
mod hash;
mod item;
mod kind;
mod mirror;
mod names;
mod offer;
mod pages;
mod published;
mod publisher;
mod replacement;
mod server;
mod store;
mod union;
mod view;

#[cfg(test)]
mod fixtures;

pub use self::caching::{CacheScope, Caching};
pub use self::diagnostic::{Diagnostic, Fault};
pub use self::hash::CatalogHash;
pub use self::item::{Hints, Item};
pub use self::kind::Kind;
pub use self::offer::{Offer, PublicPrompt, PublicResource, PublicTemplate, PublicTool};
pub use self::published::{Catalog, Freshness};
pub use self::publisher::CatalogReader;
pub use self::server::{About, ServerCatalog};
pub(crate) use self::view::View;

pub(crate) use self::mirror::CallHeaders;
pub use self::names::public_name;
pub(crate) use self::pages::{Listing, PageError, Pager, Step};
pub(crate) use self::publisher::Publisher;
pub(crate) use self::replacement::{Doubt, Replacement};
#[cfg(any(test, fuzzing))]
pub(crate) use self::store::fuzz;
pub(crate) use self::store::{STORE_TARGET, Store, Stored};
pub(crate) use self::union::PreparedOffers;
