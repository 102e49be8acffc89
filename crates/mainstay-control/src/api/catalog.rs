//! What one server offers, and what changed in it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a server offered when it was last listed with success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CatalogDocument {
    /// The server.
    pub server: String,
    /// What the server says of itself, as it sent it.
    #[schema(value_type = Option<Object>)]
    pub server_info: Option<serde_json::Value>,
    /// How the server says that it is used.
    pub instructions: Option<String>,
    /// When it was listed.
    pub listed_ms: Option<u64>,
    /// Since when it may be out of date, if it may be.
    pub stale_since_ms: Option<u64>,
    /// A digest of the content. It changes exactly when the content does.
    pub hash: String,
    /// The tools.
    pub tools: Vec<CatalogItem>,
    /// The prompts.
    pub prompts: Vec<CatalogItem>,
    /// The resources.
    pub resources: Vec<CatalogItem>,
    /// The templates of resources.
    pub templates: Vec<CatalogItem>,
    /// What was left out or renamed, and why.
    pub set_aside: Vec<SetAside>,
}

/// One thing that a server offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CatalogItem {
    /// The name under which all servers together show it; of a resource its address.
    pub public_name: String,
    /// The name that the server knows; of a resource its address.
    pub name: String,
    /// The definition as the server sent it.
    #[schema(value_type = Object)]
    pub definition: serde_json::Value,
}

/// A listing that a person asked for, and what the server offers since then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefreshReport {
    /// The server.
    pub server: String,
    /// The revision of the published catalog that has the listing.
    pub revision: u64,
    /// Whether the server offers something else than before the command.
    pub changed: bool,
    /// The tools.
    pub tools: usize,
    /// The prompts.
    pub prompts: usize,
    /// The resources.
    pub resources: usize,
    /// The templates of resources.
    pub templates: usize,
    /// When the listing ended.
    pub listed_ms: Option<u64>,
}

/// Something that is not shown as the server sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetAside {
    /// What was done and why.
    pub message: String,
}

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
