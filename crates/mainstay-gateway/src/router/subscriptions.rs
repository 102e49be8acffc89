//! Subscriptions to resources and tasks. Each is made at one server and ends there, whatever the catalog says by then.
//!
//! The gateway subscribes at a server for the first subscriber of a topic, and unsubscribes after the last. Everything about one topic
//! of one server happens in turn: a second subscriber waits for the first attempt and retries if it failed. Dropping a
//! [`Subscription`] ends it. It outlives the removal of its server: when one of the same name is added, the gateway
//! subscribes there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{RawJson, RpcError};
use mainstay::{CallError, CallErrorKind, Fleet, Server};
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;

use super::resolve::{Upstream, string};
use super::{RoutedRequest, Router};
use crate::budget::HeldBytes;
use crate::client::Client;
use crate::failure::{self, Advice};
use crate::isolation::OwnServers;
use crate::lock::lock;
use crate::protocol::invalid_params;
use crate::scope::Scope;

/// Resources that one session, or one listen, may subscribe to.
pub(super) const RESOURCE_LIMIT: usize = 10_000;

/// The longest uri that a client may subscribe to, in bytes.
const URI_LIMIT: usize = 8 * 1024;

/// What a subscription is charged with: for itself, and for each copy of its uri. Tables of the subscriber, of the gateway, of the
/// server and of its connection have one each, and two are on their way.
const SUBSCRIPTION_COST: usize = 1024;
const URI_COPIES: usize = 6;

/// Something that a client can subscribe to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// A resource, by its uri.
    Resource(String),
    /// A task, by the id that its server gave it: others may give the same.
    Task { server: String, id: String },
}

/// How many subscribe to each topic at each server.
#[derive(Clone, Default)]
pub(super) struct Subscriptions(Arc<Mutex<HashMap<TopicKey, SharedTopic>>>);

/// A topic at a server, which is shared or a session's own.
#[derive(Clone, PartialEq, Eq, Hash)]
struct TopicKey {
    server: String,
    /// The address in memory of the session's own servers, which is unique while the subscription holds them.
    own: Option<usize>,
    topic: Topic,
}

/// Locked until the server knows of a change.
type SharedTopic = Arc<tokio::sync::Mutex<TopicState>>;

/// How many subscribe to a topic, and the server that agreed.
#[derive(Default)]
struct TopicState {
    subscribers: usize,
    server: Option<Server>,
}

/// One subscription, ended when it is dropped.
pub(crate) struct Subscription(Option<SubscriptionParts>);

struct SubscriptionParts {
    table: Subscriptions,
    server: Server,
    /// The session's own servers, where it is one of them.
    own: Option<Arc<OwnServers>>,
    topic: Topic,
    /// What it holds of its client's share of memory.
    held: Option<HeldBytes>,
}

/// Why a subscription failed.
#[derive(Debug, thiserror::Error)]
enum SubscribeError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the server sends no notifications of this task: poll it")]
    NotAgreed,
}

impl Router {
    pub(super) async fn subscribe(&self, request: &RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        // Before it is compared with the templates of all servers.
        let topic = Topic::resource(uri.clone())?;
        let upstream = self.server_of(request, &uri)?;
        let Some(subscriber) = request.client.subscriber() else {
            return Err(invalid_params("there is no session that could get notifications"));
        };
        let account = self.budget.account(request.client.principal);
        let held = account.hold(topic.cost())?;
        // Before the server is asked: it may send an update right after it has answered.
        let expected = subscriber.expect(&topic, &upstream)?;
        let subscription = self
            .subscriptions
            .begin(request.client, upstream, &topic, &self.advice)
            .await?;
        expected.keep(subscription.holding(held));
        Ok(RawJson::EMPTY_OBJECT)
    }

    pub(super) async fn unsubscribe(&self, request: &RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let topic = Topic::Resource(uri);
        let subscriber = request.client.subscriber();
        if let Some(subscription) = subscriber.and_then(|subscriber| subscriber.remove(&topic)) {
            subscription.end().await;
        }
        Ok(RawJson::EMPTY_OBJECT)
    }

