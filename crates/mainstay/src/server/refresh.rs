//! A new listing, asked for by a caller.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::error::NotConnected;
use super::lease::{Wait, WaitEnd};
use super::{Server, Status};
use crate::deadline;
use crate::event::Failure;
use crate::keeper::{CommandRefusal, ServerCommand};

/// A listing that was asked for did not take place.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The server is not connected, and is not coming.
    #[error("{0}")]
    NotConnected(Box<NotConnected>),
    /// The server was listed, and the listing failed. What was listed before stays published.
    #[error("server {server} could not be listed{}", why(.failure.as_deref()))]
    ListingFailed {
        /// Which server.
        server: Arc<str>,
        /// What went wrong.
        failure: Option<Arc<Failure>>,
    },
    /// The time for the connection and the listing was over.
    #[error("the listing of server {} was awaited for {waited:?}: {now}", .now.server)]
    TimedOut {
        /// How long the caller waited.
        waited: Duration,
        /// How the server was then.
        now: Box<NotConnected>,
    },
    /// The task that owns the server failed; it begins again.
    #[error("the keeper of server {server} failed and restarts")]
    KeeperFailed {
        /// Which server.
        server: Arc<str>,
    },
    /// The server was removed from the fleet, or the fleet was closed.
    #[error("server {server} is gone from the fleet")]
    Gone {
        /// Which server.
        server: Arc<str>,
    },
}

impl Server {
    /// Lists again what the server offers, and returns once a listing is published that began after this was called. Requests
    /// that come together share a listing, and two listings are at least a second apart. A server that rests is started.
    ///
    /// It takes no longer than waiting for a connection may (`wait_timeout`), and one listing.
    ///
    /// Cancel safety: dropped, the listing takes place all the same.
    pub async fn refresh(&self) -> Result<Status, RefreshError> {
        let began = Instant::now();
        let settings = self.0.settings.load_full();
        let limit = settings
            .wait_timeout()
            .saturating_add(settings.policy().limits.list);
        let deadline = deadline::after(began, limit);
        let mut status = self.watch();
        let wait = Wait::begun(&status.borrow());
        let (reply, number) = oneshot::channel();
        self.0.inbox.command(ServerCommand::Refresh(reply));
        let server = || self.0.name.clone();
        let number = match number.await {
            Ok(Ok(number)) => number,
            Ok(Err(CommandRefusal::Leaving | CommandRefusal::Disabled)) => {
                return Err(RefreshError::Gone { server: server() });
            }
            Err(_) if self.0.inbox.is_closed() => return Err(RefreshError::Gone { server: server() }),
            Err(_) => return Err(RefreshError::KeeperFailed { server: server() }),
        };
        loop {
            let seen = status.borrow_and_update().clone();
            if seen.listings.done >= number {
                return Ok((*seen).clone());
            }
            if seen.listings.failed >= number {
                return Err(RefreshError::ListingFailed {
                    server: seen.server.clone(),
                    failure: seen.last_error.clone(),
                });
            }
            wait.check(&seen)?;
            if !matches!(timeout_at(deadline, status.changed()).await, Ok(Ok(()))) {
                return Err(RefreshError::TimedOut {
                    waited: began.elapsed(),
                    now: Box::new(self.0.not_connected()),
                });
            }
        }
    }
}

impl From<WaitEnd> for RefreshError {
    fn from(wait: WaitEnd) -> Self {
        match wait {
            WaitEnd::KeeperFailed(server) => Self::KeeperFailed { server },
            WaitEnd::Removed(server) => Self::Gone { server },
            WaitEnd::NotComing(now) => Self::NotConnected(now),
        }
    }
}

fn why(failure: Option<&Failure>) -> String {
    failure.map_or_else(String::new, |failure| format!(": {failure}"))
}
