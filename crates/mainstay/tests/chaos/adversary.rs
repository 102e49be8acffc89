//! Whoever wants the fleet to break.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mainstay::{Fleet, Server, StateKind};
use mainstay_testkit::procfs::Tree;
use rustix::process::{Pid, Signal, kill_process};

use crate::NEVER_DISABLED;
use crate::dice::Dice;

/// What the adversary can do to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Deed {
    Kill,
    Freeze,
    Thaw,
    Restart,
    Disable,
    Enable,
}

pub(crate) struct Adversary {
    servers: Vec<Server>,
    tree: Tree,
    dice: Dice,
    deeds: BTreeMap<Deed, usize>,
}

impl Adversary {
    pub(crate) fn new(fleet: &Fleet, tree: Tree, seed: u64) -> Self {
        Self {
            servers: fleet.servers(),
            tree,
            dice: Dice::new(seed, usize::MAX - 1),
            deeds: BTreeMap::new(),
        }
    }

    pub(crate) async fn rage(&mut self, until: Instant) {
        while Instant::now() < until {
            let at = self.dice.index(self.servers.len());
            let deed = match self.dice.below(100) {
                0..45 => Deed::Kill,
                45..53 => Deed::Freeze,
                53..63 => Deed::Thaw,
                63..75 => Deed::Restart,
                75..83 => Deed::Disable,
                _ => Deed::Enable,
            };
            let pause = self.dice.below(40);
            self.commit(deed, at).await;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Lets the fleet be. What is frozen stays so: the fleet must see to that by itself.
    pub(crate) async fn relent(&mut self) {
        for at in 0..self.servers.len() {
            self.commit(Deed::Enable, at).await;
        }
    }

    pub(crate) fn deeds(&self) -> BTreeMap<Deed, usize> {
        self.deeds.clone()
    }

    async fn commit(&mut self, deed: Deed, at: usize) {
        let server = &self.servers[at];
        let done = match deed {
            Deed::Kill => self.signal(server, Signal::KILL),
            Deed::Freeze => self.signal(server, Signal::STOP),
            Deed::Thaw => self.signal(server, Signal::CONT),
            // It is refused where the server is disabled, as it should be.
            Deed::Restart => server.restart().await.is_ok(),
            Deed::Disable => at >= NEVER_DISABLED && server.disable().await.is_ok(),
            Deed::Enable => {
                let disabled = matches!(server.status().state, StateKind::Disabled | StateKind::Disabling);
                disabled && server.enable().await.is_ok()
            }
        };
        if done {
            *self.deeds.entry(deed).or_default() += 1;
        }
    }

    fn signal(&self, server: &Server, signal: Signal) -> bool {
        let Some(pid) = server.status().pid.and_then(Pid::from_raw) else {
            return false;
        };
        // The number may have been given to somebody else this very moment.
        self.tree.holds(pid.as_raw_nonzero().get()) && kill_process(pid, signal).is_ok()
    }
}
