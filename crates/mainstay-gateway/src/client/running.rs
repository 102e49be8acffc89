//! The requests of a client that are being answered, by the ids that the client gave them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainstay::gateway::message::{RawJson, RpcError};
use tokio::sync::Notify;

use crate::protocol::SERVER_UNAVAILABLE;

/// Requests of one client that may run at the same time. One that wants more must wait for an answer first.
const RUNNING_LIMIT: usize = 512;

/// The requests of one client that run. In no order: there are few, and a search through all is quick.
#[derive(Default)]
pub(crate) struct RunningRequests(Mutex<Vec<(RawJson, Arc<Notify>)>>);

/// A request that runs; it is over when this is dropped.
pub(crate) struct RunningRequest {
    running: Arc<RunningRequests>,
    id: RawJson,
    cancel: Arc<Notify>,
}

/// Why a request cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BeginError {
    #[error("the id is used by a request that still runs")]
    IdInUse,
    #[error("{RUNNING_LIMIT} requests of this client run already")]
    TooMany,
}

impl From<BeginError> for RpcError {
    fn from(busy: BeginError) -> Self {
        let code = match busy {
            BeginError::IdInUse => Self::INVALID_REQUEST,
            BeginError::TooMany => SERVER_UNAVAILABLE,
        };
        Self::new(code, busy.to_string())
    }
}

impl RunningRequests {
    /// Notes a request, unless its id is in use or there are too many. A door calls this as soon as it has read the request, so that a
    /// `notifications/cancelled` right behind it finds it.
    pub(crate) fn begin(self: &Arc<Self>, id: RawJson) -> Result<RunningRequest, BeginError> {
        let mut running = self.table();
        check(&running, &id)?;
        let cancel = Arc::new(Notify::new());
        running.push((id.clone(), cancel.clone()));
        drop(running);
        Ok(RunningRequest {
            running: self.clone(),
            id,
            cancel,
        })
    }

    /// Cancels the request of this id.
    pub(crate) fn cancel(&self, id: &RawJson) {
        let table = self.table();
        if let Some((_, cancel)) = table.iter().find(|(running, _)| running == id) {
            cancel.notify_one();
        }
    }

    /// Cancels all requests.
    pub(crate) fn cancel_all(&self) {
        self.table().iter().for_each(|(_, cancel)| cancel.notify_one());
    }

    fn table(&self) -> MutexGuard<'_, Vec<(RawJson, Arc<Notify>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(running: &[(RawJson, Arc<Notify>)], id: &RawJson) -> Result<(), BeginError> {
    if running.iter().any(|(running, _)| running == id) {
        return Err(BeginError::IdInUse);
    }
    if running.len() >= RUNNING_LIMIT {
        return Err(BeginError::TooMany);
    }
    Ok(())
}

impl RunningRequest {
    pub(crate) fn id(&self) -> &RawJson {
        &self.id
    }

    /// Returns when the client has cancelled it.
    pub(crate) async fn cancelled(&self) {
        self.cancel.notified().await;
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut table = self.running.table();
        if let Some(at) = table
            .iter()
            .position(|(_, cancel)| Arc::ptr_eq(cancel, &self.cancel))
        {
            table.swap_remove(at);
        }
    }
}
