//! The document of `mainstay check --json`.

use mainstay::ServerConfig;
use serde::Serialize;
use utoipa::ToSchema;

use super::{ConfigurationDocument, DocumentVersion, ServerDocument, ms};
use crate::check::{CheckReport, ServerReport};
use crate::exit::Exit;
use crate::load::Setup;
use crate::reach;

#[derive(Serialize, ToSchema)]
pub(crate) struct CheckDocument {
    version: DocumentVersion,
    ok: bool,
    configuration: ConfigurationDocument,
    servers: Vec<Checked>,
}

#[derive(Serialize, ToSchema)]
struct Checked {
    #[serde(flatten)]
    server: ServerDocument,
    required: bool,
    counts: bool,
    time_ms: u64,
    address: Option<String>,
    title: Option<String>,
    tools: Vec<String>,
    prompts: Vec<String>,
    resources: Vec<String>,
    templates: Vec<String>,
    set_aside: Vec<String>,
    stderr: Vec<String>,
    fix: Option<String>,
}

impl CheckDocument {
    pub(crate) fn of(setup: &Setup, report: &CheckReport) -> Self {
        Self {
            version: DocumentVersion,
            ok: report.exit() == Exit::Success,
            configuration: ConfigurationDocument::of(setup),
            servers: report.servers.iter().map(Checked::of).collect(),
        }
    }
}

/// The document of `mainstay check --no-start --json`.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConfiguredDocument {
    version: DocumentVersion,
    ok: bool,
    configuration: ConfigurationDocument,
    servers: Vec<Entry>,
}

/// One server as it is configured; variables stay variables.
#[derive(Serialize, ToSchema)]
struct Entry {
    server: String,
    enabled: bool,
    required: bool,
    lazy: bool,
    address: Option<String>,
    command: Option<String>,
}

impl ConfiguredDocument {
    pub(crate) fn of(setup: &Setup, ok: bool) -> Self {
        Self {
            version: DocumentVersion,
            ok,
            configuration: ConfigurationDocument::of(setup),
            servers: setup.servers.iter().map(Entry::of).collect(),
        }
    }
}

impl Entry {
    fn of(server: &ServerConfig) -> Self {
        Self {
            server: server.name().to_owned(),
            enabled: server.enabled(),
            required: server.required(),
            lazy: server.lazy(),
            address: reach::address(server),
            command: reach::command_line(server),
        }
    }
}

impl Checked {
    fn of(report: &ServerReport) -> Self {
        let offers = &report.offers;
        Self {
            server: ServerDocument::of(&report.status),
            required: report.required,
            counts: report.counts,
            time_ms: ms(report.took),
            address: report.address.clone(),
            title: report.title.clone(),
            tools: offers.tools.clone(),
            prompts: offers.prompts.clone(),
            resources: offers.resources.clone(),
            templates: offers.templates.clone(),
            set_aside: report.set_aside.clone(),
            stderr: report.stderr.clone(),
            fix: report.fix.as_ref().map(ToString::to_string),
        }
    }
}
