//! One subscriber: which notifications it gets, and the subscriptions that are held for it.
//!
//! A subscriber that has seen a list, or listens for it, gets one notification, however much changed in it. Notifications of a task go
//! to the sessions of the principal that began it (legacy), or to the listens that follow it until it has ended (modern).

use std::sync::Arc;

use mainstay::Catalog;
use mainstay::catalog::Kind;
use mainstay::gateway::message::{Object, RawJson, RpcError};
use mainstay::handler::ServerNotification;
use serde::Deserialize;

use super::super::resolve::Upstream;
use super::super::subscriptions::{RESOURCE_LIMIT, Subscription, Topic};
use super::super::tasks::OwnTasks;
use super::{Broadcast, Level, SubscriberDelivery, SubscriberEntry, Subscribers, TopicSubscription};
use crate::client::Client;
use crate::isolation::{Isolated, OwnServers};
use crate::protocol::invalid_params;
use crate::scope::Scope;

/// A subscriber, which gets notifications as long as this lives.
pub(crate) struct Subscriber {
    pub(super) subscribers: Arc<Subscribers>,
    pub(super) id: u64,
}

impl Subscriber {
    /// The client is about to see this list: it gets every change of the list from now on.
    pub(crate) fn sees(&self, kind: Kind) {
        if let Some(entry) = self.subscribers.table().entries.get_mut(&self.id) {
            match kind {
                Kind::Tool => entry.lists.tools = true,
                Kind::Prompt => entry.lists.prompts = true,
                Kind::Resource | Kind::Template => entry.lists.resources = true,
            }
        }
    }

    /// Sends notifications of a topic of this server from now on, while the server is asked for a subscription.
    pub(in crate::router) fn expect<'a>(
        &'a self,
        topic: &'a Topic,
        upstream: &Upstream,
    ) -> Result<ExpectedSubscription<'a>, RpcError> {
        let mut table = self.subscribers.table();
        if let Some(entry) = table.entries.get_mut(&self.id)
            && !entry.topics.contains_key(topic)
        {
            if entry.topics.len() >= RESOURCE_LIMIT {
                let what = format!("{RESOURCE_LIMIT} resources are subscribed to already");
                return Err(invalid_params(what));
            }
            let expected = TopicSubscription {
                server: upstream.server.name().into(),
                is_own: upstream.is_own,
                subscription: None,
            };
            entry.topics.insert(topic.clone(), expected);
        }
        Ok(ExpectedSubscription {
            subscriber: self,
            topic,
        })
    }

    /// Stops notifications of a topic. The caller ends the subscription.
    pub(in crate::router) fn remove(&self, topic: &Topic) -> Option<Subscription> {
        let mut table = self.subscribers.table();
        let entry = table.entries.get_mut(&self.id)?;
        entry.topics.remove(topic)?.subscription
    }

    /// Stops all notifications, and ends all subscriptions, before this is dropped.
    pub(in crate::router) fn close(&self) {
        let removed = self.subscribers.table().entries.remove(&self.id);
        // Outside of the lock.
        drop(removed);
    }

    /// The least severe log message of this server that a session gets which never set a level.
    pub(crate) fn unset_level(&self, server: &str) -> Level {
        self.subscribers.unset_level(server)
    }

    /// Sends the status of a task to the other sessions of the principal that began it; `false` when there are none.
    pub(crate) fn task_changed(&self, server: &str, id: &str, params: Option<&RawJson>) -> bool {
        self.subscribers.task_changed(server, id, params, Some(self.id))
    }

    /// Sends "answered" to the other client that was sent to a URL for this question; `false` when there is none. It came
    /// while this client's calls ran, and has nothing to do with them.
    pub(crate) fn url_elicitation_complete(
        &self,
        client: &Client,
        notification: &ServerNotification,
    ) -> bool {
        let (server, params) = (&notification.server, notification.params.as_ref());
        !client.elicited.has(server, params) && self.subscribers.url_elicitation_complete(notification)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.close();
    }
}

/// A topic whose server is being asked. Dropping it stops the notifications again.
pub(in crate::router) struct ExpectedSubscription<'a> {
    subscriber: &'a Subscriber,
    topic: &'a Topic,
}

impl ExpectedSubscription<'_> {
    /// The server agreed. A subscription that the subscriber has already, at the same server, stays.
    pub(in crate::router) fn keep(self, subscription: Subscription) {
        let mut table = self.subscriber.subscribers.table();
        let Some(entry) = table.entries.get_mut(&self.subscriber.id) else {
            return;
        };
        let kept = TopicSubscription {
            server: subscription.server().into(),
            is_own: subscription.is_own(),
            subscription: Some(subscription),
        };
        // The task has ended meanwhile, and its subscription was ended with it.
        if matches!(self.topic, Topic::Task { .. }) && !entry.topics.contains_key(self.topic) {
            return;
        }
        let is_there =
            |known: &TopicSubscription| known.subscription.is_some() && known.server == kept.server;
        if !entry.topics.get(self.topic).is_some_and(is_there) {
            entry.topics.insert(self.topic.clone(), kept);
        }
    }
}

impl Drop for ExpectedSubscription<'_> {
    fn drop(&mut self) {
        let mut table = self.subscriber.subscribers.table();
        if let Some(entry) = table.entries.get_mut(&self.subscriber.id) {
            let is_made = |topic: &TopicSubscription| topic.subscription.is_some();
            if !entry.topics.get(self.topic).is_none_or(is_made) {
                entry.topics.remove(self.topic);
            }
        }
    }
}

/// The lists whose changes a subscriber wants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListFilter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
}

