//! What is done to the daemon and its servers.

use mainstay_testkit::Ledger;
use mainstay_testkit::chaos::Dice;
use mainstay_testkit::procfs::is_alive;
use rustix::process::{Pid, Signal, kill_process};
use std::thread;
use std::time::Duration;

use super::super::Shared;

/// How long a daemon is frozen at most.
const FREEZE_LIMIT_MS: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL to a process that is the daemon, or is about to be.
    KillDaemon,
    /// `mainstay daemon restart`.
    RestartDaemon,
    /// SIGTERM to the daemon.
    TerminateDaemon,
    /// The daemon is stopped for a while.
    FreezeDaemon,
    /// SIGKILL to a server.
    KillServer,
}

/// A fault that was done.
pub(super) struct Done {
    /// Whether the next one waits until every host has called again. Otherwise it follows at once.
    pub(super) is_followed_by_calm: bool,
}

pub(super) struct Faults<'a> {
    shared: &'a Shared,
    ledgers: &'a [Ledger],
    dice: Dice,
    pub(super) done: Vec<Fault>,
}

impl<'a> Faults<'a> {
    pub(super) fn new(shared: &'a Shared, ledgers: &'a [Ledger], dice: Dice) -> Self {
        Self {
            shared,
            ledgers,
            dice,
            done: Vec::new(),
        }
    }

    pub(super) fn count(&self, fault: Fault) -> usize {
        self.done.iter().filter(|done| **done == fault).count()
    }

    pub(super) fn next(&mut self) -> Done {
        // Each of the two that the run is about comes first.
        let fault = match (self.done.len(), self.dice.below(10)) {
            (0, _) | (_, 0..3) => Fault::KillDaemon,
            (1, _) | (_, 3..6) => Fault::RestartDaemon,
            (_, 6) => Fault::TerminateDaemon,
            (_, 7) => Fault::FreezeDaemon,
            _ => Fault::KillServer,
        };
        self.done.push(fault);
        self.act(fault);
        Done {
            is_followed_by_calm: self.dice.below(4) > 0,
        }
    }

    fn act(&mut self, fault: Fault) {
        match fault {
            Fault::KillDaemon => self.signal_daemon(Signal::KILL),
            Fault::TerminateDaemon => self.signal_daemon(Signal::TERM),
            Fault::RestartDaemon => {
                self.shared.sandbox.run(&["daemon", "restart"]).exits(0);
            }
            Fault::FreezeDaemon => {
                let daemons = self.shared.daemons();
                for daemon in &daemons {
                    signal(*daemon, Signal::STOP);
                }
                thread::sleep(Duration::from_millis(self.dice.below(FREEZE_LIMIT_MS)));
                for daemon in daemons {
                    signal(daemon, Signal::CONT);
                }
            }
            Fault::KillServer => {
                let ledger = &self.ledgers[self.dice.index(self.ledgers.len())];
                if let Some(server) = ledger.pids().last().filter(|pid| is_alive(**pid)) {
                    signal(*server, Signal::KILL);
                }
            }
        }
    }

    fn signal_daemon(&mut self, wanted: Signal) {
        let daemons = self.shared.daemons();
        if !daemons.is_empty() {
            signal(daemons[self.dice.index(daemons.len())], wanted);
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(pid).expect("a number of a process"), signal);
}
