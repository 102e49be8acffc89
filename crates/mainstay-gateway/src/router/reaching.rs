//! The server behind a name: the one that all share, or the one of the client's own.

use std::sync::Arc;

use mainstay::gateway::message::RpcError;
use mainstay::lifecycle::Desired;
use mainstay::{CallOptions, Server};

use super::Router;
use crate::client::Client;
use crate::isolation::Refused;
use crate::protocol::invalid_params;

/// A server that a client reaches.
pub(super) struct Reached {
    pub(super) server: Server,
    /// Whether it is of the client's own, and nobody else's.
    pub(super) is_own: bool,
}

impl Router {
    /// The server of this name, as this client has it. One of its own is started if it does not run yet.
    pub(super) fn reach(&self, client: &Client, name: &str) -> Result<Reached, RpcError> {
        let server = self.fleet().server(name);
        let server = server.ok_or_else(|| invalid_params(format!("there is no server {name}")))?;
        let shared = |server| Reached {
            server,
            is_own: false,
        };
        if !self.isolated.holds(name) {
            return Ok(shared(server));
        }
        // Whoever disables the pattern means all of them; and it says by itself that it is.
        if server.status().desired == Desired::Disabled {
            if let Some(own) = client.own() {
                own.end_one(name);
            }
            return Ok(shared(server));
        }
        let no_session = || Refused::NoSession {
            server: name.to_owned(),
        };
        let own = client.own().ok_or_else(no_session)?;
        Ok(Reached {
            server: own.server(name, &self.fleet().catalog(), client)?,
            is_own: true,
        })
    }

    /// The server of this name, as this client has it, if that runs. None is started.
    pub(super) fn running(&self, client: &Client, name: &str) -> Option<Server> {
        if self.isolated.holds(name) {
            client.own()?.running(name)
        } else {
            self.fleet().server(name)
        }
    }

    /// Refuses a client without a session where nothing can be reached without one.
    pub(super) fn check_session(&self, client: &Client) -> Result<(), RpcError> {
        if client.own().is_some() || self.isolated.is_empty() {
            return Ok(());
        }
        let servers = client.scope.servers(self.fleet());
        let only_sessions =
            !servers.is_empty() && servers.iter().all(|server| self.isolated.holds(server.name()));
        if only_sessions {
            return Err(Refused::OnlySessions.into());
        }
        Ok(())
    }

    /// Whether this client can reach a server of this name.
    pub(super) fn is_reachable(&self, client: &Client, name: &str) -> bool {
        client.own().is_some() || !self.isolated.holds(name)
    }
}

impl Reached {
    /// How a session calls it. What a shared server asks meanwhile must be known to be this session's; with one of its own
    /// there is nobody else whom it could be for.
    pub(super) fn options(&self, session: &Arc<Client>) -> CallOptions {
        let options = CallOptions::default();
        if self.is_own {
            options
        } else {
            options.handler(session.clone())
        }
    }
}
