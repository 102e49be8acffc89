//! The gateway as a whole.

use std::sync::Arc;
use std::time::Duration;

use mainstay::config::ServerConfig;
use mainstay::fleet::{Changes, CloseReport};
use mainstay::gateway::message::{Object, RawJson};
use mainstay::handler::ClientCapabilities;
use mainstay::{Events, Fleet, FleetBuilder};

use crate::budget::{Budget, BudgetLimits};
use crate::failure::Advice;
use crate::isolation::{Isolated, IsolationLimits};
use crate::observer::RequestObserver;
use crate::router::{Router, Subscribers};

/// Serves a fleet to clients. Clones are handles of the same gateway.
#[derive(Clone)]
pub struct Gateway(pub(crate) Arc<Router>);

/// How a gateway is made. Everything has a default.
#[must_use = "a builder does nothing until `start`"]
pub struct GatewayBuilder {
    fleet: FleetBuilder,
    isolated: IsolationLimits,
    held: BudgetLimits,
    has_one_client: bool,
    logs_payloads: bool,
    login_command: Option<LoginCommandFn>,
    start_hint: Option<Arc<str>>,
    client_extensions: Option<RawJson>,
}

/// Names the command that logs in to the server of a name.
type LoginCommandFn = Box<dyn Fn(&str) -> String + Send + Sync>;

impl Gateway {
    /// How to make a gateway in front of such a fleet.
    pub fn builder(fleet: FleetBuilder) -> GatewayBuilder {
        GatewayBuilder {
            fleet,
            isolated: IsolationLimits::default(),
            held: BudgetLimits::default(),
            has_one_client: false,
            logs_payloads: false,
            login_command: None,
            start_hint: None,
            client_extensions: None,
        }
    }

    /// Starts a fleet behind a gateway. Returns at once: each server comes up in its own time.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(fleet: FleetBuilder, servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        Self::builder(fleet).start(servers)
    }

    /// Makes the gateway serve what the configuration says, as [`Fleet::apply`] does. Own servers of sessions stay as they are until
    /// the sessions end. Subscriptions at a server that was removed are made again when one of its name is added.
    ///
    /// Cancel safety: as [`Fleet::apply`].
    pub async fn apply(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Changes {
        let servers = self.0.isolated.take(servers);
        let changes = self.fleet().apply(servers).await;
        self.0.servers_changed();
        changes
    }

    /// The fleet that all clients share. Of an isolated server it holds the template server, which only lists what such a server
    /// offers. Apply configurations through the [gateway](Gateway::apply), which knows which servers are isolated.
    pub fn fleet(&self) -> &Fleet {
        self.0.fleet()
    }

    /// Stops every server, those of sessions included, and waits until nothing is left, as [`Fleet::close`] does. Even in a short
    /// time it closes the input of every server and sends SIGTERM before SIGKILL. It starts none any more.
    ///
    /// Cancel safety: dropped, the servers go on stopping.
    pub async fn close(&self, within: Duration) -> CloseReport {
        let (mut report, own) = tokio::join!(self.fleet().close(within), self.0.isolated.close(within));
        report.servers.extend(own);
        report
    }
}

impl GatewayBuilder {
    /// Every change of state of the shared servers from their start on, as
    /// [`FleetBuilder::events`](mainstay::FleetBuilder::events) has them.
    pub fn events(&mut self) -> Events {
        self.fleet.events()
    }

    /// Counts how long requests take, for [`Gateway::counts`] and [`Server::operations`](mainstay::Server::operations).
    pub fn measured(mut self) -> Self {
        self.fleet = self.fleet.measured();
        self
    }

    /// Logs the parameters and the answer of each request, the first 2,000 bytes of both. They may hold secrets.
    pub fn log_payloads(mut self) -> Self {
        self.logs_payloads = true;
        self
    }

    /// How many own servers all sessions together may have (default: 64). A call that needs one more is refused.
    pub fn max_isolated(mut self, most: usize) -> Self {
        self.isolated.most = most;
        self
    }

    /// How many of them one client may have: all sessions of a token together, or one session where no token is required
    /// (default: a quarter of all, and at least one). A client on stdin and stdout may have all.
    pub fn max_isolated_per_client(mut self, most: usize) -> Self {
        self.isolated.most_of_one = Some(most);
        self
    }

