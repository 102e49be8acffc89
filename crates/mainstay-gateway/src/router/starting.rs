//! Waiting for servers that are starting, before a list or an introduction is answered. Each wait has a bound, and ends as soon as an
//! attempt to start the server has failed.

use std::sync::OnceLock;
use std::time::Duration;

use mainstay::message::RpcError;
use mainstay::{CallError, Server, StateKind, Status};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Router;
use crate::client::Client;
use crate::failure;

/// How long a client of the union waits in all, while no server was ever connected.
const UNION_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the first list of a session waits for its server's current list, before it gets the list of an earlier run.
const LIVE_LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// When a client began to wait. Its requests share what is left of the time.
#[derive(Default)]
pub(crate) struct StartWaits {
    union: OnceLock<Instant>,
    live_list: OnceLock<Instant>,
}

impl Router {
    /// Waits until a server of the union has completed a handshake, where none ever has and one is starting.
    pub(super) async fn any_introduced(&self, client: &Client) {
        if self.reachable(client).any(|server| server.about().is_some()) {
            return;
        }
        let mut waiting = JoinSet::new();
        for server in self.reachable(client) {
            let left = client.waits.left_for_union();
            waiting.spawn(async move { server.wait_introduced(left).await.is_ok() });
        }
        any(waiting).await;
    }

    /// Waits until a server of the union has been listed, where none ever was and one is starting.
    pub(super) async fn any_listed(&self, client: &Client) {
        if self.reachable(client).any(|server| server.catalog().is_some()) {
            return;
        }
        let mut waiting = JoinSet::new();
        for server in self.reachable(client) {
            let left = client.waits.left_for_union();
            waiting.spawn(async move { server.wait_listed(left).await.is_ok() });
        }
        any(waiting).await;
    }

    /// Waits until one server has been listed, and a little longer for its current list. Fails where there is no list because the
    /// server is not up.
    pub(super) async fn one_listed(&self, client: &Client, server: &Server) -> Result<(), RpcError> {
        let listed = server.wait_listed(server.wait_timeout()).await;
        listed.map_err(|error| failure::not_up(&error))?;
        if client.own().is_some() && has_not_failed(&server.status()) {
            let is_settled = |status: &Status| status.stale_since.is_none() || !has_not_failed(status);
            let left = client.waits.left_for_live_list();
            server.wait_until(left, is_settled).await;
        }
        match server.status() {
            failed if failed.state == StateKind::PermanentlyFailed => {
                let error = CallError::NotConnected(Box::new((&failed).into()));
                Err(failure::not_up(&error))
            }
            _published_or_disabled => Ok(()),
        }
    }

    fn reachable(&self, client: &Client) -> impl Iterator<Item = Server> {
        let servers = self.fleet().servers().into_iter();
        servers.filter(|server| self.is_reachable(client, server.name()))
    }
}

/// Returns when one of them has succeeded, or all have failed.
async fn any(mut waiting: JoinSet<bool>) {
    while let Some(done) = waiting.join_next().await {
        if done.unwrap_or(false) {
            return;
        }
    }
}

impl StartWaits {
    fn left_for_union(&self) -> Duration {
        left(&self.union, UNION_TIMEOUT)
    }

    fn left_for_live_list(&self) -> Duration {
        left(&self.live_list, LIVE_LIST_TIMEOUT)
    }
}

/// Whether a server is starting, and has not failed since the gateway has kept it.
fn has_not_failed(status: &Status) -> bool {
    let failed = status.last_error.as_ref().filter(|error| !error.tried_otherwise);
    status.is_starting() && failed.is_none()
}

fn left(since: &OnceLock<Instant>, limit: Duration) -> Duration {
    limit.saturating_sub(since.get_or_init(Instant::now).elapsed())
}
