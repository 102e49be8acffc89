//! How a call is made: leased, sent, judged, and replayed where that is safe.
//!
//! A call is made once. It is made a second time, inside its own deadline, only if it was not sent, or if running it
//! twice is the same as running it once.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::{Desired, Generation, Recovery};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use super::call::{Repeatable, Reply, Request};
use super::error::{CallError, CallErrorKind};
use super::operations::OperationError;
use super::options::CallOptions;
use super::slot::Slot;
use super::traced::{TRACE_TARGET, TracedAttempt};
use crate::catalog::Kind;
use crate::config::Replay;
use crate::connection::Connection;
use crate::event::Failure;
use crate::keeper::{Consequence, Report, recovery};
use crate::transport::HttpFailure;
use crate::wire::{Outcome, Params, RawJson, RequestError, TooManyMembers, with_meta};

/// How long a call that lost its connection waits for the keeper to report why.
const FAILURE_REPORT_TIMEOUT: Duration = Duration::from_millis(75);

/// How long a call whose headers were refused waits for a new listing, which says what headers the tool wants.
const RELIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of a modern server for a call without the headers that its tool wants. Such a call has not run.
const HEADER_MISMATCH: i64 = -32020;

/// Why a call lost its connection.
enum LossCause {
    /// It failed; `None` if the cause is not known, or the connection was closed on purpose.
    Failure(Option<Arc<Failure>>),
    /// The server was disabled.
    Disabled,
    /// The server was removed.
    Removed,
}

impl Slot {
    /// Makes one call: a lease, an attempt, and a replay where that is safe.
    ///
    /// The future is moved several times before it runs, so it is kept small: what few calls need is boxed, and a span that no
    /// subscriber wants is not entered.
    ///
    /// Cancel safety: dropping it cancels the call at the server.
    pub(crate) async fn call(
        &self,
        request: &mut Request<'_>,
        options: &mut CallOptions,
    ) -> Result<Reply, CallError> {
        let span = tracing::debug_span!("call", server = %self.name, method = %request.method);
        let counted = self.counters.begin();
        let ended = match span.is_disabled() {
            true => self.attempt(request, options).await,
            false => Box::pin(self.attempt(request, options).instrument(span)).await,
        };
        counted.end(&ended);
        ended
    }

    async fn attempt(
        &self,
        request: &mut Request<'_>,
        options: &mut CallOptions,
    ) -> Result<Reply, CallError> {
        let deadline = options.begin(&self.settings.load());
        add_own_meta(&mut request.params, options).map_err(|error| {
            CallError::not_sent(&self.name, CallErrorKind::BadArguments(error.to_string()))
        })?;
        let attempt = CallAttempt {
            slot: self,
            request,
            deadline,
            options,
        };
        let connection = attempt.lease(None).await?;
        if let Some(capability) = request.needs.filter(|needed| connection.greeting.lacks(*needed)) {
            let kind = CallErrorKind::NotOffered {
                method: attempt.method().to_owned(),
                capability: capability.as_str(),
            };
            return Err(CallError::not_sent(&self.name, kind));
        }
        let first = match attempt.make(&connection).await {
            Ok(reply) => return Ok(reply),
            Err(failed) => failed,
        };
        Box::pin(attempt.after_failure(first, connection)).await
    }

    /// Tells the keeper what a failed call means for its connection.
    pub(super) fn judge(&self, connection: &Connection, error: &RequestError) {
        let generation = connection.generation;
        match recovery::of_call(error) {
            // The server answered, if not what the caller hoped for: the connection is as good as ever.
            Consequence::Nothing if error.outcome() == Outcome::Answered => self.answered(connection),
            Consequence::Nothing | Consequence::SeenByConnection => {}
            Consequence::Counts(recovery) => {
                let failure = self.failure_with(generation, error);
                connection.calls.failed(|| {
                    self.inbox
                        .report(Report::CallFailed(generation, recovery, failure));
                });
            }
            Consequence::CountsAndProbes => {
                let failure = self.failure_with(generation, error);
                connection.calls.failed(|| {
                    self.inbox
                        .report(Report::CallFailed(generation, Recovery::Retry, failure));
                });
                self.inbox.report(Report::ProbeNow(generation));
            }
        }
    }

