//! What a server is told without being asked for an answer.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::Generation;

use super::Server;
use super::error::NotConnected;
use crate::deadline;
use crate::wire::{RawJson, RequestError};

/// Why a server was not told something.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// There is no connection that it could belong to.
    #[error("not told: {0}")]
    NotConnected(Box<NotConnected>),
    /// The server does not take what it was told before, and as much waits as may.
    #[error("not told: server {server} does not take what waits for it")]
    Full {
        /// Which server.
        server: Arc<str>,
        /// On which connection.
        generation: Generation,
    },
}

impl Server {
    /// Tells the server something on its live connection; the parameters pass as they are. Done when it is queued, with the
    /// connection that it is queued on: at once if there is room, otherwise when there is, within this time. A call that is
    /// made afterwards goes out after it, where the transport keeps an order.
    ///
    /// A notification belongs to a connection: where there is none it is not kept for the next, and wakes no server. Nor is it
    /// any use of the server, which may be stopped for idleness. What Mainstay tells by itself (`notifications/initialized`,
    /// `notifications/cancelled`) is not for this.
    ///
    /// Cancel safety: when it is dropped before it is ready, nothing is told.
    pub async fn notify(
        &self,
        method: &str,
        params: Option<&RawJson>,
        within: Duration,
    ) -> Result<Generation, NotifyError> {
        let not_connected = || NotifyError::NotConnected(Box::new(self.0.not_connected()));
        let connection = self.0.current.load_full().ok_or_else(not_connected)?;
        let generation = connection.generation;
        let told = connection.peer.notify(method, params, deadline::within(within));
        match told.await {
            Ok(()) => Ok(generation),
            Err(RequestError::TimedOut { .. }) => Err(NotifyError::Full {
                server: self.0.name.clone(),
                generation,
            }),
            Err(
                RequestError::Lost { .. }
                | RequestError::Rpc(_)
                | RequestError::BadAnswer(_)
                | RequestError::Send(_),
            ) => Err(not_connected()),
        }
    }
}
