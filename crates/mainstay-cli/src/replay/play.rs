//! Plays a plan against a server, and compares the answers with the recorded ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use mainstay::config::Replay;
use mainstay::gateway::{ServerExt as _, hand_on_input_required};
use mainstay::{CallError, CallErrorKind, CallOptions, RawJson, Reply, Server};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::compare::{Difference, IgnoredPlaces, differences};
use super::handler::ReplayHandler;
use super::plan::{PlayPlan, PlayStep, PlayedRequest, RecordedAnswer};

/// How long a notification may wait for room.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The member by which a modern server recognizes a request that it wanted input for. It is another one each time.
const REQUEST_STATE: &str = "requestState";

/// What came of it.
#[derive(Default)]
pub(crate) struct PlayReport {
    /// Answers that were compared.
    pub(crate) compared: usize,
    pub(crate) different: Vec<DifferentAnswer>,
    /// Requests that have no answer in the recording, with what became of them now.
    pub(crate) unanswered: Vec<(usize, String, String)>,
    /// Requests that were cancelled, as in the recording.
    pub(crate) cancelled: usize,
}

/// An answer that is not as recorded.
pub(crate) struct DifferentAnswer {
    pub(crate) line: usize,
    pub(crate) request: String,
    pub(crate) differences: Vec<Difference>,
    /// How many there are in all.
    pub(crate) count: usize,
}

pub(super) struct Playing<'a> {
    server: &'a Server,
    ignored: &'a IgnoredPlaces,
    options: CallOptions,
    running: BTreeMap<usize, RunningPlay>,
    /// The states that the server gave out now, by those that it gave out then.
    states: HashMap<String, RawJson>,
    report: PlayReport,
}

struct RunningPlay {
    line: usize,
    request: String,
    answer: Option<RecordedAnswer>,
    playing: JoinHandle<Result<Reply, CallError>>,
}

impl<'a> Playing<'a> {
    pub(super) fn new(
        server: &'a Server,
        ignored: &'a IgnoredPlaces,
        handler: ReplayHandler,
        timeout: Duration,
    ) -> Self {
        let options = CallOptions::default()
            .timeout(timeout)
            .idle_timeout(timeout)
            .replay(Replay::Never)
            .handler(Arc::new(handler));
        Self {
            server,
            ignored,
            options: hand_on_input_required(options),
            running: BTreeMap::new(),
            states: HashMap::new(),
            report: PlayReport::default(),
        }
    }

    /// Plays all steps.
    pub(super) async fn run(mut self, plan: PlayPlan) -> PlayReport {
        for step in plan.steps {
            self.wait_answered_before(step.position()).await;
            match step {
                PlayStep::Request(request) => self.send(*request),
                PlayStep::Notification { method, params, .. } => {
                    // A server that is gone is seen by the next request.
                    let _ = self.server.notify(&method, params.as_ref(), NOTIFY_TIMEOUT).await;
                }
                PlayStep::Cancel { line, .. } => self.cancel(line).await,
            }
        }
        while let Some((_, played)) = self.running.pop_first() {
            self.settle(played).await;
        }
        self.report
    }

    fn send(&mut self, request: PlayedRequest) {
        let shown = request.shown();
        let PlayedRequest {
            position,
            line,
            method,
            mut params,
            answer,
        } = request;
        let state = params.get(REQUEST_STATE).map(ToString::to_string);
        if let Some(now) = state.and_then(|state| self.states.get(&state)) {
            params.set(REQUEST_STATE, now.clone());
        }
        let (server, options) = (self.server.clone(), self.options.clone());
        let playing = tokio::spawn(async move { server.forward(&method, params, options).await });
        let played = RunningPlay {
            line,
            request: shown,
            answer,
            playing,
        };
        self.running.insert(position, played);
    }

    /// Waits for what had been answered before this position.
    async fn wait_answered_before(&mut self, position: usize) {
        let is_due = |played: &RunningPlay| {
            let answer = played.answer.as_ref();
            answer.is_some_and(|answer| answer.position < position)
        };
        let due: Vec<usize> = self
            .running
            .iter()
            .filter(|(_, played)| is_due(played))
            .map(|(position, _)| *position)
            .collect();
        for position in due {
            if let Some(played) = self.running.remove(&position) {
                self.settle(played).await;
            }
        }
    }

    /// Cancels a request, as it was then. One that is answered by now stays answered.
    async fn cancel(&mut self, line: usize) {
        let at = self.running.iter().find(|(_, played)| played.line == line);
        let Some(at) = at.map(|(position, _)| *position) else {
            return;
        };
        let Some(played) = self.running.remove(&at) else {
            return;
        };
        if played.answer.is_some() {
            return self.settle(played).await;
        }
        // Dropping the call cancels it at the server.
        played.playing.abort();
        let _ = played.playing.await;
        self.report.cancelled += 1;
    }

    async fn settle(&mut self, played: RunningPlay) {
        let Ok(now) = played.playing.await else {
            return;
        };
        let Some(recorded) = played.answer else {
            let now = match now {
                Ok(_) => "it is answered now".to_owned(),
                Err(error) => self.server.redacted(error.to_string()),
            };
            return self.report.unanswered.push((played.line, played.request, now));
        };
        self.report.compared += 1;
        if let (Ok(recorded), Ok(reply)) = (&recorded.result, &now) {
            self.note_state(recorded, &reply.result);
        }
        // The secrets of the server were replaced by their names in the recording.
        let now = self.server.redacted(now_value(now).to_string());
        let now = serde_json::from_str(&now).unwrap_or(Value::String(now));
        let (found, count) = differences(&recorded_value(&recorded), &now, self.ignored);
        if count > 0 {
            self.report.different.push(DifferentAnswer {
                line: played.line,
                request: played.request,
                differences: found,
                count,
            });
        }
    }

    fn note_state(&mut self, recorded: &RawJson, now: &RawJson) {
        let state = |result: &RawJson| {
            let params = mainstay::gateway::message::Params::new(Some(result.clone()));
            params.get(REQUEST_STATE).cloned()
        };
        if recorded.may_hold(REQUEST_STATE)
            && let (Some(recorded), Some(now)) = (state(recorded), state(now))
        {
            self.states.insert(recorded.to_string(), now);
        }
    }
}

/// An answer as one value: `{"result": …}` or `{"error": …}`.
fn recorded_value(answer: &RecordedAnswer) -> Value {
    match &answer.result {
        Ok(result) => answered("result", result),
        Err(error) => answered("error", error.raw()),
    }
}

fn now_value(answer: Result<Reply, CallError>) -> Value {
    match answer {
        Ok(reply) => answered("result", &reply.result),
        Err(error) => match error.kind() {
            CallErrorKind::Rpc(error) => answered("error", error.raw()),
            _other => serde_json::json!({ "no answer": error.to_string() }),
        },
    }
}

fn answered(member: &str, payload: &RawJson) -> Value {
    let mut value: Value = payload.parse().unwrap_or_default();
    if let Value::Object(members) = &mut value {
        members.remove(REQUEST_STATE);
    }
    Value::Object(std::iter::once((member.to_owned(), value)).collect())
}