    /// The error of a call that was made on a connection. If the server asks for a pause, it has the pause that Mainstay keeps.
    pub(super) fn call_error(
        &self,
        error: RequestError,
        generation: Generation,
        failure: Option<Arc<Failure>>,
    ) -> CallError {
        let longest = self.settings.load().policy().limits.retry_after;
        CallError::of(error, self.name.clone(), generation, failure).pausing_at_most(longest)
    }

    fn failure_with(&self, generation: Generation, error: &RequestError) -> Arc<Failure> {
        let failure = Failure::new(self, Some(generation), error.to_string());
        Arc::new(
            failure
                .asking_for(recovery::challenge(error))
                .over_http(self, recovery::http(error)),
        )
    }

    /// Why a connection ended. The keeper learns the exit status a moment after the calls fail.
    async fn ended(&self, generation: Generation, deadline: Instant) -> LossCause {
        let until = deadline.min(Instant::now() + FAILURE_REPORT_TIMEOUT);
        let mut status = self.status.subscribe();
        let known = status.wait_for(|status| status.generation != Some(generation));
        let Ok(Ok(status)) = timeout_at(until, known).await else {
            return LossCause::Failure(None);
        };
        // A server that ends for good is disabled first.
        if status.is_leaving {
            return LossCause::Removed;
        }
        if status.desired == Desired::Disabled && !status.removed {
            return LossCause::Disabled;
        }
        let ended = status
            .ended
            .as_ref()
            .filter(|ended| ended.generation == generation);
        LossCause::Failure(ended.and_then(|ended| ended.failure.clone()))
    }

    /// Has the keeper list the server again, and returns whether that was done in time.
    async fn relist(&self, generation: Generation, deadline: Instant) -> bool {
        let mut status = self.status.subscribe();
        let before = status.borrow().listed_at;
        self.inbox.report(Report::ListChanged(generation));
        let listed = status.wait_for(|status| status.listed_at != before);
        let until = deadline.min(Instant::now() + RELIST_TIMEOUT);
        matches!(timeout_at(until, listed).await, Ok(Ok(_)))
    }

    fn is_repeatable(&self, call: Repeatable, params: &Params) -> bool {
        match call {
            Repeatable::Always => true,
            Repeatable::Never => false,
            Repeatable::AsHinted => self.is_hinted(&tool_name(params)),
        }
    }

    /// Whether the tool is hinted read-only or idempotent.
    fn is_hinted(&self, tool: &str) -> bool {
        let catalog = self.catalog.load();
        let item = catalog
            .as_ref()
            .and_then(|catalog| catalog.item(Kind::Tool, tool));
        item.is_some_and(|tool| tool.hints().repeatable())
    }

    fn answered(&self, connection: &Connection) {
        if connection.calls.answered_matters() {
            self.inbox.report(Report::CallAnswered(connection.generation));
        }
    }
}

/// The name in the parameters of a call; empty where there is none.
pub(crate) fn tool_name(params: &Params) -> String {
    let name = params.get("name").and_then(|name| name.parse().ok());
    name.unwrap_or_default()
}

/// A call that is being made.
struct CallAttempt<'a> {
    slot: &'a Slot,
    request: &'a Request<'a>,
    deadline: Instant,
    options: &'a CallOptions,
}

/// An attempt that failed.
struct FailedAttempt {
    error: CallError,
    /// Only the answer's own stream broke; the connection may be sound.
    is_broken_answer: bool,
}

