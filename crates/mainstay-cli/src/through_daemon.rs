//! Uses the servers of the daemon in place of servers that a command would start for itself.
//!
//! Each server of the configuration becomes a bridge to the daemon's server of the same name, so every command works as
//! without a daemon, and nothing is started that the daemon has already.

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mainstay::config::{ServerBuilder, StdioTarget};
use mainstay::lifecycle::{Desired, Generation};
use mainstay::server::{Reason, TransportKind};
use mainstay::transport::http::Challenge;
use mainstay::{Era, Failure, ServerConfig, StateKind, Status};
use mainstay_bridge::hello::DaemonStatus;
use mainstay_bridge::{RuntimeDirectory, status};
use mainstay_control::ControlClient;
use mainstay_control::api::{ActorKind, DesiredState, FailureDocument, ServerStatus, StateName};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::control;
use crate::exit::CommandFailure;
use crate::load::Setup;
use crate::login;
use crate::output::{Screen, text};
use crate::startup::Standing;

/// From one look at servers that are still starting to the next.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How long a server may take to answer a ping before it counts as down.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The daemon of this user, if one runs. Starts none, and creates nothing. Errors count as none: `mainstay daemon status` says
/// what is wrong.
pub(crate) fn running_daemon() -> Option<DaemonStatus> {
    let directory = RuntimeDirectory::existing(|name| env::var_os(name)).ok()??;
    // A connection would start a daemon whose socket systemd holds.
    if !directory.has_daemon() {
        return None;
    }
    status(&directory).ok().flatten()
}

/// Changes the setup to the servers of the daemon, which uses the same configuration, and says so.
pub(crate) fn use_daemon(setup: &mut Setup, daemon: &DaemonStatus, screen: &Screen) {
    let bridges: Option<Vec<_>> = setup.servers.iter().map(bridge).collect();
    let Some(bridges) = bridges else { return };
    let without_login = login::without_login(&setup.servers);
    setup.servers = bridges;
    // What a bridge offers is stored by the daemon.
    setup.store = None;
    setup.daemon = DaemonView::find(daemon, without_login);
    screen.note(text!(
        "using the servers of the daemon (process {}); --no-daemon starts them for this command alone",
        daemon.pid
    ));
}

/// A bridge to the daemon's server of this name, with the settings that concern its caller. What the daemon does for all clients,
/// such as renaming tools, is done there.
fn bridge(server: &ServerConfig) -> Option<ServerConfig> {
    bridge_builder(server.name())?
        .enabled(server.enabled())
        .required(server.required())
        .call_timeout(server.call_timeout())
        .call_idle_timeout(server.call_idle_timeout())
        .build()
        .ok()
}

/// A bridge to the daemon's server of this name, with default settings.
pub(crate) fn bridge_to(name: &str) -> Option<ServerConfig> {
    bridge_builder(name)?.build().ok()
}

fn bridge_builder(name: &str) -> Option<ServerBuilder<StdioTarget>> {
    let program = env::current_exe().ok()?.into_os_string().into_string().ok()?;
    Some(ServerConfig::stdio(name, program).args(["connect", name]))
}

/// What the daemon knows of its servers. A bridge is connected even if its server is not.
#[derive(Clone, Debug)]
pub(crate) struct DaemonView {
    socket: PathBuf,
    /// Servers that no login can help.
    pub(crate) without_login: BTreeSet<String>,
    /// The servers of the configuration that are not disabled. One with an error is among them.
    pub(crate) wanted: BTreeSet<String>,
}

impl DaemonView {
    fn find(daemon: &DaemonStatus, without_login: BTreeSet<String>) -> Option<Self> {
        let directory = RuntimeDirectory::existing(|name| env::var_os(name)).ok()??;
        let servers = daemon.servers.iter();
        let wanted =
            servers.filter(|server| server.configured && server.state != StateKind::Disabled.as_str());
        Some(Self {
            socket: directory.socket(),
            without_login,
            wanted: wanted.map(|server| server.name.clone()).collect(),
        })
    }

    fn client(&self) -> ControlClient {
        ControlClient::unix(self.socket.clone()).via(ActorKind::Command)
    }

