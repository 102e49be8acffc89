//! How a call gets its connection: at once while the server is connected, or by waiting, which has a bound of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mainstay_lifecycle::Generation;
use tokio::time::{Instant, timeout_at};

use super::error::{CallError, CallErrorKind, NotConnected};
use super::options::Waiting;
use super::slot::Slot;
use super::traced::TRACE_TARGET;
use super::{Reason, Status};
use crate::connection::Connection;
use crate::deadline;
use crate::keeper::ServerCommand;
use crate::wire::Outcome;

impl Slot {
    /// A connection younger than `after`. Touches no lock, no clock and no keeper while the server is connected. The call waits at
    /// most for `wait`, and until `deadline`; it does not wait for a server whose next attempt is known to come later.
    ///
    /// Cancel safety: dropping it gives the place among the waiting back.
    pub(super) async fn lease(
        &self,
        waiting: Waiting,
        after: Option<Generation>,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Arc<Connection>, CallError> {
        if let Some(connection) = self.usable(after) {
            return self.unless_held(connection);
        }
        // Boxed: few calls wait, and the others should not carry room for it.
        Box::pin(self.wait_for_lease(waiting, after, wait, deadline)).await
    }

    async fn wait_for_lease(
        &self,
        waiting: Waiting,
        after: Option<Generation>,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Arc<Connection>, CallError> {
        if self.inbox.is_closed() || self.status.borrow().is_leaving {
            return Err(self.gone());
        }
        match waiting {
            Waiting::FailFast => Err(self.not_connected().into()),
            Waiting::Wait => {
                let limit = self.settings.load().waiters() as usize;
                let too_many = || {
                    let now = Box::new(self.not_connected());
                    CallError::not_sent(&self.name, CallErrorKind::TooManyWaiting { limit, now })
                };
                let _place = WaitingPlace::take(&self.waiting, limit).ok_or_else(too_many)?;
                let began = Instant::now();
                let deadline = deadline::after(began, wait).min(deadline);
                let state = self.status.borrow().state.as_str();
                tracing::debug!(target: TRACE_TARGET, server = %self.name, state, "waiting for a connection");
                let waited = timeout_at(deadline, self.wait(after, deadline)).await;
                if let Ok(Ok(connection)) = &waited {
                    let generation = connection.generation.0;
                    tracing::debug!(target: TRACE_TARGET, server = %self.name, generation, "connected");
                }
                waited.unwrap_or_else(|_| Err(self.wait_timed_out(began)))
            }
        }
    }

    async fn wait(&self, after: Option<Generation>, deadline: Instant) -> Result<Arc<Connection>, CallError> {
        let mut status = self.status.subscribe();
        let wait = Wait::begun(&status.borrow());
        let mut promoted = None;
        loop {
            let seen = status.borrow_and_update().clone();
            if let Some(connection) = self.usable(after) {
                return self.unless_held(connection);
            }
            wait.check(&seen)?;
            if !seen.may_come_by(deadline) {
                return Err(NotConnected::from(&*seen).into());
            }
            self.wake_if_resting(&seen);
            // Once for each generation: what the keeper makes of it is a change of the status, too.
            if seen.is_queued() && promoted != seen.generation {
                promoted = seen.generation;
                self.inbox.command(ServerCommand::Demand);
            }
            if status.changed().await.is_err() {
                return Err(self.gone());
            }
        }
    }

    /// A server that rests is started by the first call that waits for it.
    pub(crate) fn wake_if_resting(&self, seen: &Status) {
        if seen.is_resting() {
            self.inbox.command(ServerCommand::Demand);
        }
    }

    fn usable(&self, after: Option<Generation>) -> Option<Arc<Connection>> {
        let connection = self.current.load();
        let connection = connection.as_ref()?;
        (Some(connection.generation) > after).then(|| connection.clone())
    }

    /// The connection, unless its server asked to be left alone for now.
    fn unless_held(&self, connection: Arc<Connection>) -> Result<Arc<Connection>, CallError> {
        match connection.held_for() {
            None => Ok(connection),
            Some(pause) => {
                let retry_after = Some(pause);
                let generation = Some(connection.generation);
                let kind = CallErrorKind::Throttled { retry_after };
                Err(CallError::new(
                    self.name.clone(),
                    generation,
                    Outcome::NotSent,
                    kind,
                ))
            }
        }
    }

    fn gone(&self) -> CallError {
        CallError::not_sent(&self.name, CallErrorKind::Gone)
    }

    /// The error of a wait for this server that began then and found no connection in time.
    pub(crate) fn wait_timed_out(&self, began: Instant) -> CallError {
        let waited = began.elapsed();
        let now = Box::new(self.not_connected());
        CallError::not_sent(&self.name, CallErrorKind::WaitTimedOut { waited, now })
    }

    pub(crate) fn not_connected(&self) -> NotConnected {
        NotConnected::from(&**self.status.borrow())
    }
}

/// What a server was like when a wait for it began.
pub(super) struct Wait {
    keeper_failures: u64,
    starts: u64,
}

impl Wait {
    pub(super) fn begun(status: &Status) -> Self {
        Self {
            keeper_failures: status.keeper_failures,
            starts: status.starts,
        }
    }

    /// Fails if waiting longer cannot help.
    pub(super) fn check(&self, seen: &Status) -> Result<(), WaitEnd> {
        if seen.keeper_failures != self.keeper_failures {
            return Err(WaitEnd::KeeperFailed(seen.server.clone()));
        }
        if seen.is_leaving {
            return Err(WaitEnd::Removed(seen.server.clone()));
        }
        // One wait brings about one start.
        let tried = seen.reason == Some(Reason::Lost) && seen.starts > self.starts;
        if tried || !seen.is_coming() {
            return Err(WaitEnd::NotComing(Box::new(NotConnected::from(seen))));
        }
        Ok(())
    }
}

/// Why a wait ends without a connection.
pub(super) enum WaitEnd {
    /// The keeper failed, and begins again.
    KeeperFailed(Arc<str>),
    /// The server was removed from the fleet.
    Removed(Arc<str>),
    /// The server is not coming.
    NotComing(Box<NotConnected>),
}

impl From<WaitEnd> for CallError {
    fn from(wait: WaitEnd) -> Self {
        match wait {
            WaitEnd::KeeperFailed(server) => Self::not_sent(&server, CallErrorKind::KeeperFailed),
            WaitEnd::Removed(server) => Self::not_sent(&server, CallErrorKind::Gone),
            WaitEnd::NotComing(now) => (*now).into(),
        }
    }
}

/// A place among those that wait, given back when dropped.
struct WaitingPlace<'a>(&'a AtomicUsize);

impl<'a> WaitingPlace<'a> {
    fn take(waiting: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < limit).then_some(place)
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
