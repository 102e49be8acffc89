//! How long a list of the gateway may be kept, and for whom: what its servers say of theirs, and never more.
//!
//! A server's time runs from when it was listed, so what is left of it is told. What a server does not say counts as
//! "not at all" and "nobody else's"; so does a server of which nothing was listed yet. A server without such a list has
//! no say in it.

use std::time::{Duration, SystemTime};

use mainstay::catalog::{CacheScope, Caching, Kind};
use mainstay::gateway::message::{Object, RawJson};
use mainstay::{Catalog, StateKind, Status};

use super::Router;
use crate::client::Client;
use crate::protocol::text;

/// What a modern client is told of keeping a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    ttl_ms: u64,
    is_public: bool,
}

impl Hint {
    /// It is stale at once, and nobody else's.
    pub(super) const NONE: Self = Self {
        ttl_ms: 0,
        is_public: false,
    };

    pub(super) fn write(self, result: &mut Object) {
        let scope = if self.is_public { "public" } else { "private" };
        result.set("ttlMs", RawJson::from(self.ttl_ms));
        result.set("cacheScope", text(scope));
    }

    /// What is left of a server's time.
    fn of(caching: Caching, age: Duration) -> Self {
        let left = caching.ttl.unwrap_or_default().saturating_sub(age);
        Self {
            ttl_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            is_public: match caching.scope {
                Some(CacheScope::Public) => true,
                Some(CacheScope::Private) | None => false,
            },
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            ttl_ms: self.ttl_ms.min(other.ttl_ms),
            is_public: self.is_public && other.is_public,
        }
    }
}

impl Router {
    /// How this list may be kept, as of now.
    pub(super) fn hint(&self, catalog: &Catalog, client: &Client, kind: Kind) -> Hint {
        let now = SystemTime::now();
        let servers = client.scope.servers(self.fleet());
        let seen = servers
            .iter()
            .filter(|server| self.is_reachable(client, server.name()));
        let said = seen.filter_map(|server| {
            let Some(listed) = catalog.server(server.name()) else {
                // It will add to the list once it is there.
                return may_come(&server.status()).then_some(Hint::NONE);
            };
            let Some(caching) = listed.caching(kind) else {
                // From disk nothing is known but the items.
                return (!listed.items(kind).is_empty()).then_some(Hint::NONE);
            };
            let listed_at = catalog.freshness(server.name())?.listed_at;
            let age = now.duration_since(listed_at).unwrap_or_default();
            Some(Hint::of(caching, age))
        });
        said.reduce(Hint::and).unwrap_or(Hint::NONE)
    }
}

fn may_come(status: &Status) -> bool {
    match status.state {
        StateKind::Connecting | StateKind::Reconnecting | StateKind::Connected | StateKind::Disconnected => {
            true
        }
        StateKind::Disabled | StateKind::Disabling | StateKind::PermanentlyFailed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ttl: Option<u64>, scope: Option<CacheScope>) -> Caching {
        Caching {
            ttl: ttl.map(Duration::from_millis),
            scope,
        }
    }

    #[test]
    fn what_is_left_of_a_server_s_time_is_told_and_nothing_that_it_did_not_say() {
        let age = Duration::from_millis(400);
        for (caching, ttl_ms, is_public) in [
            (said(Some(1000), Some(CacheScope::Public)), 600, true),
            (said(Some(1000), Some(CacheScope::Private)), 600, false),
            (said(Some(300), Some(CacheScope::Public)), 0, true),
            (said(None, None), 0, false),
        ] {
            assert_eq!(Hint::of(caching, age), Hint { ttl_ms, is_public }, "{caching:?}");
        }
    }

    #[test]
    fn the_least_of_the_servers_counts() {
        let one = Hint::of(said(Some(1000), Some(CacheScope::Public)), Duration::ZERO);
        let two = Hint::of(said(Some(300), Some(CacheScope::Public)), Duration::ZERO);
        let private = Hint::of(said(Some(5000), Some(CacheScope::Private)), Duration::ZERO);
        assert_eq!(one.and(two), two);
        assert_eq!(
            two.and(private),
            Hint {
                ttl_ms: 300,
                is_public: false
            }
        );
    }
}
