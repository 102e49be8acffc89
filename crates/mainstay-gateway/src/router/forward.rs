//! A request that a server must answer: forwarded with as few changes as the difference between the two sides needs.
//!
//! Both eras take the same path. A legacy session answers what a server asks while the call runs. A modern client cannot be asked:
//! the gateway parks the call and answers `input_required`, and the client's retry brings the answer. A modern server's own
//! `input_required` passes as it is, since the retry holds all that the server needs.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use mainstay::gateway::message::{self, Object, RawJson, RpcError};
use mainstay::gateway::{SentNote, ServerExt, keep_line, note_sent, of_modern_client};
use mainstay::handler::{Answer, ClientCapabilities, ServerNotification, ServerRequest};
use mainstay::{CallError, CallErrorKind, CallOptions, ClientHandler, Era, Reply};
use tokio::sync::{mpsc, oneshot};

use super::line_copy::LineCopy;
use super::parked::{NoParkedCall, PendingReply};
use super::places::CallPlace;
use super::resolve::{ForwardedRequest, Upstream};
use super::tasks::TaskReply;
use super::{Level, RoutedRequest, Router};
use crate::answer_kind::AnswerKind;
use crate::budget::Spent;
use crate::client::{Client, RunningRequest};
use crate::failure::{self, Advice, OwnFailure};
use crate::protocol::{
    RESOURCE_NOT_FOUND, completed, declined, invalid_params, missing_capability, text, without_client,
};

/// Progress notifications that wait for a slow client; more are dropped, as each says all that the ones before it did.
const PROGRESS_LIMIT: usize = 32;

/// The key of the one question in an `input_required` result.
const QUESTION_KEY: &str = "request";

/// A call that runs at a server, and what the server sends meanwhile.
pub(super) struct ForwardedCall {
    pub(super) upstream: Upstream,
    pub(super) reply: PendingReply,
    task_reply: TaskReply,
    /// Whether it may have run.
    sent: SentNote,
    /// `None` where a legacy client did not ask for progress.
    progress: Option<mpsc::Receiver<RawJson>>,
    /// `None` for a legacy client, which answers by itself.
    questions: Option<CallQuestions>,
}

/// What the server of a modern client's call asks.
struct CallQuestions {
    asked: mpsc::Receiver<Question>,
    /// The client of the latest request for the call: of the first one, or of the last retry.
    caller: Arc<ArcSwap<Client>>,
    is_resumed: bool,
    /// The capability that the client lacked for a question which the gateway declined.
    missing: Arc<OnceLock<&'static str>>,
}

/// Something that a server asks a modern client.
pub(super) struct Question {
    request: ServerRequest,
    answer: oneshot::Sender<Result<RawJson, RpcError>>,
}

impl Question {
    /// How many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        let params = self.request.params.as_ref();
        params.map_or(0, |params| params.as_bytes().len())
    }
}

/// What a request is, seen from the calls that are parked.
enum Retry {
    /// It begins a call of its own.
    No,
    /// It answers the question of this call.
    Answered(ForwardedCall),
    /// It brings everything but the answer, so the question stands.
    Unanswered(ForwardedCall, Question),
}

/// Why a call was not made.
enum NotCalled {
    /// The request is wrong, or its server cannot be used.
    Refused(RpcError),
    /// The gateway cannot make it now.
    Failed(OwnFailure),
}

