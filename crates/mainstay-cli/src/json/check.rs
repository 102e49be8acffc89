//! The document of `mainstay check --json`.

use serde::Serialize;

use super::{Configuration, Server, VERSION, ms};
use crate::check::{Report, ServerReport};
use crate::exit::Exit;
use crate::load::Setup;

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
    mend: Option<String>,
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
            mend: report.mend.as_ref().map(ToString::to_string),
        }
    }
}
