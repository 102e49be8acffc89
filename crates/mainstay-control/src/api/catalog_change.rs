//! What changed in the catalog of one server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What changed from one listing to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogChange {
    /// The revision of the published catalog that has the change.
    pub revision: u64,
    /// What the server offers now and did not before.
    pub added: Vec<CatalogEntry>,
    /// What it no longer offers.
    pub removed: Vec<CatalogEntry>,
    /// What it describes in another way.
    pub changed: Vec<ChangedEntry>,
    /// How many more entries changed than are named here.
    pub left_out: usize,
}

/// One thing that a server offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogEntry {
    /// `tool`, `prompt`, `resource` or `template`.
    pub kind: String,
    /// The name that the server knows; of a resource its address.
    pub name: String,
}

/// One thing that a server describes in another way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedEntry {
    /// `tool`, `prompt`, `resource` or `template`.
    pub kind: String,
    /// The name that the server knows; of a resource its address.
    pub name: String,
    /// The members of its definition that differ.
    pub members: Vec<ChangedMember>,
}

/// One member of a definition that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedMember {
    /// The member, such as `description`.
    pub member: String,
    /// Its JSON before; a long one is cut.
    pub before: Option<String>,
    /// Its JSON now.
    pub after: Option<String>,
}
