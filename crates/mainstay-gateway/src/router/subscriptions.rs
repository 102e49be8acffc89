//! Subscriptions to resources and tasks: each is made at one server and ends there, whatever the catalog says by then.
//!
//! A server is told of the first who subscribes to a topic and of the last who leaves. All that concerns one topic of one
//! server happens in turn: whoever comes second learns what became of the first, and asks for himself where that failed.
//! Whoever holds a [`Subscription`] is subscribed; dropping it ends it. It outlives the removal of its server: one of the same
//! name that comes later is asked for all that is still wanted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainstay::gateway::ServerExt;
use mainstay::gateway::message::{RawJson, RpcError};
use mainstay::{CallError, CallErrorKind, Fleet, Server};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

use super::naming::string;
use super::reaching::Reached;
use super::{Request, Router};
use crate::client::Client;
use crate::failure;
use crate::isolation::OwnServers;
use crate::protocol::invalid_params;
use crate::scope::Scope;

/// Resources that one session, or one listen, may subscribe to.
pub(super) const MAX_URIS: usize = 10_000;

/// Something that a server can be asked to tell of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// A resource, by its uri.
    Resource(String),
    /// A task, by the id that its server gave it: others may give the same.
    Task { server: String, id: String },
}

/// How many subscribe to each topic at each server.
#[derive(Clone, Default)]
pub(super) struct Subscriptions(Arc<Mutex<HashMap<Key, Count>>>);

/// A topic at a server, which is everybody's or that of one session.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    server: String,
    /// Where the session's own servers are kept: nobody else's are at the same place while somebody holds them.
    own: Option<usize>,
    topic: Topic,
}

/// Held by whoever changes it until the server knows.
type Count = Arc<Turn<Wanted>>;

/// Who wants a topic, and whom the gateway has asked for it.
#[derive(Default)]
struct Wanted {
    holders: usize,
    /// The server that has agreed. None where nobody has.
    at: Option<Server>,
}

/// One subscription, ended when it is dropped.
pub(crate) struct Subscription(Option<Held>);

struct Held {
    table: Subscriptions,
    server: Server,
    /// Whose own server it is.
    own: Option<Arc<OwnServers>>,
    topic: Topic,
}

/// Why a subscription was not made.
#[derive(Debug, thiserror::Error)]
enum NotMade {
    #[error(transparent)]
    Failed(#[from] CallError),
    #[error("the server does not tell of this task: ask for it")]
    NotAgreed,
}

impl Router {
    pub(super) async fn subscribe(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let reached = self.server_of(request, &uri)?;
        let Some(hearing) = request.client.hearing() else {
            return Err(invalid_params("there is no session that could be told"));
        };
        // Before the server is asked: it may tell of a change right after it has answered.
        let topic = Topic::Resource(uri);
        let expecting = hearing.expect(&topic, &reached)?;
        let subscription = self.subscriptions.begin(request.client, reached, &topic).await?;
        expecting.keep(subscription);
        Ok(RawJson::EMPTY_OBJECT)
    }

    pub(super) async fn unsubscribe(&self, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let uri = uri(request)?;
        let topic = Topic::Resource(uri);
        let hearing = request.client.hearing();
        let given_up = hearing.and_then(|hearing| hearing.give_up(&topic));
        if let Some(subscription) = given_up {
            subscription.end().await;
        }
        Ok(RawJson::EMPTY_OBJECT)
    }

    /// The server at which a resource is subscribed to.
    pub(super) fn server_of(&self, request: &Request<'_>, uri: &str) -> Result<Reached, RpcError> {
        let name = match &request.client.scope {
            Scope::Union => self.owner(request.client, uri)?,
            Scope::Server(name) => name.to_string(),
        };
        self.reach(request.client, &name)
    }
}

impl Subscriptions {
    /// Subscribes, and asks the server if nobody has yet.
    ///
    /// Cancel safety: what was begun is done, and given up again.
    pub(super) async fn begin(
        &self,
        client: &Client,
        reached: Reached,
        topic: &Topic,
    ) -> Result<Subscription, RpcError> {
        let held = Held {
            table: self.clone(),
            own: client.own().filter(|_| reached.is_own).cloned(),
            server: reached.server,
            topic: topic.clone(),
        };
        let begun = tokio::spawn(held.begin()).await;
        let failed = |_| RpcError::new(RpcError::INTERNAL_ERROR, "the subscription could not be made");
        begun.map_err(failed)?.map_err(RpcError::from)
    }