impl CallAttempt<'_> {
    fn method(&self) -> &str {
        &self.request.method
    }

    async fn lease(&self, after: Option<Generation>) -> Result<Arc<Connection>, CallError> {
        let wait = self.options.wait_timeout.unwrap_or_default();
        self.slot
            .lease(self.options.waiting, after, wait, self.deadline)
            .await
    }

    async fn make(&self, connection: &Arc<Connection>) -> Result<Reply, FailedAttempt> {
        let slot = self.slot;
        let generation = connection.generation;
        let began = Instant::now();
        let in_flight = slot.counters.in_flight();
        let caller = self.options.trace.as_ref();
        let sent = &self.request.params;
        let mut traced = TracedAttempt::begin(slot, self.method(), connection, sent, caller);
        let params = traced.params(sent);
        let answer = match traced.span.is_disabled() {
            true => connection.request(self.method(), &params, self.options).await,
            false => {
                // Boxed with its options: calls that are not traced carry no room for either.
                let answer = async {
                    let options = traced.options(self.options);
                    connection.request(self.method(), &params, &options).await
                };
                Box::pin(answer.instrument(traced.span.clone())).await
            }
        };
        drop(in_flight);
        let took = began.elapsed();
        let error = match answer {
            Ok(result) => {
                slot.note_success();
                slot.counters.took(took);
                let error = self.error_in(&traced, &result);
                traced.ended(error);
                self.measure(took, error);
                slot.answered(connection);
                return Ok(Reply { generation, result });
            }
            Err(error) => error,
        };
        slot.judge(connection, &error);
        let ended = match &error {
            RequestError::Lost { .. } => Box::pin(slot.ended(generation, self.deadline)).await,
            RequestError::Rpc(_)
            | RequestError::BadAnswer(_)
            | RequestError::TimedOut { .. }
            | RequestError::Cancelled { .. }
            | RequestError::Send(_) => LossCause::Failure(None),
        };
        let is_broken_answer = matches!(recovery::http(&error), Some(HttpFailure::Broken { .. }));
        let error = match ended {
            LossCause::Failure(failure) => slot.call_error(error, generation, failure),
            LossCause::Disabled => slot
                .call_error(error, generation, None)
                .cut_because(CallErrorKind::Disabled),
            LossCause::Removed => slot
                .call_error(error, generation, None)
                .cut_because(CallErrorKind::Gone),
        };
        let error = error.with_noise(slot.noise.since(generation, began));
        let failed = OperationError::of_call(&error);
        traced.ended(Some(failed));
        self.measure(took, Some(failed));
        Err(FailedAttempt {
            error,
            is_broken_answer,
        })
    }

    /// Whether the result says that its tool failed, if anyone wants to know.
    fn error_in(&self, traced: &TracedAttempt, result: &RawJson) -> Option<OperationError> {
        let is_wanted = self.slot.operations.is_some() || !traced.span.is_disabled();
        is_wanted
            .then(|| OperationError::in_result(self.method(), result))
            .flatten()
    }

    /// Counts how long the attempt took, if the fleet is measured.
    fn measure(&self, took: Duration, error: Option<OperationError>) {
        if let Some(operations) = &self.slot.operations {
            let is_listed = |tool: &str| {
                let catalog = self.slot.catalog.load();
                catalog
                    .as_ref()
                    .is_some_and(|catalog| catalog.item(Kind::Tool, tool).is_some())
            };
            let series = operations.series(self.method(), self.request.params.shown_text("name"), is_listed);
            series.record(took, error);
        }
    }

    /// Makes the call again, if that is safe and of use.
    async fn after_failure(
        &self,
        first: FailedAttempt,
        connection: Arc<Connection>,
    ) -> Result<Reply, CallError> {
        let slot = self.slot;
        if is_header_mismatch(&first.error) && slot.relist(connection.generation, self.deadline).await {
            let second = self.make(&connection).await;
            return second.map_err(|failed| failed.error);
        }
        let may_retry = matches!(first.error.kind, CallErrorKind::Lost { .. })
            && match first.error.outcome {
                Outcome::NotSent | Outcome::Refused => true,
                Outcome::Unknown => {
                    self.options.replay == Some(Replay::Safe)
                        && slot.is_repeatable(self.request.repeatable, &self.request.params)
                }
                Outcome::Answered => false,
            };
        if !may_retry {
            return Err(first.error);
        }
        self.retry(first, connection.generation).await
    }

    /// Makes the call a second time. A third time follows only where the second met a server that was gone, or that had
    /// lost the session, and so did not run.
    async fn retry(&self, first: FailedAttempt, generation: Generation) -> Result<Reply, CallError> {
        // After a broken answer the same connection may serve; otherwise only a new one can.
        let after = (!first.is_broken_answer).then_some(generation);
        let connection = match self.lease(after).await {
            Ok(connection) => connection,
            Err(wait) => return Err(first.error.then_waited(&wait)),
        };
        let is_same = connection.generation == generation;
        let server = &self.slot.name;
        tracing::debug!(
            target: TRACE_TARGET,
            %server,
            generation = connection.generation.0,
            error = %first.error,
            "replayed"
        );
        let second = match self.make(&connection).await {
            Ok(reply) => return Ok(reply),
            Err(failed) => failed.error,
        };
        let is_gone = is_same && matches!(second.kind, CallErrorKind::Lost { .. }) && did_not_run(&second);
        let known = of_both(first.error, second);
        if !is_gone {
            return Err(known);
        }
        let connection = match self.lease(Some(generation)).await {
            Ok(connection) => connection,
            Err(wait) => return Err(known.then_waited(&wait)),
        };
        let third = self.make(&connection).await;
        third.map_err(|failed| of_both(known, failed.error))
    }
}

