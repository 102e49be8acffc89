//! Runs the work of a store on threads that may block.

use std::sync::Arc;

use crate::store::{LoginStore, LoginStoreError};

/// Runs a piece of work on the store.
///
/// Cancel safety: work that was begun is completed.
pub(crate) async fn on_store<T: Send + 'static>(
    store: &Arc<dyn LoginStore>,
    work: impl FnOnce(&dyn LoginStore) -> Result<T, LoginStoreError> + Send + 'static,
) -> Result<T, LoginStoreError> {
    let store = store.clone();
    let done = tokio::task::spawn_blocking(move || work(&*store)).await;
    done.unwrap_or(Err(LoginStoreError::Aborted))
}
