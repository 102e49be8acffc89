//! The keeper: the one task that owns a server.
//!
//! Its loop is three lines: wait for one message, hand it to the machine, start the effects. It never waits for a peer.
//! Slow work runs in tasks of its own that end with a report; see `custody`, `listing`. If a step panics, everything
//! the keeper holds is let go, whoever waits is told, and it begins again with a new machine.

mod custody;
mod dial;
mod execute;
mod inbox;
mod listing;
mod published;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Desired, Generation, Input, Listing, Machine, StateKind};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

pub(crate) use inbox::{Command, Ending, Inbox, IsDisabled, Message, Report};

use crate::config::ServerConfig;
use crate::connection::{Clock, Connection};
use crate::event::Trouble;
use crate::process::Stopped;
use crate::protocol::Era;
use crate::server::{Settings, Slot};
use custody::Custody;
use published::LastGood;

/// The pause before a keeper that panicked begins again, for each panic so far; capped at thirty of them.
const REVIVE_PAUSE: Duration = Duration::from_secs(1);

/// The generations of all servers of this process: no number ever repeats.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// A number that no connection has had.
fn draw() -> Generation {
    Generation(GENERATIONS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) struct Keeper {
    slot: Arc<Slot>,
    inbox: mpsc::Receiver<Message>,
    machine: Machine,
    clock: Clock,
    /// The generation that the next connection gets.
    spare: Generation,
    /// What the keeper holds: the current connection and, while it closes, the one before it.
    custodies: BTreeMap<Generation, Custody>,
    /// The connection of the current generation, once it is open.
    connection: Option<Arc<Connection>>,
    last_good: LastGood,
    era: Option<Era>,
    trouble: Option<Arc<Trouble>>,
    last_stop: Option<Stopped>,
    since: SystemTime,
    starts: u64,
    panics: u32,
    stopping: Vec<oneshot::Sender<Ending>>,
    /// The fleet's patience is over: end now.
    aborted: bool,
}

impl Keeper {
    /// Starts to keep a server. The first step is taken before this returns: what the disk remembers of the server is
    /// published, and its state is no longer the one before its birth.
    pub(crate) fn start(slot: Arc<Slot>, inbox: mpsc::Receiver<Message>, config: &ServerConfig) {
        let (last_good, era) = LastGood::load(&slot);
        let mut keeper = Self {
            machine: Machine::new(config.policy().clone()),
            clock: Clock::start(),
            spare: draw(),
            custodies: BTreeMap::new(),
            connection: None,
            last_good,
            era,
            trouble: None,
            last_stop: None,
            since: SystemTime::now(),
            starts: 0,
            panics: 0,
            stopping: Vec::new(),
            aborted: false,
            slot,
            inbox,
        };
        if config.enabled() {
            keeper.step(Message::Command(Command::Revive));
        }
        tokio::spawn(keeper.run());
    }

    async fn run(mut self) {
        while !self.is_done() {
            let Some(message) = self.next().await else { break };
            if catch_unwind(AssertUnwindSafe(|| self.step(message))).is_err() {
                self.fail();
            }
        }
        let ending = Ending {
            stopped: self.last_stop.take(),
        };
        for reply in self.stopping.drain(..) {
            let _ = reply.send(ending.clone());
        }
    }

    /// The next message, or the machine's deadline.
    async fn next(&mut self) -> Option<Message> {
        match self.machine.deadline() {
            None => self.inbox.recv().await,
            Some(deadline) => {
                tokio::select! {
                    message = self.inbox.recv() => message,
                    () = sleep_until(self.clock.instant(deadline.at)) => Some(Message::Deadline),
                }
            }
        }
    }

    fn step(&mut self, message: Message) {
        tracing::trace!(server = %self.slot.name, ?message, "step");
        if let Some(input) = self.read(message) {
            let effects = self.machine.handle(input, self.clock.now(), self.spare);
            for effect in effects {
                self.execute(effect);
            }
        }
        self.show();
    }

    fn read(&mut self, message: Message) -> Option<Input> {
        match message {
            Message::Deadline => {
                let vitals = self.connection.as_ref().map(|connection| connection.vitals());
                Some(Input::Timer(vitals.unwrap_or_default()))
            }
            Message::Command(command) => self.obey(command),
            Message::Report(report) => Some(self.hear(report)),
        }
    }

    fn obey(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Enable(reply) => {
                let _ = reply.send(());
                Some(self.enable())
            }
            Command::Disable(reply) => {
                let _ = reply.send(());
                Some(Input::Disable)
            }
            Command::Restart(reply) => {
                let allowed = self.machine.desired() == Desired::Enabled;
                let _ = reply.send(allowed.then_some(()).ok_or(IsDisabled));
                allowed.then_some(Input::Restart)
            }
            Command::Configure(config, reply) => {
                let _ = reply.send(());
                Some(self.configure(*config))
            }
            Command::Demand => Some(Input::Demand),
            Command::Stop(reply) => {
                self.stopping.push(reply);
                Some(Input::Disable)
            }
            Command::Revive => self.stopping.is_empty().then(|| self.enable()),
            Command::Abort => {
                self.aborted = true;
                None
            }
            #[cfg(test)]
            Command::Panic => panic!("asked to"),
        }
    }

    fn enable(&self) -> Input {
        // A server whose tools nobody knows yet is started once to learn them, lazy or not.
        let dormant = self.slot.settings.load().lazy() && self.last_good.is_known();
        Input::Enable { dormant }
    }

    /// Takes a changed configuration. Only another identity touches the connection.
    fn configure(&mut self, config: ServerConfig) -> Input {
        let settings = Settings::new(config);
        let replaced = self.slot.settings.load().identity() != settings.identity();
        let adjust = Input::Adjust(Box::new(settings.policy().clone()));
        self.slot.settings.store(Arc::new(settings));
        self.last_good.set_view(&self.slot);
        if !replaced {
            return adjust;
        }
        self.last_good.forget(&self.slot);
        self.era = None;
        for effect in self.machine.handle(adjust, self.clock.now(), self.spare) {
            self.execute(effect);
        }
        Input::Replace
    }

    /// Takes a report. What it carries counts only if its generation is the current one; the machine sees it either way.
    fn hear(&mut self, report: Report) -> Input {
        let current = self.machine.state().generation();
        match report {
            Report::Opened(connection) => {
                let generation = connection.generation;
                if current == Some(generation) {
                    self.era = Some(connection.greeting.era);
                    self.connection = Some(connection);
                }
                Input::Opened(generation)
            }
            Report::OpenFailed(generation, error, trouble) => {
                let recovery = error.recovery();
                if current == Some(generation) {
                    self.trouble = Some(trouble);
                    if error.questions_era() {
                        self.era = None;
                    }
                }
                Input::OpenFailed(generation, recovery)
            }
            Report::Listed(generation, catalog) => {
                let worth = if current == Some(generation) {
                    self.last_good.take(&self.slot, *catalog, self.era)
                } else {
                    Listing::Good
                };
                Input::Listed(generation, worth)
            }
            Report::ListFailed(generation, error) => {
                if current == Some(generation) {
                    tracing::warn!(server = %self.slot.name, generation = generation.0, %error, "listing failed");
                    let message = format!("listing failed: {error}");
                    self.trouble = Some(custody::trouble(&self.slot, generation, message, None));
                }
                Input::ListFailed(generation)
            }
            Report::ListChanged(generation) => Input::ListChanged(generation),
            Report::Lost(generation, trouble) => {
                if current == Some(generation) {
                    self.trouble = Some(trouble);
                }
                Input::Lost(generation)
            }
            Report::CallAnswered(generation) => Input::CallAnswered(generation),
            Report::CallFailed(generation) => Input::CallFailed(generation),
            Report::ProbeAnswered(generation) => Input::ProbeAnswered(generation),
            Report::Closed(generation, stopped) => {
                self.custodies.remove(&generation);
                self.last_stop = stopped.or(self.last_stop.take());
                Input::Closed(generation)
            }
        }
    }

    fn is_done(&self) -> bool {
        let stopped = self.machine.state().kind() == StateKind::Disabled && self.custodies.is_empty();
        self.aborted || (stopped && !self.stopping.is_empty())
    }

    /// A step panicked: let go of everything, tell whoever waits, and begin again after a pause.
    fn fail(&mut self) {
        self.panics = self.panics.saturating_add(1);
        tracing::error!(server = %self.slot.name, panics = self.panics, "the keeper failed and begins again");
        self.slot.current.store(None);
        if let Some(connection) = self.connection.take() {
            connection.detach();
            connection.peer.close();
        }
        // Dropping a custody ends its task, and the process tree with it.
        self.custodies.clear();
        let wanted = self.machine.desired() == Desired::Enabled;
        self.machine = Machine::new(self.slot.settings.load().policy().clone());
        self.trouble = Some(Arc::new(Trouble::plain(
            "the task that keeps the server failed".to_owned(),
        )));
        self.last_good.mark_stale(&self.slot);
        self.show();
        if wanted {
            let inbox = self.slot.inbox.clone();
            let pause = REVIVE_PAUSE * self.panics.min(30);
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                inbox.command(Command::Revive);
            });
        }
    }
}
