//! The document of `mainstay call --json`, `read --json` and `prompt --json`.

use mainstay::{CallError, CallErrorKind, Outcome, RawJson, Reply, RpcError};
use serde::Serialize;
use utoipa::ToSchema;

use super::{DocumentVersion, FailureReport};
use crate::pick::Sought;

/// A request with a result has `result`, any other has `error`.
#[derive(Serialize, ToSchema)]
pub(crate) struct AnswerDocument<'a> {
    version: DocumentVersion,
    #[serde(flatten)]
    asked: AnswerSubject<'a>,
    generation: Option<u64>,
    is_error: bool,
    #[schema(value_type = Option<Value>)]
    result: Option<&'a RawJson>,
    error: Option<FailedAnswer>,
}

/// What was asked of which server.
#[derive(Serialize, ToSchema)]
pub(crate) struct AnswerSubject<'a> {
    server: Option<&'a str>,
    #[serde(flatten)]
    what: SubjectName<'a>,
}

/// The key says what kind of thing it is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum SubjectName<'a> {
    Tool(&'a str),
    Prompt(&'a str),
    Uri(&'a str),
}

#[derive(Serialize, ToSchema)]
struct FailedAnswer {
    message: String,
    outcome: &'static str,
    may_have_run: bool,
    retry_after_ms: Option<u64>,
    #[schema(value_type = Option<Value>)]
    rpc: Option<RawJson>,
    failure: Option<FailureReport>,
}

impl<'a> AnswerSubject<'a> {
    pub(crate) fn new(server: Option<&'a str>, sought: Sought, name: &'a str) -> Self {
        let what = match sought {
            Sought::Tool => SubjectName::Tool(name),
            Sought::Prompt => SubjectName::Prompt(name),
            Sought::Resource => SubjectName::Uri(name),
        };
        Self { server, what }
    }
}

impl<'a> AnswerDocument<'a> {
    pub(crate) fn answered(asked: AnswerSubject<'a>, reply: &'a Reply, is_error: bool) -> Self {
        Self {
            version: DocumentVersion,
            asked,
            generation: Some(reply.generation.0),
            is_error,
            result: Some(&reply.result),
            error: None,
        }
    }

    pub(crate) fn failed(
        asked: AnswerSubject<'a>,
        error: &CallError,
        failure: Option<&mainstay::Failure>,
    ) -> Self {
        let rpc = match error.kind() {
            CallErrorKind::Rpc(error) => Some(RpcError::raw(error).clone()),
            _ => None,
        };
        Self::without_result(
            asked,
            FailedAnswer {
                message: error.to_string(),
                outcome: error.outcome().as_str(),
                may_have_run: error.may_have_run(),
                retry_after_ms: error.retry_after().map(super::ms),
                rpc,
                failure: failure.map(FailureReport::of),
            },
        )
    }

    pub(crate) fn without_answer(
        asked: AnswerSubject<'a>,
        message: String,
        outcome: Outcome,
        may_have_run: bool,
    ) -> Self {
        Self::without_result(
            asked,
            FailedAnswer {
                message,
                outcome: outcome.as_str(),
                may_have_run,
                retry_after_ms: None,
                rpc: None,
                failure: None,
            },
        )
    }

    fn without_result(asked: AnswerSubject<'a>, failed: FailedAnswer) -> Self {
        Self {
            version: DocumentVersion,
            asked,
            generation: None,
            is_error: true,
            result: None,
            error: Some(failed),
        }
    }
}
