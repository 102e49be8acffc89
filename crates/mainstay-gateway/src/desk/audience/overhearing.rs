//! What a server tells outside of any call: for the one session that sees it; where several do, its log goes to those who
//! asked for it, and nothing else to anybody.
//!
//! Invariant: what may belong to somebody's call, or to a task that goes on after one, reaches no bystander.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mainstay::message::RawJson;
use mainstay::{Occasion, ServerNotification};

use super::{Audience, Level, TASK_STATUS, task_id, unlabelled};
use crate::client::{Client, elicited};

impl Audience {
    /// Tells what belongs to no call to whom it concerns.
    pub(super) fn overhear(&self, mut notification: ServerNotification) {
        notification.params = notification.params.as_ref().map(unlabelled);
        if notification.method == elicited::ANSWERED && self.answered_elsewhere(&notification) {
            return;
        }
        let is_log = notification.method == "notifications/message";
        let concerned = match notification.occasion {
            // It may be about the call of somebody who does not hear it here.
            Occasion::Call | Occasion::Unclear => Vec::new(),
            Occasion::NoCall if is_log => {
                self.log_readers(&notification.server, notification.params.as_ref())
            }
            Occasion::NoCall => self.only_session(&notification.server).into_iter().collect(),
        };
        let Some((last, others)) = concerned.split_last() else {
            let unheard = self.unheard.fetch_add(1, Ordering::Relaxed) + 1;
            if unheard.is_power_of_two() {
                let ServerNotification { server, method, .. } = notification;
                tracing::debug!(%server, method, unheard, "what a server tells concerns nobody");
            }
            return;
        };
        for session in others {
            session.overhear(notification.clone());
        }
        last.overhear(notification);
    }

    /// Tells whoever was asked that what it was asked is answered, whoever calls meanwhile; `false` when nobody here was.
    fn answered_elsewhere(&self, notification: &ServerNotification) -> bool {
        let (server, params) = (&notification.server, notification.params.as_ref());
        let mut asked = self.sessions_of(server, usize::MAX);
        asked.retain(|session| session.elicited.has(server, params));
        for session in &asked {
            session.overhear(notification.clone());
        }
        !asked.is_empty()
    }

    /// Who reads the log of a server as a whole: whoever sees it alone, and otherwise who asked for as much as this. The
    /// log of a task that goes on is its session's alone; which of them do is not known, so all count that were begun.
    fn log_readers(&self, server: &str, params: Option<&RawJson>) -> Vec<Arc<Client>> {
        let mut sessions = self.sessions_of(server, usize::MAX);
        if sessions.len() < 2 {
            return sessions;
        }
        let level = Level::of_message(params);
        let mut with_tasks = sessions.iter().filter(|session| session.tasks.any_at(server));
        let (one, more) = (with_tasks.next().cloned(), with_tasks.next().is_some());
        if more {
            return Vec::new();
        }
        sessions.retain(|session| {
            let is_bystander = one.as_ref().is_some_and(|one| !Arc::ptr_eq(one, session));
            !is_bystander && session.level().is_some_and(|least| least <= level)
        });
        sessions
    }
}

impl super::Hearing {
    /// Whether this is news of a task that not this client but another has begun, or of a question that another was asked, who is
    /// told: it came while this client's calls ran, and has nothing to do with them.
    pub(crate) fn is_of_another(&self, client: &Client, notification: &ServerNotification) -> bool {
        let (server, params) = (&notification.server, notification.params.as_ref());
        if notification.method == elicited::ANSWERED {
            return !client.elicited.has(server, params) && self.audience.answered_elsewhere(notification);
        }
        if notification.method != TASK_STATUS {
            return false;
        }
        let is_own = task_id(params).is_some_and(|id| client.tasks.has(server, &id));
        !is_own && self.audience.task_changed(server, params)
    }
}
