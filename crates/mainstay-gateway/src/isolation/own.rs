//! The servers of one session's own, and the handler of their requests and notifications.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use mainstay::catalog::Kind;
use mainstay::gateway::message::RpcError;
use mainstay::gateway::{Introduction, ListHashes, ServerLists, catalog_of, introduced_as, server_lists};
use mainstay::handler::{Answer, ServerNotification, ServerRequest};
use mainstay::{Catalog, CatalogReader, ClientHandler, Fleet, Server, Status};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Isolated, IsolationError};
use crate::client::Client;
use crate::gateway::everything;
use crate::lock::lock;
use crate::principal::Principal;
use crate::router::{RESOURCE_UPDATED, Subscribers, TASK_FOLLOWED, changed_kinds};
use crate::scope::Scope;

/// How long the servers of a closed session may take to stop: longer than the stop ladder.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The servers of one session's own.
pub(crate) struct OwnServers {
    isolated: Arc<Isolated>,
    session: Weak<Client>,
    /// The principal they count for, where there can be several.
    principal: Option<Principal>,
    state: Mutex<OwnState>,
    /// The catalog that the session saw last.
    joined: Mutex<Option<JoinedCatalog>>,
}

#[derive(Default)]
struct OwnState {
    servers: BTreeMap<Arc<str>, OwnServer>,
    /// The level of the session, for servers that start later.
    log_level: Option<String>,
    is_closed: bool,
}

/// One of them, in a fleet of its own, whose handler is the session.
struct OwnServer {
    fleet: Fleet,
    server: Server,
    /// Notifies the session of changed lists.
    _watching: JoinSet<()>,
    _place: OwnServerPlace,
}

/// A place among all own servers, given back when nothing is left of the server.
struct OwnServerPlace {
    isolated: Arc<Isolated>,
    number: u64,
}

/// The name and the catalog of one own server.
type CatalogPart = (Arc<str>, Arc<Catalog>);

struct JoinedCatalog {
    shared: Arc<Catalog>,
    own: Vec<CatalogPart>,
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

    /// The session's own server of this name, started for this client of the session if it does not run yet. `shared` is the catalog
    /// that the template server is in.
    pub(crate) fn server(
        self: &Arc<Self>,
        name: &str,
        shared: &Arc<Catalog>,
        client: &Client,
    ) -> Result<Server, IsolationError> {
        if let Some(own) = lock(&self.state).servers.get(name) {
            return Ok(own.server.clone());
        }
        let mut state = lock(&self.state);
        if let Some(own) = state.servers.get(name) {
            return Ok(own.server.clone());
        }
        let server = name.to_owned();
        if state.is_closed {
            return Err(IsolationError::Ended { server });
        }
        let (fleet, place) = self.start(name, shared, client.introduction())?;
        // It was just configured; were it not there, the session would have no such server either.
        let handle = fleet.server(name).ok_or(IsolationError::Ended { server })?;
        let mut watching = JoinSet::new();
        let watch = ListWatch {
            own: Arc::downgrade(self),
            name: name.into(),
        };
        watching.spawn(watch.run(shared.clone(), handle.watch(), fleet.catalog_reader()));
        if let Some(level) = state.log_level.clone() {
            let handle = handle.clone();
            // The server gets a level that is set before its connection right after the handshake.
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
        lock(&self.state).servers.get(name).map(|own| own.server.clone())
    }

    fn start(
        self: &Arc<Self>,
        name: &str,
        shared: &Catalog,
        introduction: Option<Introduction>,
    ) -> Result<(Fleet, OwnServerPlace), IsolationError> {
        let Some(config) = self.isolated.config(name, shared) else {
            let server = name.to_owned();
            return Err(IsolationError::Ended { server });
        };
        let handler = SessionHandler {
            session: self.session.clone(),
            own: Arc::downgrade(self),
        };
        // Under the lock, so that a close of all of them finds this one, or keeps it from starting.
        let mut live = lock(&self.isolated.live);
        self.isolated.check_room(&live, name, self.principal)?;
        let builder = self.isolated.builder.clone();
        let fleet = builder.handler(Arc::new(handler)).capabilities(everything(None));
        let fleet = match introduction {
            Some(introduction) => introduced_as(fleet, introduction),
            None => fleet,
        };
        let fleet = fleet.start([config]);
        live.last += 1;
        let number = live.last;
        live.fleets.insert(number, (fleet.clone(), self.principal));
        let isolated = self.isolated.clone();
        Ok((fleet, OwnServerPlace { isolated, number }))
    }

    /// The catalog as the session sees it: with the lists of its own servers, as soon as they were listed.
    pub(crate) fn catalog(&self, shared: Arc<Catalog>) -> Arc<Catalog> {
        let own: Vec<_> = {
            let state = lock(&self.state);
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
        *joined = Some(JoinedCatalog {
            shared: shared.clone(),
            own,
            catalog: catalog.clone(),
        });
        catalog
    }

    /// Whether this server is isolated.
    pub(crate) fn isolates(&self, name: &str) -> bool {
        self.isolated.holds(name)
    }

    /// Whether the session sees the lists of the template server of this name.
    pub(crate) fn follows_template(&self, name: &str) -> bool {
        let state = lock(&self.state);
        !state.servers.get(name).is_some_and(OwnServer::has_listed)
    }

    /// Sets how much the servers of this scope log, later ones included. Returns those that run: the caller sets their level.
    pub(crate) fn set_log_level(&self, scope: &Scope, level: &str) -> Vec<Server> {
        let mut state = lock(&self.state);
        state.log_level = Some(level.to_owned());
        let servers = state.servers.iter().filter(|(name, _)| scope.holds(name));
        servers.map(|(_, own)| own.server.clone()).collect()
    }

    /// The roots of the session's client changed.
    pub(crate) fn roots_changed(&self) {
        lock(&self.state)
            .servers
            .values()
            .for_each(|own| own.fleet.roots_changed());
    }

    fn subscribers(&self) -> &Subscribers {
        &self.isolated.subscribers
    }

    /// Closes all of them in the background. Their places are free when they are gone.
    pub(crate) fn close(&self) {
        let servers = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            std::mem::take(&mut state.servers)
        };
        for (name, own) in servers {
            own.close(name);
        }
    }

    /// Closes one of them. It starts again when the session needs it.
    pub(crate) fn close_one(&self, name: &str) {
        let closed = lock(&self.state).servers.remove_entry(name);
        if let Some((name, own)) = closed {
            own.close(name);
        }
    }
}

impl OwnServer {
    /// Closes it in the background, and gives its place back when nothing is left.
    fn close(self, name: Arc<str>) {
        let Ok(runtime) = Handle::try_current() else {
            // The fleet is dropped, and what is left of the server with it.
            return;
        };
        runtime.spawn(async move {
            let report = self.fleet.close(CLOSE_TIMEOUT).await;
            let killed = report.killed().next().is_some();
            tracing::info!(server = %name, killed, "a session's own server has stopped");
            // It keeps its place until here.
            drop(self);
        });
    }

