//! The requests of a client that are being answered, by the ids that the client gave them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainstay::message::{RawJson, RpcError};
use tokio::sync::Notify;

/// Requests of one client that may run at the same time. One that wants more must wait for an answer first.
const MAX_RUNNING: usize = 512;

#[derive(Default)]
pub(crate) struct Running(Mutex<HashMap<RawJson, Arc<Notify>>>);

/// A request that runs; it is over when this is dropped.
pub(crate) struct Run<'a> {
    running: &'a Running,
    id: RawJson,
    cancel: Arc<Notify>,
}

impl Running {
    /// Notes a request, unless its id is in use or there are too many.
    pub(crate) fn begin(&self, id: &RawJson) -> Result<Run<'_>, RpcError> {
        let mut running = self.table();
        if running.contains_key(id) {
            let what = format!("the id {id} is used by a request that still runs");
            return Err(RpcError::new(RpcError::INVALID_REQUEST, what));
        }
        if running.len() >= MAX_RUNNING {
            let what = format!("{MAX_RUNNING} requests of this client run already");
            return Err(RpcError::new(RpcError::INVALID_REQUEST, what));
        }
        let cancel = Arc::new(Notify::new());
        running.insert(id.clone(), cancel.clone());
        Ok(Run {
            running: self,
            id: id.clone(),
            cancel,
        })
    }

    /// The client does not want the answer any more.
    pub(crate) fn cancel(&self, id: &RawJson) {
        if let Some(cancel) = self.table().get(id) {
            cancel.notify_one();
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<RawJson, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run<'_> {
    /// Comes back when the client has cancelled it.
    pub(crate) async fn cancelled(&self) {
        self.cancel.notified().await;
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.running.table().remove(&self.id);
    }
}