impl From<RpcError> for NotCalled {
    fn from(error: RpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<OwnFailure> for NotCalled {
    fn from(failure: OwnFailure) -> Self {
        Self::Failed(failure)
    }
}

/// What happens first to a call that runs.
enum CallEvent {
    Reply(Result<Reply, CallError>),
    Question(Question),
    /// The reply came while the client was away, and did not fit into the client's share of memory.
    ReplyDropped(Spent),
}

impl Router {
    /// Forwards a request to its server.
    ///
    /// Cancel safety: dropping it cancels the request at the server.
    pub(super) async fn forward(&self, mut request: RoutedRequest<'_>) -> Result<RawJson, RpcError> {
        let params = request.params.as_raw().cloned();
        let mut call = match self.retry(&request).await? {
            Retry::No => match self.call(&mut request).await {
                Ok(call) => call,
                Err(NotCalled::Refused(error)) => return Err(error),
                Err(NotCalled::Failed(failure)) => {
                    return AnswerKind::of(request.method, request.client.era).failed(failure);
                }
            },
            Retry::Answered(call) => call,
            Retry::Unanswered(call, question) => return self.park(call, question, &request, params).await,
        };
        match call.next_event(&request).await {
            CallEvent::Reply(reply) => call.answer(&request, reply, &self.advice).await,
            CallEvent::Question(question) => self.park(call, question, &request, params).await,
            CallEvent::ReplyDropped(spent) => {
                AnswerKind::of(request.method, request.client.era).dropped(spent)
            }
        }
    }

    /// Begins the call at the server.
    async fn call(&self, request: &mut RoutedRequest<'_>) -> Result<ForwardedCall, NotCalled> {
        let has_state = state(request).is_some();
        let name = RunningRequest::name_in(request.method, &request.params);
        let mut forwarded = self.address(request)?;
        let server = &forwarded.upstream.server;
        forwarded.params = request
            .client
            .tasks
            .related_params(server.name(), forwarded.params)
            .await?;
        request.client.uses(server.name());
        request.run.routed(request.method, server, name);
        self.observer.routed(
            request.run,
            request.method,
            server,
            &forwarded.params,
            &self.fleet,
        );
        let ForwardedRequest {
            upstream, task_reply, ..
        } = forwarded;
        if has_state && !upstream.server.takes_modern_requests() {
            // It wrote no state. Without this check it would ignore the state, and run the call from its start.
            return Err(expired().into());
        }
        let account = self.budget.account(request.client.principal);
        let copy = LineCopy::hold(&account, &forwarded.params).map_err(RpcError::from)?;
        let place = self.place(&upstream, request.client).await?;
        self.parked.shorten_waits_at(&upstream);
        let (params, options, questions) = match request.client.era {
            Era::Legacy => (forwarded.params, upstream.options(request.client), None),
            Era::Modern => {
                self.raise_level(&upstream, request).await;
                let (handler, questions) = QuestionHandler::new(request.client);
                let options = CallOptions::default().handler(Arc::new(handler));
                let options = of_modern_client(options);
                (without_client(forwarded.params), options, Some(questions))
            }
        };
        let options = request.client.waits.apply(options, &upstream.server);
        // A retry may want progress though the first request did not.
        let wants_progress = questions.is_some() || request.meta.progress_token.is_some();
        let (options, progress) = if wants_progress {
            let (sender, progress) = mpsc::channel(PROGRESS_LIMIT);
            (options.progress(sender), Some(progress))
        } else {
            (options, None)
        };
        let sent = SentNote::default();
        request.run.calls(&sent);
        let options = note_sent(request.run.marks().hand_on(options), &sent);
        let options = match copy {
            Some(copy) => keep_line(options, copy.keeper()),
            None => options,
        };
        let (server, method) = (upstream.server.clone(), request.method.to_owned());
        let reply = async move {
            let reply = server.forward(&method, params, options).await;
            drop(place);
            reply
        };
        Ok(ForwardedCall {
            upstream,
            reply: PendingReply::new(reply),
            task_reply,
            sent,
            progress,
            questions,
        })
    }

    /// A place for a call of this client; `None` at a server that no other client uses.
    ///
    /// Cancel safety: dropping it leaves the queue.
    async fn place(&self, upstream: &Upstream, client: &Client) -> Result<Option<CallPlace>, OwnFailure> {
        if upstream.is_own || self.subscribers.has_one_client {
            return Ok(None);
        }
        let server = &upstream.server;
        let place = self.places.take(server, client.principal).await;
        let full = |full| OwnFailure::too_many_calls(server.name(), full);
        place.map(Some).map_err(full)
    }

    /// Finds the parked call that this request is the retry for. From now on the call's notifications are this request's.
    async fn retry(&self, request: &RoutedRequest<'_>) -> Result<Retry, RpcError> {
        let Some(state) = state(request) else {
            return Ok(Retry::No);
        };
        let (mut call, question) = match self.parked.take(&state, request).await {
            Ok(found) => found,
            Err(NoParkedCall::Gone) => return Err(expired()),
            Err(NoParkedCall::NotOurs) => return Ok(Retry::No),
        };
        if let Some(questions) = &mut call.questions {
            questions.caller.store(request.client.clone());
            questions.is_resumed = true;
        }
        request.run.calls(&call.sent);
        self.raise_level(&call.upstream, request).await;
        match answer_in(request).await {
            Some(answer) => {
                let _ = question.answer.send(Ok(answer));
                Ok(Retry::Answered(call))
            }
            None => Ok(Retry::Unanswered(call, question)),
        }
    }

    /// Parks a call, and answers with what it needs.
    async fn park(
        &self,
        call: ForwardedCall,
        question: Question,
        request: &RoutedRequest<'_>,
        params: Option<RawJson>,
    ) -> Result<RawJson, RpcError> {
        let asked = question.request.clone();
        let account = self.budget.account(request.client.principal);
        let state = self.parked.put(call, question, request, params, account).await?;
        Ok(input_required(&asked, &state))
    }
}

impl ForwardedCall {
    /// Waits until the call ends, or until the server asks; progress goes to the client meanwhile.
    async fn next_event(&mut self, request: &RoutedRequest<'_>) -> CallEvent {
        loop {
            let progress = async { self.progress.as_mut()?.recv().await };
            let question = async { self.questions.as_mut()?.asked.recv().await };
            tokio::select! {
                biased;
                Some(params) = progress => self.send_progress(request, params),
                Some(question) = question => return CallEvent::Question(question),
                reply = self.reply.take() => {
                    // Progress that came before the answer goes out before it; what comes from now on is late.
                    while let Some(params) = self.progress.as_mut().and_then(|progress| progress.try_recv().ok()) {
                        self.send_progress(request, params);
                    }
                    return match reply {
                        Ok(reply) => CallEvent::Reply(reply),
                        Err(spent) => CallEvent::ReplyDropped(spent),
                    };
                }
            }
        }
    }

    /// Sends progress under the token of this request, if it has one. The client can miss it: a flood of it takes the place of no
    /// answer.
    fn send_progress(&self, request: &RoutedRequest<'_>, mut params: RawJson) {
        let Some(token) = &request.meta.progress_token else {
            return;
        };
        // The server knows the token of the first request.
        if self
            .questions
            .as_ref()
            .is_some_and(|questions| questions.is_resumed)
            && let Some(mut progress) = Object::parse(&params)
        {
            progress.set("progressToken", token.clone());
            params = progress.to_raw();
        }
        let notification = message::notification("notifications/progress", Some(&params));
        request.outbox.offer(notification);
    }

    /// What the client is answered with. A thread that may block takes large results apart, once.
    async fn answer(
        self,
        request: &RoutedRequest<'_>,
        reply: Result<Reply, CallError>,
        advice: &Advice,
    ) -> Result<RawJson, RpcError> {
        let missing = self
            .questions
            .and_then(|questions| questions.missing.get().copied());
        let error = match reply {
            Ok(Reply { result, .. }) => {
                let answer = ResultEdit {
                    client: request.client.clone(),
                    method: request.method.to_owned(),
                    server: self.upstream.server.name().to_owned(),
                    task_reply: self.task_reply,
                    missing,
                };
                let length = result.as_bytes().len();
                return message::process_payload(length, move || answer.apply(result)).await;
            }
            Err(error) => error,
        };
        request.run.marks().failed(&error);
        if let CallError {
            server: Some(server),
            kind: CallErrorKind::Rpc(error),
            ..
        } = &error
        {
            request.client.elicited.note_refusal(server, error);
            if let Some(capability) = missing {
                return Err(missing_capability(capability));
            }
        }
        if request.method == "tools/call" {
            let result = failure::tool_result(&error, advice)?;
            return Ok(completed(result, request.method, request.client.era));
        }
        Err(in_era(request, failure::answer(&error, advice)))
    }
}

/// What the gateway changes in a server's result before the client sees it.
struct ResultEdit {
    client: Arc<Client>,
    method: String,
    server: String,
    task_reply: TaskReply,
    /// The capability that the client lacked for a question of the server.
    missing: Option<&'static str>,
}

impl ResultEdit {
    fn apply(self, result: RawJson) -> Result<RawJson, RpcError> {
        // The server could not do without the answer that the client cannot give.
        if let Some(capability) = self.missing.filter(|_| is_error(&result)) {
            return Err(missing_capability(capability));
        }
        let result = self.task_reply.rewrite(&self.client, &self.server, result);
        Ok(completed(result, &self.method, self.client.era))
    }
}

fn is_error(result: &RawJson) -> bool {
    let found = Some(result).filter(|result| result.may_hold("isError"));
    let found = found.and_then(|result| Object::find(result, ["isError"]));
    found.is_some_and(|[is_error]| is_error.is_some_and(|is_error| is_error.parse().unwrap_or(false)))
}

/// A server's error as the client's era has it: only the legacy era has a code for a resource that does not exist.
fn in_era(request: &RoutedRequest<'_>, error: RpcError) -> RpcError {
    let is_missing_resource = request.method == "resources/read" && error.code() == RESOURCE_NOT_FOUND;
    match request.client.era {
        Era::Modern if is_missing_resource => {
            let translated = invalid_params(error.message());
            match error.data() {
                Some(data) => translated.with_data(data.clone()),
                None => translated,
            }
        }
        Era::Legacy | Era::Modern => error,
    }
}

/// The state that a request of a modern client brings.
fn state(request: &RoutedRequest<'_>) -> Option<String> {
    match request.client.era {
        Era::Legacy => None,
        Era::Modern => request.params.get("requestState")?.parse().ok(),
    }
}

/// The answer that a retry brings for the question of its call.
async fn answer_in(request: &RoutedRequest<'_>) -> Option<RawJson> {
    let answers = request.params.get("inputResponses")?.clone();
    let length = answers.as_bytes().len();
    let find = move || Object::find(&answers, [QUESTION_KEY]);
    let [answer] = message::process_payload(length, find).await?;
    answer
}

fn expired() -> RpcError {
    invalid_params("the request state is unknown or has expired: call again from the start")
}

/// The result that says what a call needs.
fn input_required(request: &ServerRequest, state: &str) -> RawJson {
    let mut asked = Object::default();
    asked.set("method", text(&request.method));
    if let Some(params) = &request.params {
        asked.set("params", params.clone());
    }
    let mut requests = Object::default();
    requests.set(QUESTION_KEY, asked.to_raw());
    let mut result = Object::default();
    result.set("resultType", text("input_required"));
    result.set("inputRequests", requests.to_raw());
    result.set("requestState", text(state));
    result.to_raw()
}

/// Answers what a server asks during one call of a modern client: with what the client's next request brings.
struct QuestionHandler {
    caller: Arc<ArcSwap<Client>>,
    questions: mpsc::Sender<Question>,
    missing: Arc<OnceLock<&'static str>>,
}

impl QuestionHandler {
    fn new(client: &Arc<Client>) -> (Self, CallQuestions) {
        let (sender, asked) = mpsc::channel(1);
        let caller = Arc::new(ArcSwap::from(client.clone()));
        let missing = Arc::default();
        let handler = Self {
            caller: Arc::clone(&caller),
            questions: sender,
            missing: Arc::clone(&missing),
        };
        let questions = CallQuestions {
            asked,
            caller,
            is_resumed: false,
            missing,
        };
        (handler, questions)
    }
}

impl ClientHandler for QuestionHandler {
    fn capabilities(&self) -> ClientCapabilities {
        ClientHandler::capabilities(&**self.caller.load())
    }

    fn client(&self) -> Option<u64> {
        ClientHandler::client(&**self.caller.load())
    }

    fn log_level(&self) -> Option<&str> {
        self.caller.load().level().map(Level::word)
    }

    fn request(&self, mut request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            let caller = self.caller.load_full();
            if let Some(capability) = caller.missing_capability_for(&request.method) {
                // The first is as good as any.
                let _ = self.missing.set(capability);
                return Err(declined(&request.method, capability));
            }
            request.params = caller
                .tasks
                .asked(&request.server, &request.method, request.params)?;
            let gone = || RpcError::new(RpcError::INTERNAL_ERROR, "the client went away without an answer");
            let (answer, answered) = oneshot::channel();
            let question = Question { request, answer };
            self.questions.send(question).await.map_err(|_| gone())?;
            let answer = answered.await.unwrap_or_else(|_| Err(gone()))?;
            Ok(caller.tasks.as_known(answer))
        })
    }

    fn notification(&self, notification: ServerNotification) {
        self.caller.load_full().notification(notification);
    }
}
