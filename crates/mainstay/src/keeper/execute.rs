//! The effects of the machine, started one by one. Nothing here waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use mainstay_lifecycle::{
    Attempt, Cause, CloseMode, DisconnectReason, Effect, Generation, Moment, Recovery, State, StateKind,
    Transition,
};

use super::connection_task::ConnectionTask;
use super::dial::{Dial, DialError, DialectHint, TooSlow};
use super::login::LoginWatch;
use super::recovery::{self, Consequence};
use super::turns::{Rank, Waiter};
use super::{Keeper, Report, draw, listing};
use crate::config::Target;
use crate::connection::Connection;
use crate::deadline;
use crate::event::{Event, Failure};
use crate::process::Ladder;
use crate::server::{Ended, Reason, StartProgress, StartStage, Status, TransportKind};

impl Keeper {
    pub(super) fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Open(generation) => self.open(generation),
            Effect::Close(generation, manner) => self.close(generation, manner),
            Effect::CutDrain(generation) => self.cut_draining(generation),
            Effect::Abandon(generation) => {
                tracing::warn!(server = %self.slot.name, %generation, "a close was cut short");
                self.cut_draining(generation);
                if let Some(connection_task) = self.connection_tasks.remove(&generation) {
                    self.abandoned.extend(connection_task.abort());
                }
            }
            Effect::List(generation) => {
                self.listings.started += 1;
                if let Some(connection) = self.connection_of(generation) {
                    let listing = listing::start(self.slot.clone(), connection);
                    // One at a time: a listing that was given up must not answer for the next.
                    if let Some(before) = self.listing.replace(listing) {
                        before.abort();
                    }
                }
            }
            Effect::Hold(generation, until) => {
                if let Some(connection) = self.connection_of(generation) {
                    connection.hold_calls_until(until);
                }
                let pause = until.since(self.clock.now());
                let error = self.told.as_ref().map(|failure| failure.message.as_str());
                tracing::warn!(server = %self.slot.name, %generation, ?pause, error, "calls pause, as the server asks");
            }
            Effect::Probe(generation) => self.probe(generation),
            Effect::MarkStale => self.last_good.mark_stale(&self.slot),
            Effect::Withdraw => self.last_good.withdraw(&self.slot),
            Effect::Transition(transition) => self.announce(transition),
            Effect::CountStale(generation) => {
                tracing::debug!(server = %self.slot.name, %generation, "a report of an old generation");
                self.slot.count_stale();
            }
        }
    }

    fn open(&mut self, generation: Generation) {
        self.spare = draw();
        self.starts += 1;
        let place = self.enter_queue();
        self.ticket = place.as_ref().map(Waiter::ticket);
        let waits = place.as_ref().is_some_and(|place| !place.is_first());
        self.start = waits.then(|| (generation, StartProgress::new(StartStage::Waiting)));
        let dial = Dial {
            slot: self.slot.clone(),
            place,
            generation,
            clock: self.clock,
            dialect: self.dialect,
            ladder: Ladder::default(),
        };
        let before = std::mem::take(&mut self.abandoned);
        self.connection_tasks
            .insert(generation, ConnectionTask::start(dial, before));
    }

    /// A place among the servers that want to start a process. An address that is reached takes none: it costs nothing here.
    fn enter_queue(&self) -> Option<Waiter> {
        let settings = self.slot.settings.load();
        match settings.target() {
            Target::Stdio(_) => {}
            Target::Http(_) | Target::Custom(_) => return None,
        }
        let rank = if self.slot.waiting.load(Ordering::Relaxed) > 0 {
            Rank::Demanded
        } else if settings.lazy() || settings.policy().idle_stop.is_some() {
            Rank::Lazy
        } else {
            Rank::Wanted
        };
        Some(self.slot.shared.turns.enter(rank))
    }

    /// Fails the calls that still run on a connection that drains.
    fn cut_draining(&mut self, generation: Generation) {
        let is_it = |draining: &mut Arc<Connection>| draining.generation == generation;
        for connection in self.draining.extract_if(.., is_it) {
            connection.cut();
        }
    }

    /// Detach, then close: callers lose the connection before its teardown begins.
    fn close(&mut self, generation: Generation, manner: CloseMode) {
        self.slot.current.store(None);
        if let Some(connection) = self
            .connection
            .take_if(|connection| connection.generation == generation)
        {
            match manner {
                CloseMode::Cut => connection.cut(),
                CloseMode::Drain => {
                    connection.close_gate();
                    self.draining.push(connection);
                }
            }
        }
        if let Some(connection_task) = self.connection_tasks.get_mut(&generation) {
            connection_task.close(manner);
        }
    }

    fn probe(&self, generation: Generation) {
        let Some(connection) = self.connection_of(generation) else {
            return;
        };
        let Some(probe) = &self.machine.policy().probe else {
            return;
        };
        let (timeout, slot) = (probe.timeout, self.slot.clone());
        tokio::spawn(async move {
            let report = match connection.probe(timeout).await {
                Ok(()) => Report::ProbeAnswered(generation),
                Err(error) => match recovery::of_call(&error) {
                    // It is there, and would not let a call in either.
                    Consequence::Counts(recovery @ Recovery::Login) => {
                        let failure = Failure::new(&slot, Some(generation), error.to_string())
                            .asking_for(recovery::challenge(&error));
                        Report::CallFailed(generation, recovery, Arc::new(failure))
                    }
                    Consequence::Nothing
                    | Consequence::Seen
                    | Consequence::Counts(_)
                    | Consequence::Doubt => {
                        return;
                    }
                },
            };
            slot.inbox.report(report);
        });
    }

    fn connection_of(&self, generation: Generation) -> Option<Arc<Connection>> {
        self.connection
            .clone()
            .filter(|connection| connection.generation == generation)
    }

    pub(super) fn announce(&mut self, transition: Transition) {
        let Transition {
            from,
            to,
            generation,
            cause,
        } = transition;
        self.since = SystemTime::now();
        self.login = match self.machine.state() {
            State::Disconnected(DisconnectReason::AuthRequired) => LoginWatch::start(&self.slot),
            State::Disconnected(
                DisconnectReason::Idle | DisconnectReason::Lost(_) | DisconnectReason::BudgetSpent(..),
            )
            | State::Disabled
            | State::Connecting { .. }
            | State::Connected(_)
            | State::Disabling
            | State::PermanentlyFailed => None,
        };
        if cause == Cause::OpenTimedOut {
            // The dial was cut before it could say so itself.
            self.learn(DialectHint::Unready);
        }
        if to == StateKind::Connected {
            self.slot.current.store(self.connection.clone());
            // Read after the store: a wish is either in here, or finds the connection itself.
            if let Some(connection) = &self.connection {
                connection.catch_up();
            }
        }
        let event = Event {
            at: self.since,
            ..self.event(from, to, generation, cause)
        };
        if let (StateKind::Connected, Some(generation)) = (from, generation) {
            let failure = event.error.clone();
            self.ended = Some(Ended { generation, failure });
        }
        self.slot.shared.events.emit(event);
    }

    /// Logs a failed attempt that changes no state, in the same line as one that does. It is no event: nothing changed.
    pub(super) fn log_failed_attempt(&mut self, cause: Cause, generation: Option<Generation>) {
        let state = self.machine.state().kind();
        let _logged = self.event(state, state, generation, cause);
    }

    /// What happened, in the log already.
    fn event(
        &mut self,
        from: StateKind,
        to: StateKind,
        generation: Option<Generation>,
        cause: Cause,
    ) -> Event {
        let error = self.failure_for(cause, generation);
        let event = Event {
            sequence: 0,
            at: SystemTime::now(),
            server: self.slot.name.clone(),
            generation,
            from,
            to,
            cause,
            error,
            attempt: self.machine.failures(),
            next_retry: self.next_retry(),
        };
        event.log(reason(self.machine.state()), self.machine.policy().budget.get());
        event
    }

    /// What is to blame for a change of state: what the report that caused it says, or else what the machine decided by.
    /// A change that nothing went wrong for has nothing to blame, whatever went wrong before it.
    pub(super) fn failure_for(
        &mut self,
        cause: Cause,
        generation: Option<Generation>,
    ) -> Option<Arc<Failure>> {
        let policy = self.machine.policy();
        let message = match cause {
            Cause::OpenFailed => "the connection could not be opened".to_owned(),
            Cause::OpenTimedOut => {
                let start = self.start.as_ref().filter(|(of, _)| Some(*of) == generation);
                match start.map(|(_, progress)| progress) {
                    Some(progress) if progress.stage == StartStage::Waiting => {
                        format!("its turn to start did not come within {:?}", policy.limits.turn)
                    }
                    progress => {
                        let program = progress.and_then(|progress| progress.program.as_deref());
                        DialError::TooSlow(TooSlow::new(policy.limits.open, program)).to_string()
                    }
                }
            }
            Cause::ListingFailed => format!("not listed within {:?}", policy.limits.list),
            Cause::Lost => "the connection ended".to_owned(),
            Cause::LoginRequired => "the server asks for a login".to_owned(),
            Cause::CallsFailed => {
                let failed = format!("{} calls in a row failed", policy.call_failures);
                match self.told.take() {
                    Some(last) => format!("{failed}; the last one: {}", last.message),
                    None => failed,
                }
            }
            Cause::ProbesMissed => match &policy.probe {
                Some(probe) => format!("{} probes in a row were not answered", probe.misses),
                None => "probes were not answered".to_owned(),
            },
            Cause::KeeperFailed => "the task that keeps the server failed".to_owned(),
            Cause::Enabled
            | Cause::Disabled
            | Cause::Restarted
            | Cause::Replaced
            | Cause::Demanded
            | Cause::LoggedIn
            | Cause::Listed
            | Cause::WentIdle
            | Cause::SlowProbe
            | Cause::Reachable
            | Cause::Closed => return None,
        };
        let failure = self
            .told
            .take()
            .unwrap_or_else(|| Arc::new(Failure::new(&self.slot, generation, message)));
        self.failure = Some(failure.clone());
        Some(failure)
    }

    /// Publishes the status, for whoever looks and for whoever waits.
    pub(super) fn show(&self) {
        let state = self.machine.state();
        let live = self.connection.as_ref();
        let status = Status {
            server: self.slot.name.clone(),
            state: state.kind(),
            since: self.since,
            desired: self.machine.desired(),
            reason: reason(state),
            generation: state.generation(),
            attempt: self.machine.failures(),
            budget: self.machine.policy().budget.get(),
            next_retry: self.next_retry(),
            // A server that is awaited where nobody is may be dialled at any moment.
            no_attempt_before: self
                .next_attempt()
                .filter(|_| self.machine.unreachable().is_none())
                .map(|at| self.clock.instant(at)),
            calls_held_until: live
                .and_then(|connection| connection.held_for())
                .map(|pause| SystemTime::now() + pause),
            start: self.start_progress().cloned(),
            last_error: self.failure.clone(),
            pid: live.and_then(|connection| connection.pid),
            protocol: live.map(|connection| {
                (
                    connection.greeting.era,
                    connection.greeting.version.as_str().into(),
                )
            }),
            transport: live
                .map(|connection| TransportKind::of(self.slot.settings.load().target(), connection.dialect)),
            session: live
                .and_then(|connection| connection.peer.session())
                .map(Arc::from),
            last_success: self.slot.last_success(),
            call_failures: match state {
                State::Connected(live) => live.call_failures(),
                State::Disabled
                | State::Connecting { .. }
                | State::Disabling
                | State::Disconnected(_)
                | State::PermanentlyFailed => 0,
            },
            removed: false,
            listed_at: self.last_good.listed_at(),
            stale_since: self.last_good.stale_since(),
            stale_reports: self.slot.stale_reports(),
            ended: self.ended.clone(),
            unrestored: live.map_or(0, |connection| connection.unrestored()),
            listings: self.listings,
            starts: self.starts,
            keeper_failures: u64::from(self.panics),
        };
        self.slot.status.send_replace(Arc::new(status));
    }

    /// What the server does while its connection is being opened.
    fn start_progress(&self) -> Option<&StartProgress> {
        let (generation, progress) = self.start.as_ref()?;
        match self.machine.state() {
            State::Connecting {
                attempt: Attempt::Queued(current, _) | Attempt::Opening(current, _),
                ..
            } => (current == generation).then_some(progress),
            State::Connecting {
                attempt: Attempt::Pausing(..) | Attempt::Listing(_),
                ..
            }
            | State::Disconnected(_)
            | State::Disabled
            | State::Connected(_)
            | State::Disabling
            | State::PermanentlyFailed => None,
        }
    }

    fn next_retry(&self) -> Option<SystemTime> {
        let at = self.next_attempt()?;
        Some(deadline::time_of_day_in(at.since(self.clock.now())))
    }

    /// When the next attempt starts, where one is planned.
    fn next_attempt(&self) -> Option<Moment> {
        match self.machine.state() {
            State::Connecting {
                attempt: Attempt::Pausing(at, _),
                ..
            }
            | State::Disconnected(DisconnectReason::BudgetSpent(at, _)) => Some(*at),
            // The pause that a server asked for; a short one is no wait to speak of.
            State::Connecting {
                attempt: Attempt::Listing(opened),
                ..
            } => {
                let soon = self.clock.now() + self.machine.policy().relist_pause;
                opened.next_listing().filter(|at| *at > soon)
            }
            State::Connecting {
                attempt: Attempt::Queued(..) | Attempt::Opening(..),
                ..
            }
            | State::Disconnected(
                DisconnectReason::Idle | DisconnectReason::AuthRequired | DisconnectReason::Lost(_),
            )
            | State::Disabled
            | State::Connected(_)
            | State::Disabling
            | State::PermanentlyFailed => None,
        }
    }
}

fn reason(state: &State) -> Option<Reason> {
    match state {
        State::Disconnected(DisconnectReason::Idle) => Some(Reason::Idle),
        State::Disconnected(DisconnectReason::AuthRequired) => Some(Reason::AuthRequired),
        State::Disconnected(DisconnectReason::Lost(_)) => Some(Reason::Lost),
        State::Disconnected(DisconnectReason::BudgetSpent(..)) => Some(Reason::BudgetSpent),
        State::Disabled
        | State::Connecting { .. }
        | State::Connected(_)
        | State::Disabling
        | State::PermanentlyFailed => None,
    }
}
