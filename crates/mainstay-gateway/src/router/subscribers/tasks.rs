//! Notifications of tasks: a legacy server's go to the sessions of the principal that began the task, a modern server's to the listens
//! that follow it, until it has ended.

use std::sync::Arc;

use mainstay::message::{Object, RawJson};
use serde::Deserialize;

use super::super::subscriptions::Topic;
use super::{Broadcast, SubscriberEntry, Subscribers};
use crate::isolation::OwnServers;

/// The notification of a legacy server.
pub(crate) const STATUS: &str = "notifications/tasks/status";

/// The notification of a modern server.
pub(super) const FOLLOWED: &str = "notifications/tasks";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskStatus {
    task_id: String,
    status: String,
}

impl Subscribers {
    /// Sends the status of a task to the sessions of the principal that began it; `false` when there are none.
    pub(super) fn task_changed(&self, server: &str, id: &str, params: Option<&RawJson>) -> bool {
        let mut is_sent = false;
        for entry in self.table().entries.values() {
            let begun = entry.session().is_some() && entry.tasks.has(server, id);
            if begun && entry.shares(server) {
                let status = params.and_then(|params| entry.tasks.with_public_id(server, params));
                entry.send(&Broadcast::of_state(STATUS, status.as_ref()));
                is_sent = true;
            }
        }
        is_sent
    }

    /// Sends the status of a shared server's task to the listens that follow it.
    pub(super) fn followed_task_changed(&self, server: &str, params: Option<&RawJson>) {
        self.send_to_followers(server, params, |entry, topic| {
            entry.is_subscribed(topic, server, false)
        });
    }

    /// Sends the status of a task of a session's own server to the listens of that session that follow it.
    pub(crate) fn own_task_changed(&self, own: &Arc<OwnServers>, server: &str, params: Option<&RawJson>) {
        self.send_to_followers(server, params, |entry, topic| {
            entry.is_of(own) && entry.is_subscribed(topic, server, true)
        });
    }

    fn send_to_followers(
        &self,
        server: &str,
        params: Option<&RawJson>,
        follows: impl Fn(&SubscriberEntry, &Topic) -> bool,
    ) {
        let changed = params.and_then(|params| params.parse::<TaskStatus>().ok());
        let Some(TaskStatus { task_id, status }) = changed else {
            return;
        };
        let has_ended = matches!(status.as_str(), "completed" | "failed" | "cancelled");
        let topic = Topic::Task {
            server: server.to_owned(),
            id: task_id,
        };
        let mut ended = Vec::new();
        let mut table = self.table();
        for entry in table.entries.values_mut().filter(|entry| follows(entry, &topic)) {
            let status = params.and_then(|params| entry.tasks.with_public_id(server, params));
            entry.send(&Broadcast::of_state(FOLLOWED, status.as_ref()));
            if has_ended {
                ended.extend(entry.topics.remove(&topic));
            }
        }
        drop(table);
        // Subscriptions end outside of the lock.
        drop(ended);
    }
}

/// The task that a notification is of.
pub(crate) fn id(params: Option<&RawJson>) -> Option<String> {
    let params = params.and_then(Object::parse)?;
    params.get("taskId")?.parse().ok()
}
