//! One call, from its caller to its server and back.
//!
//! A call is made once. It is made a second time, inside its own deadline, only if it did not leave, or if running it
//! twice is the same as running it once.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::{Generation, Recovery};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::error::CallError;
use super::options::CallOptions;
use super::slot::Slot;
use crate::catalog::Kind;
use crate::config::Replay;
use crate::connection::{Asking, Connection};
use crate::deadline;
use crate::event::Failure;
use crate::keeper::{Consequence, Report, recovery};
use crate::protocol::Capability;
use crate::transport::HttpFailure;
use crate::wire::{Outcome, Params, RawJson, RequestError, with_meta};

/// How long a call that lost its connection waits to learn why.
const LAST_WORDS: Duration = Duration::from_millis(75);

/// How long a call whose headers did not match waits to learn which ones would.
const RELISTING: Duration = Duration::from_secs(10);

/// What a modern server answers when the headers of a call are not those that its tool wants: nothing of it has run.
const HEADER_MISMATCH: i64 = -32020;

/// What a call yields: the result as the server sent it, and the connection that it came from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The connection that answered.
    pub generation: Generation,
    /// The result, byte for byte.
    pub result: RawJson,
}

impl Reply {
    /// The result as a type of the embedder's, or of the SDK's. It knows fewer fields than the server may have sent.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.result.parse()
    }

    /// The result of a tool, as the SDK's type.
    pub fn tool_result(&self) -> Result<rmcp::model::CallToolResult, serde_json::Error> {
        self.typed()
    }

    /// A prompt, as the SDK's type.
    pub fn prompt(&self) -> Result<rmcp::model::GetPromptResult, serde_json::Error> {
        self.typed()
    }

    /// The contents of a resource, as the SDK's type.
    pub fn resource(&self) -> Result<rmcp::model::ReadResourceResult, serde_json::Error> {
        self.typed()
    }

    /// The completion of an argument, as the SDK's type.
    pub fn completion(&self) -> Result<rmcp::model::CompleteResult, serde_json::Error> {
        self.typed()
    }
}

/// What is sent, and whether sending it twice is harmless.
pub(super) struct Call<'a> {
    pub(super) method: &'a str,
    pub(super) params: Params,
    pub(super) repeatable: Repeatable<'a>,
    /// What the server must have said that it can. A request that is passed on needs nothing: its server decides.
    pub(super) needs: Option<Capability>,
}

/// Whether a call that may have run can be made again without harm.
pub(super) enum Repeatable<'a> {
    /// It only reads.
    Always,
    /// Nothing is known of it.
    Never,
    /// If this tool's hints say so. They are looked up when they are needed: a call may come before the first listing.
    AsHinted(&'a str),
    /// The same for the tool that the parameters name, which nobody has looked at yet.
    AsNamedHints,
}

impl Slot {
    pub(super) async fn call(&self, call: Call<'_>, options: &CallOptions) -> Result<Reply, CallError> {
        let settings = self.settings.load_full();
        let deadline = deadline::within(options.total_timeout.unwrap_or(settings.call_timeout()));
        let idle = options.idle_timeout.unwrap_or(settings.call_idle_timeout());
        let replay = options.replay.unwrap_or(settings.replay());
        let making = Making {
            slot: self,
            method: call.method,
            params: stamped(call.params, options)?,
            idle,
            wait: options.wait_timeout.unwrap_or(settings.wait_timeout()),
            deadline,
            options,
        };
        let connection = making.lease(None).await?;
        if let Some(capability) = call.needs.filter(|needed| connection.greeting.lacks(*needed)) {
            return Err(CallError::NotOffered {
                server: self.name.clone(),
                method: call.method.to_owned(),
                capability: capability.as_str(),
            });
        }
        let first = match making.attempt(&connection).await {
            Ok(reply) => return Ok(reply),
            Err(missed) => missed,
        };
        if is_header_mismatch(&first.error) && self.listed_anew(connection.generation, deadline).await {
            let again = Box::pin(making.attempt(&connection)).await;
            return again.map_err(|missed| missed.error);
        }
        let again = matches!(first.error, CallError::Lost { .. })
            && match first.error.outcome() {
                Outcome::NotSent | Outcome::Refused => true,
                Outcome::Unknown => {
                    replay == Replay::Safe && self.is_repeatable(&call.repeatable, &making.params)
                }
                Outcome::Answered => false,
            };
        if !again {
            return Err(first.error);
        }
        // Boxed, so that the many calls that are made once carry no room for more.
        Box::pin(making.once_more(first, connection.generation)).await
    }

