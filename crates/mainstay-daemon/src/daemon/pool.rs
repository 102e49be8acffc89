//! The servers that bridges asked for: one for each distinct server, shared by all bridges that want it, and ended a while after the last
//! of them left.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mainstay::config::Target;
use mainstay::gateway::message::RawJson;
use mainstay::process::DescriptorLimit;
use mainstay::{Era, FleetBuilder, ServerConfig, StateKind};
use mainstay_gateway::{Gateway, GatewayBuilder};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;

use super::LoginCommand;
use super::listed::{ListedServer, ServerListing};
use super::users::{DaemonUse, Users};
use crate::live::{self, HostSwitches};
use mainstay_bridge::VARIABLES_HINT;
use mainstay_bridge::hello::{
    CommandServer, DescriptorLimits, HelloRefusal, PinnedEra, Share, SharedServerStatus, UrlServer,
};

/// How long a server may take to stop when no bridge wants it: longer than the stop ladder.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// What makes two bridges share a server. Has no `Debug`: it holds secrets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    server: KeyedServer,
    /// The client's roots, where they count.
    roots: Option<Vec<String>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum KeyedServer {
    Command {
        program: String,
        args: Vec<String>,
        cwd: String,
        env: BTreeMap<String, String>,
        era: Option<PinnedEra>,
    },
    Url {
        url: String,
        bearer_token: Option<String>,
        era: Option<PinnedEra>,
    },
}

impl PoolKey {
    pub(super) fn of_command(server: &CommandServer, roots: Option<Vec<String>>) -> Self {
        let CommandServer {
            name: _,
            program,
            args,
            cwd,
            env,
            base_env: _,
            era,
            descriptors: _,
        } = server.clone();
        let server = KeyedServer::Command {
            program,
            args,
            cwd,
            env,
            era,
        };
        Self { server, roots }
    }

    pub(super) fn of_url(server: &UrlServer, roots: Option<Vec<String>>) -> Self {
        let UrlServer {
            name: _,
            url,
            bearer_token,
            era,
        } = server.clone();
        let server = KeyedServer::Url {
            url,
            bearer_token,
            era,
        };
        Self { server, roots }
    }
}

/// The configuration of a server that a command starts.
pub(super) fn of_command(server: &CommandServer) -> Result<ServerConfig, HelloRefusal> {
    let mut builder = ServerConfig::stdio(&server.name, server.program.as_str())
        .args(server.args.iter().map(String::as_str))
        .cwd(server.cwd.as_str())
        .base_env(&server.base_env);
    if let Some(DescriptorLimits { soft, hard }) = server.descriptors {
        builder = builder.descriptors(DescriptorLimit { soft, hard });
    }
    for (name, value) in &server.env {
        builder = builder.env(name, value.as_str());
    }
    if let Some(era) = server.era {
        builder = builder.era(pinned(era));
    }
    builder.build().map_err(|error| invalid(&error))
}

/// The configuration of a server at an address.
pub(super) fn of_url(server: &UrlServer) -> Result<ServerConfig, HelloRefusal> {
    let builder = ServerConfig::http(&server.name, server.url.as_str());
    let builder = match &server.bearer_token {
        Some(token) => builder.bearer_token(token.as_str()),
        None => builder,
    };
    let builder = match server.era {
        Some(era) => builder.era(pinned(era)),
        None => builder,
    };
    builder.build().map_err(|error| invalid(&error))
}

fn pinned(era: PinnedEra) -> Era {
    match era {
        PinnedEra::Legacy => Era::Legacy,
        PinnedEra::Modern => Era::Modern,
    }
}

fn invalid(error: &mainstay::config::InvalidServer) -> HelloRefusal {
    let problems: Vec<String> = error.problems().iter().map(ToString::to_string).collect();
    HelloRefusal::new(
        format!("the server cannot be used ({})", problems.join("; ")),
        "fix it in the configuration of the host",
    )
}

