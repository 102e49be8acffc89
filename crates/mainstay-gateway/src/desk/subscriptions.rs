//! The resources that clients subscribe to, all clients together: a server is told of the first who does, and of the last
//! who does no more.
//!
//! What a server was told last is what is wanted now: each resource is told of by one at a time, and whoever's turn it is
//! looks what is wanted then. A telling that has begun is finished, also when its client goes away meanwhile.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mainstay::message::RpcError;
use mainstay::{Fleet, Server};

use crate::failure;

#[derive(Clone, Default)]
pub(super) struct Subscriptions(Arc<Mutex<BTreeMap<Key, Resource>>>);

/// A server, and the uri of a resource.
type Key = (String, String);

#[derive(Default)]
struct Resource {
    subscribers: usize,
    turn: Turn,
}

/// Whether the server was told that somebody subscribes. Whoever holds the lock may tell it.
type Turn = Arc<tokio::sync::Mutex<bool>>;

impl Subscriptions {
    /// One more subscribes, from now on. What the server says to it need not be waited for.
    pub(super) fn begin(&self, fleet: &Fleet, server: &str, uri: &str) -> impl Future<Output = Said> + use<> {
        let key = (server.to_owned(), uri.to_owned());
        let turn = {
            let mut resources = self.resources();
            let resource = resources.entry(key.clone()).or_default();
            resource.subscribers += 1;
            resource.turn.clone()
        };
        self.told(fleet, key, Some(turn))
    }

    /// One less subscribes, from now on. That the server is told need not be waited for.
    pub(super) fn end(&self, fleet: &Fleet, server: &str, uri: &str) -> impl Future<Output = Said> + use<> {
        let key = (server.to_owned(), uri.to_owned());
        let turn = self.resources().get_mut(&key).map(|resource| {
            resource.subscribers = resource.subscribers.saturating_sub(1);
            resource.turn.clone()
        });
        self.told(fleet, key, turn)
    }

    fn told(&self, fleet: &Fleet, key: Key, turn: Option<Turn>) -> impl Future<Output = Said> + use<> {
        let telling = turn.map(|turn| {
            let (subscriptions, server) = (self.clone(), fleet.server(&key.0));
            tokio::spawn(async move { subscriptions.tell(server, &key, turn).await })
        });
        async move {
            let shut_down = |_| {
                Err(RpcError::new(
                    RpcError::INTERNAL_ERROR,
                    "the gateway is being shut down",
                ))
            };
            match telling {
                Some(telling) => telling.await.unwrap_or_else(shut_down),
                None => Ok(()),
            }
        }
    }

    /// Waits for its turn, and tells the server what is wanted then.
    async fn tell(&self, server: Option<Server>, key: &Key, turn: Turn) -> Said {
        let mut told = turn.lock().await;
        let wanted = self.is_wanted(key);
        let said = match server {
            Some(server) if wanted && !*told => server.subscribe(&key.1).await,
            Some(server) if !wanted && *told => server.unsubscribe(&key.1).await,
            // It knows already; or it is not there any more, and can be told nothing.
            Some(_) | None => Ok(()),
        };
        // The end of a subscription is the end, whatever the server says to it.
        *told = wanted && said.is_ok();
        drop(told);
        drop(turn);
        self.forget(key);
        said.map_err(|error| failure::answer(&error))
    }

    fn is_wanted(&self, key: &Key) -> bool {
        let resources = self.resources();
        resources
            .get(key)
            .is_some_and(|resource| resource.subscribers > 0)
    }

    /// Forgets a resource that nobody wants and nobody is about to tell of.
    fn forget(&self, key: &Key) {
        let mut resources = self.resources();
        let unused =
            |resource: &Resource| resource.subscribers == 0 && Arc::strong_count(&resource.turn) == 1;
        if resources.get(key).is_some_and(unused) {
            resources.remove(key);
        }
    }

    fn resources(&self) -> MutexGuard<'_, BTreeMap<Key, Resource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a server said to a wish.
type Said = Result<(), RpcError>;
