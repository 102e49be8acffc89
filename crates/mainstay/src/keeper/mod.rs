//! The keeper: the one task that owns a server.
//!
//! Its loop is three lines: wait for one message, hand it to the machine, start the effects. It never waits for a peer.
//! Slow work runs in tasks that end with a message; see `tasks`, `connection_task`, `listing`. If a step panics, the keeper
//! ends its connections and tasks, fails the calls that wait, and begins again with a new machine.

mod connection_task;
mod dial;
mod dialect;
mod execute;
mod inbox;
mod last_good;
mod listing;
mod process_tree;
pub(crate) mod recovery;
mod reports;
mod session_losses;
pub(crate) mod start_queue;
mod stored;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use mainstay_lifecycle::{Cause, Desired, Generation, Input, Machine, StateKind, Timer, Transition};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

pub(crate) use inbox::{Ack, CommandRefusal, Ending, Inbox, KeeperMessage, Report, ServerCommand};
pub(crate) use recovery::Consequence;
pub(crate) use stored::{LoadedCatalog, load_stored};

use crate::config::{ServerConfig, Target};
use crate::connection::{Clock, Connection};
use crate::event::Failure;
use crate::process::Stopped;
use crate::protocol::Dialect;
use crate::server::{ConnectionTimes, Ended, Settings, Slot, StartProgress};
use connection_task::ConnectionTask;
use dialect::KnownDialect;
use last_good::LastGood;
use start_queue::StartTicket;
use tasks::Tasks;

/// The pause before a keeper that panicked begins again, for each panic so far; capped at thirty of them.
const RESUME_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of a server waits for the deletion of its last session.
const SESSION_END_GRACE: Duration = Duration::from_secs(1);

/// How long the end of a server waits for a process that was killed. A kill takes milliseconds.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// The generations of all servers of this process: no number ever repeats.
static GENERATIONS: AtomicU64 = AtomicU64::new(1);