    /// How many bytes may be held for all clients together (default: 512 MiB): requests that run, answers that wait to be read,
    /// and what sessions say of themselves. What does not fit is refused.
    ///
    /// Clients without a token that come from one address may hold all but a quarter of it together, and each of them no more than it
    /// leaves to the others.
    pub fn max_held(mut self, bytes: usize) -> Self {
        self.held.all = bytes;
        self
    }

    /// How many of them may be held for one client (default: a quarter of all). All requests with one token are one client; without
    /// tokens each session is one, and each connection where there is no session.
    pub fn max_held_per_client(mut self, bytes: usize) -> Self {
        self.held.share = Some(bytes);
        self
    }

    /// The gateway will have one client, as on stdin and stdout, so the servers are that client's own. It gets every notification
    /// outside of calls, and knows tasks by the ids of their servers. Without this the servers are shared, and a client gets what its
    /// own calls, subscriptions and tasks cause.
    pub fn for_one_client(mut self) -> Self {
        self.has_one_client = true;
        self
    }

    /// The command that logs in to a server of a name, fit for a shell. The gateway names it where a server asks for a login and
    /// has a provider of credentials that offers one. Without it the gateway says only that a person must log in.
    pub fn login_command(mut self, command: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.login_command = Some(Box::new(command));
        self
    }

    /// A sentence to add where the process of a server has ended while it was being started: what such a server may lack.
    pub fn start_hint(mut self, hint: impl Into<Arc<str>>) -> Self {
        self.start_hint = Some(hint.into());
        self
    }

    /// The extensions (`capabilities.extensions`) that servers receive from their first connection on. What the clients of the gateway
    /// declare is added from the next connection on.
    pub fn client_extensions(mut self, extensions: RawJson) -> Self {
        self.client_extensions = Some(extensions);
        self
    }

    /// Starts the gateway and its fleet. Returns at once: each server comes up in its own time.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self, servers: impl IntoIterator<Item = ServerConfig>) -> Gateway {
        let subscribers = match self.has_one_client {
            true => Subscribers::of_one_client(),
            false => Subscribers::default(),
        };
        let subscribers = Arc::new(subscribers);
        let observer = RequestObserver::new(self.fleet.is_measured(), self.logs_payloads);
        let isolated = Isolated::new(self.fleet.clone(), subscribers.clone(), self.isolated);
        let servers = isolated.take(servers);
        let isolated = Arc::new(isolated);
        let fleet = self
            .fleet
            .handler(subscribers.clone())
            .capabilities(everything(self.client_extensions))
            .start(servers);
        let advice = advice(&fleet, self.login_command, self.start_hint);
        let mut catalog = fleet.catalog_reader();
        let mut router = Router::new(fleet, subscribers, isolated);
        router.budget = Arc::new(Budget::new(self.held));
        router.observer = observer;
        router.advice = advice;
        let router = Arc::new(router);
        router.servers_changed();
        router.note_lists(&catalog.load());
        let watching = Arc::downgrade(&router);
        tokio::spawn(async move {
            while let Some(catalog) = catalog.changed().await {
                let Some(router) = watching.upgrade() else { return };
                router.catalog_changed(&catalog);
            }
        });
        Gateway(router)
    }
}

/// What failures of these servers say.
fn advice(fleet: &Fleet, login_command: Option<LoginCommandFn>, start_hint: Option<Arc<str>>) -> Advice {
    let servers = fleet.clone();
    let mut advice = Advice {
        login_command: None,
        credential: Some(Arc::new(move |name| servers.server(name)?.credential())),
        start_hint,
    };
    if let Some(command) = login_command {
        let fleet = fleet.clone();
        advice.login_command = Some(Arc::new(move |name| {
            let server = fleet.server(name)?;
            server.can_log_in().then(|| command(name))
        }));
    }
    advice
}

/// The capabilities that the gateway declares to servers whose clients are not known yet. It declines what a client cannot answer.
pub(crate) fn everything(extensions: Option<RawJson>) -> ClientCapabilities {
    let all = ClientCapabilities {
        sampling: true,
        elicitation: true,
        roots: true,
        ..ClientCapabilities::default()
    };
    let Some(extensions) = extensions else {
        return all;
    };
    let mut raw = Object::parse(&all.to_json()).unwrap_or_default();
    raw.set("extensions", extensions);
    ClientCapabilities {
        raw: Some(raw.to_raw()),
        ..all
    }
}