/// How the gateways of servers are made that hosts bring.
#[derive(Clone)]
pub(super) struct HostGateways {
    pub(super) fleets: FleetBuilder,
    pub(super) login_command: Option<LoginCommand>,
}

impl HostGateways {
    /// A gateway for this server. The configuration does not have the server, so a login is made by its address.
    pub(super) fn of(&self, config: &ServerConfig, fleet: FleetBuilder) -> GatewayBuilder {
        let gateway = Gateway::builder(fleet).start_hint(VARIABLES_HINT);
        match (config.target(), self.login_command) {
            (Target::Http(target), Some(command)) => {
                let command = command(target.url().shown());
                gateway.login_command(move |_name| command.clone())
            }
            (_, _) => gateway,
        }
    }
}

/// All of them.
pub(super) struct ServerPool {
    slots: Mutex<HashMap<PoolKey, PoolSlot>>,
    gateways: HostGateways,
    /// How long a server runs after its last bridge left.
    linger: Duration,
    users: Users,
    listing: Arc<ServerListing>,
    switches: Arc<HostSwitches>,
}

enum PoolSlot {
    Open(OpenSlot),
    /// It is being stopped; the sender is dropped when nothing is left of it.
    Closing(watch::Receiver<()>, Gateway),
}

struct OpenSlot {
    gateway: Gateway,
    name: Arc<str>,
    listed: ListedServer,
    share: Share,
    bridges: usize,
    /// Changes whenever a bridge comes or goes: a timer that finds another number is out of date.
    turn: u64,
    _in_use: DaemonUse,
}

/// A bridge's share of a server, as long as this lives.
pub(super) struct Membership {
    pool: Arc<ServerPool>,
    key: PoolKey,
    pub(super) gateway: Gateway,
    pub(super) name: Arc<str>,
}

impl ServerPool {
    pub(super) fn new(
        gateways: HostGateways,
        linger: Duration,
        users: Users,
        listing: Arc<ServerListing>,
        switches: Arc<HostSwitches>,
    ) -> Arc<Self> {
        Arc::new(Self {
            slots: Mutex::default(),
            gateways,
            linger,
            users,
            listing,
            switches,
        })
    }

    /// Joins the server of this key, and starts it for a client with these extensions if it does not run. Waits for the end of the last one
    /// if that is being stopped.
    ///
    /// Cancel safety: dropping it changes nothing.
    pub(super) async fn join(
        self: &Arc<Self>,
        key: PoolKey,
        share: Share,
        config: ServerConfig,
        extensions: Option<RawJson>,
    ) -> Membership {
        loop {
            let joined = match self.slots().get_mut(&key) {
                Some(PoolSlot::Open(open)) => {
                    open.bridges += 1;
                    open.turn += 1;
                    Ok(self.membership(key.clone(), open))
                }
                Some(PoolSlot::Closing(closing, _)) => Err(Some(closing.clone())),
                None => Err(None),
            };
            let mut closing = match joined {
                Ok(membership) => {
                    membership.revive(config).await;
                    return membership;
                }
                Err(closing) => closing,
            };
            match &mut closing {
                // An error is the end of the sender.
                Some(closing) => while closing.changed().await.is_ok() {},
                None => {
                    let mut slots = self.slots();
                    if slots.contains_key(&key) {
                        continue;
                    }
                    let config = self.switches.applied_to(config);
                    let name: Arc<str> = config.name().into();
                    let switch_key = live::key(&config);
                    let gateway = self.gateways.of(&config, self.gateways.fleets.clone());
                    let gateway = match extensions {
                        Some(extensions) => gateway.client_extensions(extensions),
                        None => gateway,
                    };
                    let gateway = gateway.start([config]);
                    let open = OpenSlot {
                        listed: self.listing.add(&name, &switch_key, &gateway),
                        gateway,
                        name,
                        share,
                        bridges: 1,
                        turn: 0,
                        _in_use: self.users.enter(),
                    };
                    let membership = self.membership(key.clone(), &open);
                    slots.insert(key, PoolSlot::Open(open));
                    return membership;
                }
            }
        }
    }

