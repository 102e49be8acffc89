//! One subscriber: which notifications it gets, and the subscriptions that are held for it.

use std::sync::Arc;

use mainstay::message::{RawJson, RpcError};
use mainstay::{Kind, ServerNotification};

use super::super::resolve::Upstream;
use super::super::subscriptions::{RESOURCE_LIMIT, Subscription, Topic};
use super::{Level, Subscribers, TopicSubscription};
use crate::client::Client;
use crate::protocol::invalid_params;

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

    /// Sends the status of a task to other sessions of the principal that began it; `false` when there are none.
    pub(crate) fn task_changed(&self, server: &str, id: &str, params: Option<&RawJson>) -> bool {
        self.subscribers.task_changed(server, id, params)
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
