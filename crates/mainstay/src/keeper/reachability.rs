//! A server that nobody answers for is dialled as soon as somebody does.

use std::sync::Arc;

use mainstay_lifecycle::Generation;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::inbox::Report;
use crate::config::Target;
use crate::server::Slot;

/// Knocks where a generation found nobody; ends when it is dropped.
pub(super) struct ReachabilityWatch {
    generation: Generation,
    /// `None` where there is no door to knock at: the pause ends by itself.
    task: Option<AbortHandle>,
}

impl ReachabilityWatch {
    /// Starts to knock where this generation found nobody. `since` is when it was first found out: the longer nobody is
    /// there, the less often is knocked.
    pub(super) fn start(slot: &Arc<Slot>, generation: Generation, since: Instant) -> Self {
        let settings = slot.settings.load();
        let door = match settings.target() {
            Target::Http(target) => match settings.endpoint(target) {
                Ok(way) => way.port_probe(),
                // Said by the dial, which needs it too.
                Err(_) => None,
            },
            Target::Stdio(_) | Target::Custom(_) => None,
        };
        let task = door.map(|door| {
            let inbox = slot.inbox.clone();
            let knocking = tokio::spawn(async move {
                door.wait_until_reachable(since).await;
                inbox.report(Report::Reachable(generation));
            });
            knocking.abort_handle()
        });
        Self { generation, task }
    }

    /// The generation that found nobody.
    pub(super) fn generation(&self) -> Generation {
        self.generation
    }
}

impl Drop for ReachabilityWatch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
