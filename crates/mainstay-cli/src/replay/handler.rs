//! Answers what the server asks as the recorded client did.

use std::sync::{Mutex, PoisonError};

use mainstay::gateway::message::RpcError;
use mainstay::handler::{Answer, ServerRequest};
use mainstay::{ClientHandler, RawJson};
use serde_json::Value;

/// A question of the server in the recording, and its answer.
pub(super) struct RecordedQuestion {
    method: String,
    params: Value,
    answer: Result<RawJson, RpcError>,
}

impl RecordedQuestion {
    pub(super) fn new(method: String, params: Option<&RawJson>, answer: Result<RawJson, RpcError>) -> Self {
        Self {
            method,
            params: value(params),
            answer,
        }
    }
}

/// Gives each recorded answer once.
pub(super) struct ReplayHandler {
    questions: Mutex<Vec<RecordedQuestion>>,
}

impl ReplayHandler {
    pub(super) fn new(questions: Vec<RecordedQuestion>) -> Self {
        Self {
            questions: Mutex::new(questions),
        }
    }

    /// The answer to the same question, or else to the next one of this method: a question may hold a time or a number.
    fn recorded(&self, request: &ServerRequest) -> Option<Result<RawJson, RpcError>> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let params = value(request.params.as_ref());
        let of_method = |question: &RecordedQuestion| question.method == request.method;
        let same = questions
            .iter()
            .position(|question| of_method(question) && question.params == params);
        let at = same.or_else(|| questions.iter().position(of_method))?;
        Some(questions.remove(at).answer)
    }
}

impl ClientHandler for ReplayHandler {
    fn request(&self, request: ServerRequest) -> Answer<'_> {
        let recorded = self.recorded(&request).unwrap_or_else(|| {
            let message = format!("the recording has no answer to {}", request.method);
            Err(RpcError::new(RpcError::METHOD_NOT_FOUND, message))
        });
        Box::pin(async move { recorded })
    }
}

fn value(params: Option<&RawJson>) -> Value {
    params.and_then(|params| params.parse().ok()).unwrap_or_default()
}