    /// It has no store, so its catalog is what it listed itself.
    fn has_listed(&self) -> bool {
        self.server.catalog().is_some()
    }
}

impl JoinedCatalog {
    fn is_of(&self, shared: &Arc<Catalog>, own: &[CatalogPart]) -> bool {
        let same =
            |(one, other): (&CatalogPart, &CatalogPart)| one.0 == other.0 && Arc::ptr_eq(&one.1, &other.1);
        Arc::ptr_eq(&self.shared, shared) && self.own.len() == own.len() && self.own.iter().zip(own).all(same)
    }
}

impl Drop for OwnServerPlace {
    fn drop(&mut self) {
        lock(&self.isolated.live).fleets.remove(&self.number);
    }
}

/// The handler of a session's own servers. It keeps neither the session nor its servers alive.
struct SessionHandler {
    session: Weak<Client>,
    own: Weak<OwnServers>,
}

impl ClientHandler for SessionHandler {
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        let session = self.session.upgrade();
        Box::pin(async move {
            let declined = |why: &str| {
                let what = format!("{} declined: {why}", request.method);
                RpcError::new(RpcError::INVALID_REQUEST, what)
            };
            let session = session.ok_or_else(|| declined("the session has ended"))?;
            if !session.is_introduced() {
                return Err(declined(
                    "the client opened no session, and can be asked only while a call of it runs",
                ));
            }
            ClientHandler::request(&*session, request).await
        })
    }

    fn notification(&self, notification: ServerNotification) {
        let (server, params) = (&notification.server, notification.params.as_ref());
        match (notification.method.as_str(), self.own.upgrade()) {
            (RESOURCE_UPDATED, Some(own)) => own.subscribers().resource_updated(server, Some(&own), params),
            (TASK_FOLLOWED, Some(own)) => {
                own.subscribers()
                    .followed_task_changed(server, Some(&own), params);
            }
            (RESOURCE_UPDATED | TASK_FOLLOWED, None) => {}
            (_other, Some(_) | None) => {
                if let Some(session) = self.session.upgrade() {
                    session.notify(notification);
                }
            }
        }
    }
}

/// Notifies a session when its own server lists something else than the session was shown.
struct ListWatch {
    own: Weak<OwnServers>,
    name: Arc<str>,
}

impl ListWatch {
    async fn run(
        self,
        shown: Arc<Catalog>,
        mut status: watch::Receiver<Arc<Status>>,
        mut catalogs: CatalogReader,
    ) {
        let mut before = self.published_in(&shown);
        drop(shown);
        // An empty list changes nothing in this catalog, but differs from what the template server listed.
        let _ = status.wait_for(|status| status.listed_at.is_some()).await;
        let mut catalog = catalogs.load();
        loop {
            let now = self.published_in(&catalog);
            let Some(own) = self.own.upgrade() else { return };
            let changed = changed_kinds(std::mem::replace(&mut before, now), now);
            let changed = Kind::ALL.into_iter().zip(changed);
            let changed: Vec<Kind> = changed.filter_map(|(kind, is)| is.then_some(kind)).collect();
            own.subscribers().own_lists_changed(&own, &self.name, &changed);
            drop(own);
            match catalogs.changed().await {
                Some(next) => catalog = next,
                None => return,
            }
        }
    }

    fn published_in(&self, catalog: &Catalog) -> ListHashes {
        let lists = server_lists(catalog, &self.name);
        lists.unwrap_or(ServerLists::NOTHING).published
    }
}
