//! What the keeper takes from a report before the machine gets it: the connection, the failure, the catalog, a hint on the
//! dialect. The machine decides what the report means.

use std::sync::Arc;

use mainstay_lifecycle::{Generation, Input, Listing, OtherCalls, Recovery, State};
use tokio::time::Instant;

use super::dial::DialError;
use super::tasks::{KeeperTask, Panicked, TaskKind};
use super::{Keeper, Report, listing, recovery};
use crate::config::Target;
use crate::connection::Connection;
use crate::event::Failure;
use crate::protocol::Era;
use crate::server::noise;
use crate::transport::End;

impl Keeper {
    pub(super) fn apply_report(&mut self, report: Report) {
        let input = self.read_report(report);
        self.take(input);
    }

    /// A task panicked. What it owned is dropped, and what it would have reported is reported here.
    pub(super) fn apply_panic(&mut self, task: KeeperTask, panicked: &Panicked) {
        let KeeperTask { kind, generation } = task;
        tracing::error!(server = %self.slot.name, ?kind, ?generation, %panicked, "a task panicked");
        let slot = self.slot.clone();
        let failure = |message: String| Arc::new(Failure::new(&slot, generation, message));
        match (kind, generation) {
            (TaskKind::Connection, Some(generation)) => {
                let is_opening =
                    self.machine.state().generation() == Some(generation) && self.connection.is_none();
                if is_opening {
                    let error = DialError::from(panicked.clone());
                    let failure = failure(error.to_string());
                    self.apply_report(Report::OpenFailed(generation, Box::new(error), failure));
                } else {
                    let failure = failure(format!("the connection was given up: {panicked}"));
                    self.apply_report(Report::Lost(generation, failure));
                }
                self.cut_draining(generation);
                self.reported_failure = None;
                self.apply_report(Report::Closed(generation, None));
            }
            (TaskKind::Listing, Some(generation)) => {
                self.apply_report(Report::ListFailed(generation, panicked.clone().into()));
            }
            // What a probe cannot even ask is of no use to a caller.
            (TaskKind::Probe, Some(generation)) => {
                let failure = failure(format!("the connection was given up: a probe failed, {panicked}"));
                self.apply_report(Report::Lost(generation, failure));
            }
            // The next attempt comes when the pause is over.
            (TaskKind::ReachabilityWatch, _) => {
                self.add_to_failure(
                    generation,
                    &format!("the watch for its address ended: {panicked}"),
                );
            }
            (TaskKind::LoginWatch, _) => {
                let message =
                    format!("the watch for another credential ended: {panicked}; log in and restart it");
                self.add_to_failure(generation, &message);
            }
            (TaskKind::Prepare, _) => {
                self.add_to_failure(generation, &format!("its catalog was not published: {panicked}"));
            }
            (TaskKind::Connection | TaskKind::Listing | TaskKind::Probe, None) => {
                unreachable!("such a task has a generation")
            }
        }
    }

    /// Takes what a report carries, if its generation is the current one. The machine gets the input either way.
    fn read_report(&mut self, report: Report) -> Input {
        let current = self.machine.state().generation();
        match report {
            Report::Begun(generation) => Input::Begun(generation),
            Report::Opened(connection) => {
                let generation = connection.generation;
                if current == Some(generation) {
                    self.note_dialect(&connection);
                    self.unreachable_since = None;
                    self.slot
                        .about
                        .store(Some(Arc::new(listing::about(&connection.greeting))));
                    self.connection = Some(connection);
                }
                Input::Opened(generation)
            }
            Report::OpenFailed(generation, error, failure) => {
                let recovery = self.with_fixed_credential(recovery::of_dial(&error));
                if current == Some(generation) {
                    self.note_failure(failure);
                    let attempts_left = self
                        .machine
                        .policy()
                        .budget
                        .get()
                        .saturating_sub(self.machine.failures() + 1);
                    self.dialect.dial_failed(error.dialect_hint(), attempts_left);
                    if recovery == Recovery::RetryWhenReachable {
                        self.dialect.was_down();
                    }
                }
                Input::OpenFailed(generation, recovery)
            }
            Report::Listed(generation, offers) => {
                let worth = if current == Some(generation) {
                    self.last_good.take(
                        &self.slot,
                        &mut self.tasks,
                        generation,
                        offers,
                        self.dialect.learnt(),
                    )
                } else {
                    Listing::Good { ttl: None }
                };
                if current == Some(generation) {
                    self.listing_failure = None;
                    if matches!(worth, Listing::Good { .. }) {
                        self.listings.done = self.listings.started;
                    }
                }
                Input::Listed(generation, worth)
            }
            Report::ListFailed(generation, error) => {
                if current == Some(generation) {
                    let noise = noise::say(self.slot.noise.of(generation).as_deref());
                    let message = format!("listing failed: {error}{noise}");
                    let failure = Failure::new(&self.slot, Some(generation), message)
                        .asking_for(error.challenge())
                        .over_http(&self.slot, error.http());
                    self.note_failed_listing(failure);
                }
                match recovery::of_listing(&error) {
                    None => Input::Listed(generation, Listing::Refused),
                    Some(recovery) => {
                        let vitals = self
                            .connection_of(generation)
                            .map(|connection| connection.vitals());
                        let recovery = self.with_fixed_credential(recovery);
                        Input::ListFailed(generation, recovery, vitals.unwrap_or_default())
                    }
                }
            }
            Report::ListChanged(generation) => Input::ListChanged(generation),
            Report::Lost(generation, failure) => {
                self.note_loss(generation, failure);
                Input::Lost(generation)
            }
            Report::Retired(generation, end, failure) => {
                let recovery = recovery::of_retirement(&end);
                if current == Some(generation) {
                    if end == End::SessionLost {
                        self.dialect.session_lost();
                    }
                    if recovery == Recovery::RetryWhenReachable {
                        self.dialect.was_down();
                    }
                }
                self.note_loss(generation, failure);
                Input::Retired(generation, recovery)
            }
            Report::CallAnswered(generation) => Input::CallAnswered(generation),
            Report::CallFailed(generation, recovery, failure) => {
                if current == Some(generation) {
                    match recovery {
                        // It ends the connection or pauses its calls, so the status shows it.
                        Recovery::Login | Recovery::RetryCredential | Recovery::RetryAfter(_) => {
                            self.note_failure(failure);
                        }
                        // It may be the last of too many.
                        Recovery::Retry
                        | Recovery::RetryWhenReachable
                        | Recovery::RetryLack
                        | Recovery::GiveUp => self.reported_failure = Some(failure),
                    }
                }
                let recovery = self.with_fixed_credential(recovery);
                Input::CallFailed(generation, recovery, self.other_calls(generation))
            }
            Report::ProbeNow(generation) => {
                // The connection of a call broke, or could not be made.
                if current == Some(generation) {
                    self.dialect.was_down();
                }
                Input::ProbeNow(generation)
            }
            Report::ProbeAnswered(generation) => Input::ProbeAnswered(generation),
            Report::Closed(generation, stopped) => {
                self.connection_tasks.remove(&generation);
                self.draining.retain(|draining| draining.generation != generation);
                self.last_stop = stopped.or(self.last_stop.take());
                Input::Closed(generation)
            }
            Report::Reachable(generation) => Input::Reachable(generation),
        }
    }

