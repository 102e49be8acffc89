//! The document of `mainstay daemon status --json`.

use mainstay_bridge::hello::{BridgeStatus, DaemonStatus, Share, SharedServerStatus};
use mainstay_bridge::{AskError, RuntimeDirError, RuntimeDirectory};
use serde::Serialize;
use utoipa::ToSchema;

use super::DocumentVersion;

#[derive(Serialize, ToSchema)]
pub(crate) struct DaemonDocument<'a> {
    version: DocumentVersion,
    running: bool,
    /// Where a daemon listens; `null` if the runtime directory cannot be used.
    socket: Option<String>,
    daemon: Option<RunningDaemon<'a>>,
    /// Why a daemon that runs did not say what it does, or why the runtime directory cannot be used.
    problem: Option<String>,
}

/// The daemon that runs.
#[derive(Serialize, ToSchema)]
struct RunningDaemon<'a> {
    pid: u32,
    version: &'a str,
    /// When it began, in seconds since 1970.
    since: u64,
    config: Option<&'a str>,
    config_missing: bool,
    config_problem: Option<&'a str>,
    bridges: Vec<ConnectedBridge<'a>>,
    servers: Vec<SharedServer<'a>>,
}

/// One bridge.
#[derive(Serialize, ToSchema)]
struct ConnectedBridge<'a> {
    pid: Option<i32>,
    /// The server that it is connected to; `null` for all of the configuration.
    server: Option<&'a str>,
    /// When it connected, in seconds since 1970.
    since: u64,
}

/// One server.
#[derive(Serialize, ToSchema)]
struct SharedServer<'a> {
    name: &'a str,
    state: &'a str,
    configured: bool,
    /// With whom it is shared: `yes`, `never` or `roots`.
    share: &'static str,
    bridges: usize,
}

impl<'a> DaemonDocument<'a> {
    pub(crate) fn of(
        directory: &RuntimeDirectory,
        found: Result<Option<&'a DaemonStatus>, &AskError>,
    ) -> Self {
        let (running, daemon, problem) = match found {
            Ok(found) => (found.is_some(), found.map(RunningDaemon::of), None),
            Err(error) => (directory.has_daemon(), None, Some(error.to_string())),
        };
        Self {
            version: DocumentVersion,
            running,
            socket: Some(directory.socket().display().to_string()),
            daemon,
            problem,
        }
    }

    /// Without a directory in which a daemon could run.
    pub(crate) fn without_directory(error: &RuntimeDirError) -> Self {
        Self {
            version: DocumentVersion,
            running: false,
            socket: None,
            daemon: None,
            problem: Some(error.to_string()),
        }
    }
}

impl<'a> RunningDaemon<'a> {
    fn of(status: &'a DaemonStatus) -> Self {
        Self {
            pid: status.pid,
            version: &status.version,
            since: status.since,
            config: status.config.as_deref(),
            config_missing: status.config_missing,
            config_problem: status.config_problem.as_deref(),
            bridges: status.bridges.iter().map(ConnectedBridge::of).collect(),
            servers: status.servers.iter().map(SharedServer::of).collect(),
        }
    }
}

impl<'a> ConnectedBridge<'a> {
    fn of(bridge: &'a BridgeStatus) -> Self {
        Self {
            pid: bridge.pid,
            server: bridge.server.as_deref(),
            since: bridge.since,
        }
    }
}

impl<'a> SharedServer<'a> {
    fn of(server: &'a SharedServerStatus) -> Self {
        Self {
            name: &server.name,
            state: &server.state,
            configured: server.configured,
            share: match server.share {
                Share::Yes => "yes",
                Share::Never => "never",
                Share::Roots => "roots",
            },
            bridges: server.bridges,
        }
    }
}