/// Whether the tool wants other arguments in headers than those of its last listing.
fn is_header_mismatch(error: &CallError) -> bool {
    matches!(&error.kind, CallErrorKind::Rpc(error) if error.code() == HEADER_MISMATCH)
}

fn did_not_run(error: &CallError) -> bool {
    match error.outcome {
        Outcome::NotSent | Outcome::Refused => true,
        Outcome::Unknown | Outcome::Answered => false,
    }
}

/// What is known of a call whose two attempts failed.
fn of_both(first: CallError, second: CallError) -> CallError {
    match (first.outcome, second.outcome) {
        // Where the second did not run, the first may still have.
        (Outcome::Unknown, Outcome::NotSent | Outcome::Refused) => first,
        (Outcome::Unknown, Outcome::Unknown | Outcome::Answered)
        | (Outcome::NotSent | Outcome::Refused | Outcome::Answered, _) => second,
    }
}

/// Adds the caller's own `_meta` entries to the parameters.
fn add_own_meta(params: &mut Params, options: &CallOptions) -> Result<(), TooManyMembers> {
    if options.meta.is_empty() {
        return Ok(());
    }
    let entries: Vec<_> = options
        .meta
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    *params = Params::new(Some(with_meta(params.to_raw().as_ref(), &entries)?));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(outcome: Outcome) -> CallError {
        let kind = CallErrorKind::Lost {
            reason: String::new(),
            failure: None,
        };
        CallError::new(Arc::from("one"), Some(Generation(1)), outcome, kind)
    }

    #[test]
    fn a_call_that_may_have_run_once_is_never_said_not_to_have_run() {
        use Outcome::{Answered, NotSent, Refused, Unknown};
        for (first, second, reported) in [
            (Unknown, NotSent, Unknown),
            (Unknown, Refused, Unknown),
            (Unknown, Unknown, Unknown),
            (Unknown, Answered, Answered),
            (NotSent, NotSent, NotSent),
            (NotSent, Unknown, Unknown),
            (Refused, Answered, Answered),
        ] {
            assert_eq!(
                of_both(lost(first), lost(second)).outcome(),
                reported,
                "{first:?}, then {second:?}"
            );
        }
    }
}
