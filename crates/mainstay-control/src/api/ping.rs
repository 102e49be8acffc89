//! A sign of life of a server.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PingReport {
    /// How long the answer took, in microseconds; `null` if there was none.
    pub round_trip_us: Option<u64>,
    /// Why there was no answer.
    pub error: Option<String>,
}