    /// The server at which a resource is subscribed to.
    pub(super) fn server_of(&self, request: &RoutedRequest<'_>, uri: &str) -> Result<Upstream, RpcError> {
        let name = match &request.client.scope {
            Scope::Union => self.owner(request.client, uri)?,
            Scope::Server(name) => name.to_string(),
        };
        self.upstream(request.client, &name)
    }
}

impl Subscriptions {
    /// Subscribes, and asks the server if it does not know of a subscriber yet.
    ///
    /// Cancel safety: an attempt that has begun is finished, and undone.
    pub(super) async fn begin(
        &self,
        client: &Client,
        upstream: Upstream,
        topic: &Topic,
        advice: &Advice,
    ) -> Result<Subscription, RpcError> {
        let parts = SubscriptionParts {
            table: self.clone(),
            own: client.own().filter(|_| upstream.is_own).cloned(),
            server: upstream.server,
            topic: topic.clone(),
            held: None,
        };
        let begun = tokio::spawn(parts.begin()).await;
        let failed = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the subscription could not be made");
        begun.map_err(failed)?.map_err(|error| error.answer(advice))
    }

    /// Subscribes at servers that replaced others, in the background. A session's own server is never replaced.
    pub(super) fn renew(&self, fleet: &Fleet) {
        let mut missing: HashMap<String, Vec<TopicKey>> = HashMap::new();
        for (key, topic) in lock(&self.0).iter().filter(|(key, _)| key.own.is_none()) {
            let server = fleet.server(&key.server);
            // A topic that changes now is looked at again after the change.
            let is_made = topic.try_lock().is_ok_and(|topic| topic.server == server);
            if server.is_some() && !is_made {
                missing.entry(key.server.clone()).or_default().push(key.clone());
            }
        }
        for (name, keys) in missing {
            if let Some(server) = fleet.server(&name) {
                tokio::spawn(self.clone().renew_at(server, keys));
            }
        }
    }

    async fn renew_at(self, server: Server, keys: Vec<TopicKey>) {
        for key in keys {
            let mut topic = self.lock(key.clone()).await;
            if topic.subscribers > 0 && topic.server.as_ref() != Some(&server) {
                let asked = key.topic.subscribe(&server).await;
                if let Err(error) = &asked {
                    tracing::warn!(server = key.server, %error, "cannot be subscribed to again now");
                }
                // The next subscriber asks again for what it refused; the server's handle repeats anything else.
                let is_refused = asked.is_err_and(|error| error.is_final());
                topic.server = (!is_refused).then(|| server.clone());
            }
            self.forget(&key, topic);
        }
    }

    async fn lock(&self, key: TopicKey) -> OwnedMutexGuard<TopicState> {
        let topic = lock(&self.0).entry(key).or_default().clone();
        topic.lock_owned().await
    }

    /// Forgets a topic without subscribers that no task waits for. Only the table hands out topics, so none can begin to wait
    /// meanwhile.
    fn forget(&self, key: &TopicKey, topic: OwnedMutexGuard<TopicState>) {
        let mut table = lock(&self.0);
        let is_unused = topic.subscribers == 0;
        drop(topic);
        if is_unused && table.get(key).is_some_and(|topic| Arc::strong_count(topic) == 1) {
            table.remove(key);
        }
    }
}

impl SubscriptionParts {
    async fn begin(self) -> Result<Subscription, SubscribeError> {
        let mut topic = self.table.lock(self.key()).await;
        let is_made = topic.server.as_ref() == Some(&self.server);
        // Whether there still is such a task, only the server knows.
        let is_certain = matches!(self.topic, Topic::Resource(_));
        if !(is_made && is_certain)
            && let Err(error) = self.topic.subscribe(&self.server).await
        {
            tokio::spawn(self.undo(error.is_final(), topic));
            return Err(error);
        }
        topic.server = Some(self.server.clone());
        topic.subscribers += 1;
        drop(topic);
        Ok(Subscription(Some(self)))
    }

