//! Isolated servers: each session has its own, started when the session first needs it, and ended with the session.
//!
//! The shared fleet has one of each too, the *template server*: the gateway starts it once to learn what such a server offers, stops it
//! as soon as it is idle, and forwards no call to it.
//!
//! Invariants: requests and notifications of a session's own server reach that session alone; own servers count from
//! their start until nothing of them is left, and are never more than the limits; a session that has ended starts none.

mod own;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use mainstay::config::Isolation;
use mainstay::fleet::ClosedServer;
use mainstay::gateway::catalog_of;
use mainstay::gateway::message::RpcError;
use mainstay::{Catalog, Era, Fleet, FleetBuilder, ServerConfig};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Client;
use crate::lock::lock;
use crate::principal::Principal;
use crate::protocol::{LEGACY_VERSIONS, MODERN_VERSIONS, SERVER_UNAVAILABLE, UNSUPPORTED_VERSION, raw};
use crate::router::Subscribers;
pub(crate) use own::OwnServers;

/// The default for the own servers of all sessions together: as many processes of 50 to 100 MB as a workstation bears.
const DEFAULT_LIMIT: usize = 64;

/// How many own servers there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsolationLimits {
    /// Of all sessions together.
    pub(crate) most: usize,
    /// Of one principal; by default a part of all, so that none takes them all.
    pub(crate) most_of_one: Option<usize>,
}

/// The part of all own servers that one principal may have.
const SHARE: usize = 4;

impl IsolationLimits {
    fn most_of_one(self) -> usize {
        self.most_of_one.unwrap_or((self.most / SHARE).max(1))
    }
}

impl Default for IsolationLimits {
    fn default() -> Self {
        Self {
            most: DEFAULT_LIMIT,
            most_of_one: None,
        }
    }
}

/// How long a template server runs after it was listed: some servers add tools just after their start.
const TEMPLATE_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// How much longer than one server all of them may take to close.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// The servers that are not shared, and whatever runs of them for sessions.
pub(crate) struct Isolated {
    servers: ArcSwap<BTreeMap<Arc<str>, ServerConfig>>,
    /// Builds the fleets of sessions.
    builder: FleetBuilder,
    subscribers: Arc<Subscribers>,
    limits: IsolationLimits,
    live: Mutex<LiveServers>,
    /// The catalog without isolated servers, for clients that have no session, and the catalog that it was made from.
    without: Mutex<Option<(Arc<Catalog>, Arc<Catalog>)>>,
}

/// The own servers of all sessions, each a fleet of one, those that are being closed included.
#[derive(Default)]
struct LiveServers {
    last: u64,
    /// With the principal, where several clients can have some.
    fleets: HashMap<u64, (Fleet, Option<Principal>)>,
    /// The gateway is being closed: nothing is started any more.
    closed: bool,
}

impl Isolated {
    pub(crate) fn new(builder: FleetBuilder, subscribers: Arc<Subscribers>, limits: IsolationLimits) -> Self {
        Self {
            servers: ArcSwap::default(),
            // The store holds what the template server listed, and not what one session's server did.
            builder: builder.without_store(),
            subscribers,
            limits,
            live: Mutex::default(),
            without: Mutex::default(),
        }
    }

