//! Uses the servers of the daemon in place of servers that a command would start for itself.
//!
//! Each server of the configuration becomes a bridge to the daemon's server of the same name, so every command works as
//! without a daemon, and nothing is started that the daemon has already.

use std::env;
use std::path::Path;

use mainstay::ServerConfig;
use mainstay_daemon::{RuntimeDirectory, status};

use crate::load::{Setup, Source};
use crate::output::{Screen, text};

/// Changes the setup to the daemon's servers, if a daemon runs that uses the same configuration, and says so.
pub(crate) fn use_daemon(setup: &mut Setup, screen: &Screen) {
    let Some(file) = setup.file().map(Path::to_owned) else {
        return;
    };
    if !matches!(setup.source, Source::File { .. }) {
        return;
    }
    // Where none can be found, the servers are started here; `mainstay daemon status` says what is wrong.
    let Ok(directory) = RuntimeDirectory::find(|name| env::var_os(name)) else {
        return;
    };
    let Ok(Some(daemon)) = status(&directory) else {
        return;
    };
    let whole = std::path::absolute(&file).unwrap_or(file);
    if daemon.config.as_deref().map(Path::new) != Some(whole.as_path()) {
        return;
    }
    let bridges: Option<Vec<_>> = setup.servers.iter().map(bridge).collect();
    let Some(bridges) = bridges else { return };
    setup.servers = bridges;
    // What a bridge offers is stored by the daemon.
    setup.store = None;
    screen.note(text!(
        "using the servers of the daemon (process {}); --no-daemon starts them for this command alone",
        daemon.pid
    ));
}

/// A bridge to the daemon's server of this name. What the daemon does for all clients, such as renaming tools, is done there.
fn bridge(server: &ServerConfig) -> Option<ServerConfig> {
    let program = env::current_exe().ok()?.into_os_string().into_string().ok()?;
    ServerConfig::stdio(server.name(), program)
        .args(["connect", server.name()])
        .enabled(server.enabled())
        .required(server.required())
        .call_timeout(server.call_timeout())
        .call_idle_timeout(server.call_idle_timeout())
        .build()
        .ok()
}