    fn membership(self: &Arc<Self>, key: PoolKey, open: &OpenSlot) -> Membership {
        Membership {
            pool: self.clone(),
            key,
            gateway: open.gateway.clone(),
            name: open.name.clone(),
        }
    }

    /// What runs of it.
    pub(super) fn status(&self) -> Vec<SharedServerStatus> {
        let slots = self.slots();
        let open = slots.values().filter_map(|slot| match slot {
            PoolSlot::Open(open) => Some(open),
            PoolSlot::Closing(..) => None,
        });
        let servers = open.map(|open| SharedServerStatus {
            name: open.listed.name.to_string(),
            state: state_of(&open.gateway),
            configured: false,
            share: open.share,
            bridges: open.bridges,
        });
        servers.collect()
    }

    /// Stops all of them within this time.
    ///
    /// Cancel safety: dropped, they go on stopping.
    pub(super) async fn close(&self, within: Duration) {
        let gateways: Vec<Gateway> = {
            let slots = self.slots();
            let gateways = slots.values().map(|slot| match slot {
                PoolSlot::Open(open) => open.gateway.clone(),
                PoolSlot::Closing(_, gateway) => gateway.clone(),
            });
            gateways.collect()
        };
        let mut closing = tokio::task::JoinSet::new();
        for gateway in gateways {
            closing.spawn(async move { gateway.close(within).await });
        }
        while closing.join_next().await.is_some() {}
    }

    /// The last bridge has left: stops the server after a while, unless another one comes.
    fn linger(self: &Arc<Self>, key: PoolKey, turn: u64) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let pool = self.clone();
        runtime.spawn(async move {
            sleep(pool.linger).await;
            let (ended, closing) = watch::channel(());
            let Some(open) = pool.begin_close(&key, turn, closing) else {
                return;
            };
            open.gateway.close(CLOSE_TIMEOUT).await;
            tracing::debug!(server = %open.name, "no bridge wanted it any more");
            pool.slots().remove(&key);
            drop((open, ended));
        });
    }

    fn begin_close(&self, key: &PoolKey, turn: u64, closing: watch::Receiver<()>) -> Option<OpenSlot> {
        let mut slots = self.slots();
        let slot = slots.get_mut(key)?;
        match slot {
            PoolSlot::Open(open) if open.bridges == 0 && open.turn == turn => {
                let gateway = open.gateway.clone();
                match std::mem::replace(slot, PoolSlot::Closing(closing, gateway)) {
                    PoolSlot::Open(open) => Some(open),
                    PoolSlot::Closing(..) => None,
                }
            }
            PoolSlot::Open(_) | PoolSlot::Closing(..) => None,
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<PoolKey, PoolSlot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// Starts a server again that was given up. This bridge may have another `PATH` than the one that it failed with, and a person may
    /// have installed what was missing.
    async fn revive(&self, config: ServerConfig) {
        let Some(server) = self.gateway.fleet().server(&self.name) else {
            return;
        };
        if server.status().state != StateKind::PermanentlyFailed {
            return;
        }
        // The first bridge named it.
        if config.name() == &*self.name {
            self.gateway.apply([config]).await;
        }
        // Refused only while the daemon ends.
        let _ = server.restart().await;
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let turn = {
            let mut slots = self.pool.slots();
            let Some(PoolSlot::Open(open)) = slots.get_mut(&self.key) else {
                return;
            };
            open.bridges -= 1;
            open.turn += 1;
            (open.bridges == 0).then_some(open.turn)
        };
        if let Some(turn) = turn {
            self.pool.linger(self.key.clone(), turn);
        }
    }
}

/// The state of the one server of a gateway, as a word.
pub(super) fn state_of(gateway: &Gateway) -> String {
    let servers = gateway.fleet().servers();
    let server = servers.first();
    server.map_or_else(
        || "removed".to_owned(),
        |server| server.status().state.to_string(),
    )
}
