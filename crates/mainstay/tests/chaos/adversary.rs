//! Whoever wants the fleet to break.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mainstay::{Fleet, Server, ServerConfig, StateKind};
use mainstay_testkit::procfs::Tree;
use rustix::process::{Pid, Signal, kill_process};

use crate::dice::Dice;
use crate::support::LONG;
use crate::{NEVER_DISABLED, SERVERS, name};

/// What the adversary can do to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    Kill,
    Freeze,
    Thaw,
    Restart,
    Disable,
    Enable,
    /// Out of the configuration.
    Remove,
    /// Into the configuration again.
    Add,
    /// Another server by the same name.
    Replace,
}

pub(crate) struct Adversary<'a> {
    fleet: Fleet,
    tree: Tree,
    dice: Dice,
    deeds: BTreeMap<Deed, usize>,
    /// The configuration as it is now.
    configured: BTreeMap<usize, ServerConfig>,
    /// Configures a server; another version of it is another server.
    version: &'a dyn Fn(usize, usize) -> ServerConfig,
}

impl<'a> Adversary<'a> {
    pub(crate) fn new(
        fleet: &Fleet,
        tree: Tree,
        seed: u64,
        version: &'a dyn Fn(usize, usize) -> ServerConfig,
    ) -> Self {
        Self {
            fleet: fleet.clone(),
            tree,
            dice: Dice::new(seed, usize::MAX - 1),
            deeds: BTreeMap::new(),
            configured: (0..SERVERS).map(|at| (at, version(at, 0))).collect(),
            version,
        }
    }

    pub(crate) async fn rage(&mut self, until: Instant) {
        while Instant::now() < until {
            let at = self.dice.index(SERVERS);
            let deed = match self.dice.below(100) {
                0..42 => Deed::Kill,
                42..50 => Deed::Freeze,
                50..60 => Deed::Thaw,
                60..70 => Deed::Restart,
                70..77 => Deed::Disable,
                77..90 => Deed::Enable,
                90..93 => Deed::Remove,
                93..97 => Deed::Add,
                _ => Deed::Replace,
            };
            let pause = self.dice.below(40);
            self.commit(deed, at).await;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Lets the fleet be. What is frozen stays so: the fleet must see to that by itself.
    pub(crate) async fn relent(&mut self) {
        for at in 0..SERVERS {
            self.commit(Deed::Add, at).await;
            self.commit(Deed::Enable, at).await;
        }
    }

    /// Freezes a connected server that nobody calls, so that only its probes can tell, and waits until it is replaced.
    pub(crate) async fn freeze_for_good(&mut self, at: usize) {
        let server = self.fleet.server(&name(at)).expect("all servers are back");
        let frozen = server.status().generation;
        self.commit(Deed::Freeze, at).await;
        let replaced = server
            .wait_until(LONG, |now| {
                now.state == StateKind::Connected && now.generation > frozen
            })
            .await;
        assert!(replaced.is_some(), "frozen, and kept: {:?}", server.status());
    }

    pub(crate) fn deeds(&self) -> BTreeMap<Deed, usize> {
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
            (Deed::Kill, Some(server)) => self.signal(&server, Signal::KILL),
            (Deed::Freeze, Some(server)) => self.signal(&server, Signal::STOP),
            (Deed::Thaw, Some(server)) => self.signal(&server, Signal::CONT),
            // It is refused where the server is disabled, as it should be.
            (Deed::Restart, Some(server)) => server.restart().await.is_ok(),
            (Deed::Disable, Some(server)) => may_be_missed && server.disable().await.is_ok(),
            (Deed::Enable, Some(server)) => {
                let disabled = matches!(server.status().state, StateKind::Disabled | StateKind::Disabling);
                disabled && server.enable().await.is_ok()
            }
            (Deed::Remove, Some(_)) if may_be_missed => self.configure(at, None).await,
            (Deed::Replace, Some(_)) if may_be_missed => {
                let another = (self.version)(at, self.deeds.values().sum());
                self.configure(at, Some(another)).await
            }
            (Deed::Add, None) => self.configure(at, Some((self.version)(at, 0))).await,
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

    fn signal(&self, server: &Server, signal: Signal) -> bool {
        let Some(pid) = server.status().pid.and_then(Pid::from_raw) else {
            return false;
        };
        // The number may have been given to somebody else this very moment.
        self.tree.holds(pid.as_raw_nonzero().get()) && kill_process(pid, signal).is_ok()
    }
}
