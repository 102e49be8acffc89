//! The documents of `mainstay tools --json` and `mainstay describe --json`.

use mainstay::catalog::{Hints, PublicTool};
use mainstay::{Catalog, RawJson, Status};
use serde::Serialize;
use utoipa::ToSchema;

use super::{ConfigurationDocument, DocumentVersion, ServerDocument};
use crate::load::Setup;

#[derive(Serialize, ToSchema)]
pub(crate) struct ToolsDocument {
    version: DocumentVersion,
    configuration: ConfigurationDocument,
    servers: Vec<ServerDocument>,
    tools: Vec<ToolDocument>,
    prompts: Vec<OfferDocument>,
    resources: Vec<OfferDocument>,
    templates: Vec<OfferDocument>,
}

/// One tool.
#[derive(Serialize, ToSchema)]
pub(super) struct ToolDocument {
    #[serde(flatten)]
    offer: OfferDocument,
    hints: EffectsDocument,
}

/// One thing offered. `definition` is as published: the server's own, under its public name.
#[derive(Serialize, ToSchema)]
struct OfferDocument {
    name: String,
    server: String,
    original: String,
    stale: bool,
    #[schema(value_type = Value)]
    definition: RawJson,
}

/// What a tool is to be taken for: what it says of itself, and the cautious default where it says nothing.
#[derive(Serialize, ToSchema)]
struct EffectsDocument {
    read_only: bool,
    idempotent: bool,
    destructive: bool,
    open_world: bool,
}

impl ToolsDocument {
    pub(crate) fn of(setup: &Setup, catalog: &Catalog, statuses: &[Status]) -> Self {
        let stale = |server: &str| {
            let status = statuses.iter().find(|status| *status.server == *server);
            status.is_some_and(|status| status.stale_since.is_some())
        };
        macro_rules! offer {
            ($offer:expr) => {
                OfferDocument::of($offer, stale($offer.server()))
            };
        }
        let tools = catalog
            .tools()
            .iter()
            .map(|tool| ToolDocument::of(tool, stale(tool.server())));
        Self {
            version: DocumentVersion,
            configuration: ConfigurationDocument::of(setup),
            servers: statuses.iter().map(ServerDocument::of).collect(),
            tools: tools.collect(),
            prompts: catalog.prompts().iter().map(|prompt| offer!(prompt)).collect(),
            resources: catalog
                .resources()
                .iter()
                .map(|resource| offer!(resource))
                .collect(),
            templates: catalog
                .templates()
                .iter()
                .map(|template| offer!(template))
                .collect(),
        }
    }
}

impl ToolDocument {
    pub(super) fn of(tool: &PublicTool, stale: bool) -> Self {
        Self {
            offer: OfferDocument::of(tool, stale),
            hints: EffectsDocument::of(tool.hints()),
        }
    }
}

impl OfferDocument {
    fn of<T>(offer: &mainstay::catalog::Offer<T>, stale: bool) -> Self {
        Self {
            name: offer.name().to_owned(),
            server: offer.server().to_owned(),
            original: offer.original().to_owned(),
            stale,
            definition: offer.published().clone(),
        }
    }
}

impl EffectsDocument {
    fn of(hints: Hints) -> Self {
        Self {
            read_only: hints.read_only,
            idempotent: hints.idempotent,
            destructive: hints.destructive,
            open_world: hints.open_world,
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct DescribedDocument {
    version: DocumentVersion,
    #[serde(flatten)]
    tool: ToolDocument,
}

impl DescribedDocument {
    pub(crate) fn of(tool: &PublicTool, is_stale: bool) -> Self {
        Self {
            version: DocumentVersion,
            tool: ToolDocument::of(tool, is_stale),
        }
    }
}