    /// Waits until the daemon's servers are up or not worth waiting for, at most for this long, and puts their state in the place
    /// of that of their bridges. The watcher is shown each look at them.
    pub(crate) async fn wait(
        &self,
        statuses: &mut [Status],
        within: Duration,
        mut watch: impl FnMut(&[Status]),
    ) -> Result<(), CommandFailure> {
        let deadline = Instant::now() + within;
        loop {
            let seen = self.client().servers(false).await.map_err(control::failed)?;
            for status in statuses.iter_mut() {
                if let Some(seen) = seen.servers.iter().find(|seen| *seen.name == *status.server) {
                    take_over(status, seen);
                }
            }
            watch(statuses);
            let is_settled = |status: &Status| Standing::of(status).is_settled();
            if statuses.iter().all(is_settled) || Instant::now() >= deadline {
                return Ok(());
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// The same; and a server that is connected and answers no ping is down.
    pub(crate) async fn settle(
        &self,
        statuses: &mut [Status],
        within: Duration,
    ) -> Result<(), CommandFailure> {
        self.wait(statuses, within, |_| {}).await?;
        let mut pings = JoinSet::new();
        for (place, status) in statuses.iter().enumerate() {
            if status.state == StateKind::Connected {
                let (daemon, server) = (self.clone(), status.server.clone());
                pings.spawn(async move { (place, daemon.ping(&server, PING_TIMEOUT).await) });
            }
        }
        while let Some(Ok((place, answer))) = pings.join_next().await {
            if let Err(error) = answer {
                let status = &mut statuses[place];
                (status.state, status.reason) = (StateKind::Disconnected, Some(Reason::Lost));
                status.last_error = Some(Arc::new(Failure::reported(&error, Vec::new(), None)));
            }
        }
        Ok(())
    }

    /// The state of the server that this bridge leads to. `None` if the daemon does not answer, or has no such server.
    pub(crate) async fn server_behind(&self, mut bridge: Status) -> Option<Status> {
        let client = self.client().timeout(PING_TIMEOUT);
        let seen = client.server(&bridge.server).await.ok()?;
        take_over(&mut bridge, &seen);
        Some(bridge)
    }

    /// Pings a server of the daemon.
    pub(crate) async fn ping(&self, server: &str, within: Duration) -> Result<Duration, String> {
        let client = self.client().timeout(within + PING_TIMEOUT);
        let report = client
            .ping(server, within)
            .await
            .map_err(|error| error.to_string())?;
        match report.round_trip_us {
            Some(micros) => Ok(Duration::from_micros(micros)),
            None => Err(report.error.unwrap_or_default()),
        }
    }
}

/// Puts the state of a server in the place of that of the bridge to it.
fn take_over(status: &mut Status, seen: &ServerStatus) {
    let at = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
    status.state = match seen.state {
        StateName::Disabled => StateKind::Disabled,
        StateName::Connecting => StateKind::Connecting,
        StateName::Connected => StateKind::Connected,
        StateName::Reconnecting => StateKind::Reconnecting,
        StateName::Disabling => StateKind::Disabling,
        StateName::PermanentlyFailed => StateKind::PermanentlyFailed,
        StateName::Disconnected | StateName::Unknown => StateKind::Disconnected,
    };
    status.desired = match seen.desired {
        DesiredState::Enabled => Desired::Enabled,
        DesiredState::Disabled => Desired::Disabled,
    };
    let reasons = [
        Reason::Idle,
        Reason::AuthRequired,
        Reason::Lost,
        Reason::BudgetSpent,
    ];
    status.reason = reasons
        .into_iter()
        .find(|reason| seen.reason.as_deref() == Some(reason.as_str()));
    status.generation = seen.generation.map(Generation);
    (status.attempt, status.budget, status.starts) = (seen.attempt, seen.budget, seen.starts.max(1));
    status.next_retry = seen.next_retry_ms.map(at);
    status.pid = None;
    status.last_error = seen.last_failure.as_ref().map(|seen| Arc::new(failure(seen)));
    let era = seen.era.as_deref().and_then(Era::from_word);
    let version = seen.protocol_version.as_deref().map(Arc::<str>::from);
    status.protocol = era.zip(version);
    let transports = [
        TransportKind::Stdio,
        TransportKind::Http,
        TransportKind::Sse,
        TransportKind::Custom,
    ];
    status.transport = transports
        .into_iter()
        .find(|transport| seen.transport.as_deref() == Some(transport.as_str()));
    status.listed_at = seen.catalog.and_then(|catalog| catalog.listed_ms).map(at);
    status.stale_since = seen.catalog.and_then(|catalog| catalog.stale_since_ms).map(at);
    status.listing_failure = seen
        .listing_failure
        .as_ref()
        .map(|message| Arc::new(Failure::reported(message, Vec::new(), None)));
    status.next_listing = seen.next_listing_ms.map(at);
}

fn failure(seen: &FailureDocument) -> Failure {
    let mut failure = Failure::reported(&seen.message, seen.stderr.clone(), seen.stderr_reason.clone());
    failure.challenge = seen.login.as_ref().map(|login| {
        let mut challenge = Challenge::default();
        challenge.resource_metadata.clone_from(&login.resource_metadata);
        challenge.scopes.clone_from(&login.scopes);
        challenge
    });
    failure
}
