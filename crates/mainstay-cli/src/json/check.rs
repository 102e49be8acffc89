//! The document of `mainstay check --json`.

use mainstay::ServerConfig;
use serde::Serialize;

use super::{Configuration, Server, VERSION, ms};
use crate::check::{Report, ServerReport};
use crate::exit::Exit;
use crate::load::Setup;
use crate::reach;

#[derive(Serialize)]
pub(crate) struct Check {
    version: u32,
    ok: bool,
    configuration: Configuration,
    servers: Vec<Checked>,
}

#[derive(Serialize)]
struct Checked {
    #[serde(flatten)]
    server: Server,
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

impl Check {
    pub(crate) fn of(setup: &Setup, report: &Report) -> Self {
        Self {
            version: VERSION,
            ok: report.exit() == Exit::Success,
            configuration: Configuration::of(setup),
            servers: report.servers.iter().map(Checked::of).collect(),
        }
    }
}

/// The document of `mainstay check --no-start --json`.
#[derive(Serialize)]
pub(crate) struct Configured {
    version: u32,
    ok: bool,
    configuration: Configuration,
    servers: Vec<Entry>,
}

/// One server as it is configured; variables stay variables.
#[derive(Serialize)]
struct Entry {
    server: String,
    enabled: bool,
    required: bool,
    lazy: bool,
    address: Option<String>,
    command: Option<String>,
}

impl Configured {
    pub(crate) fn of(setup: &Setup, ok: bool) -> Self {
        Self {
            version: VERSION,
            ok,
            configuration: Configuration::of(setup),
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
            server: Server::of(&report.status),
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