impl Subscribers {
    /// Takes what is published at the start as known: no client has seen another list.
    pub(crate) fn note_lists(&self, catalog: &Arc<Catalog>, isolated: &Isolated) {
        self.table().seen.look(catalog, isolated);
    }

    /// Notifies every subscriber that sees a list which changed, once for each list.
    pub(crate) fn catalog_changed(&self, catalog: &Arc<Catalog>, isolated: &Isolated) {
        let mut table = self.table();
        let changed = table.seen.look(catalog, isolated);
        let changes: Vec<_> = table
            .entries
            .values()
            .flat_map(|entry| {
                let mine = changed.iter().filter(|(scope, _)| entry.sees(scope, isolated));
                entry.list_changes(mine.map(|(_, kind)| *kind))
            })
            .collect();
        drop(table);
        send_list_changes(&changes);
    }
}

impl SubscriberEntry {
    /// Whether it sees this change of the shared fleet.
    fn sees(&self, changed: &Scope, isolated: &Isolated) -> bool {
        match changed {
            Scope::Server(name) if isolated.holds(name) => {
                let follows = self.own.as_ref().is_some_and(|own| own.follows_template(name));
                follows && self.scope.holds(name)
            }
            Scope::Server(_) | Scope::Union => *changed == self.scope,
        }
    }

    /// The notifications of changes of these lists that it gets.
    pub(super) fn list_changes(&self, kinds: impl Iterator<Item = Kind>) -> Vec<ListChange> {
        let mut methods: Vec<_> = kinds.filter_map(|kind| self.lists.method(kind)).collect();
        // Resources and their templates share a method, and so do several servers. They come kind by kind.
        methods.dedup();
        let changes = methods.into_iter().map(|method| (self.delivery.clone(), method));
        changes.collect()
    }
}

/// A notification that a list changed: to whom it goes, and its method.
pub(super) type ListChange = (SubscriberDelivery, &'static str);

pub(super) fn send_list_changes(changes: &[ListChange]) {
    for (delivery, method) in changes {
        Broadcast::of_change(method, None).send_to(delivery, None);
    }
}

impl ListFilter {
    fn method(&self, kind: Kind) -> Option<&'static str> {
        let (wanted, method) = match kind {
            Kind::Tool => (self.tools, "notifications/tools/list_changed"),
            Kind::Prompt => (self.prompts, "notifications/prompts/list_changed"),
            Kind::Resource | Kind::Template => (self.resources, "notifications/resources/list_changed"),
        };
        wanted.then_some(method)
    }
}

/// The notification of a legacy server.
pub(crate) const TASK_STATUS: &str = "notifications/tasks/status";

/// The notification of a modern server.
pub(crate) const TASK_FOLLOWED: &str = "notifications/tasks";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskStatus {
    task_id: String,
    status: String,
}

impl Subscribers {
    /// Sends the status of a task to the sessions of the principal that began it, but for this subscriber; `false` when there are none.
    pub(super) fn task_changed(
        &self,
        server: &str,
        id: &str,
        params: Option<&RawJson>,
        except: Option<u64>,
    ) -> bool {
        let table = self.table();
        let others = table
            .entries
            .iter()
            .filter(|(subscriber, _)| Some(**subscriber) != except);
        let owners: Vec<_> = others
            .filter(|(_, entry)| {
                entry.session().is_some() && entry.tasks.has(server, id) && entry.shares(server)
            })
            .map(|(_, entry)| entry.task_delivery())
            .collect();
        drop(table);
        send_status(TASK_STATUS, params, server, id, &owners);
        !owners.is_empty()
    }

    /// Sends the status of a task to the listens that follow it: at the shared server, or at the session's `own` server.
    pub(crate) fn followed_task_changed(
        &self,
        server: &str,
        own: Option<&Arc<OwnServers>>,
        params: Option<&RawJson>,
    ) {
        let changed = params.and_then(|params| params.parse::<TaskStatus>().ok());
        let Some(TaskStatus { task_id, status }) = changed else {
            return;
        };
        let has_ended = matches!(status.as_str(), "completed" | "failed" | "cancelled");
        let topic = Topic::Task {
            server: server.to_owned(),
            id: task_id.clone(),
        };
        let (mut followers, mut ended) = (Vec::new(), Vec::new());
        let mut table = self.table();
        let follow = |entry: &&mut SubscriberEntry| entry.is_subscribed(&topic, server, own);
        for entry in table.entries.values_mut().filter(follow) {
            followers.push(entry.task_delivery());
            if has_ended {
                ended.extend(entry.topics.remove(&topic));
            }
        }
        drop(table);
        send_status(TASK_FOLLOWED, params, server, &task_id, &followers);
        // Subscriptions end outside of the lock too.
        drop(ended);
    }
}

/// A subscriber that gets the status of a task, and how it knows its tasks.
type TaskDelivery = (SubscriberDelivery, OwnTasks);

impl SubscriberEntry {
    fn task_delivery(&self) -> TaskDelivery {
        (self.delivery.clone(), self.tasks.clone())
    }
}

/// Sends the status of a task of a server, with the id by which each subscriber knows the task.
fn send_status(method: &str, params: Option<&RawJson>, server: &str, id: &str, to: &[TaskDelivery]) {
    if to.is_empty() {
        return;
    }
    let broadcast = Broadcast::of_state(method, params);
    for (delivery, tasks) in to {
        let public_id = (!tasks.have_server_ids()).then(|| tasks.public_id(server, id));
        broadcast.send_to(delivery, public_id.as_deref());
    }
}

/// The task that a notification is of.
pub(crate) fn task_id(params: Option<&RawJson>) -> Option<String> {
    let params = params.and_then(Object::parse)?;
    params.get("taskId")?.parse().ok()
}