    fn note_dialect(&mut self, connection: &Connection) {
        // What the configuration demands shows nothing of what else the server speaks.
        if self.slot.settings.load().era() == Some(Era::Modern) {
            return;
        }
        if self.dialect.opened(connection.dialect) {
            tracing::warn!(
                server = %self.slot.name, generation = %connection.generation,
                "it is spoken to without a session for an hour, since it lost too many or did not answer initialize; \"era\": \"legacy\" in \
                 its configuration keeps sessions, \"era\": \"modern\" does without them"
            );
        }
    }

    /// A login cannot replace the credential that the configuration gives, so it is tried again slowly.
    fn with_fixed_credential(&self, recovery: Recovery) -> Recovery {
        let is_fixed = || match self.slot.settings.load().target() {
            Target::Http(target) => target.has_fixed_credential(),
            Target::Stdio(_) | Target::Custom(_) | Target::Unusable(_) => false,
        };
        match recovery {
            Recovery::Login if is_fixed() => Recovery::RetryCredential,
            recovery => recovery,
        }
    }

    /// Credits a call that was answered just before the loss. The caller's report comes from another task, and the loss
    /// must not overtake it.
    fn credit_work(&mut self, generation: Generation) {
        if self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.has_answered_a_call())
        {
            self.take(Input::CallAnswered(generation));
        }
    }

    /// Adds to the last failure: what it says of a login or an exit still holds.
    fn add_to_failure(&mut self, generation: Option<Generation>, message: &str) {
        let failure = match self.last_failure.as_deref() {
            Some(last) => Failure {
                message: format!("{}; {message}", last.message),
                ..last.clone()
            },
            None => Failure::new(&self.slot, generation, message),
        };
        self.note_failure(Arc::new(failure));
    }

    /// What is known of the calls that run on this connection beside one that failed.
    fn other_calls(&mut self, generation: Generation) -> OtherCalls {
        let State::Connected(live) = self.machine.state() else {
            return OtherCalls::default();
        };
        if live.call_failures() == 0 {
            self.failing_since = Instant::now();
        }
        let since = self.failing_since;
        // Those on a connection that drains count too: it would be abandoned for this one.
        let current = self.connection_of(generation);
        let mut connections = self.draining.iter().chain(&current);
        OtherCalls {
            are_older: connections.any(|connection| connection.peer.has_call_before(since)),
            can_finish: matches!(self.slot.settings.load().target(), Target::Http(_)),
        }
    }

    fn note_loss(&mut self, generation: Generation, failure: Arc<Failure>) {
        if self.machine.state().generation() == Some(generation) {
            self.credit_work(generation);
            self.note_failure(failure);
        }
    }

    /// What is published was right once, and may not be any more. A server that refuses its listings again and again is one line
    /// in the log for each reason.
    fn note_failed_listing(&mut self, failure: Failure) {
        let (server, generation) = (&self.slot.name, failure.generation.map(|generation| generation.0));
        let error = &failure.message;
        let last = self.listing_failure.as_ref();
        if last.is_some_and(|last| last.message == *error) {
            tracing::debug!(%server, generation, error, "listing failed again");
        } else {
            tracing::warn!(%server, generation, error, "listing failed");
        }
        let failure = Arc::new(failure);
        self.listings.failed = self.listings.started;
        self.listing_failure = Some(failure.clone());
        self.last_good.mark_stale(&self.slot, &mut self.tasks);
        self.note_failure(failure);
    }

    fn note_failure(&mut self, failure: Arc<Failure>) {
        self.last_failure = Some(failure.clone());
        self.reported_failure = Some(failure);
    }
}
