//! The document of `mainstay call --json`.

use mainstay::{CallError, RawJson, Reply, RpcError};
use serde::Serialize;

use super::{Trouble, VERSION};

/// A call with a result has `result`, any other has `error`.
#[derive(Serialize)]
pub(crate) struct Call<'a> {
    version: u32,
    server: &'a str,
    tool: &'a str,
    generation: Option<u64>,
    is_error: bool,
    result: Option<&'a RawJson>,
    error: Option<Failed>,
}

#[derive(Serialize)]
struct Failed {
    message: String,
    outcome: &'static str,
    may_have_run: bool,
    retry_after_ms: Option<u64>,
    rpc: Option<RawJson>,
    trouble: Option<Trouble>,
}

impl<'a> Call<'a> {
    pub(crate) fn answered(server: &'a str, tool: &'a str, reply: &'a Reply, is_error: bool) -> Self {
        Self {
            version: VERSION,
            server,
            tool,
            generation: Some(reply.generation.0),
            is_error,
            result: Some(&reply.result),
            error: None,
        }
    }

    pub(crate) fn failed(
        server: &'a str,
        tool: &'a str,
        error: &CallError,
        trouble: Option<&mainstay::Trouble>,
    ) -> Self {
        let rpc = match error {
            CallError::Rpc { error, .. } => Some(RpcError::raw(error).clone()),
            _ => None,
        };
        Self {
            version: VERSION,
            server,
            tool,
            generation: None,
            is_error: true,
            result: None,
            error: Some(Failed {
                message: error.to_string(),
                outcome: error.outcome().as_str(),
                may_have_run: error.may_have_run(),
                retry_after_ms: error.retry_after().map(super::ms),
                rpc,
                trouble: trouble.map(Trouble::of),
            }),
        }
    }
}
