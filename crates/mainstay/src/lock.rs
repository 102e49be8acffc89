//! A mutex for data that every lock leaves in order.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex whose lock cannot fail. A thread that panics while it holds a lock poisons a mutex of the standard library. The
/// locks here are held for a few instructions that leave the data whole at each step, so another thread may go on with it.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(data: T) -> Self {
        Self(Mutex::new(data))
    }

    /// Waits for the lock, which is never held across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
