//! How long the head of a response is held back, and in steps of which time it is waited for a body.
//!
//! Each connection has one timer for all its requests, which stays with the runtime between them: to move it on costs next to
//! nothing, while a new one that would be the next to fire wakes the runtime by a system call, and once more for nothing.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Later the client sees a stream: so that it knows where to take it up again, and that nothing between it and the gateway
/// takes the silence for the end.
pub(super) const HOLD_BACK: Duration = Duration::from_secs(5);

/// The timer of one connection.
pub(super) struct HeadTimer {
    /// The number of the connection, which no other connection of this process has.
    pub(super) connection: u64,
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
}

impl Default for HeadTimer {
    fn default() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            connection: LAST.fetch_add(1, Ordering::Relaxed),
            timer: Mutex::default(),
        }
    }
}

impl HeadTimer {
    /// Comes back when [`HOLD_BACK`] has passed from now on.
    ///
    /// Cancel safety: dropped, the timer is there for the next.
    pub(super) async fn over(&self) {
        let until = Instant::now() + HOLD_BACK;
        let timer = match self.timer().take() {
            Some(mut timer) => {
                timer.as_mut().reset(until);
                timer
            }
            None => Box::pin(sleep_until(until)),
        };
        Lent {
            owner: self,
            timer: Some(timer),
        }
        .fired()
        .await;
    }

    fn timer(&self) -> MutexGuard<'_, Option<Pin<Box<Sleep>>>> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A timer that goes back to its connection.
struct Lent<'a> {
    owner: &'a HeadTimer,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Lent<'_> {
    async fn fired(mut self) {
        if let Some(timer) = &mut self.timer {
            timer.as_mut().await;
        }
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.owner.timer() = self.timer.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_request_is_held_back_as_long_though_they_share_a_timer() {
        let head_timer = HeadTimer::default();
        for pause in [Duration::ZERO, HOLD_BACK / 2, 3 * HOLD_BACK] {
            let answered = tokio::time::timeout(pause, head_timer.over()).await;
            assert_eq!(answered.is_ok(), pause > HOLD_BACK);
            assert!(head_timer.timer().is_some(), "it is there for the next");
            let began = Instant::now();
            head_timer.over().await;
            assert_eq!(began.elapsed(), HOLD_BACK);
        }
    }
}
