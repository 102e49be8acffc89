//! The keeper: the one task that owns a server.
//!
//! Its loop is three lines: wait for one message, hand it to the machine, start the effects. It never waits for a peer.
//! Slow work runs in tasks of its own that end with a report; see `connection_task`, `listing`. If a step panics, everything
//! the keeper holds is let go, whoever waits is told, and it begins again with a new machine.

mod caught;
mod connection_task;
mod dial;
mod execute;
mod hearing;
mod inbox;
mod listing;
mod login;
mod published;
mod reachability;
pub(crate) mod recovery;
mod signs;
#[cfg(test)]
mod tests;
mod tree;
pub(crate) mod turns;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Cause, Desired, Generation, Input, Machine, StateKind, Timer, Transition};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout};

pub(crate) use inbox::{Command, Ending, Inbox, Message, Refusal, Report, Taken};
pub(crate) use recovery::Consequence;

use crate::config::{ServerConfig, Target};
use crate::connection::{Clock, Connection};
use crate::event::Failure;
use crate::process::Stopped;
use crate::protocol::Dialect;
use crate::server::{Ended, Settings, Slot, StartProgress};
use connection_task::ConnectionTask;
use login::LoginWatch;
use published::LastGood;
use reachability::ReachabilityWatch;
use turns::Ticket;

/// The pause before a keeper that panicked begins again, for each panic so far; capped at thirty of them.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

/// How long the end of a server waits for its last session to be deleted.
const FAREWELLS: Duration = Duration::from_secs(1);

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
    connection_tasks: BTreeMap<Generation, ConnectionTask>,
    /// Custodies that were cut short. The next dial waits until they are gone.
    abandoned: Vec<JoinHandle<()>>,
    /// The connection of the current generation, once it is open.
    connection: Option<Arc<Connection>>,
    /// The connections that were taken out of service and still finish their calls: at most one beside the next, and one that
    /// the next waits for.
    draining: Vec<Arc<Connection>>,
    /// The listing that runs, or ran last.
    listing: Option<AbortHandle>,
    listings: Listings,
    last_good: LastGood,
    /// How the server was last spoken to with success.
    dialect: Option<Dialect>,
    /// Waits for another credential, while the server asks for a login.
    login: Option<LoginWatch>,
    /// Waits for somebody to be there, while nobody is.
    knocking: Option<ReachabilityWatch>,
    /// Since when nobody has been there.
    absent_since: Option<Instant>,
    /// What went wrong last.
    failure: Option<Arc<Failure>>,
    /// What the report that is being handled says went wrong.
    told: Option<Arc<Failure>>,
    last_stop: Option<Stopped>,
    /// The last live connection that ended.
    ended: Option<Ended>,
    /// The place of the generation that waits for its turn to start.
    ticket: Option<Ticket>,
    /// What the generation does that was started last.
    start: Option<(Generation, StartProgress)>,
    since: SystemTime,
    starts: u64,
    panics: u32,
    stopping: Vec<oneshot::Sender<Ending>>,
    /// The fleet's patience is over: end now.
    aborted: bool,
}

/// The listings of a server, by their numbers from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listings {
    /// The last one that was started.
    pub(crate) started: u64,
    /// The last one whose content is published.
    pub(crate) done: u64,
    /// The last one that failed.
    pub(crate) failed: u64,
}

