//! Waiting for a server that has never been up: as long as it is starting, and no longer than its attempt lasts.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{CallError, NotConnected, Reason, Server, Status};
use crate::catalog::About;
use crate::deadline;
use crate::event::Failure;

/// How long a client waits for the second attempt, after the first one was asked in a way that the server does not answer. Old
/// servers are up by then; one that never answers is reported before most hosts give up by themselves.
const SECOND_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

impl Server {
    /// What the server says of itself. Returns at once if that is known; otherwise waits while the server is starting. Fails
    /// as soon as an attempt to start it has failed, and where none is under way.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn wait_introduced(&self, within: Duration) -> Result<Arc<About>, CallError> {
        self.wait_while_starting(within, || self.about()).await
    }

    /// Waits until the server has been listed, in this process or an earlier one. Returns and fails as
    /// [`wait_introduced`](Self::wait_introduced) does; a listing that fails counts too.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub async fn wait_listed(&self, within: Duration) -> Result<(), CallError> {
        self.wait_while_starting(within, || self.catalog().map(|_| ()))
            .await
    }

    async fn wait_while_starting<T>(
        &self,
        within: Duration,
        found: impl Fn() -> Option<T>,
    ) -> Result<T, CallError> {
        let began = Instant::now();
        let mut deadline = deadline::after(began, within);
        let mut status = self.watch();
        let before = status.borrow().last_error.clone();
        let mut second_attempt = None;
        loop {
            // Read before the answer is looked for, since the keeper shows the status last.
            let seen = status.borrow_and_update().clone();
            if let Some(found) = found() {
                return Ok(found);
            }
            let is_idle = seen.reason == Some(Reason::Idle);
            if has_failed(&seen, before.as_ref()) || !(seen.is_starting() || is_idle) {
                return Err(CallError::NotConnected(Box::new(NotConnected::from(&*seen))));
            }
            if seen
                .last_error
                .as_ref()
                .is_some_and(|error| error.tried_otherwise)
            {
                let began = *second_attempt.get_or_insert_with(Instant::now);
                deadline = deadline.min(began + SECOND_ATTEMPT_TIMEOUT);
            }
            self.0.wake_if_resting(&seen);
            if !matches!(timeout_at(deadline, status.changed()).await, Ok(Ok(()))) {
                let now = Box::new(NotConnected::from(&**status.borrow()));
                return Err(CallError::WaitTimedOut {
                    waited: began.elapsed(),
                    now,
                });
            }
        }
    }
}

/// Whether an attempt has failed since the server was seen with the failure `before`.
fn has_failed(seen: &Status, before: Option<&Arc<Failure>>) -> bool {
    let last = seen.last_error.as_ref().filter(|error| !error.tried_otherwise);
    last.is_some_and(|last| !before.is_some_and(|before| Arc::ptr_eq(before, last)))
}
