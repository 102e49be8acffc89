//! A modern client in front of any server.
//!
//! What a modern server answers, its wish for input included, is handed on as it is: the client's retry holds all that
//! the server needs. A legacy server asks while the call runs: the call is parked, the client gets the question as a
//! wish for input, and its retry finds the call again by a state that only this gateway can have written.

use std::sync::{Arc, OnceLock};

use mainstay::message::{Object, RawJson, RpcError};
use mainstay::{
    Answer, CallError, CallOptions, ClientCapabilities, ClientHandler, Reply, Server, ServerNotification,
    ServerRequest,
};
use tokio::sync::{mpsc, oneshot};

use super::naming::Addressed;
use super::parked::Replying;
use super::passing::{answer, as_sent, tell};
use super::state::Seal;
use super::{Desk, Request};
use crate::client::{Client, Line};
use crate::protocol::{declined, invalid_params, missing_capability, text};

/// The one question of a wish for input.
const QUESTION: &str = "request";

/// A call that runs at a server, and what the server asks meanwhile.
pub(super) struct Call {
    pub(super) server: Server,
    pub(super) reply: Replying,
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
}

impl Desk {
    pub(super) async fn pass_in_rounds(&self, mut request: Request<'_>) -> Result<RawJson, RpcError> {
        let mut call = match self.resumed(&request).await? {
            Some(Resumed::Answered(call)) => call,
            Some(Resumed::Unanswered(call, question)) => return self.park(call, question, request.method),
            None => self.called(&mut request).await?,
        };
        match call.run(request.line).await {
            Came::Reply(reply) => match call.lacked_for(&reply) {
                Some(capability) => Err(missing_capability(capability)),
                None => answer(&request, call.server.name(), reply),
            },
            Came::Question(question) => self.park(call, question, request.method),
        }
    }

    async fn called(&self, request: &mut Request<'_>) -> Result<Call, RpcError> {
        let Addressed { reached, params } = self.address(request)?;
        self.parked.hurry(&reached);
        self.raise_level(&reached, request).await;
        let (questions, asked) = mpsc::channel(1);
        let (told, progress) = mpsc::channel(32);
        let lacking = Arc::default();
        let asker = Asker {
            client: request.client.clone(),
            questions,
            lacking: Arc::clone(&lacking),
        };
        let mut options = CallOptions::default()
            .handler(Arc::new(asker))
            .hand_on_input_required();
        if request.meta.progress_token.is_some() {
            options = options.progress(told);
        }
        let params = as_sent(request, params);
        let method = request.method.to_owned();
        let server = reached.server.clone();
        let reply = async move { reached.server.forward(&method, params, options).await };
        Ok(Call {
            server,
            reply: Replying::new(reply),
            asked,
            progress,
            lacking,
        })
    }

    /// The parked call that this request is the retry for.
    async fn resumed(&self, request: &Request<'_>) -> Result<Option<Resumed>, RpcError> {
        let params = &request.params;
        let state = params
            .get("requestState")
            .and_then(|state| state.parse::<String>().ok());
        let Some(state) = state.filter(|state| Seal::is_ours(state)) else {
            return Ok(None);
        };
        let expired =
            || invalid_params("the request state is unknown or has expired: call again from the start");
        let parked = self.parked.take(&state, request.method).await;
        let (call, question) = parked.ok_or_else(expired)?;
        let answers = params.get("inputResponses").and_then(Object::parse);
        let Some(answer) = answers.and_then(|answers| answers.get(QUESTION).cloned()) else {
            return Ok(Some(Resumed::Unanswered(call, question)));
        };
        let _ = question.answer.send(Ok(answer));
        Ok(Some(Resumed::Answered(call)))
    }

    /// Parks a call, and says what it needs.
    fn park(&self, call: Call, question: Question, method: &str) -> Result<RawJson, RpcError> {
        let request = question.request.clone();
        let state = self.parked.put(call, question, method)?;
        Ok(wish(&request, &state))
    }
}

impl Call {
    /// Goes on until the call ends, or until the server asks; progress goes to the client meanwhile.
    async fn run(&mut self, line: &Arc<dyn Line>) -> Came {
        loop {
            tokio::select! {
                biased;
                Some(params) = self.progress.recv() => tell(line, &params),
                Some(question) = self.asked.recv() => return Came::Question(question),
                reply = self.reply.take() => {
                    while let Ok(params) = self.progress.try_recv() {
                        tell(line, &params);
                    }
                    return Came::Reply(reply);
                }
            }
        }
    }

    /// What the client lacks, when the call failed and was declined an answer for it: the server could not do without.
    fn lacked_for(&self, reply: &Result<Reply, CallError>) -> Option<&'static str> {
        let lacking = self.lacking.get()?;
        let failed = match reply {
            Ok(reply) => Object::parse(&reply.result)
                .and_then(|result| result.get("isError")?.parse::<bool>().ok())
                .unwrap_or(false),
            Err(error) => matches!(error, CallError::Rpc { .. }),
        };
        failed.then_some(lacking)
    }
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
    client: Arc<Client>,
    questions: mpsc::Sender<Question>,
    lacking: Arc<OnceLock<&'static str>>,
}

impl ClientHandler for Asker {
    fn capabilities(&self) -> ClientCapabilities {
        ClientHandler::capabilities(&*self.client)
    }

    fn client(&self) -> Option<u64> {
        ClientHandler::client(&*self.client)
    }

    fn log_level(&self) -> Option<&str> {
        self.client.log_level()
    }

    fn request(&self, request: ServerRequest) -> Answer<'_> {
        Box::pin(async move {
            if let Some(capability) = self.client.lacks_for(&request.method) {
                // The first is as good as any.
                let _ = self.lacking.set(capability);
                return Err(declined(&request.method, capability));
            }
            let gone = || RpcError::new(RpcError::INTERNAL_ERROR, "the client went away without an answer");
            let (answer, answered) = oneshot::channel();
            let question = Question { request, answer };
            self.questions.send(question).await.map_err(|_| gone())?;
            answered.await.unwrap_or_else(|_| Err(gone()))
        })
    }

    fn notification(&self, notification: ServerNotification) {
        self.client.notification(notification);
    }
}