impl Keeper {
    /// Starts to keep a server. The first step is taken before this returns: what the disk remembers of the server is
    /// published, and its state is no longer the one before its birth.
    pub(crate) fn start(slot: Arc<Slot>, inbox: mpsc::Receiver<Message>, config: &ServerConfig) {
        let (last_good, remembered) = LastGood::load(&slot);
        let dialect = remembered.or_else(|| config.expected_era().map(Dialect::from));
        let mut keeper = Self {
            machine: Machine::new(config.policy().clone()),
            clock: Clock::start(),
            spare: draw(),
            connection_tasks: BTreeMap::new(),
            abandoned: Vec::new(),
            connection: None,
            draining: Vec::new(),
            listing: None,
            listings: Listings::default(),
            last_good,
            dialect,
            login: None,
            knocking: None,
            absent_since: None,
            failure: None,
            told: None,
            ended: None,
            last_stop: None,
            ticket: None,
            start: None,
            since: SystemTime::now(),
            starts: 0,
            panics: 0,
            stopping: Vec::new(),
            aborted: false,
            slot,
            inbox,
        };
        if config.enabled() {
            let first = keeper.enable();
            keeper.take(first);
            keeper.show();
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
        self.cut_custodies_short();
        for task in self.abandoned.drain(..) {
            let _ = task.await;
        }
        self.last_good.saved().await;
        if let Some(endpoint) = self.slot.settings.load_full().used_endpoint()
            && !self.aborted
        {
            tokio::select! {
                _ = timeout(FAREWELLS, endpoint.sessions_deleted()) => {}
                () = self.slot.shared.shutdown_deadline.over() => {}
            }
        }
        let ending = Ending {
            stopped: self.last_stop.take(),
        };
        // Whoever learns of the end finds the keeper gone.
        self.inbox.close();
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
        let taken = match message {
            Message::Deadline => {
                let vitals = self.connection.as_ref().map(|connection| connection.vitals());
                self.take(Input::Timer(vitals.unwrap_or_default()));
                None
            }
            Message::Command(command) => self.obey(command),
            Message::Progress(generation, progress) => {
                self.start = Some((generation, progress));
                None
            }
            Message::Restoring => None,
            Message::Report(report) => {
                let input = self.hear(report);
                self.take(input);
                None
            }
        };
        self.told = None;
        self.show();
        if let Some((taken, answer)) = taken {
            let _ = taken.send(answer);
        }
    }

    fn take(&mut self, input: Input) {
        let overdue = matches!(input, Input::Timer(_)).then(|| what_hangs(self.machine.deadline()?.timer));
        let cause = overdue.flatten().or_else(|| what_failed(&input));
        let (failures, generation) = (self.machine.failures(), self.machine.state().generation());
        let state = self.machine.state().kind();
        for effect in self.machine.handle(input, self.clock.now(), self.spare) {
            self.execute(effect);
        }
        self.knock();
        // A server that is reconnecting already changes no state when an attempt fails, and still something went wrong.
        if let Some(cause) = cause
            && self.machine.failures() > failures
            && self.machine.state().kind() == state
        {
            self.log_failed_attempt(cause, generation);
        }
    }

    /// Knocks as long as the machine waits for somebody to be there, and for nobody else.
    fn knock(&mut self) {
        let absent = self.machine.unreachable();
        if self.knocking.as_ref().map(ReachabilityWatch::generation) == absent {
            return;
        }
        self.knocking = absent.map(|generation| {
            let since = *self.absent_since.get_or_insert_with(Instant::now);
            ReachabilityWatch::start(&self.slot, generation, since)
        });
    }

    /// Obeys, and returns the answer to send once the status shows what came of it.
    fn obey(&mut self, command: Command) -> Option<(Taken, Result<(), Refusal>)> {
        match command {
            Command::Enable(taken) => Some((taken, self.wish(Self::enable))),
            Command::Disable(taken) => Some((taken, self.wish(|_| Input::Disable))),
            Command::Restart(taken) => {
                let answer = match self.machine.desired() {
                    Desired::Disabled if self.stopping.is_empty() => Err(Refusal::Disabled),
                    Desired::Disabled | Desired::Enabled => self.wish(|_| Input::Restart),
                };
                Some((taken, answer))
            }
            Command::Configure(config, taken) => {
                self.configure(*config);
                Some((taken, Ok(())))
            }
            Command::Refresh(reply) => {
                let number = if self.stopping.is_empty() {
                    Ok(self.refresh())
                } else {
                    Err(Refusal::Leaving)
                };
                let _ = reply.send(number);
                None
            }
            Command::Demand => {
                if let Some(ticket) = self.ticket {
                    self.slot.shared.turns.promote(ticket);
                }
                self.take(Input::Demand);
                None
            }
            Command::Login => {
                self.take(Input::Login);
                None
            }
            Command::Stop(reply) => {
                // From here on counts how this stop goes, not an earlier one.
                self.last_stop = None;
                self.stopping.push(reply);
                self.take(Input::Disable);
                None
            }
            Command::Abort => {
                self.aborted = true;
                None
            }
            #[cfg(test)]
            Command::Panic => panic!("asked to"),
        }
    }

    /// Takes what a person wants, unless the server is on its way out of the fleet.
    fn wish(&mut self, input: impl FnOnce(&Self) -> Input) -> Result<(), Refusal> {
        if !self.stopping.is_empty() {
            return Err(Refusal::Leaving);
        }
        let input = input(self);
        self.take(input);
        Ok(())
    }

    /// Asks for a listing that begins from now on, and returns its number. Any number of requests may share one; a server that
    /// rests is started for it.
    fn refresh(&mut self) -> u64 {
        let before = self.listings.started;
        match self.machine.state().generation() {
            Some(generation) => self.take(Input::ListChanged(generation)),
            None => self.take(Input::Demand),
        }
        self.listings.started.max(before + 1)
    }

    fn enable(&self) -> Input {
        // A server whose tools nobody knows yet is started once to learn them, lazy or not.
        let dormant = self.slot.settings.load().lazy() && self.last_good.is_known();
        Input::Enable { dormant }
    }

    /// Takes a changed configuration, in one step. Only another identity touches the connection; and what the
    /// configuration disables is disabled first, so that nothing of the new server ever runs.
    fn configure(&mut self, config: ServerConfig) {
        let before = self.slot.settings.load_full();
        let settings = Settings::new(config);
        let replaced = before.identity() != settings.identity();
        // Two processes may be in each other's way, and of a custom transport nothing is known.
        let beside = [before.target(), settings.target()]
            .into_iter()
            .all(|target| matches!(target, Target::Http(_)));
        let policy = Box::new(settings.policy().clone());
        let (was_enabled, is_enabled) = (before.enabled(), settings.enabled());
        if was_enabled && !is_enabled {
            self.take(Input::Disable);
        }
        self.slot.settings.store(Arc::new(settings));
        self.last_good.set_view(&self.slot);
        self.take(Input::Adjust(policy));
        if replaced {
            self.last_good.forget(&self.slot);
            self.dialect = None;
            self.take(Input::Replace { beside });
        } else {
            // It may hold another credential.
            self.take(Input::Login);
        }
        if is_enabled && !was_enabled && self.stopping.is_empty() {
            let enable = self.enable();
            self.take(enable);
        }
    }

    fn is_done(&self) -> bool {
        let stopped = self.machine.state().kind() == StateKind::Disabled && self.connection_tasks.is_empty();
        self.aborted || (stopped && !self.stopping.is_empty())
    }

    /// Lets go of whatever is held, the process trees included.
    fn cut_custodies_short(&mut self) {
        let connection_tasks = std::mem::take(&mut self.connection_tasks).into_values();
        self.abandoned
            .extend(connection_tasks.filter_map(ConnectionTask::abort));
    }

    /// A step panicked: let go of everything, tell whoever waits, and begin again after a pause.
    fn fail(&mut self) {
        self.panics = self.panics.saturating_add(1);
        tracing::error!(server = %self.slot.name, panics = self.panics, "the keeper failed and begins again");
        self.slot.current.store(None);
        for connection in self.connection.take().into_iter().chain(self.draining.drain(..)) {
            connection.cut();
        }
        self.cut_custodies_short();
        self.knocking = None;
        self.told = None;
        let policy = self.slot.settings.load().policy().clone();
        let (from, generation) = (self.machine.state().kind(), self.machine.state().generation());
        self.machine = match self.machine.desired() {
            Desired::Enabled => {
                self.last_good.mark_stale(&self.slot);
                let pause = RESUME_PAUSE * self.panics.min(30);
                Machine::resumed(policy, self.clock.now() + pause)
            }
            Desired::Disabled => Machine::new(policy),
        };
        let to = self.machine.state().kind();
        if from != to {
            self.announce(Transition {
                from,
                to,
                generation,
                cause: Cause::KeeperFailed,
            });
        } else {
            self.failure_for(Cause::KeeperFailed, generation);
        }
        self.show();
    }
}

/// The cause to log if this report is of a failed attempt.
fn what_failed(input: &Input) -> Option<Cause> {
    match input {
        Input::OpenFailed(..) => Some(Cause::OpenFailed),
        Input::ListFailed(..) => Some(Cause::ListingFailed),
        Input::Lost(_) => Some(Cause::Lost),
        Input::Enable { .. }
        | Input::Disable
        | Input::Restart
        | Input::Replace { .. }
        | Input::Adjust(_)
        | Input::Demand
        | Input::Login
        | Input::Begun(_)
        | Input::Opened(_)
        | Input::Listed(..)
        | Input::ListChanged(_)
        | Input::CallAnswered(_)
        | Input::CallFailed(..)
        | Input::ProbeNow(_)
        | Input::ProbeAnswered(_)
        | Input::Closed(_)
        | Input::Reachable(_)
        | Input::Timer(_) => None,
    }
}

/// The cause to report if this timer has expired.
fn what_hangs(timer: Timer) -> Option<Cause> {
    match timer {
        Timer::Open => Some(Cause::OpenTimedOut),
        Timer::List => Some(Cause::ListingFailed),
        Timer::Answer => Some(Cause::ProbesMissed),
        Timer::Close
        | Timer::Turn
        | Timer::Start
        | Timer::Relist
        | Timer::Expiry
        | Timer::Proof
        | Timer::Silence
        | Timer::Idle
        | Timer::SlowProbe => None,
    }
}
