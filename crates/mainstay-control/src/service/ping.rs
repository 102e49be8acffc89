//! Asks a server for a sign of life.

use std::time::Duration;

use super::ControlService;
use super::request::Query;
use crate::api::{ApiProblem, PingReport};

/// How long an answer may take by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that a client can ask for.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

impl ControlService {
    /// Pings the live connection of a server. Starts nothing.
    ///
    /// Cancel safety: dropping it drops the answer.
    pub(super) async fn ping(&self, name: &str, query: &Query<'_>) -> Result<PingReport, ApiProblem> {
        let named = self.0.hub.server(name)?;
        let timeout = query
            .number("timeout_ms")?
            .map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        let answered = named.server.ping(timeout.min(LONGEST_TIMEOUT)).await;
        let (answered, error) = match answered {
            Ok(pong) => (Some(pong.round_trip), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let in_micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Ok(PingReport {
            round_trip_us: answered.map(in_micros),
            error,
        })
    }
}
