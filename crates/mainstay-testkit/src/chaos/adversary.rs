//! What breaks the fleet: it kills, freezes, restarts, disables, removes and replaces servers, and cuts and holds their network.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use mainstay::{Fleet, Server, ServerConfig, StateKind, Status};
use rustix::process::{Pid, Signal, kill_process};

use super::cast::Cast;
use super::dice::Dice;
use super::{NEVER_DISABLED, name};
use crate::fleet::LONG;
use crate::http::{FaultyHttpProcess, Proxy};
use crate::procfs::ProcTree;

/// What the adversary can do to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// SIGKILL to its process.
    Kill,
    /// SIGSTOP to its process.
    Freeze,
    /// SIGCONT to its process.
    Thaw,
    /// A restart by a person.
    Restart,
    /// Disabled by a person.
    Disable,
    /// Enabled again.
    Enable,
    /// Out of the configuration.
    Remove,
    /// Into the configuration again.
    Add,
    /// Another server by the same name.
    Replace,
    /// All its connections are closed, in the middle of whatever they carry.
    Cut,
    /// Its connections stay open, and nothing moves on them.
    Hold,
    /// They move again.
    Release,
}

/// Disturbs a fleet, as a seed decides.
pub struct Adversary<'a> {
    fleet: Fleet,
    cast: &'a Cast,
    tree: ProcTree,
    dice: Dice,
    deeds: BTreeMap<Deed, usize>,
    /// The configuration as it is now.
    configured: BTreeMap<usize, ServerConfig>,
}

impl<'a> Adversary<'a> {
    /// Against this fleet of all servers of the cast.
    pub fn new(fleet: &Fleet, cast: &'a Cast, seed: u64) -> Self {
        Self {
            fleet: fleet.clone(),
            cast,
            tree: cast.stage().tree(),
            dice: Dice::new(seed, usize::MAX - 1),
            deeds: BTreeMap::new(),
            configured: (0..cast.servers()).map(|at| (at, cast.config(at, 0))).collect(),
        }
    }

    /// Disturbs it until this moment.
    pub async fn rage(&mut self, until: Instant) {
        while Instant::now() < until {
            let at = self.dice.index(self.cast.servers());
            let deed = match self.dice.below(100) {
                0..34 => Deed::Kill,
                34..41 => Deed::Freeze,
                41..50 => Deed::Thaw,
                50..59 => Deed::Restart,
                59..65 => Deed::Disable,
                65..77 => Deed::Enable,
                77..79 => Deed::Remove,
                79..83 => Deed::Add,
                83..85 => Deed::Replace,
                85..90 => Deed::Cut,
                90..92 => Deed::Hold,
                _ => Deed::Release,
            };
            let pause = self.dice.below(40);
            self.commit(deed, at).await;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Lets the fleet be. A process of its own that is frozen stays so: the fleet must see to that by itself.
    pub async fn stop(&mut self) {
        for at in 0..self.cast.servers() {
            if let Some(host) = self.cast.host(at) {
                host.fix();
            }
            self.commit(Deed::Add, at).await;
            self.commit(Deed::Enable, at).await;
        }
    }

    /// Freezes connected servers that nobody calls, so that only their probes can tell, and waits until each is noticed
    /// and back: the fleet's own in another process, those of others as soon as they move again.
    pub async fn freeze_for_good(&mut self, servers: Range<usize>) {
        let mut frozen = Vec::new();
        for at in servers {
            let server = self.fleet.server(&name(at)).expect("all servers are back");
            // On a busy machine one may have been found silent once more.
            let connected = |now: &Status| now.state == StateKind::Connected;
            let now = server.wait_until(LONG, connected).await.expect("it was back");
            frozen.push((at, now.generation));
            while !self.try_to(Deed::Freeze, at).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        for (at, generation) in frozen {
            let server = self.fleet.server(&name(at)).expect("it was there");
            if let Some(host) = self.cast.host(at) {
                let noticed = server
                    .wait_until(LONG, |now| {
                        now.state != StateKind::Connected || now.generation > generation
                    })
                    .await;
                assert!(noticed.is_some(), "frozen, and kept: {:?}", server.status());
                host.fix();
            }
            let back = server
                .wait_until(LONG, |now| {
                    now.state == StateKind::Connected && now.generation > generation
                })
                .await;
            assert!(back.is_some(), "frozen, and not back: {:?}", server.status());
        }
    }

    /// How often it did what.
    pub fn deeds(&self) -> BTreeMap<Deed, usize> {
        self.deeds.clone()
    }

    async fn commit(&mut self, deed: Deed, at: usize) {
        if self.try_to(deed, at).await {
            *self.deeds.entry(deed).or_default() += 1;
        }
    }

    /// Whether there was anything to do.
    async fn try_to(&mut self, deed: Deed, at: usize) -> bool {
        let server = self.fleet.server(&name(at));
        let may_be_missed = at >= NEVER_DISABLED;
        match (deed, server) {
            (Deed::Kill, Some(server)) => self.harm(at, &server, Signal::KILL, FaultyHttpProcess::kill),
            (Deed::Freeze, Some(server)) => self.harm(at, &server, Signal::STOP, |process| process.freeze()),
            (Deed::Thaw, Some(server)) => self.harm(at, &server, Signal::CONT, |process| process.thaw()),
            (Deed::Cut, _) => self.disturb(at, Proxy::cut),
            (Deed::Hold, _) => self.disturb(at, |network| network.hold(true)),
            (Deed::Release, _) => self.disturb(at, |network| network.hold(false)),
            // It is refused where the server is disabled, as it should be.
            (Deed::Restart, Some(server)) => server.restart().await.is_ok(),
            (Deed::Disable, Some(server)) => may_be_missed && server.disable().await.is_ok(),
            (Deed::Enable, Some(server)) => {
                let disabled = matches!(server.status().state, StateKind::Disabled | StateKind::Disabling);
                disabled && server.enable().await.is_ok()
            }
            (Deed::Remove, Some(_)) if may_be_missed => self.configure(at, None).await,
            (Deed::Replace, Some(_)) if may_be_missed => {
                let another = self.cast.config(at, self.deeds.values().sum());
                self.configure(at, Some(another)).await
            }
            (Deed::Add, None) => self.configure(at, Some(self.cast.config(at, 0))).await,
            (_, Some(_) | None) => false,
        }
    }

    async fn configure(&mut self, at: usize, config: Option<ServerConfig>) -> bool {
        match config {
            Some(config) => self.configured.insert(at, config),
            None => self.configured.remove(&at),
        };
        self.fleet.apply(self.configured.values().cloned()).await;
        true
    }

    /// Harms the process of a server, whosever it is.
    fn harm(&self, at: usize, server: &Server, signal: Signal, of_host: fn(&mut FaultyHttpProcess)) -> bool {
        if let Some(host) = self.cast.host(at) {
            return host.harm(of_host);
        }
        let Some(pid) = server.status().pid.and_then(Pid::from_raw) else {
            return false;
        };
        // The number may have been given to somebody else this very moment.
        self.tree.holds(pid.as_raw_nonzero().get()) && kill_process(pid, signal).is_ok()
    }

    /// Disturbs the network between the fleet and a server, where there is one.
    fn disturb(&self, at: usize, disturb: impl FnOnce(&Proxy)) -> bool {
        let host = self.cast.host(at);
        host.map(|host| disturb(host.network())).is_some()
    }
}