    /// Replaces the isolated servers by those of this configuration, and returns the configuration of the shared fleet. Own servers that
    /// run stay as they are until their session ends.
    pub(crate) fn take(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Vec<ServerConfig> {
        let mut isolated = BTreeMap::new();
        let mut shared = Vec::new();
        for config in servers {
            if config.isolation() == Isolation::Session {
                isolated.insert(config.name().into(), config.clone());
                shared.push(config.stopped_when_idle(TEMPLATE_IDLE_TIMEOUT));
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

    /// The own servers of a new session. They count as this principal's, where there can be several.
    pub(crate) fn admit(
        self: &Arc<Self>,
        session: Weak<Client>,
        principal: Option<Principal>,
    ) -> Arc<OwnServers> {
        Arc::new(OwnServers::new(self.clone(), session, principal))
    }

    /// The catalog as a client sees it that has these servers, or no session to have any.
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

    /// Closes every session's own servers within this time, by force at its end, and starts none any more. Reports how those ended that
    /// were not closing before.
    ///
    /// Cancel safety: dropped, they go on closing.
    pub(crate) async fn close(&self, within: Duration) -> Vec<ClosedServer> {
        let fleets: Vec<Fleet> = {
            let mut live = lock(&self.live);
            live.closed = true;
            live.fleets.values().map(|(fleet, _)| fleet.clone()).collect()
        };
        let mut closing = JoinSet::new();
        for fleet in fleets {
            // Its session may be closing it already: then this shortens that, and waits for it.
            closing
                .spawn(async move { timeout(within.saturating_add(CLOSE_GRACE), fleet.close(within)).await });
        }
        let closed = closing.join_all().await.into_iter().flatten();
        closed.flat_map(|report| report.servers).collect()
    }

    /// Whether one more server of this name may be started for this principal.
    fn check_room(
        &self,
        live: &LiveServers,
        server: &str,
        principal: Option<Principal>,
    ) -> Result<(), IsolationError> {
        let server = server.to_owned();
        if live.closed {
            return Err(IsolationError::Closing { server });
        }
        let most = self.limits.most;
        if live.fleets.len() >= most {
            return Err(IsolationError::Full { server, most });
        }
        let most = self.limits.most_of_one();
        let of_one = live.fleets.values().filter(|(_, whose)| *whose == principal);
        if principal.is_some() && of_one.count() >= most {
            return Err(IsolationError::FullForClient { server, most });
        }
        Ok(())
    }

    /// The configuration of an own server. If the template server speaks the modern era, the server has no other one, or is to
    /// speak it. Otherwise the session's client decides.
    fn config(&self, server: &str, template: &Catalog) -> Option<ServerConfig> {
        let config = self.servers.load().get(server)?.clone();
        let about = template.server(server).map(|listed| listed.about());
        let is_modern = about
            .and_then(|about| about.protocol_version.as_deref())
            .is_some_and(|version| MODERN_VERSIONS.contains(&version));
        Some(if is_modern {
            config.expecting(Era::Modern)
        } else {
            config
        })
    }
}

/// Why a session gets no server of its own, in words that a person or a model can act on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IsolationError {
    #[error(
        "server {server} runs once for each session, and {most} such servers run already: it did not run. Call again when \
         another session has ended, or let `mainstay serve` have more of them (--max-isolated)"
    )]
    Full { server: String, most: usize },
    #[error(
        "server {server} runs once for each session, and this client has {most} such servers already: it \
         did not run. End another of its sessions first, or let `mainstay serve` have more of them for each client \
         (--max-isolated-per-client)"
    )]
    FullForClient { server: String, most: usize },
    #[error(
        "server {server} runs once for each session (its isolation is \"session\"), and a request of 2026-07-28 over HTTP \
         belongs to none: it did not run. Open a session with `initialize` (2025-11-25 or before), connect on stdin and \
         stdout, or set its isolation to \"shared\""
    )]
    NoSession { server: String },
    #[error(
        "everything here runs once for each session (isolation \"session\"), and requests of 2026-07-28 over HTTP belong to \
         none: open a session with `initialize` (2025-11-25 or before), connect on stdin and stdout, or set the isolation \
         to \"shared\""
    )]
    OnlySessions,
    #[error("server {server} is not started any more: the session has ended")]
    Ended { server: String },
    #[error("server {server} is not started any more: the gateway is being shut down")]
    Closing { server: String },
}

impl From<IsolationError> for RpcError {
    fn from(error: IsolationError) -> Self {
        let words = error.to_string();
        let (code, data) = match error {
            IsolationError::Full { server, most } | IsolationError::FullForClient { server, most } => (
                SERVER_UNAVAILABLE,
                json!({ "mainstay": { "outcome": "not_sent", "server": server, "limit": most } }),
            ),
            IsolationError::Ended { server } | IsolationError::Closing { server } => (
                SERVER_UNAVAILABLE,
                json!({ "mainstay": { "outcome": "not_sent", "server": server } }),
            ),
            IsolationError::NoSession { server } => (
                Self::INVALID_REQUEST,
                json!({ "mainstay": { "outcome": "not_sent", "server": server } }),
            ),
            // A client that speaks both eras opens a session then.
            IsolationError::OnlySessions => (
                UNSUPPORTED_VERSION,
                json!({ "supported": LEGACY_VERSIONS, "requested": MODERN_VERSIONS[0] }),
            ),
        };
        Self::new(code, words).with_data(raw(&data))
    }
}
