//! A tool that a person tries, and a ping.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A tool that is to be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallRequest {
    /// The tool, under the name that the server knows.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub arguments: Map<String, Value>,
    /// How long the call may take, in milliseconds; a minute if it is not said.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallReport {
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// What the tool answered. A tool that failed by itself says so in `isError`.
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    /// Why there is no answer.
    pub error: Option<CallFailure>,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallFailure {
    /// What went wrong.
    pub message: String,
    /// What is known of the call: `not_sent`, `refused`, `unknown` or `answered`.
    pub outcome: String,
    /// Whether it may have run.
    pub may_have_run: bool,
}

/// Whether a server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PingReport {
    /// How long the answer took, in microseconds; `null` if there was none.
    pub round_trip_us: Option<u64>,
    /// Why there was no answer.
    pub error: Option<String>,
}
