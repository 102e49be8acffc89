//! The servers of one session's own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use mainstay::catalog::Kind;
use mainstay::gateway::message::RawJson;
use mainstay::gateway::{Introduction, catalog_of, introduced_as};
use mainstay::{Catalog, Fleet, Server};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::lists::ListWatch;
use super::owner::Owner;
use super::{Isolated, Refused, lock};
use crate::client::Client;
use crate::gateway::everything;
use crate::principal::Principal;
use crate::scope::Scope;

/// How long the servers of a session that has ended may take to end: longer than the ladder that ends a stubborn one.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// The servers of one session's own.
pub(crate) struct OwnServers {
    isolated: Arc<Isolated>,
    session: Weak<Client>,
    /// Whose they are, where there can be several.
    principal: Option<Principal>,
    state: Mutex<State>,
    /// What the session saw last, and of which catalogs.
    joined: Mutex<Option<Joined>>,
}

#[derive(Default)]
struct State {
    servers: BTreeMap<Arc<str>, OwnServer>,
    /// What the session wishes of the servers that are yet to start.
    log_level: Option<String>,
    ended: bool,
}

/// One of them: a fleet of its own, so that nobody else's handler hears of it.
struct OwnServer {
    fleet: Fleet,
    server: Server,
    /// Tells the session of changes of the lists.
    _watching: JoinSet<()>,
    _place: Place,
}

/// A place among all own servers, given back when nothing is left of the server.
struct Place {
    isolated: Arc<Isolated>,
    number: u64,
}

/// What one own server offers.
type Part = (Arc<str>, Arc<Catalog>);

struct Joined {
    shared: Arc<Catalog>,
    own: Vec<Part>,
    catalog: Arc<Catalog>,
}

impl OwnServers {
    pub(super) fn new(isolated: Arc<Isolated>, session: Weak<Client>, principal: Option<Principal>) -> Self {
        Self {
            isolated,
            session,
            principal,
            state: Mutex::default(),
            joined: Mutex::default(),
        }
    }

    /// The session's own server of this name, started for this client of the session if it does not run yet. `shared` is what
    /// the pattern shows.
    pub(crate) fn server(
        self: &Arc<Self>,
        name: &str,
        shared: &Arc<Catalog>,
        client: &Client,
    ) -> Result<Server, Refused> {
        if let Some(own) = self.state().servers.get(name) {
            return Ok(own.server.clone());
        }
        let mut state = self.state();
        if let Some(own) = state.servers.get(name) {
            return Ok(own.server.clone());
        }
        let server = name.to_owned();
        if state.ended {
            return Err(Refused::Ended { server });
        }
        let (fleet, place) = self.start(name, shared, client.introduction())?;
        // It was just configured; were it not there, the session would have no such server either.
        let handle = fleet.server(name).ok_or(Refused::Ended { server })?;
        let mut watching = JoinSet::new();
        let watch = ListWatch::new(self, name, shared);
        watching.spawn(watch.run(handle.watch(), fleet.catalog_reader()));
        if let Some(level) = state.log_level.clone() {
            let handle = handle.clone();
            // A wish that is made before the connection is there is told with its first breath.
            tokio::spawn(async move { handle.set_log_level(&level).await });
        }
        let own = OwnServer {
            fleet,
            server: handle.clone(),
            _watching: watching,
            _place: place,
        };
        state.servers.insert(name.into(), own);
        tracing::info!(server = name, "a session has a server of its own");
        Ok(handle)
    }

    /// The session's own server of this name, if it was started.
    pub(crate) fn running(&self, name: &str) -> Option<Server> {
        self.state().servers.get(name).map(|own| own.server.clone())
    }

    fn start(
        self: &Arc<Self>,
        name: &str,
        shared: &Catalog,
        introduction: Option<Introduction>,
    ) -> Result<(Fleet, Place), Refused> {
        let Some(config) = self.isolated.config(name, shared) else {
            let server = name.to_owned();
            return Err(Refused::Ended { server });
        };
        let owner = Owner {
            session: self.session.clone(),
            own: Arc::downgrade(self),
        };
        // Under the lock, so that whoever closes all of them finds this one, or keeps it from starting.
        let mut live = self.isolated.live();
        self.isolated.check_room(&live, name, self.principal)?;
        let kind = self.isolated.kind.clone();
        let fleet = kind.handler(Arc::new(owner)).capabilities(everything());
        let fleet = match introduction {
            Some(introduction) => introduced_as(fleet, introduction),
            None => fleet,
        };
        let fleet = fleet.start([config]);
        live.last += 1;
        let number = live.last;
        live.fleets.insert(number, (fleet.clone(), self.principal));
        let isolated = self.isolated.clone();
        Ok((fleet, Place { isolated, number }))
    }

