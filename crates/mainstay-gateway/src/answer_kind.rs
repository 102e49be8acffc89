//! What kind of request an answer belongs to: how the answer is charged, and what is answered instead if there is no room for it.

use mainstay::Era;
use mainstay::gateway::message::{RawJson, RpcError};

use crate::budget::Spent;
use crate::failure::OwnFailure;
use crate::protocol::completed;

const TOOLS_CALL: &str = "tools/call";

/// The kind of request that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// A list. Other clients may be sent the same payload, so it is charged once for all of them. It can be asked for again.
    List,
    /// What a tool did, for a client of this era.
    ToolCall(Era),
    /// Anything else. It may not be safe to ask for it again.
    Other,
}

impl AnswerKind {
    pub(crate) fn of(method: &str, era: Era) -> Self {
        match method {
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => Self::List,
            TOOLS_CALL => Self::ToolCall(era),
            _other => Self::Other,
        }
    }

    /// What is answered to a request that fails in the gateway itself. What a tool is answered reaches the model.
    pub(crate) fn failed(self, failure: OwnFailure) -> Result<RawJson, RpcError> {
        match self {
            Self::ToolCall(era) => Ok(completed(failure.into_tool_result(), TOOLS_CALL, era)),
            Self::List | Self::Other => Err(failure.into_error()),
        }
    }

    /// What is answered instead of an answer that there is no room for. It says of a call that it has run.
    pub(crate) fn dropped(self, why: Spent) -> Result<RawJson, RpcError> {
        match self {
            Self::List => Err(why.into()),
            Self::ToolCall(_) | Self::Other => self.failed(OwnFailure::dropped(why)),
        }
    }
}
