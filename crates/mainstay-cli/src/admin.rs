//! What `mainstay serve` serves beside MCP, at the same address: with `--admin` the control API and the dashboard, with `--metrics` or
//! `--admin` the metrics.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use mainstay::Events;
use mainstay::config::Secret;
use mainstay::gateway::PlainText;
use mainstay_control::{
    API_ROOT, Attached, Control, ControlService, METRICS_PATH, MetricsAccess, PAGE_ROOT, PageLogins, Role,
    ServerGroup, token_from_file,
};
use mainstay_daemon::live::{LiveConfiguration, state_directory};
use mainstay_gateway::{Gateway, HttpDoor};

use crate::args::ServeArgs;
use crate::controlled::LiveControl;
use crate::exit::CommandFailure;
use crate::output::{Text, plain, text};

/// What is served beside MCP.
pub(crate) struct Admin {
    control: Control,
    live: Arc<LiveControl>,
    /// The file with the token of the control API, if that is served.
    api_token_file: Option<PathBuf>,
    metrics: MetricsPlace,
}

/// Where a reader of metrics gets its token.
enum MetricsPlace {
    /// It uses that of the control API.
    OfApi,
    /// It needs none.
    Open,
    TokenFile(PathBuf),
}

impl Admin {
    /// Mounts on the listener what is asked for. Nothing is started yet: a bad token file must not cost the servers a start.
    pub(crate) fn open(
        arguments: &ServeArgs,
        door: HttpDoor,
    ) -> Result<(HttpDoor, Option<Self>), CommandFailure> {
        if !arguments.admin && !arguments.metrics {
            return Ok((door, None));
        }
        let (metrics, access) = metrics_access(arguments)?;
        let live = Arc::new(LiveControl::default());
        let control = Control::builder(Role::Serve)
            .audit(state_directory(|name| env::var_os(name)))
            .controlled(live.clone())
            .build();
        let (door, api_token_file) = if arguments.admin {
            let (file, token) = token(
                arguments.admin_token_file.as_deref(),
                "control-token",
                "--admin-token-file",
            )?;
            let pages = PageLogins::new(token.expose());
            let service = Arc::new(ControlService::with_pages(&control, access, pages, None));
            let door = door.mount(&[API_ROOT, PAGE_ROOT, METRICS_PATH], Some(token), service);
            (door, Some(file))
        } else {
            let service = Arc::new(ControlService::with_metrics(&control, access));
            (door.mount(&[METRICS_PATH], None, service), None)
        };
        let admin = Self {
            control,
            live,
            api_token_file,
            metrics,
        };
        Ok((door, Some(admin)))
    }

    /// Controls the servers of this gateway, whose events begin with its start.
    pub(crate) fn attach(&self, gateway: &Gateway, events: Events) -> Attached {
        self.control
            .attach(ServerGroup::configured(gateway.clone()).events(events))
    }

    /// Lets the API reload and change this configuration.
    pub(crate) fn follows(&self, live: &LiveConfiguration) {
        self.live.set(live.clone());
    }

    /// The hub, to record what becomes of the configuration.
    pub(crate) fn control(&self) -> Control {
        self.control.clone()
    }

    /// What is served, at this address, for a person.
    pub(crate) fn announcements(&self, address: &str) -> Vec<Text> {
        let shown = |file: &Path| PlainText::line(&file.display().to_string());
        let api = self.api_token_file.as_deref().map(|file| {
            text!(
                "the control API is at {}{}; its token is in {}",
                plain(address),
                API_ROOT,
                shown(file)
            )
        });
        let metrics = match &self.metrics {
            MetricsPlace::OfApi => None,
            MetricsPlace::Open => Some(text!("the metrics are at {}{}", plain(address), METRICS_PATH)),
            MetricsPlace::TokenFile(file) => Some(text!(
                "the metrics are at {}{}; their token is in {}",
                plain(address),
                METRICS_PATH,
                shown(file)
            )),
        };
        api.into_iter().chain(metrics).collect()
    }
}

/// Who may read the metrics. What needs no token for MCP needs none here: metrics disclose less than the lists of tools.
fn metrics_access(arguments: &ServeArgs) -> Result<(MetricsPlace, MetricsAccess), CommandFailure> {
    let needs_token = arguments.token_file.is_some() || arguments.token_env.is_some();
    match &arguments.metrics_token_file {
        _ if !arguments.metrics => Ok((MetricsPlace::OfApi, MetricsAccess::none())),
        None if !needs_token => Ok((MetricsPlace::Open, MetricsAccess::everyone())),
        file => {
            let (file, token) = token(file.as_deref(), "metrics-token", "--metrics-token-file")?;
            Ok((MetricsPlace::TokenFile(file), MetricsAccess::token(&token)))
        }
    }
}

/// The token in this file, which is made if there is none, and the file.
fn token(named: Option<&Path>, default: &str, option: &str) -> Result<(PathBuf, Secret), CommandFailure> {
    let file = match named {
        Some(file) => file.to_owned(),
        None => in_state_directory(default).ok_or_else(|| {
            CommandFailure::usage(anyhow!(
                "neither XDG_STATE_HOME nor HOME is set, so the token has no place: name a file with {option}"
            ))
        })?,
    };
    let token = token_from_file(&file).map_err(CommandFailure::usage)?;
    Ok((file, token))
}

/// Where the token of the control API is, unless another file is named.
pub(crate) fn default_token_file() -> Option<PathBuf> {
    in_state_directory("control-token")
}

/// A file with what outlives a restart, and is no cache.
fn in_state_directory(file: &str) -> Option<PathBuf> {
    let state = state_directory(|name| env::var_os(name))?;
    Some(state.join(file))
}