/// A number that no connection has had.
fn draw() -> Generation {
    Generation(GENERATIONS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) struct Keeper {
    slot: Arc<Slot>,
    inbox: mpsc::Receiver<KeeperMessage>,
    machine: Machine,
    clock: Clock,
    /// The generation that the next connection gets.
    spare: Generation,
    tasks: Tasks,
    /// The current connection and, while they close, those before it.
    connection_tasks: BTreeMap<Generation, ConnectionTask>,
    /// The one permit for a process tree of this server: the next start waits until the last tree is gone.
    process_permit: Arc<Semaphore>,
    /// The connection of the current generation, once it is open.
    connection: Option<Arc<Connection>>,
    /// The connections that were taken out of service and still finish their calls: at most one beside the next, and one that
    /// the next waits for.
    draining: Vec<Arc<Connection>>,
    listings: Listings,
    last_good: LastGood,
    /// How the server was last spoken to with success.
    dialect: KnownDialect,
    /// The generation whose address a task watches.
    watched_unreachable: Option<Generation>,
    unreachable_since: Option<Instant>,
    /// When the first of the calls in a row failed that count against the connection.
    failing_since: Instant,
    last_failure: Option<Arc<Failure>>,
    /// Why the last listing on this connection failed, if it did.
    listing_failure: Option<Arc<Failure>>,
    /// The failure in the report that is being handled.
    reported_failure: Option<Arc<Failure>>,
    last_stop: Option<Stopped>,
    /// The last live connection that ended.
    ended: Option<Ended>,
    /// The place of the generation that waits in the start queue.
    ticket: Option<StartTicket>,
    /// How far the last start is.
    start: Option<(Generation, StartProgress)>,
    since: SystemTime,
    connection_times: ConnectionTimes,
    starts: u64,
    panics: u32,
    stopping: Vec<oneshot::Sender<Ending>>,
    /// The fleet's deadline is over: end now.
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
    /// Starts to keep a server. The first step is taken before this returns: what the store has of the server is published,
    /// and the status shows a state.
    pub(crate) fn start(
        slot: Arc<Slot>,
        inbox: mpsc::Receiver<KeeperMessage>,
        config: &ServerConfig,
        stored: Option<LoadedCatalog>,
    ) {
        let preferred = slot.shared.introduction.era();
        let mut keeper = Self {
            machine: Machine::new(config.policy().clone()),
            clock: Clock::start(),
            spare: draw(),
            tasks: Tasks::default(),
            connection_tasks: BTreeMap::new(),
            process_permit: Arc::new(Semaphore::new(1)),
            connection: None,
            draining: Vec::new(),
            listings: Listings::default(),
            last_good: LastGood::default(),
            dialect: KnownDialect::new(preferred, config.expected_era().map(Dialect::from)),
            watched_unreachable: None,
            unreachable_since: None,
            failing_since: Instant::now(),
            last_failure: None,
            listing_failure: None,
            reported_failure: None,
            ended: None,
            last_stop: None,
            ticket: None,
            start: None,
            since: SystemTime::now(),
            connection_times: ConnectionTimes::default(),
            starts: 0,
            panics: 0,
            stopping: Vec::new(),
            aborted: false,
            slot,
            inbox,
        };
        if let Some(stored) = stored {
            keeper.restore(stored);
        }
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
        self.tasks.shutdown().await;
        // The permit is free when nothing is left of the last process.
        let _ = timeout(KILL_GRACE, self.process_permit.acquire()).await;
        self.last_good.saved().await;
        if let Some(endpoint) = self.slot.settings.load_full().used_endpoint()
            && !self.aborted
        {
            tokio::select! {
                _ = timeout(SESSION_END_GRACE, endpoint.sessions_deleted()) => {}
                () = self.slot.shared.shutdown_deadline.over() => {}
            }
        }
        let ending = Ending {
            stopped: self.last_stop.take(),
        };
        // Closed first, so that who learns of the end finds the keeper gone.
        self.inbox.close();
        self.slot
            .status
            .send_modify(|status| Arc::make_mut(status).removed = true);
        for reply in self.stopping.drain(..) {
            let _ = reply.send(ending.clone());
        }
    }

    /// The next message: of the inbox, of a task that ended, or the machine's deadline.
    async fn next(&mut self) -> Option<KeeperMessage> {
        let deadline = self.machine.deadline().map(|deadline| deadline.at);
        let clock = self.clock;
        let is_due = async {
            match deadline {
                Some(at) => sleep_until(clock.instant(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // In this order, what a task reported comes before its end.
            biased;
            message = self.inbox.recv() => message,
            message = self.tasks.next_end() => Some(message),
            () = is_due => Some(KeeperMessage::Deadline),
        }
    }

    fn step(&mut self, message: KeeperMessage) {
        tracing::trace!(server = %self.slot.name, ?message, "step");
        let mut answer = None;
        match message {
            KeeperMessage::Deadline => {
                let vitals = self.connection.as_ref().map(|connection| connection.vitals());
                self.take(Input::Timer(vitals.unwrap_or_default()));
            }
            KeeperMessage::Command(command) => answer = self.obey(command),
            KeeperMessage::Report(report) => self.apply_report(report),
            KeeperMessage::Panicked(task, panicked) => self.apply_panic(task, &panicked),
            KeeperMessage::Progress(generation, progress) => self.start = Some((generation, progress)),
            KeeperMessage::Loaded(stored) => self.restore(*stored),
            KeeperMessage::Prepared(offers) => {
                self.last_good.take_prepared(&self.slot, &mut self.tasks, offers);
            }
            KeeperMessage::ExtensionsDeclared => self.last_good.save_extensions(&self.slot),
            KeeperMessage::Shown => {}
        }
        self.return_to_session();
        self.reported_failure = None;
        self.show();
        if let Some((ack, answer)) = answer {
            let _ = ack.send(answer);
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
        self.watch_reachability();
        // A failed attempt of a server that is reconnecting changes no state, and is logged all the same.
        if let Some(cause) = cause
            && self.machine.failures() > failures
            && self.machine.state().kind() == state
        {
            self.log_failed_attempt(cause, generation);
        }
    }

    /// Replaces a connection that a guess opened without a session, once the time of the guess is over. A new process would lose what the
    /// last one knows, so a server on stdio keeps its connection until it ends.
    fn return_to_session(&mut self) {
        let is_http = || matches!(self.slot.settings.load().target(), Target::Http(_));
        if self.dialect.is_guess_over()
            && self.machine.state().kind() == StateKind::Connected
            && self
                .connection
                .as_ref()
                .is_some_and(|connection| connection.dialect == Dialect::Modern)
            && is_http()
        {
            self.take(Input::Replace { beside: true });
        }
    }

    /// Takes what the store has of the server, unless a listing or another configuration came first.
    fn restore(&mut self, stored: LoadedCatalog) {
        let settings = self.slot.settings.load();
        let identity = self.slot.shared.stored_as(settings.identity(), settings.target());
        if self.last_good.is_known() || identity != stored.on_disk.identity {
            return;
        }
        if let dialect @ Some(_) = stored.on_disk.dialect {
            self.dialect.learn(dialect);
        }
        self.last_good.restore(&self.slot, &mut self.tasks, stored);
    }

    /// Executes a command, and returns the answer to send once the status shows the result.
    fn obey(&mut self, command: ServerCommand) -> Option<(Ack, Result<(), CommandRefusal>)> {
        match command {
            ServerCommand::Enable(ack) => Some((ack, self.take_command(Self::enable))),
            ServerCommand::Disable(ack) => Some((ack, self.take_command(|_| Input::Disable))),
            ServerCommand::Restart(ack) => {
                let answer = match self.machine.desired() {
                    Desired::Disabled if self.stopping.is_empty() => Err(CommandRefusal::Disabled),
                    Desired::Disabled | Desired::Enabled => {
                        self.dialect.forget_guess();
                        self.take_command(|_| Input::Restart)
                    }
                };
                Some((ack, answer))
            }
            ServerCommand::Configure(config, ack) => {
                self.configure(*config);
                Some((ack, Ok(())))
            }
            ServerCommand::Refresh(reply) => {
                let number = if self.stopping.is_empty() {
                    Ok(self.refresh())
                } else {
                    Err(CommandRefusal::Leaving)
                };
                let _ = reply.send(number);
                None
            }
            ServerCommand::Demand => {
                if let Some(ticket) = self.ticket {
                    self.slot.shared.start_queue.promote(ticket);
                }
                self.take(Input::Demand);
                None
            }
            ServerCommand::Login => {
                self.last_good.forget_if_of_other_owner(&self.slot);
                self.take(Input::Login);
                None
            }
            ServerCommand::Logout => {
                // Any other state has no connection that was let in with the credential.
                if self.machine.state().kind() == StateKind::Connected {
                    tracing::info!(server = %self.slot.name, "the login has ended; the server is dialled without it");
                    self.take(Input::Replace { beside: true });
                }
                None
            }
            ServerCommand::Stop(reply) => {
                // From here on counts how this stop goes, not an earlier one.
                self.last_stop = None;
                self.stopping.push(reply);
                self.take(Input::Disable);
                None
            }
            ServerCommand::Abort => {
                self.aborted = true;
                None
            }
            #[cfg(test)]
            ServerCommand::Panic => panic!("asked to"),
            #[cfg(test)]
            ServerCommand::PanicIn(kind) => {
                let generation = self.machine.state().generation();
                self.tasks.abort(kind);
                self.tasks.spawn(kind, generation, async { panic!("asked to") });
                None
            }
        }
    }

    /// Whether the server was removed, and not the whole fleet closed.
    fn is_leaving(&self) -> bool {
        !self.stopping.is_empty() && self.slot.shared.shutdown_deadline.at().is_none()
    }

    /// Takes a person's command, unless the server is leaving the fleet.
    fn take_command(&mut self, input: impl FnOnce(&Self) -> Input) -> Result<(), CommandRefusal> {
        if !self.stopping.is_empty() {
            return Err(CommandRefusal::Leaving);
        }
        let input = input(self);
        self.take(input);
        Ok(())
    }

    /// Asks for a listing that begins from now on, and returns its number. Any number of requests may share one. An idle
    /// server is started for it.
    fn refresh(&mut self) -> u64 {
        let before = self.listings.started;
        match self.machine.state().generation() {
            Some(generation) => self.take(Input::ListChanged(generation)),
            None => self.take(Input::Demand),
        }
        self.listings.started.max(before + 1)
    }

    fn enable(&self) -> Input {
        // A server whose tools are not known yet is started once to learn them, lazy or not.
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
        self.last_good.set_view(&self.slot, &mut self.tasks);
        self.take(Input::Adjust(policy));
        if replaced {
            self.last_good.forget(&self.slot);
            self.dialect = KnownDialect::new(self.slot.shared.introduction.era(), None);
            self.take(Input::Replace { beside });
        } else {
            // It may hold another credential.
            self.watch_login();
            self.take(Input::Login);
        }
        if is_enabled && !was_enabled && self.stopping.is_empty() {
            let enable = self.enable();
            self.take(enable);
        }
    }

    /// Whether the server has left the fleet. The machine is disabled only once every connection is closed.
    fn is_done(&self) -> bool {
        let is_stopped = self.machine.state().kind() == StateKind::Disabled;
        self.aborted || (is_stopped && !self.stopping.is_empty())
    }

    /// A step panicked: end all connections and tasks, fail the calls that wait, and begin again after a pause.
    fn fail(&mut self) {
        self.panics = self.panics.saturating_add(1);
        tracing::error!(server = %self.slot.name, panics = self.panics, "the keeper failed and begins again");
        self.slot.current.store(None);
        let connections = self.connection.take().into_iter();
        for connection in connections.chain(std::mem::take(&mut self.draining)) {
            self.cut(&connection);
        }
        self.connection_tasks.clear();
        self.tasks.abort_all();
        self.watched_unreachable = None;
        self.reported_failure = None;
        let policy = self.slot.settings.load().policy().clone();
        let (from, generation) = (self.machine.state().kind(), self.machine.state().generation());
        self.machine = match self.machine.desired() {
            Desired::Enabled => {
                self.last_good.mark_stale(&self.slot, &mut self.tasks);
                let pause = RESUME_INTERVAL * self.panics.min(30);
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
        Input::Lost(_) | Input::Retired(..) => Some(Cause::Lost),
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
