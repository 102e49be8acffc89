//! The effects of the machine, started one by one. Nothing here waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use mainstay_lifecycle::{
    Attempt, Cause, CloseMode, DisconnectReason, Effect, Generation, Moment, Recovery, State, StateKind,
    Transition,
};

use super::connection_task::ConnectionTask;
use super::dial::{Dial, DialError, TooSlow};
use super::recovery::{self, Consequence};
use super::start_queue::{QueuedStart, StartRank};
use super::tasks::TaskKind;
use super::{Keeper, KeeperMessage, Report, draw, listing};
use crate::config::Target;
use crate::connection::Connection;
use crate::deadline;
use crate::event::{Event, Failure};
use crate::process::Ladder;
use crate::server::{Ended, Reason, StartProgress, StartStage, StartTokens, Status, TransportKind};

impl Keeper {
    pub(super) fn execute(&mut self, effect: Effect) {
        tracing::trace!(server = %self.slot.name, ?effect, "effect");
        match effect {
            Effect::Open(generation) => self.open(generation),
            Effect::Close(generation, mode) => self.close(generation, mode),
            Effect::CutDrain(generation) => self.cut_draining(generation),
            Effect::Abandon(generation) => {
                tracing::warn!(server = %self.slot.name, %generation, "a close was aborted");
                self.cut_draining(generation);
                self.connection_tasks.remove(&generation);
                self.tasks.abort_connection(generation);
            }
            Effect::List(generation) => self.list(generation),
            Effect::Hold(generation, until) => {
                if let Some(connection) = self.connection_of(generation) {
                    connection.hold_calls_until(until);
                }
                let pause = until.since(self.clock.now());
                let error = self
                    .reported_failure
                    .as_ref()
                    .map(|failure| failure.message.as_str());
                tracing::warn!(server = %self.slot.name, %generation, ?pause, error, "calls pause, as the server asks");
            }
            Effect::Probe(generation) => self.probe(generation),
            Effect::MarkStale => self.last_good.mark_stale(&self.slot, &mut self.tasks),
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
        let queued = self.enter_queue();
        self.ticket = queued.as_ref().map(QueuedStart::ticket);
        let waits = queued.as_ref().is_some_and(|queued| !queued.is_first());
        self.start = waits.then(|| (generation, StartProgress::new(StartStage::Waiting)));
        let dial = Dial {
            slot: self.slot.clone(),
            queued,
            process_permit: self.process_permit.clone(),
            generation,
            clock: self.clock,
            dialect: self.dialect.begin(),
            ladder: Ladder::default(),
        };
        let task = ConnectionTask::start(&mut self.tasks, dial);
        self.connection_tasks.insert(generation, task);
    }

    fn list(&mut self, generation: Generation) {
        self.listings.started += 1;
        let Some(connection) = self.connection_of(generation) else {
            return;
        };
        connection.listing_starts();
        let goes_on = |(of, progress): &(Generation, StartProgress)| {
            *of == generation && progress.stage == StartStage::Listing
        };
        // A listing that is repeated goes on waiting.
        if !self.start.as_ref().is_some_and(goes_on) {
            self.start = Some((generation, StartProgress::new(StartStage::Listing)));
        }
        let deadline = deadline::within(self.slot.settings.load().policy().limits.list);
        let previous = self.last_good.offers().cloned();
        let listing = listing::list(self.slot.clone(), connection, previous, deadline);
        // One at a time: a listing that was given up must not report for the next.
        self.tasks.abort(TaskKind::Listing);
        self.tasks.spawn(TaskKind::Listing, Some(generation), async {
            Some(KeeperMessage::Report(listing.await))
        });
    }

    /// A place in the start queue, for a server that starts a process here.
    fn enter_queue(&self) -> Option<QueuedStart> {
        let settings = self.slot.settings.load();
        match settings.target() {
            Target::Stdio(_) => {}
            Target::Http(_) | Target::Custom(_) | Target::Unusable(_) => return None,
        }
        let rank = if self.slot.waiting.load(Ordering::Relaxed) > 0 {
            StartRank::Demanded
        } else if settings.lazy() || settings.policy().idle_stop.is_some() {
            StartRank::Lazy
        } else {
            StartRank::Wanted
        };
        Some(self.slot.shared.start_queue.enter(rank))
    }

    /// Fails the calls that still run on a connection that drains.
    pub(super) fn cut_draining(&mut self, generation: Generation) {
        let is_it = |draining: &mut Arc<Connection>| draining.generation == generation;
        let draining: Vec<_> = self.draining.extract_if(.., is_it).collect();
        for connection in draining {
            self.cut(&connection);
        }
    }

    /// Ends a connection. The transport of an embedder may panic here, and that must not end the keeper.
    pub(super) fn cut(&self, connection: &Connection) {
        if catch_unwind(AssertUnwindSafe(|| connection.cut())).is_err() {
            tracing::error!(server = %self.slot.name, generation = %connection.generation, "the close of a transport panicked");
        }
    }

    /// Detach, then close: callers lose the connection before its teardown begins.
    fn close(&mut self, generation: Generation, mode: CloseMode) {
        self.slot.current.store(None);
        self.listing_failure = None;
        if let Some(connection) = self
            .connection
            .take_if(|connection| connection.generation == generation)
        {
            match mode {
                CloseMode::Cut => self.cut(&connection),
                CloseMode::Drain => {
                    connection.close_gate();
                    self.draining.push(connection);
                }
            }
        }
        if let Some(connection_task) = self.connection_tasks.get_mut(&generation) {
            connection_task.close(mode);
        }
    }

    fn probe(&mut self, generation: Generation) {
        let Some(connection) = self.connection_of(generation) else {
            return;
        };
        let Some(probe) = &self.machine.policy().probe else {
            return;
        };
        let (timeout, slot) = (probe.timeout, self.slot.clone());
        self.tasks.spawn(TaskKind::Probe, Some(generation), async move {
            let report = match connection.probe(timeout).await {
                Ok(()) => Report::ProbeAnswered(generation),
                Err(error) => match recovery::of_call(&error) {
                    // The server is there, and would refuse a call too.
                    Consequence::Counts(recovery @ Recovery::Login) => {
                        let failure = Failure::new(&slot, Some(generation), error.to_string())
                            .asking_for(recovery::challenge(&error));
                        Report::CallFailed(generation, recovery, Arc::new(failure))
                    }
                    Consequence::Nothing
                    | Consequence::SeenByConnection
                    | Consequence::Counts(_)
                    | Consequence::CountsAndProbes => return Some(KeeperMessage::Shown),
                },
            };
            Some(KeeperMessage::Report(report))
        });
    }

    pub(super) fn connection_of(&self, generation: Generation) -> Option<Arc<Connection>> {
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
        self.watch_login();
        if to == StateKind::Connected {
            self.slot.current.store(self.connection.clone());
            // Read after the store: a new subscription is either read here, or finds the connection itself.
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
        let is_resting = match reason(self.machine.state()) {
            Some(Reason::Idle | Reason::Lost) => true,
            Some(Reason::AuthRequired | Reason::BudgetSpent) | None => false,
        };
        self.slot.lifecycle.changed(
            &mut self.connection_times,
            to,
            cause,
            event.error.is_some(),
            is_resting,
        );
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
        if let Some(failure) = &event.error
            && let Some(lost) = failure.generation
        {
            self.slot.recorder.set_aside(lost, &failure.message);
        }
        event
    }

    /// The failure behind a change of state: that of the report that caused it, or else the limit that was exceeded.
    /// Transitions that are not failures carry no error.
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
                        format!(
                            "it waited in the start queue for more than {:?}",
                            policy.limits.turn
                        )
                    }
                    progress => {
                        let program = progress.and_then(|progress| progress.program.as_deref());
                        DialError::TooSlow(TooSlow::new(policy.limits.open, program)).to_string()
                    }
                }
            }
            Cause::ListingRefused => "the server refused to be listed".to_owned(),
            Cause::ListingFailed => format!("not listed within {:?}", policy.limits.list),
            Cause::Lost => "the connection ended".to_owned(),
            Cause::LoginRequired => "the server asks for a login".to_owned(),
            Cause::CallsFailed => {
                let failed = format!("{} calls in a row failed", policy.call_failures);
                match self.reported_failure.take() {
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
            .reported_failure
            .take()
            .unwrap_or_else(|| Arc::new(Failure::new(&self.slot, generation, message)));
        self.last_failure = Some(failure.clone());
        Some(failure)
    }

    /// Publishes the status.
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
            // An unreachable server is dialled as soon as it is reachable, which may be at any moment.
            no_attempt_before: self
                .next_attempt()
                .filter(|_| self.machine.unreachable().is_none())
                .map(|at| self.clock.instant(at)),
            calls_held_until: live
                .and_then(|connection| connection.held_for())
                .map(|pause| SystemTime::now() + pause),
            silent_since: live.and_then(|connection| connection.silent_since()),
            start: self.start_progress().cloned(),
            last_error: self.last_failure.clone(),
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
            is_leaving: self.is_leaving(),
            listed_at: self.last_good.listed_at(),
            stale_since: self.last_good.stale_since(),
            listing_failure: self.listing_failure.clone(),
            next_listing: self.next_listing(),
            stale_reports: self.slot.stale_reports(),
            ended: self.ended.clone(),
            unrestored: live.map_or(0, |connection| connection.unrestored()),
            listings: self.listings,
            starts: self.starts,
            start_tokens: self.start_tokens(),
            keeper_failures: u64::from(self.panics),
        };
        self.slot.status.send_replace(Arc::new(status));
    }

    fn start_tokens(&self) -> StartTokens {
        let bucket = &self.machine.policy().bucket;
        let (left, refill_at) = self.machine.start_tokens();
        StartTokens {
            left,
            size: bucket.size.get(),
            refill: refill_at.map(|at| (self.clock.instant(at), bucket.refill_every)),
        }
    }

    /// What the server does until it is connected.
    fn start_progress(&self) -> Option<&StartProgress> {
        let (generation, progress) = self.start.as_ref()?;
        let state = self.machine.state();
        let is_starting =
            matches!(state, State::Connecting { .. }) && state.generation() == Some(*generation);
        is_starting.then_some(progress)
    }

    fn next_retry(&self) -> Option<SystemTime> {
        let at = self.next_attempt()?;
        Some(deadline::time_of_day_in(at.since(self.clock.now())))
    }

    /// When a live connection is listed again whose last listing failed.
    fn next_listing(&self) -> Option<SystemTime> {
        let State::Connected(live) = self.machine.state() else {
            return None;
        };
        let at = live.next_listing().filter(|_| self.listing_failure.is_some())?;
        Some(deadline::time_of_day_in(at.since(self.clock.now())))
    }

    /// When the next attempt starts, where one is planned.
    fn next_attempt(&self) -> Option<Moment> {
        match self.machine.state() {
            State::Connecting {
                attempt: Attempt::Pausing(at, _),
                ..
            }
            | State::Disconnected(
                DisconnectReason::BudgetSpent(at, _) | DisconnectReason::CredentialRefused(at),
            ) => Some(*at),
            // The pause that a server asked for, unless it is short.
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
        State::Disconnected(DisconnectReason::AuthRequired | DisconnectReason::CredentialRefused(_)) => {
            Some(Reason::AuthRequired)
        }
        State::Disconnected(DisconnectReason::Lost(_)) => Some(Reason::Lost),
        State::Disconnected(DisconnectReason::BudgetSpent(..)) => Some(Reason::BudgetSpent),
        State::Disabled
        | State::Connecting { .. }
        | State::Connected(_)
        | State::Disabling
        | State::PermanentlyFailed => None,
    }
}
