//! A modern client in front of any server.
//!
//! What a modern server answers, its wish for input included, is handed on as it is: the client's retry holds all that
//! the server needs. A legacy server asks while the call runs: the call is parked, the client gets the question as a
//! wish for input, and its retry finds the call again by a state that only this gateway can have written.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use mainstay::gateway::message::{Object, RawJson, RpcError};
use mainstay::gateway::{ServerExt, hand_on_input_required};
use mainstay::handler::{Answer, ClientCapabilities, ServerNotification, ServerRequest};
use mainstay::{CallError, CallErrorKind, CallOptions, ClientHandler, Era, Reply, Server};
use tokio::sync::{mpsc, oneshot};

use super::naming::Addressed;
use super::parked::{Missing, Replying};
use super::passing::{answer, as_sent, tell};
use super::reaching::Reached;
use super::state::Purpose;
use super::{Level, Request, Router};
use crate::budget::Spent;
use crate::client::Client;
use crate::protocol::{
    MODERN_VERSIONS, SERVER_UNAVAILABLE, declined, invalid_params, missing_capability, text,
};

/// The one question of a wish for input.
const QUESTION: &str = "request";

/// A call that runs at a server, and what the server asks meanwhile.
pub(super) struct Call {
    pub(super) reached: Reached,
    pub(super) reply: Replying,
    /// The client of the latest request for it: of the first one, or of the last retry.
    caller: Arc<ArcSwap<Client>>,
    /// Whether a retry has found it.
    is_resumed: bool,
    asked: mpsc::Receiver<Question>,
    progress: mpsc::Receiver<RawJson>,
    /// What the client would have had to be able to for a question that was declined in its name.
    lacking: Arc<OnceLock<&'static str>>,
}

/// What a retry brought for the call that it found.
enum Resumed {
    Answered(Call),
    /// Everything but the answer; the question stands.
    Unanswered(Call, Question),
}

pub(super) struct Question {
    request: ServerRequest,
    answer: oneshot::Sender<Result<RawJson, RpcError>>,
}

/// What came of a call: its end, or a question.
enum Came {
    Reply(Result<Reply, CallError>),
    Question(Question),
    /// It ended while the client was away, and what it ended with could not be held.
    GivenUp(Spent),
}

impl Question {
    /// How many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        self.request
            .params
            .as_ref()
            .map_or(0, |params| params.as_bytes().len())
    }
}

/// What a client is told whose call has run, and whose answer is not there any more.
fn given_up(spent: Spent) -> RpcError {
    let what = format!("the call has run, and its answer was dropped while nobody fetched it: {spent}");
    RpcError::new(SERVER_UNAVAILABLE, what)
}

impl Router {
    pub(super) async fn pass_in_rounds(&self, mut request: Request<'_>) -> Result<RawJson, RpcError> {
        let mut call = match self.resumed(&request).await? {
            Some(Resumed::Answered(call)) => call,
            Some(Resumed::Unanswered(call, question)) => return self.park(call, question, &request),
            None => self.called(&mut request).await?,
        };
        match call.run(&request).await {
            Came::Reply(reply) => match call.lacked_for(&reply) {
                Some(capability) => Err(missing_capability(capability)),
                None => answer(&request, call.reached.server.name(), reply).await,
            },
            Came::Question(question) => self.park(call, question, &request),
            Came::GivenUp(spent) => Err(given_up(spent)),
        }
    }

    async fn called(&self, request: &mut Request<'_>) -> Result<Call, RpcError> {
        let Addressed { reached, params } = self.address(request)?;
        if state(request).is_some() && is_legacy(&reached.server) {
            // It wrote no state. Without this check it would ignore the state, and run the call from its start.
            return Err(expired());
        }
        self.parked.hurry(&reached);
        self.raise_level(&reached, request).await;
        let (questions, asked) = mpsc::channel(1);
        let (told, progress) = mpsc::channel(32);
        let lacking = Arc::default();
        let caller = Arc::new(ArcSwap::from(request.client.clone()));
        let asker = Asker {
            caller: caller.clone(),
            questions,
            lacking: Arc::clone(&lacking),
        };
        // A retry may want progress though the first request did not.
        let options = CallOptions::default().handler(Arc::new(asker)).progress(told);
        let options = hand_on_input_required(options);
        let params = as_sent(request, params);
        let method = request.method.to_owned();
        let server = reached.server.clone();
        let reply = async move { server.forward(&method, params, options).await };
        Ok(Call {
            reached,
            reply: Replying::new(reply),
            caller,
            is_resumed: false,
            asked,
            progress,
            lacking,
        })
    }