    /// Tells the keeper what a failed call means for its connection.
    pub(super) fn judge(&self, connection: &Connection, error: &RequestError) {
        let generation = connection.generation;
        match recovery::of_call(error) {
            // The server answered, if not what the caller hoped for: the connection is as good as ever.
            Consequence::Nothing if error.outcome() == Outcome::Answered => self.answered(connection),
            Consequence::Nothing | Consequence::Seen => {}
            Consequence::Counts(recovery) => {
                let failure = self.failure_with(generation, error);
                connection.calls.failed(|| {
                    self.inbox
                        .report(Report::CallFailed(generation, recovery, failure));
                });
            }
            Consequence::Doubt => {
                let failure = self.failure_with(generation, error);
                connection.calls.failed(|| {
                    self.inbox
                        .report(Report::CallFailed(generation, Recovery::Retry, failure));
                });
                self.inbox.report(Report::ProbeNow(generation));
            }
        }
    }

    fn failure_with(&self, generation: Generation, error: &RequestError) -> Arc<Failure> {
        let failure = Failure::new(self, Some(generation), error.to_string());
        Arc::new(
            failure
                .asking_for(recovery::challenge(error))
                .over_http(self, recovery::http(error)),
        )
    }

    /// What ended a connection: its owner knows a moment after its calls do, and a caller is glad of the exit status. A
    /// connection that was ended on purpose has no failure, whatever went wrong before.
    async fn failure_of(&self, generation: Generation, deadline: Instant) -> Option<Arc<Failure>> {
        let until = deadline.min(Instant::now() + LAST_WORDS);
        let mut status = self.status.subscribe();
        let known = status.wait_for(|status| status.generation != Some(generation));
        let status = timeout_at(until, known).await.ok()?.ok()?;
        let ended = status
            .ended
            .as_ref()
            .filter(|ended| ended.generation == generation);
        ended?.failure.clone()
    }

    /// Lists anew what the server offers, and says whether that was done in time.
    async fn listed_anew(&self, generation: Generation, deadline: Instant) -> bool {
        let mut status = self.status.subscribe();
        let before = status.borrow().listed_at;
        self.inbox.report(Report::ListChanged(generation));
        let listed = status.wait_for(|status| status.listed_at != before);
        let until = deadline.min(Instant::now() + RELISTING);
        matches!(timeout_at(until, listed).await, Ok(Ok(_)))
    }

    fn is_repeatable(&self, call: &Repeatable<'_>, params: &Params) -> bool {
        match call {
            Repeatable::Always => true,
            Repeatable::Never => false,
            Repeatable::AsHinted(tool) => self.is_hinted(tool),
            Repeatable::AsNamedHints => self.is_hinted(&named(params)),
        }
    }

    /// Whether this tool says of itself that to run it twice is to run it once.
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

/// The name in the parameters of a call; nothing has the empty one.
pub(super) fn named(params: &Params) -> String {
    let name = params.get("name").and_then(|name| name.parse().ok());
    name.unwrap_or_default()
}

/// A call that is being made.
struct Making<'a> {
    slot: &'a Slot,
    method: &'a str,
    params: Params,
    idle: Duration,
    /// How long each wait for a connection may be.
    wait: Duration,
    deadline: Instant,
    options: &'a CallOptions,
}

/// An attempt that failed.
struct Missed {
    error: CallError,
    /// Its answer broke, and perhaps nothing else.
    broke: bool,
}

