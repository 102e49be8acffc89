//! Servers that no two sessions share: each session has its own, started when it first needs it, and ended with it.
//!
//! The fleet behind the gateway has one of each too, the *pattern*: it is started once to learn what is offered before a
//! session has a server of its own, is stopped as soon as it is idle, and works for nobody.
//!
//! Invariants: what a session's own server says or asks reaches that session, or nobody; own servers are counted from
//! their start until nothing of them is left, and are never more than the bounds; a session that has ended starts none.

mod lists;
mod own;
mod owner;
mod refusal;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use mainstay::config::Isolation;
use mainstay::fleet::ClosedServer;
use mainstay::gateway::catalog_of;
use mainstay::{Catalog, Era, Fleet, FleetBuilder, ServerConfig};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Client;
use crate::principal::Principal;
use crate::protocol::MODERN_VERSIONS;
use crate::router::Subscribers;
pub(crate) use own::OwnServers;
pub(crate) use refusal::Refused;

/// Own servers of all sessions together, unless somebody says otherwise: as many processes of 50 to 100 MB as a
/// workstation bears.
const MAX_ISOLATED: usize = 64;

/// How many own servers there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Of all sessions together.
    pub(crate) most: usize,
    /// Of one principal; unless somebody says so, a part of all, so that none takes them all.
    pub(crate) most_of_one: Option<usize>,
}

/// The part of all own servers that one principal may have.
const SHARE: usize = 4;

impl Bounds {
    fn most_of_one(self) -> usize {
        self.most_of_one.unwrap_or((self.most / SHARE).max(1))
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            most: MAX_ISOLATED,
            most_of_one: None,
        }
    }
}

/// How long a pattern is kept after it was listed: servers that add tools just after their start are still heard.
const PATTERN_STAYS: Duration = Duration::from_secs(10);

/// How much longer than its servers the end of all of them may take.
const GRACE: Duration = Duration::from_secs(2);

/// The servers that are not shared, and whatever runs of them for sessions.
pub(crate) struct Isolated {
    servers: ArcSwap<BTreeMap<Arc<str>, ServerConfig>>,
    /// How the fleets of sessions are made.
    kind: FleetBuilder,
    subscribers: Arc<Subscribers>,
    bounds: Bounds,
    live: Mutex<Live>,
    /// What is shown to who has no session, and of which catalog.
    without: Mutex<Option<(Arc<Catalog>, Arc<Catalog>)>>,
}

/// The own servers of all sessions, each a fleet of one, those that are being closed included.
#[derive(Default)]
struct Live {
    last: u64,
    /// With whose they are, where several clients can have some.
    fleets: HashMap<u64, (Fleet, Option<Principal>)>,
    /// The gateway is being closed: nothing is started any more.
    closed: bool,
}

impl Isolated {
    pub(crate) fn new(kind: FleetBuilder, subscribers: Arc<Subscribers>, bounds: Bounds) -> Self {
        Self {
            servers: ArcSwap::default(),
            // What one session's server lists is not what another's is taken to have.
            kind: kind.without_store(),
            subscribers,
            bounds,
            live: Mutex::default(),
            without: Mutex::default(),
        }
    }

    /// Takes the isolated ones of these servers in the place of those before, and says how each server is put into the fleet
    /// that all share. What runs already stays as it is until its session ends.
    pub(crate) fn take(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Vec<ServerConfig> {
        let mut isolated = BTreeMap::new();
        let mut shared = Vec::new();
        for config in servers {
            if config.isolation() == Isolation::Session {
                isolated.insert(config.name().into(), config.clone());
                shared.push(config.stopped_when_idle(PATTERN_STAYS));
            } else {
                shared.push(config);
            }
        }
        self.servers.store(Arc::new(isolated));
        shared
    }

    pub(crate) fn holds(&self, server: &str) -> bool {
        self.servers.load().contains_key(server)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.load().is_empty()
    }

    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.servers.load().keys().cloned().collect()
    }

    /// What a new session needs to have servers of its own. They count as this principal's, where there can be several.
    pub(crate) fn admit(
        self: &Arc<Self>,
        session: Weak<Client>,
        principal: Option<Principal>,
    ) -> Arc<OwnServers> {
        Arc::new(OwnServers::new(self.clone(), session, principal))
    }

    /// The catalog as somebody sees it who has these servers, or no session to have any.
    pub(crate) fn catalog(&self, own: Option<&Arc<OwnServers>>, shared: Arc<Catalog>) -> Arc<Catalog> {
        match own {
            Some(own) => own.catalog(shared),
            None if self.is_empty() => shared,
            None => self.without(shared),
        }
    }

    fn without(&self, shared: Arc<Catalog>) -> Arc<Catalog> {
        let mut last = lock(&self.without);
        if let Some((of, without)) = &*last
            && Arc::ptr_eq(of, &shared)
        {
            return without.clone();
        }
        let others = shared.servers().filter(|server| !self.holds(server));
        let without = Arc::new(catalog_of(others.map(|server| (server, &*shared))));
        *last = Some((shared, without.clone()));
        without
    }

    /// Ends every session's own servers, at the latest by force when this time is over, and starts none any more. Says how
    /// those ended that had not been told to end before.
    ///
    /// Cancel safety: dropped, they go on ending.
    pub(crate) async fn close(&self, within: Duration) -> Vec<ClosedServer> {
        let fleets: Vec<Fleet> = {
            let mut live = self.live();
            live.closed = true;
            live.fleets.values().map(|(fleet, _)| fleet.clone()).collect()
        };
        let mut closing = JoinSet::new();
        for fleet in fleets {
            // Its session may be closing it already, in which case this hastens that, and waits for it.
            closing.spawn(async move { timeout(within.saturating_add(GRACE), fleet.close(within)).await });
        }
        let closed = closing.join_all().await.into_iter().flatten();
        closed.flat_map(|report| report.servers).collect()
    }

    /// Whether one more server of this name may be started for this principal.
    fn check_room(&self, live: &Live, server: &str, principal: Option<Principal>) -> Result<(), Refused> {
        let server = server.to_owned();
        if live.closed {
            return Err(Refused::Closing { server });
        }
        let most = self.bounds.most;
        if live.fleets.len() >= most {
            return Err(Refused::Full { server, most });
        }
        let most = self.bounds.most_of_one();
        let of_one = live.fleets.values().filter(|(_, whose)| *whose == principal);
        if principal.is_some() && of_one.count() >= most {
            return Err(Refused::FullForClient { server, most });
        }
        Ok(())
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }

    /// The configuration of an own server: what the pattern has shown of its like need not be found out again.
    fn config(&self, server: &str, pattern: &Catalog) -> Option<ServerConfig> {
        let config = self.servers.load().get(server)?.clone();
        let about = pattern.server(server).map(|listed| listed.about());
        let era = match about.and_then(|about| about.protocol_version.as_deref()) {
            Some(version) if MODERN_VERSIONS.contains(&version) => Era::Modern,
            Some(_) => Era::Legacy,
            None => return Some(config),
        };
        Some(config.expecting(era))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
