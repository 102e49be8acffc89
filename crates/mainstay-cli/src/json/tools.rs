//! The document of `mainstay tools --json`.

use mainstay::catalog::{Hints, PublicTool};
use mainstay::{Catalog, RawJson, Status};
use serde::Serialize;

use super::{Configuration, Server, VERSION};
use crate::load::Setup;

#[derive(Serialize)]
pub(crate) struct Tools {
    version: u32,
    configuration: Configuration,
    servers: Vec<Server>,
    tools: Vec<Tool>,
    prompts: Vec<Offer>,
    resources: Vec<Offer>,
    templates: Vec<Offer>,
}

/// One tool.
#[derive(Serialize)]
pub(super) struct Tool {
    #[serde(flatten)]
    offer: Offer,
    hints: Effects,
}

/// One thing offered. `definition` is as published: the server's own, under its public name.
#[derive(Serialize)]
struct Offer {
    name: String,
    server: String,
    original: String,
    stale: bool,
    definition: RawJson,
}

/// What a tool is to be taken for: what it says of itself, and the cautious default where it says nothing.
#[derive(Serialize)]
struct Effects {
    read_only: bool,
    idempotent: bool,
    destructive: bool,
    open_world: bool,
}

impl Tools {
    pub(crate) fn of(setup: &Setup, catalog: &Catalog, statuses: &[Status]) -> Self {
        let stale = |server: &str| {
            catalog
                .freshness(server)
                .is_some_and(|freshness| freshness.stale_since.is_some())
        };
        macro_rules! offer {
            ($offer:expr) => {
                Offer::of($offer, stale($offer.server()))
            };
        }
        let tools = catalog
            .tools()
            .iter()
            .map(|tool| Tool::of(tool, stale(tool.server())));
        Self {
            version: VERSION,
            configuration: Configuration::of(setup),
            servers: statuses.iter().map(Server::of).collect(),
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

impl Tool {
    pub(super) fn of(tool: &PublicTool, stale: bool) -> Self {
        Self {
            offer: Offer::of(tool, stale),
            hints: Effects::of(tool.hints()),
        }
    }
}

impl Offer {
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

impl Effects {
    fn of(hints: Hints) -> Self {
        Self {
            read_only: hints.read_only,
            idempotent: hints.idempotent,
            destructive: hints.destructive,
            open_world: hints.open_world,
        }
    }
}
