//! One request to one server: `call`, `read`, `prompt` and `describe` find the server, start it and ask it the same way.

mod failed;

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use mainstay::catalog::public_name;
use mainstay::{CallError, CallErrorKind, CallOptions, Catalog, Fleet, Outcome, Reply, Server, Status};
use tokio::time::Instant;

use crate::args::RequestArgs;
use crate::exit::{CommandFailure, Done, Exit};
use crate::json;
use crate::load::{Setup, Source};
use crate::login;
use crate::output::{Screen, Text};
use crate::pick::{Sought, find};
use crate::reach;
use crate::run::with_fleet_or;
use crate::startup::{Progress, Standing, Startup};
use crate::through_daemon::DaemonView;

/// How long a server may take to come up, where the request sets no limit of its own.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// A request while it is made.
pub(crate) struct Asking<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) request: &'a RequestArgs,
    pub(crate) sought: Sought,
    /// The name of the item, as the person wrote it.
    name: &'a str,
    /// The command that lists what there is to ask for.
    listing: String,
    /// Whether a tool is called, so that it matters whether it has run.
    is_call: bool,
    /// The server that is asked, once it is known.
    server: OnceCell<String>,
    /// What `mainstay login` takes for a server that no configuration knows.
    address: Option<String>,
    /// The command that logs in to a server of this name, or at this address.
    login_command: Box<dyn Fn(&str) -> String>,
    /// The daemon whose server is asked.
    daemon: Option<DaemonView>,
    /// Servers that no login can help.
    without_login: BTreeSet<String>,
    /// Whether the request was handed over to be sent.
    is_sent: Cell<bool>,
    began: Instant,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(
        setup: &Setup,
        screen: &'a Screen,
        request: &'a RequestArgs,
        sought: Sought,
        name: &'a str,
    ) -> Self {
        Self {
            screen,
            request,
            sought,
            name,
            listing: setup.listing(),
            is_call: false,
            server: OnceCell::new(),
            address: match &setup.source {
                Source::Address => setup.servers.first().and_then(reach::address),
                Source::File { .. } | Source::Demo { .. } | Source::Arguments => None,
            },
            login_command: Box::new(setup.login_command()),
            daemon: setup.daemon.clone(),
            without_login: match &setup.daemon {
                Some(daemon) => daemon.without_login.clone(),
                None => login::without_login(&setup.servers),
            },
            is_sent: Cell::new(false),
            began: Instant::now(),
        }
    }

    /// The same, for a call of a tool.
    pub(crate) fn calling(self) -> Self {
        Self {
            is_call: true,
            ..self
        }
    }

    /// The offer that was asked for, of one kind.
    pub(crate) fn find<'c, T>(
        &self,
        offers: &'c [mainstay::catalog::Offer<T>],
    ) -> Result<&'c mainstay::catalog::Offer<T>, CommandFailure> {
        find(offers, self.name, self.sought, &self.listing).map_err(CommandFailure::usage)
    }

    /// The exact name to ask a server for that is connected and was never listed: it decides itself whether it has such an offer.
    pub(crate) fn name_at_unlisted(&self, server: &Server) -> Option<String> {
        if server.catalog().is_some() {
            return None;
        }
        let public = public_name(server.name(), "");
        Some(self.name.strip_prefix(&*public).unwrap_or(self.name).to_owned())
    }

    /// Reports that a server does not offer what was asked for. One of the daemon offers nothing while it is disabled, and
    /// that is then the reason.
    pub(crate) async fn not_offered(&self, server: &Server, failure: CommandFailure) -> Done {
        match self.behind(server).await {
            Some(status) if Standing::of(&status) == Standing::Off => self.disabled(server),
            Some(_) | None => Err(failure),
        }
    }

    /// The state of the daemon's server that this bridge leads to. The bridge's own state is no substitute: it is connected
    /// while its server is down, and its attempts fail if the daemon refuses it.
    pub(crate) async fn behind(&self, bridge: &Server) -> Option<Status> {
        self.daemon.as_ref()?.server_behind(bridge.status()).await
    }

    /// Reports that a server of the daemon is disabled.
    fn disabled(&self, server: &Server) -> Done {
        let name = server.name();
        let enable = format!("mainstay enable {}", reach::literal(name));
        let message = format!("server {name} is disabled, and was not asked: `{enable}` enables it");
        self.failed_at_gateway(&message, Outcome::NotSent)
    }

    /// Starts the servers that may be meant, and asks.
    pub(crate) fn run(&self, setup: &Setup, ask: impl AsyncFnOnce(&Fleet) -> Done) -> Done {
        if let [server] = &setup.servers[..] {
            // It is known even if nothing comes of it.
            let _ = self.server.set(server.name().to_owned());
        }
        with_fleet_or(setup, self.screen, ask, |exit| self.interrupted(exit))
    }

    /// The server that offers the item: the only one, or the first whose offers have it.
    pub(crate) async fn locate(
        &self,
        fleet: &Fleet,
        offered_by: impl Fn(&Catalog) -> Option<String>,
    ) -> Result<Server, CommandFailure> {
        let name = match &fleet.servers()[..] {
            [only] => Some(only.name().to_owned()),
            _ => self.offering(fleet, offered_by).await,
        };
        let server = name.as_ref().and_then(|name| fleet.server(name));
        match (name, server) {
            (Some(name), Some(server)) => {
                let _ = self.server.set(name);
                Ok(server)
            }
            _ => Err(CommandFailure::usage(anyhow!(
                "no server that is up offers the {} {:?}; `{}` lists what they offer",
                self.sought.word(),
                self.name,
                self.listing
            ))),
        }
    }

    async fn offering(
        &self,
        fleet: &Fleet,
        offered_by: impl Fn(&Catalog) -> Option<String>,
    ) -> Option<String> {
        let mut catalogs = fleet.catalog_reader();
        let found = async {
            loop {
                if let Some(name) = offered_by(&catalogs.load()) {
                    return Some(name);
                }
                catalogs.changed().await?;
            }
        };
        tokio::select! {
            found = found => found,
            () = self.settled(fleet) => offered_by(&fleet.catalog()),
        }
    }

    /// Waits for the server as long as it is worth it.
    pub(crate) async fn connected(&self, fleet: &Fleet, server: &Server) -> Result<(), CallError> {
        if fleet.servers().len() == 1 {
            self.settled(fleet).await;
        } else {
            let is_settled = |status: &Status| Standing::of(status).is_settled();
            server.wait_until(self.time_to_connect(), is_settled).await;
        }
        if Standing::of(&server.status()) == Standing::Up {
            return Ok(());
        }
        // It is not up: the library says why, in the words of a call that was not sent.
        match server.wait_connected(Duration::ZERO).await {
            Ok(_) => Ok(()),
            // The person who waited knows how long.
            Err(error) => match error.kind() {
                CallErrorKind::WaitTimedOut { now, .. } => Err((**now).clone().into()),
                _other => Err(error),
            },
        }
    }

    /// Waits until no server is worth waiting for.
    async fn settled(&self, fleet: &Fleet) {
        let startup = Startup::of(fleet);
        let mut progress = Progress::new(self.screen, false);
        startup
            .settle(self.time_to_connect(), |statuses| {
                progress.show(&startup, fleet, statuses);
            })
            .await;
    }

    fn time_to_connect(&self) -> Duration {
        let within = self.request.timeout.unwrap_or(CONNECT_TIMEOUT);
        within.saturating_sub(self.began.elapsed())
    }

    /// The options of the request, with what is left of its time. From here on it counts as sent.
    pub(crate) fn options(&self) -> CallOptions {
        self.is_sent.set(true);
        match self.request.timeout {
            Some(timeout) => {
                let left = timeout.saturating_sub(self.began.elapsed());
                CallOptions::default().timeout(left).idle_timeout(left)
            }
            None => CallOptions::default(),
        }
    }

    /// Reports the answer, shown as `text` makes it, or the failure.
    pub(crate) async fn answered(
        &self,
        server: &Server,
        answered: Result<Reply, CallError>,
        text: impl FnOnce(&Reply) -> String,
    ) -> Done {
        let reply = match answered {
            Ok(reply) => reply,
            Err(error) => return self.failed(server, &error).await,
        };
        if self.request.json {
            let document = json::AnswerDocument::answered(self.asked(), &reply, false);
            self.screen.print(Text::document(&document))?;
        } else {
            self.screen.print_payload(&text(&reply))?;
        }
        Ok(Exit::Success)
    }

    /// What was asked, for a document.
    pub(crate) fn asked(&self) -> json::AnswerSubject<'_> {
        let server = self.server.get().map(String::as_str);
        json::AnswerSubject::new(server, self.sought, self.name)
    }
}
