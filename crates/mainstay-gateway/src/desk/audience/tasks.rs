//! Tasks that listens follow: each listen hears of its own, and of one that has ended no more.

use std::sync::Arc;

use mainstay::message::RawJson;
use serde::Deserialize;

use super::super::subscriptions::Topic;
use super::super::tasks::shown;
use super::{Audience, Hearer};
use crate::isolation::OwnServers;

/// What a modern server tells of a task.
pub(super) const FOLLOWED: &str = "notifications/tasks";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    task_id: String,
    status: String,
}

impl Audience {
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
        follows: impl Fn(&Hearer, &Topic) -> bool,
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
            let shown = shown(&hearer.scope, server, FOLLOWED, params.cloned());
            hearer.tell(FOLLOWED, shown.as_ref());
            if has_ended {
                let_go.extend(hearer.topics.remove(&topic));
            }
        }
        drop(seats);
        // Their subscriptions end outside of the lock.
        drop(let_go);
    }
}
