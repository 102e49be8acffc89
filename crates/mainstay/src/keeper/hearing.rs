//! What the keeper takes from a report before the machine does: the connection, the failure, the catalog, what a failed dial
//! teaches. The machine decides what any of it means.

use std::sync::Arc;

use mainstay_lifecycle::{Generation, Input, Listing, Recovery};

use super::dial::DialectHint;
use super::{Keeper, Report, listing, recovery};
use crate::event::Failure;
use crate::server::noise;

impl Keeper {
    /// Takes a report. What it carries counts only if its generation is the current one; the machine sees it either way.
    pub(super) fn hear(&mut self, report: Report) -> Input {
        let current = self.machine.state().generation();
        match report {
            Report::Begun(generation) => Input::Begun(generation),
            Report::Opened(connection) => {
                let generation = connection.generation;
                if current == Some(generation) {
                    self.dialect = Some(connection.dialect);
                    self.absent_since = None;
                    self.slot
                        .about
                        .store(Some(Arc::new(listing::about(&connection.greeting))));
                    self.connection = Some(connection);
                }
                Input::Opened(generation)
            }
            Report::OpenFailed(generation, error, failure) => {
                let recovery = recovery::of_dial(&error);
                if current == Some(generation) {
                    self.note_failure(failure);
                    self.learn(error.lesson());
                }
                Input::OpenFailed(generation, recovery)
            }
            Report::Listed(generation, catalog) => {
                let worth = if current == Some(generation) {
                    self.last_good
                        .take(&self.slot, generation, *catalog, self.dialect)
                } else {
                    Listing::Good { ttl: None }
                };
                if current == Some(generation) && matches!(worth, Listing::Good { .. }) {
                    self.listings.done = self.listings.started;
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
                    tracing::warn!(server = %self.slot.name, generation = generation.0, error = %failure.message, "listing failed");
                    self.listings.failed = self.listings.started;
                    // What is published was right once, and may not be any more.
                    self.last_good.mark_stale(&self.slot);
                    self.note_failure(Arc::new(failure));
                }
                Input::ListFailed(generation, recovery::of_listing(&error))
            }
            Report::ListChanged(generation) => Input::ListChanged(generation),
            Report::Lost(generation, failure) => {
                if current == Some(generation) {
                    self.credit_work(generation);
                    self.note_failure(failure);
                }
                Input::Lost(generation)
            }
            Report::CallAnswered(generation) => Input::CallAnswered(generation),
            Report::CallFailed(generation, recovery, failure) => {
                if current == Some(generation) {
                    match recovery {
                        // It ends the connection, or pauses its calls: whoever asks is told so.
                        Recovery::Login | Recovery::RetryAfter(_) => self.note_failure(failure),
                        // It may be the last of too many.
                        Recovery::Retry
                        | Recovery::RetryOtherEra
                        | Recovery::RetryWhenReachable
                        | Recovery::RetryLack
                        | Recovery::GiveUp => self.told = Some(failure),
                    }
                }
                Input::CallFailed(generation, recovery)
            }
            Report::ProbeNow(generation) => Input::ProbeNow(generation),
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

    /// A server that answers a call and dies at once has worked: its death must not overtake the caller's report of the
    /// answer, which comes from another task.
    fn credit_work(&mut self, generation: Generation) {
        if self
            .connection
            .as_ref()
            .is_some_and(|connection| connection.has_answered_a_call())
        {
            self.take(Input::CallAnswered(generation));
        }
    }

    /// Takes what a failed dial teaches about the server's dialect.
    pub(super) fn learn(&mut self, lesson: DialectHint) {
        let budget = self.machine.policy().budget.get();
        let attempts_left = budget.saturating_sub(self.machine.failures() + 1);
        self.dialect = lesson.apply(self.dialect, attempts_left);
    }

    fn note_failure(&mut self, failure: Arc<Failure>) {
        self.failure = Some(failure.clone());
        self.told = Some(failure);
    }
}
