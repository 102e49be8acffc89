//! How the gateway locks what its tasks share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. It stays usable after a panic of a task that held it.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