    /// The catalog as the session sees it: of its own servers what they themselves list, as soon as they have.
    pub(crate) fn catalog(&self, shared: Arc<Catalog>) -> Arc<Catalog> {
        let own: Vec<_> = {
            let state = self.state();
            let listed = state.servers.iter().filter(|(_, own)| own.has_listed());
            listed
                .map(|(name, own)| (name.clone(), own.fleet.catalog()))
                .collect()
        };
        if own.is_empty() {
            return shared;
        }
        let mut joined = lock(&self.joined);
        if let Some(joined) = &*joined
            && joined.is_of(&shared, &own)
        {
            return joined.catalog.clone();
        }
        let is_own = |server: &str| own.iter().any(|(name, _)| **name == *server);
        let others = shared.servers().filter(|server| !is_own(server));
        let others = others.map(|server| (server, &*shared));
        let mine = own.iter().map(|(name, catalog)| (&**name, &**catalog));
        let catalog = Arc::new(catalog_of(others.chain(mine)));
        *joined = Some(Joined {
            shared: shared.clone(),
            own,
            catalog: catalog.clone(),
        });
        catalog
    }

    /// Whether the session has this server for itself, as soon as it needs it.
    pub(crate) fn isolates(&self, name: &str) -> bool {
        self.isolated.holds(name)
    }

    /// Whether the session sees of this server what the pattern shows.
    pub(crate) fn follows_pattern(&self, name: &str) -> bool {
        let state = self.state();
        !state.servers.get(name).is_some_and(OwnServer::has_listed)
    }

    /// Sets how much the servers of this scope log, those to come included; answers those that must be told now.
    pub(crate) fn set_log_level(&self, scope: &Scope, level: &str) -> Vec<Server> {
        let mut state = self.state();
        state.log_level = Some(level.to_owned());
        let servers = state.servers.iter().filter(|(name, _)| scope.holds(name));
        servers.map(|(_, own)| own.server.clone()).collect()
    }

    /// The roots of the session's client changed.
    pub(crate) fn roots_changed(&self) {
        self.state()
            .servers
            .values()
            .for_each(|own| own.fleet.roots_changed());
    }

    /// Other lists than the session was shown.
    pub(super) fn lists_changed(self: &Arc<Self>, server: &str, kinds: &[Kind]) {
        self.isolated.subscribers.own_lists_changed(self, server, kinds);
    }

    pub(super) fn resource_updated(self: &Arc<Self>, server: &str, params: Option<&RawJson>) {
        self.isolated
            .subscribers
            .own_resource_updated(self, server, params);
    }

    pub(super) fn task_changed(self: &Arc<Self>, server: &str, params: Option<&RawJson>) {
        self.isolated.subscribers.own_task_changed(self, server, params);
    }

    /// The session has ended: its servers end with it. Nobody waits for them; their places are free when they are gone.
    pub(crate) fn end(&self) {
        let servers = {
            let mut state = self.state();
            state.ended = true;
            std::mem::take(&mut state.servers)
        };
        for (name, own) in servers {
            own.end(name);
        }
    }

    /// The session has no such server any more, until it needs one again.
    pub(crate) fn end_one(&self, name: &str) {
        let ended = self.state().servers.remove_entry(name);
        if let Some((name, own)) = ended {
            own.end(name);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl OwnServer {
    /// Closes it in the background, and gives its place back when nothing is left.
    fn end(self, name: Arc<str>) {
        let Ok(runtime) = Handle::try_current() else {
            // The fleet is dropped, and what is left of the server with it.
            return;
        };
        runtime.spawn(async move {
            let report = self.fleet.close(CLOSE_WITHIN).await;
            let killed = report.killed().next().is_some();
            tracing::info!(server = %name, killed, "a session's own server has ended");
            // The whole of it, and its place with it, lives until here.
            drop(self);
        });
    }

    /// Nothing is known of it from before, so what it has was listed by itself.
    fn has_listed(&self) -> bool {
        self.server.catalog().is_some()
    }
}

impl Joined {
    fn is_of(&self, shared: &Arc<Catalog>, own: &[Part]) -> bool {
        let same = |(one, other): (&Part, &Part)| one.0 == other.0 && Arc::ptr_eq(&one.1, &other.1);
        Arc::ptr_eq(&self.shared, shared) && self.own.len() == own.len() && self.own.iter().zip(own).all(same)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.isolated.live().fleets.remove(&self.number);
    }
}
