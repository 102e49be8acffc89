//! How a call gets its connection: at once while the server is connected, or by waiting, which has a bound of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mainstay_lifecycle::Generation;
use tokio::time::{Instant, timeout_at};

use super::error::{CallError, NotConnected};
use super::options::Waiting;
use super::slot::Slot;
use super::{Reason, Status};
use crate::connection::Connection;
use crate::keeper::Command;

impl Slot {
    /// A connection younger than `after`. Touches no lock and no keeper while the server is connected. `deadline` is the end
    /// of the wait: a server whose next attempt is known to come later is not waited for at all.
    ///
    /// Cancel safety: dropping it gives the place among the waiting back.
    pub(super) async fn lease(
        &self,
        waiting: Waiting,
        after: Option<Generation>,
        deadline: Instant,
    ) -> Result<Arc<Connection>, CallError> {
        if let Some(connection) = self.usable(after) {
            return Ok(connection);
        }
        match waiting {
            Waiting::FailFast => Err(CallError::NotConnected(Box::new(self.not_connected()))),
            Waiting::Wait => {
                let limit = self.settings.load().waiters() as usize;
                let _place = Place::take(&self.waiting, limit).ok_or_else(|| CallError::TooManyWaiting {
                    limit,
                    now: Box::new(self.not_connected()),
                })?;
                let began = Instant::now();
                timeout_at(deadline, self.wait(after, deadline))
                    .await
                    .unwrap_or_else(|_| {
                        let now = Box::new(self.not_connected());
                        Err(CallError::WaitTimedOut {
                            waited: began.elapsed(),
                            now,
                        })
                    })
            }
        }
    }

    async fn wait(&self, after: Option<Generation>, deadline: Instant) -> Result<Arc<Connection>, CallError> {
        let mut status = self.status.subscribe();
        let failures = status.borrow().keeper_failures;
        let mut promoted = None;
        loop {
            let seen = status.borrow_and_update().clone();
            if let Some(connection) = self.usable(after) {
                return Ok(connection);
            }
            if seen.keeper_failures != failures {
                return Err(CallError::KeeperFailed {
                    server: self.name.clone(),
                });
            }
            if !seen.may_come_by(deadline) {
                return Err(CallError::NotConnected(Box::new(NotConnected::from(&*seen))));
            }
            self.wake_if_idle(&seen);
            // Once for each generation: what the keeper makes of it is a change of the status, too.
            if seen.is_queued() && promoted != seen.generation {
                promoted = seen.generation;
                self.inbox.command(Command::Demand);
            }
            if status.changed().await.is_err() {
                return Err(CallError::NotConnected(Box::new(self.not_connected())));
            }
        }
    }

    /// An idle server is started by whoever waits for it.
    pub(super) fn wake_if_idle(&self, seen: &Status) {
        if seen.reason == Some(Reason::Idle) {
            self.inbox.command(Command::Demand);
        }
    }

    fn usable(&self, after: Option<Generation>) -> Option<Arc<Connection>> {
        let connection = self.current.load();
        let connection = connection.as_ref()?;
        (Some(connection.generation) > after).then(|| connection.clone())
    }

    pub(super) fn not_connected(&self) -> NotConnected {
        NotConnected::from(&**self.status.borrow())
    }
}

/// A place among those that wait, given back when dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < limit).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
