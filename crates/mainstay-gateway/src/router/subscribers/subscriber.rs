//! One seat in the subscribers: what whoever sits there hears of, and the subscriptions that are held for it.

use std::sync::Arc;

use mainstay::catalog::Kind;
use mainstay::gateway::message::RpcError;

use super::super::reaching::Reached;
use super::super::subscriptions::{MAX_URIS, Subscription, Topic};
use super::{Level, Subscribers, TopicSubscription};
use crate::protocol::invalid_params;

/// A seat in the subscribers, kept as long as this lives.
pub(crate) struct Subscriber {
    pub(super) subscribers: Arc<Subscribers>,
    pub(super) seat: u64,
}

impl Subscriber {
    /// Hears of every change of this list from now on: it is about to be seen.
    pub(crate) fn sees(&self, kind: Kind) {
        if let Some(hearer) = self.subscribers.seats().hearers.get_mut(&self.seat) {
            match kind {
                Kind::Tool => hearer.filter.tools = true,
                Kind::Prompt => hearer.filter.prompts = true,
                Kind::Resource | Kind::Template => hearer.filter.resources = true,
            }
        }
    }

    /// Hears of a topic of this server from now on, in the expectation of a subscription.
    pub(in crate::router) fn expect<'a>(
        &'a self,
        topic: &'a Topic,
        reached: &Reached,
    ) -> Result<Expecting<'a>, RpcError> {
        let mut seats = self.subscribers.seats();
        if let Some(hearer) = seats.hearers.get_mut(&self.seat)
            && !hearer.topics.contains_key(topic)
        {
            if hearer.topics.len() >= MAX_URIS {
                let what = format!("{MAX_URIS} resources are subscribed to already");
                return Err(invalid_params(what));
            }
            let heard = TopicSubscription {
                server: reached.server.name().into(),
                is_own: reached.is_own,
                subscription: None,
            };
            hearer.topics.insert(topic.clone(), heard);
        }
        Ok(Expecting { hearing: self, topic })
    }

    /// Hears of a topic no more; its subscription is the caller's to end.
    pub(in crate::router) fn give_up(&self, topic: &Topic) -> Option<Subscription> {
        let mut seats = self.subscribers.seats();
        let hearer = seats.hearers.get_mut(&self.seat)?;
        hearer.topics.remove(topic)?.subscription
    }

    /// Hears nothing any more, and ends all its subscriptions, however long somebody still holds it.
    pub(in crate::router) fn leave(&self) {
        let left = self.subscribers.seats().hearers.remove(&self.seat);
        // Outside of the lock.
        drop(left);
    }

    /// The least severe log message of this server that it hears without having asked for a level.
    pub(crate) fn unasked_level(&self, server: &str) -> Level {
        self.subscribers.unasked_level(server)
    }
}

/// A topic that is heard of while its server is asked. Nothing is left of it if that comes to nothing.
pub(in crate::router) struct Expecting<'a> {
    hearing: &'a Subscriber,
    topic: &'a Topic,
}

impl Expecting<'_> {
    /// The subscription was made. One that was there already, at the same server, is as good.
    pub(in crate::router) fn keep(self, subscription: Subscription) {
        let mut seats = self.hearing.subscribers.seats();
        let Some(hearer) = seats.hearers.get_mut(&self.hearing.seat) else {
            return;
        };
        let heard = TopicSubscription {
            server: subscription.server().into(),
            is_own: subscription.is_own(),
            subscription: Some(subscription),
        };
        // A task that ended meanwhile has been told of, and let go.
        if matches!(self.topic, Topic::Task { .. }) && !hearer.topics.contains_key(self.topic) {
            return;
        }
        let is_there =
            |known: &TopicSubscription| known.subscription.is_some() && known.server == heard.server;
        if !hearer.topics.get(self.topic).is_some_and(is_there) {
            hearer.topics.insert(self.topic.clone(), heard);
        }
    }
}

impl Drop for Expecting<'_> {
    fn drop(&mut self) {
        if let Some(hearer) = self
            .hearing
            .subscribers
            .seats()
            .hearers
            .get_mut(&self.hearing.seat)
            && hearer
                .topics
                .get(self.topic)
                .is_some_and(|heard| heard.subscription.is_none())
        {
            hearer.topics.remove(self.topic);
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.leave();
    }
}
