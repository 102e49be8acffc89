//! Tasks of a modern server that callers follow: the listen names them, and the acknowledgement lists those that the server
//! will push.
//!
//! A task that the server does not list, or that has ended, is removed: no later listen names it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::timeout;

use super::Connection;
use super::inbound::InboundHandler;
use crate::wire::{RawJson, our_number};

/// The extension by which modern servers offer tasks.
pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long a server may take to acknowledge a listen. After that it counts as a refusal.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(2);

/// What the server agreed to when it last acknowledged a listen.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    /// The request id of that listen. A later listen has a higher one, and names all interests of its time.
    listen: u64,
    tasks: BTreeSet<String>,
}

impl Connection {
    /// Sends a new listen, and returns whether the server agreed to push this task.
    ///
    /// Cancel safety: the listen stays open.
    pub(crate) async fn follow(&self, id: &str) -> bool {
        let mut agreed = self.inbound.agreed.subscribe();
        self.listen();
        let Some(asked) = self.inbound.current_listen() else {
            return false;
        };
        let acknowledged = agreed.wait_for(|agreed| agreed.listen >= asked);
        match timeout(ACKNOWLEDGE_TIMEOUT, acknowledged).await {
            Ok(Ok(agreed)) => agreed.tasks.contains(id),
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

impl InboundHandler {
    /// Records the tasks that the server agreed to, and removes the others.
    pub(super) fn tasks_agreed(&self, params: Option<&RawJson>) {
        let acknowledged = params.and_then(|params| params.parse::<Acknowledged>().ok());
        let Some(Acknowledged { meta, notifications }) = acknowledged else {
            return;
        };
        let Some(listen) = our_number(&meta.listen) else {
            return;
        };
        let Some(open) = self.open_listen(listen) else {
            return;
        };
        let refused: Vec<_> = open.tasks.difference(&notifications.task_ids).collect();
        if !refused.is_empty() {
            self.change_interests(|interests| {
                interests.tasks.retain(|id| !refused.contains(&id));
            });
        }
        self.agreed.send_if_modified(|agreed| {
            let is_news = listen > agreed.listen;
            if is_news {
                *agreed = Agreed {
                    listen,
                    tasks: notifications.task_ids,
                };
            }
            is_news
        });
    }

    /// Removes a task that has ended.
    pub(super) fn task_changed(&self, params: Option<&RawJson>) {
        let changed = params.and_then(|params| params.parse::<Changed>().ok());
        if let Some(Changed { task_id, status }) = changed
            && matches!(status.as_str(), "completed" | "failed" | "cancelled")
        {
            self.change_interests(|interests| {
                interests.tasks.remove(&task_id);
            });
        }
    }
}

#[derive(Deserialize)]
struct Acknowledged {
    #[serde(rename = "_meta")]
    meta: AcknowledgedMeta,
    #[serde(default)]
    notifications: Filter,
}

#[derive(Deserialize)]
struct AcknowledgedMeta {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    listen: RawJson,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    task_ids: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    task_id: String,
    status: String,
}