impl Making<'_> {
    async fn lease(&self, after: Option<Generation>) -> Result<Arc<Connection>, CallError> {
        let until = deadline::within(self.wait).min(self.deadline);
        self.slot.lease(self.options.waiting, after, until).await
    }

    async fn attempt(&self, connection: &Arc<Connection>) -> Result<Reply, Missed> {
        let (slot, options) = (self.slot, self.options);
        let asking = Asking {
            idle: Some(self.idle),
            deadline: Some(self.deadline),
            progress: options.progress.clone(),
            handler: options.handler.clone(),
            hand_on_input: options.hand_on_input,
            hold: None,
        };
        let generation = connection.generation;
        let began = Instant::now();
        let error = match connection.request(self.method, &self.params, asking).await {
            Ok(result) => {
                slot.note_success();
                slot.answered(connection);
                return Ok(Reply { generation, result });
            }
            Err(error) => error,
        };
        slot.judge(connection, &error);
        let failure = match &error {
            RequestError::Lost { .. } => slot.failure_of(generation, self.deadline).await,
            RequestError::Rpc(_)
            | RequestError::BadAnswer(_)
            | RequestError::TimedOut { .. }
            | RequestError::Send(_) => None,
        };
        let broke = matches!(recovery::http(&error), Some(HttpFailure::Broken { .. }));
        let error = CallError::of(error, slot.name.clone(), generation, failure)
            .amid(slot.noise.since(generation, began));
        Err(Missed { error, broke })
    }

    /// Makes it a second time, after its first attempt on this generation; and a third time only where the second met a
    /// server that was gone, or knew nothing of the session any more, and so did not run.
    async fn once_more(&self, first: Missed, generation: Generation) -> Result<Reply, CallError> {
        // Where one answer broke, the next may come as if nothing had happened; else only a new connection helps.
        let after = (!first.broke).then_some(generation);
        // What the first attempt met says more than a vain wait for a second.
        let Ok(connection) = self.lease(after).await else {
            return Err(first.error);
        };
        let same = connection.generation == generation;
        let server = &self.slot.name;
        tracing::debug!(%server, generation = %connection.generation, error = %first.error, "replayed");
        let second = match self.attempt(&connection).await {
            Ok(reply) => return Ok(reply),
            Err(missed) => missed.error,
        };
        let gone = same && matches!(second, CallError::Lost { .. }) && did_not_run(&second);
        let known = of_both(first.error, second);
        if !gone {
            return Err(known);
        }
        let Ok(connection) = self.lease(Some(generation)).await else {
            return Err(known);
        };
        let third = self.attempt(&connection).await;
        third.map_err(|missed| of_both(known, missed.error))
    }
}

/// Whether the server wants to see other arguments in headers than the tools that it listed last did.
fn is_header_mismatch(error: &CallError) -> bool {
    matches!(error, CallError::Rpc { error, .. } if error.code() == HEADER_MISMATCH)
}

fn did_not_run(error: &CallError) -> bool {
    match error.outcome() {
        Outcome::NotSent | Outcome::Refused => true,
        Outcome::Unknown | Outcome::Answered => false,
    }
}

/// What is known of a call whose two attempts failed.
fn of_both(first: CallError, second: CallError) -> CallError {
    match (first.outcome(), second.outcome()) {
        // Where the second did not run, the first may still have.
        (Outcome::Unknown, Outcome::NotSent | Outcome::Refused) => first,
        (Outcome::Unknown, Outcome::Unknown | Outcome::Answered)
        | (Outcome::NotSent | Outcome::Refused | Outcome::Answered, _) => second,
    }
}

/// The parameters with the caller's own `_meta` entries.
fn stamped(params: Params, options: &CallOptions) -> Result<Params, CallError> {
    if options.meta.is_empty() {
        return Ok(params);
    }
    let entries: Vec<_> = options
        .meta
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    let stamped = with_meta(params.to_raw().as_ref(), &entries);
    let stamped = stamped.map_err(|error| CallError::BadArguments(error.to_string()))?;
    Ok(Params::new(Some(stamped)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(outcome: Outcome) -> CallError {
        CallError::Lost {
            server: "one".into(),
            generation: Generation(1),
            reason: String::new(),
            failure: None,
            outcome,
        }
    }

    #[test]
    fn a_call_that_may_have_run_once_is_never_said_not_to_have_run() {
        use Outcome::{Answered, NotSent, Refused, Unknown};
        for (first, second, told) in [
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
                told,
                "{first:?}, then {second:?}"
            );
        }
    }
}
