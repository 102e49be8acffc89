//! A server that asked for a login is tried again when its credential has changed.

use std::sync::Arc;

use tokio::task::AbortHandle;

use super::inbox::Command;
use crate::config::Target;
use crate::server::Slot;

/// Waits for another credential; ends when it is dropped.
pub(super) struct LoginWatch(AbortHandle);

impl LoginWatch {
    /// Starts to wait, where there is a credential that can change.
    pub(super) fn start(slot: &Arc<Slot>) -> Option<Self> {
        let settings = slot.settings.load();
        let Target::Http(target) = settings.target() else {
            return None;
        };
        // The one that the requests were let in with, or not.
        let credentials = settings.endpoint(target).ok()?.credentials()?;
        let inbox = slot.inbox.clone();
        let task = tokio::spawn(async move {
            credentials.changed().await;
            inbox.command(Command::Login);
        });
        Some(Self(task.abort_handle()))
    }
}

impl Drop for LoginWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