    /// The parked call that this request is the retry for. From now on what belongs to it is this request's.
    async fn resumed(&self, request: &Request<'_>) -> Result<Option<Resumed>, RpcError> {
        let Some(state) = state(request) else {
            return Ok(None);
        };
        let (mut call, question) = match self.parked.take(&state, || Purpose::of(request)).await {
            Ok(found) => found,
            Err(Missing::Gone) => return Err(expired()),
            Err(Missing::NotOurs) => return Ok(None),
        };
        call.caller.store(request.client.clone());
        call.is_resumed = true;
        self.raise_level(&call.reached, request).await;
        let answers = request.params.get("inputResponses").and_then(Object::parse);
        let Some(answer) = answers.and_then(|answers| answers.get(QUESTION).cloned()) else {
            return Ok(Some(Resumed::Unanswered(call, question)));
        };
        let _ = question.answer.send(Ok(answer));
        Ok(Some(Resumed::Answered(call)))
    }

    /// Parks a call, and says what it needs.
    fn park(&self, call: Call, question: Question, request: &Request<'_>) -> Result<RawJson, RpcError> {
        let asked = question.request.clone();
        let account = self.budget.account(request.client.principal);
        let state = self.parked.put(call, question, Purpose::of(request), account)?;
        Ok(wish(&asked, &state))
    }
}

impl Call {
    /// Goes on until the call ends, or until the server asks; progress goes to the client meanwhile.
    async fn run(&mut self, request: &Request<'_>) -> Came {
        loop {
            tokio::select! {
                biased;
                Some(params) = self.progress.recv() => self.tell(request, params),
                Some(question) = self.asked.recv() => return Came::Question(question),
                reply = self.reply.take() => {
                    while let Ok(params) = self.progress.try_recv() {
                        self.tell(request, params);
                    }
                    return match reply {
                        Ok(reply) => Came::Reply(reply),
                        Err(spent) => Came::GivenUp(spent),
                    };
                }
            }
        }
    }

    /// Tells of progress under the token of this request, if it has one.
    fn tell(&self, request: &Request<'_>, mut params: RawJson) {
        let Some(token) = &request.meta.progress_token else {
            return;
        };
        // It comes under the token of the first request.
        if self.is_resumed
            && let Some(mut progress) = Object::parse(&params)
        {
            progress.set("progressToken", token.clone());
            params = progress.to_raw();
        }
        tell(request.line, &params);
    }

    /// What the client lacks, when the call failed and was declined an answer for it: the server could not do without.
    fn lacked_for(&self, reply: &Result<Reply, CallError>) -> Option<&'static str> {
        let lacking = self.lacking.get()?;
        let failed = match reply {
            Ok(reply) => Object::parse(&reply.result)
                .and_then(|result| result.get("isError")?.parse::<bool>().ok())
                .unwrap_or(false),
            Err(error) => matches!(error.kind(), CallErrorKind::Rpc(_)),
        };
        failed.then_some(lacking)
    }
}

/// The state that a request brings.
fn state(request: &Request<'_>) -> Option<String> {
    request.params.get("requestState")?.parse().ok()
}

/// Whether this server is known to be of the era that has no request state.
fn is_legacy(server: &Server) -> bool {
    match server.status().protocol {
        Some((era, _)) => era == Era::Legacy,
        None => {
            let version = server.about().and_then(|about| about.protocol_version.clone());
            version.is_some_and(|version| !MODERN_VERSIONS.contains(&version.as_str()))
        }
    }
}

fn expired() -> RpcError {
    invalid_params("the request state is unknown or has expired: call again from the start")
}

/// The result that tells a client what its call needs.
fn wish(request: &ServerRequest, state: &str) -> RawJson {
    let mut asked = Object::default();
    asked.set("method", text(&request.method));
    if let Some(params) = &request.params {
        asked.set("params", params.clone());
    }
    let mut requests = Object::default();
    requests.set(QUESTION, asked.to_raw());
    let mut result = Object::default();
    result.set("resultType", text("input_required"));
    result.set("inputRequests", requests.to_raw());
    result.set("requestState", text(state));
    result.to_raw()
}

/// Answers for one call of a modern client: with what its next request brings.
struct Asker {
    caller: Arc<ArcSwap<Client>>,
    questions: mpsc::Sender<Question>,
    lacking: Arc<OnceLock<&'static str>>,
}

impl ClientHandler for Asker {
    fn capabilities(&self) -> ClientCapabilities {
        ClientHandler::capabilities(&**self.caller.load())
    }

    fn client(&self) -> Option<u64> {
        ClientHandler::client(&**self.caller.load())
    }

    fn log_level(&self) -> Option<&str> {
        self.caller.load().level().map(Level::word)
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            let caller = self.caller.load_full();
            if let Some(capability) = caller.lacks_for(&request.method) {
                // The first is as good as any.
                let _ = self.lacking.set(capability);
                return Err(declined(&request.method, capability));
            }
            let mut request = request;
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
