//! News of tasks: of a legacy server's for the sessions of who began them, of a modern server's for the listens that follow
//! them, until they have ended.

use std::sync::Arc;

use mainstay::gateway::message::{Object, RawJson};
use serde::Deserialize;

use super::super::subscriptions::Topic;
use super::{News, Subscriber, SubscriberEntry, Subscribers};
use crate::isolation::OwnServers;

/// What a legacy server tells of a task.
pub(crate) const STATUS: &str = "notifications/tasks/status";

/// What a modern server tells of a task.
pub(super) const FOLLOWED: &str = "notifications/tasks";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    task_id: String,
    status: String,
}

impl Subscribers {
    /// Tells the sessions whose principal has begun a task how it is; `false` when there is none.
    pub(super) fn task_changed(&self, server: &str, id: &str, params: Option<&RawJson>) -> bool {
        let mut is_told = false;
        for hearer in self.seats().hearers.values() {
            let begun = hearer.session().is_some() && hearer.tasks.has(server, id);
            if begun && hearer.shares(server) {
                let status = params.and_then(|params| hearer.tasks.with_public_id(server, params));
                hearer.tell(&News::of_state(STATUS, status.as_ref()));
                is_told = true;
            }
        }
        is_told
    }

    /// Tells whoever follows a task of a server that all share how it is.
    pub(super) fn followed_task_changed(&self, server: &str, params: Option<&RawJson>) {
        self.tell_followers(server, params, |hearer, topic| hearer.hears(topic, server, false));
    }

    /// Tells whoever shares the session, and follows a task of one of its own servers, how it is.
    pub(crate) fn own_task_changed(&self, own: &Arc<OwnServers>, server: &str, params: Option<&RawJson>) {
        self.tell_followers(server, params, |hearer, topic| {
            hearer.is_of(own) && hearer.hears(topic, server, true)
        });
    }

    fn tell_followers(
        &self,
        server: &str,
        params: Option<&RawJson>,
        follows: impl Fn(&SubscriberEntry, &Topic) -> bool,
    ) {
        let changed = params.and_then(|params| params.parse::<Changed>().ok());
        let Some(Changed { task_id, status }) = changed else {
            return;
        };
        let has_ended = matches!(status.as_str(), "completed" | "failed" | "cancelled");
        let topic = Topic::Task {
            server: server.to_owned(),
            id: task_id,
        };
        let mut let_go = Vec::new();
        let mut seats = self.seats();
        for hearer in seats
            .hearers
            .values_mut()
            .filter(|hearer| follows(hearer, &topic))
        {
            let status = params.and_then(|params| hearer.tasks.with_public_id(server, params));
            hearer.tell(&News::of_state(FOLLOWED, status.as_ref()));
            if has_ended {
                let_go.extend(hearer.topics.remove(&topic));
            }
        }
        drop(seats);
        // Their subscriptions end outside of the lock.
        drop(let_go);
    }
}

impl Subscriber {
    /// Tells the others whose principal has begun a task how it is; `false` when there are none.
    pub(crate) fn task_changed(&self, server: &str, id: &str, params: Option<&RawJson>) -> bool {
        self.subscribers.task_changed(server, id, params)
    }
}

/// The task that news is of.
pub(crate) fn id(params: Option<&RawJson>) -> Option<String> {
    let params = params.and_then(Object::parse)?;
    params.get("taskId")?.parse().ok()
}
