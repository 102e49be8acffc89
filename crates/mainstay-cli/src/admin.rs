//! `mainstay serve --admin`: the control API and the dashboard beside MCP, at the same address.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use mainstay::Events;
use mainstay::gateway::PlainText;
use mainstay_control::{
    API_ROOT, Attached, Control, ControlService, PAGE_ROOT, PageLogins, Role, ServerGroup, token_from_file,
};
use mainstay_daemon::live::{LiveConfiguration, state_directory};
use mainstay_gateway::{Gateway, HttpDoor};

use crate::args::ServeArgs;
use crate::controlled::LiveControl;
use crate::exit::CommandFailure;

/// The control API of a program that serves.
pub(crate) struct Admin {
    control: Control,
    live: Arc<LiveControl>,
    token_file: PathBuf,
}

impl Admin {
    /// Puts the API at the door, if it is asked for. Nothing is started yet: a bad token file must not cost the servers a
    /// start.
    pub(crate) fn open(
        arguments: &ServeArgs,
        door: HttpDoor,
    ) -> Result<(HttpDoor, Option<Self>), CommandFailure> {
        if !arguments.admin {
            return Ok((door, None));
        }
        let token_file = match &arguments.admin_token_file {
            Some(file) => file.clone(),
            None => default_token_file().ok_or_else(|| {
                CommandFailure::usage(anyhow!(
                    "neither XDG_STATE_HOME nor HOME is set, so the token of the control API has no place: name a file \
                     with --admin-token-file"
                ))
            })?,
        };
        let token = token_from_file(&token_file).map_err(CommandFailure::usage)?;
        let live = Arc::new(LiveControl::default());
        let control = Control::builder(Role::Serve).controlled(live.clone()).build();
        let pages = PageLogins::new(token.expose());
        let service = Arc::new(ControlService::with_pages(&control, pages, None));
        let door = door.mount(&[API_ROOT, PAGE_ROOT], token, service);
        let admin = Self {
            control,
            live,
            token_file,
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

    /// The file with the token, to show a person.
    pub(crate) fn token_file(&self) -> PlainText {
        PlainText::line(&self.token_file.display().to_string())
    }
}

/// Where the token is, unless another file is named: with what outlives a restart, and is no cache.
pub(crate) fn default_token_file() -> Option<PathBuf> {
    let state = state_directory(|name| env::var_os(name))?;
    Some(state.join("control-token"))
}