    /// Undoes an attempt that failed. The library does not repeat on the next connection what the server refused.
    async fn undo(self, was_refused: bool, topic: OwnedMutexGuard<TopicState>) {
        if !was_refused && topic.server.as_ref() != Some(&self.server) {
            self.topic.unsubscribe(&self.server).await;
        }
        self.table.forget(&self.key(), topic);
    }

    async fn end(self) {
        let mut topic = self.table.lock(self.key()).await;
        topic.subscribers = topic.subscribers.saturating_sub(1);
        if topic.subscribers == 0
            && let Some(server) = topic.server.take()
        {
            self.topic.unsubscribe(&server).await;
        }
        self.table.forget(&self.key(), topic);
    }

    fn key(&self) -> TopicKey {
        TopicKey {
            server: self.server.name().to_owned(),
            own: self.own.as_ref().map(|own| Arc::as_ptr(own).addr()),
            topic: self.topic.clone(),
        }
    }
}

impl Topic {
    /// A resource, unless its uri is too long.
    pub(super) fn resource(uri: String) -> Result<Self, RpcError> {
        if uri.len() > URI_LIMIT {
            let what = format!(
                "a uri that is subscribed to may have {URI_LIMIT} bytes, not {}",
                uri.len()
            );
            return Err(invalid_params(what));
        }
        Ok(Self::Resource(uri))
    }

    /// What a subscription to it takes of its client's share of memory.
    pub(super) fn cost(&self) -> usize {
        let (Self::Resource(text) | Self::Task { id: text, .. }) = self;
        SUBSCRIPTION_COST + URI_COPIES * text.len()
    }

    async fn subscribe(&self, server: &Server) -> Result<(), SubscribeError> {
        match self {
            Self::Resource(uri) => Ok(server.subscribe(uri).await?),
            Self::Task { id, .. } => match server.follow_task(id).await? {
                true => Ok(()),
                false => Err(SubscribeError::NotAgreed),
            },
        }
    }

    /// Ends it at the server. The gateway sends no more notifications, whatever the server does.
    async fn unsubscribe(&self, server: &Server) {
        match self {
            Self::Resource(uri) => drop(server.unsubscribe(uri).await),
            Self::Task { id, .. } => server.unfollow_task(id),
        }
    }
}

impl SubscribeError {
    /// Whether the server refused, so that the library does not ask again.
    fn is_final(&self) -> bool {
        matches!(self, Self::Call(error) if matches!(error.kind(), CallErrorKind::Rpc(_)))
    }

    fn answer(&self, advice: &Advice) -> RpcError {
        match self {
            Self::Call(error) => failure::answer(error, advice),
            Self::NotAgreed => invalid_params(self.to_string()),
        }
    }
}

impl Subscription {
    /// The subscription, which keeps this of its client's share of memory until it ends.
    fn holding(mut self, held: HeldBytes) -> Self {
        if let Some(parts) = &mut self.0 {
            parts.held = Some(held);
        }
        self
    }

    /// At which server it was made.
    pub(super) fn server(&self) -> &str {
        self.0.as_ref().map_or("", |parts| parts.server.name())
    }

    pub(super) fn is_own(&self) -> bool {
        self.0.as_ref().is_some_and(|parts| parts.own.is_some())
    }

    /// Ends it, and returns when the server knows.
    ///
    /// Cancel safety: it ends all the same.
    async fn end(mut self) {
        if let Some(parts) = self.0.take() {
            let _ = tokio::spawn(parts.end()).await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Where the runtime is gone, so is the server.
        if let (Some(parts), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(parts.end());
        }
    }
}

fn uri(request: &RoutedRequest<'_>) -> Result<String, RpcError> {
    string(&request.params, "uri")
}