    /// Asks servers that came in the place of others for what is still wanted of those, each in its own time. Of servers that
    /// sessions have for themselves none is ever replaced.
    pub(super) fn renew(&self, fleet: &Fleet) {
        let mut missing: HashMap<String, Vec<Key>> = HashMap::new();
        for (key, wanted) in self.table().iter().filter(|(key, _)| key.own.is_none()) {
            let server = fleet.server(&key.server);
            // Where somebody has the turn, it is waited for, and looked at then.
            let is_made = wanted.try_lock().is_ok_and(|wanted| wanted.at == server);
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

    async fn renew_at(self, server: Server, keys: Vec<Key>) {
        for key in keys {
            let mut wanted = self.turn(key.clone()).await;
            if wanted.holders > 0 && wanted.at.as_ref() != Some(&server) {
                let asked = key.topic.ask(&server).await;
                if let Err(error) = &asked {
                    tracing::warn!(server = key.server, %error, "cannot be subscribed to again now");
                }
                // What it refused is asked for anew by whoever wants it next; anything else the server's handle keeps.
                let is_refused = asked.is_err_and(|error| error.is_final());
                wanted.at = (!is_refused).then(|| server.clone());
            }
            self.forget(&key, wanted);
        }
    }

    async fn turn(&self, key: Key) -> OwnedMutexGuard<Wanted> {
        let count = self.table().entry(key).or_default().clone();
        count.lock_owned().await
    }

    /// Forgets a count of none that nobody waits for. Only the table hands out counts, so nobody can begin to meanwhile.
    fn forget(&self, key: &Key, count: OwnedMutexGuard<Wanted>) {
        let mut table = self.table();
        let is_unused = count.holders == 0;
        drop(count);
        if is_unused && table.get(key).is_some_and(|count| Arc::strong_count(count) == 1) {
            table.remove(key);
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Key, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    async fn begin(self) -> Result<Subscription, NotMade> {
        let mut wanted = self.table.turn(self.key()).await;
        let is_made = wanted.at.as_ref() == Some(&self.server);
        // Whether there still is such a task, only the server knows.
        let is_certain = matches!(self.topic, Topic::Resource(_));
        if !(is_made && is_certain)
            && let Err(error) = self.topic.ask(&self.server).await
        {
            tokio::spawn(self.take_back(error.is_final(), wanted));
            return Err(error);
        }
        wanted.at = Some(self.server.clone());
        wanted.holders += 1;
        drop(wanted);
        Ok(Subscription(Some(self)))
    }

    /// Takes back a wish that failed; what the server refused it is not asked for on its next connection anyway.
    async fn take_back(self, was_refused: bool, wanted: OwnedMutexGuard<Wanted>) {
        if !was_refused && wanted.at.as_ref() != Some(&self.server) {
            self.topic.give_up(&self.server).await;
        }
        self.table.forget(&self.key(), wanted);
    }

    async fn end(self) {
        let mut wanted = self.table.turn(self.key()).await;
        wanted.holders = wanted.holders.saturating_sub(1);
        if wanted.holders == 0
            && let Some(server) = wanted.at.take()
        {
            self.topic.give_up(&server).await;
        }
        self.table.forget(&self.key(), wanted);
    }

    fn key(&self) -> Key {
        Key {
            server: self.server.name().to_owned(),
            own: self.own.as_ref().map(|own| Arc::as_ptr(own).addr()),
            topic: self.topic.clone(),
        }
    }
}

impl Topic {
    async fn ask(&self, server: &Server) -> Result<(), NotMade> {
        match self {
            Self::Resource(uri) => Ok(server.subscribe(uri).await?),
            Self::Task { id, .. } => match server.follow_task(id).await? {
                true => Ok(()),
                false => Err(NotMade::NotAgreed),
            },
        }
    }

    /// Ends it at the server. The gateway tells nobody any more, whatever the server does.
    async fn give_up(&self, server: &Server) {
        match self {
            Self::Resource(uri) => drop(server.unsubscribe(uri).await),
            Self::Task { id, .. } => server.unfollow_task(id),
        }
    }
}

impl NotMade {
    /// Whether the server refused it, and is not asked for it again.
    fn is_final(&self) -> bool {
        matches!(self, Self::Failed(error) if matches!(error.kind(), CallErrorKind::Rpc(_)))
    }
}

impl From<NotMade> for RpcError {
    fn from(not_made: NotMade) -> Self {
        match not_made {
            NotMade::Failed(error) => failure::answer(&error),
            NotMade::NotAgreed => invalid_params(not_made.to_string()),
        }
    }
}

impl Subscription {
    /// At which server it was made.
    pub(super) fn server(&self) -> &str {
        self.0.as_ref().map_or("", |held| held.server.name())
    }

    pub(super) fn is_own(&self) -> bool {
        self.0.as_ref().is_some_and(|held| held.own.is_some())
    }

    /// Ends it, and comes back when the server knows.
    ///
    /// Cancel safety: it ends all the same.
    async fn end(mut self) {
        if let Some(held) = self.0.take() {
            let _ = tokio::spawn(held.end()).await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Where the runtime is gone, so is the server.
        if let (Some(held), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(held.end());
        }
    }
}

fn uri(request: &Request<'_>) -> Result<String, RpcError> {
    string(&request.params, "uri")
}
