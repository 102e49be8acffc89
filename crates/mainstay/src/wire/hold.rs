//! A hold on the idle time of requests: while a person is asked because of them, their silence is not the server's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// Stops the idle time of the requests that share it for as long as a [`Held`] of it lives. Their total time runs on.
#[derive(Debug, Default)]
pub(crate) struct Hold(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    holders: usize,
    released: Option<Instant>,
}

/// Keeps the idle time stopped until it is dropped; then that time starts anew.
#[derive(Debug)]
pub(crate) struct Held(Arc<Hold>);

impl Hold {
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.state().holders += 1;
        Held(self.clone())
    }

    pub(super) fn is_held(&self) -> bool {
        self.state().holders > 0
    }

    /// Since when it is held no more: now, as long as it is.
    pub(super) fn released(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        if state.holders > 0 {
            Some(now)
        } else {
            state.released
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.holders -= 1;
        state.released = Some(Instant::now());
    }
}
