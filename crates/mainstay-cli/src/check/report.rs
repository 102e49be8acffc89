//! What a check found: the one account that the text and the JSON are both made from.

use std::time::Duration;

use mainstay::{Catalog, Fleet, ServerConfig, Status};
use serde::Deserialize;

use super::fix::{self, Fix, fix};
use crate::load::Setup;
use crate::reach;
use crate::startup::{Standing, Startup};

/// What a check found.
#[derive(Debug)]
pub(crate) struct CheckReport {
    /// By name.
    pub(crate) servers: Vec<ServerReport>,
    /// Servers that are not used, for errors in their configuration.
    pub(crate) refused: Vec<String>,
    /// How many of them count as wanted and not up: those that `mainstay status` counts, which shows what the daemon has.
    pub(crate) refused_wanted: usize,
}

/// What a check found of one server.
#[derive(Debug)]
pub(crate) struct ServerReport {
    pub(crate) status: Status,
    pub(crate) standing: Standing,
    pub(crate) required: bool,
    /// Whether the exit code hangs on it.
    pub(crate) counts: bool,
    /// How long it took to come up, or how long the command waited.
    pub(crate) took: Duration,
    /// Where it is reached, over HTTP.
    pub(crate) address: Option<String>,
    /// What the server calls itself: name and version.
    pub(crate) title: Option<String>,
    pub(crate) offers: OfferCounts,
    /// What was set aside of its offers, in words.
    pub(crate) set_aside: Vec<String>,
    /// What it has written to stderr so far, while it is still starting.
    pub(crate) stderr: Vec<String>,
    /// What a person can do about it.
    pub(crate) fix: Option<Fix>,
}

/// What a server offers, by the names and uris it uses itself.
#[derive(Debug, Default)]
pub(crate) struct OfferCounts {
    pub(crate) tools: Vec<String>,
    pub(crate) prompts: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) templates: Vec<String>,
}

impl CheckReport {
    pub(crate) fn new(setup: &Setup, startup: &Startup, fleet: &Fleet, statuses: Vec<Status>) -> Self {
        let none_required = !setup.servers.iter().any(ServerConfig::required);
        let catalog = fleet.catalog();
        let server = |status: Status| {
            let config = setup
                .servers
                .iter()
                .find(|config| config.name() == &*status.server);
            let required = config.is_some_and(ServerConfig::required);
            let enabled = config.is_some_and(ServerConfig::enabled);
            ServerReport {
                standing: Standing::of(&status),
                required,
                counts: required || (none_required && enabled),
                took: startup.took(&status),
                address: config.and_then(reach::address),
                title: title(&catalog, &status.server),
                offers: OfferCounts::of(&catalog, &status.server),
                set_aside: set_aside(&catalog, &status.server),
                stderr: stderr_so_far(fleet, &status),
                fix: match &setup.daemon {
                    Some(daemon) => fix::of_daemon(&status, daemon, setup),
                    None => config.and_then(|config| fix(&status, config, setup)),
                },
                status,
            }
        };
        let is_wanted = |name: &&String| {
            let daemon = setup.daemon.as_ref();
            daemon.is_none_or(|daemon| daemon.wanted.contains(*name))
        };
        Self {
            servers: statuses.into_iter().map(server).collect(),
            refused_wanted: setup.refused.iter().filter(is_wanted).count(),
            refused: setup.refused.iter().cloned().collect(),
        }
    }
}

impl ServerReport {
    pub(crate) fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }

    /// Whether it is up, and said what it offers.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_up() && self.status.listing_failure.is_none()
    }
}

impl OfferCounts {
    fn of(catalog: &Catalog, server: &str) -> Self {
        macro_rules! names {
            ($offers:expr) => {
                $offers
                    .iter()
                    .filter(|offer| offer.server() == server)
                    .map(|offer| offer.original().to_owned())
                    .collect()
            };
        }
        Self {
            tools: names!(catalog.tools()),
            prompts: names!(catalog.prompts()),
            resources: names!(catalog.resources()),
            templates: names!(catalog.templates()),
        }
    }
}

fn title(catalog: &Catalog, server: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct ServerInfo {
        name: String,
        version: Option<String>,
    }
    let info = catalog.server(server)?.about().server_info.as_ref()?;
    let info: ServerInfo = info.parse().ok()?;
    Some(match info.version {
        Some(version) => format!("{} {version}", info.name),
        None => info.name,
    })
}

/// Lines of stderr that are shown of a server that is still starting.
const STDERR_LINES: usize = 10;

fn stderr_so_far(fleet: &Fleet, status: &Status) -> Vec<String> {
    let (Some(_), Some(generation)) = (&status.start, status.generation) else {
        return Vec::new();
    };
    let lines = fleet
        .server(&status.server)
        .map(|server| server.stderr_tail(STDERR_LINES));
    let lines = lines.unwrap_or_default().into_iter();
    lines
        .filter(|line| line.generation == generation.0)
        .map(|line| line.text)
        .collect()
}

fn set_aside(catalog: &Catalog, server: &str) -> Vec<String> {
    let of_it = catalog
        .diagnostics()
        .iter()
        .filter(|diagnostic| diagnostic.server == server);
    let words = of_it.map(|diagnostic| match &diagnostic.item {
        Some(item) => format!("{} `{item}`: {}", diagnostic.kind, diagnostic.message),
        None => format!("{}s: {}", diagnostic.kind, diagnostic.message),
    });
    words.collect()
}
