//! The document of `mainstay call --json`, `read --json` and `prompt --json`.

use mainstay::{CallError, CallErrorKind, Outcome, RawJson, Reply, RpcError};
use serde::Serialize;

use super::{FailureReport, VERSION};
use crate::pick::Sought;

/// A request with a result has `result`, any other has `error`.
#[derive(Serialize)]
pub(crate) struct Answer<'a> {
    version: u32,
    #[serde(flatten)]
    asked: Asked<'a>,
    generation: Option<u64>,
    is_error: bool,
    result: Option<&'a RawJson>,
    error: Option<Failed>,
}

/// What was asked of which server.
#[derive(Serialize)]
pub(crate) struct Asked<'a> {
    server: Option<&'a str>,
    #[serde(flatten)]
    what: What<'a>,
}

/// The key says what kind of thing it is.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum What<'a> {
    Tool(&'a str),
    Prompt(&'a str),
    Uri(&'a str),
}

#[derive(Serialize)]
struct Failed {
    message: String,
    outcome: &'static str,
    may_have_run: bool,
    retry_after_ms: Option<u64>,
    rpc: Option<RawJson>,
    failure: Option<FailureReport>,
}

impl<'a> Asked<'a> {
    pub(crate) fn new(server: Option<&'a str>, sought: Sought, name: &'a str) -> Self {
        let what = match sought {
            Sought::Tool => What::Tool(name),
            Sought::Prompt => What::Prompt(name),
            Sought::Resource => What::Uri(name),
        };
        Self { server, what }
    }
}

impl<'a> Answer<'a> {
    pub(crate) fn answered(asked: Asked<'a>, reply: &'a Reply, is_error: bool) -> Self {
        Self {
            version: VERSION,
            asked,
            generation: Some(reply.generation.0),
            is_error,
            result: Some(&reply.result),
            error: None,
        }
    }

    pub(crate) fn failed(asked: Asked<'a>, error: &CallError, failure: Option<&mainstay::Failure>) -> Self {
        let rpc = match error.kind() {
            CallErrorKind::Rpc(error) => Some(RpcError::raw(error).clone()),
            _ => None,
        };
        Self::without_result(
            asked,
            Failed {
                message: error.to_string(),
                outcome: error.outcome().as_str(),
                may_have_run: error.may_have_run(),
                retry_after_ms: error.retry_after().map(super::ms),
                rpc,
                failure: failure.map(FailureReport::of),
            },
        )
    }

    pub(crate) fn interrupted(
        asked: Asked<'a>,
        signal: &'static str,
        outcome: Outcome,
        may_have_run: bool,
    ) -> Self {
        Self::without_result(
            asked,
            Failed {
                message: format!("interrupted by {signal}"),
                outcome: outcome.as_str(),
                may_have_run,
                retry_after_ms: None,
                rpc: None,
                failure: None,
            },
        )
    }

    fn without_result(asked: Asked<'a>, failed: Failed) -> Self {
        Self {
            version: VERSION,
            asked,
            generation: None,
            is_error: true,
            result: None,
            error: Some(failed),
        }
    }
}
