//! Tries a tool or pings a server for a person, who sees the outcome and its time.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::Body;
use hyper::http::request::Parts;
use mainstay::{CallError, Outcome};

use super::ControlService;
use super::request::{Query, actor, read_json};
use crate::api::{ApiProblem, CallFailure, CallReport, CallRequest, PingReport};

/// How long a call that a person tries may take, unless the person says so. The page shows how long it has run, and can give it up.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest that a person can ask for.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// How long an answer may take by default.
const DEFAULT_PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that a client can ask for.
const LONGEST_PING_TIMEOUT: Duration = Duration::from_secs(60);

impl ControlService {
    /// Calls a tool of a server under the name that the server knows.
    ///
    /// Cancel safety: dropping it cancels the call at the server, which may have run. Then no outcome is recorded.
    pub(super) async fn call<B>(&self, name: &str, head: &Parts, body: B) -> Result<CallReport, ApiProblem>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let CallRequest {
            tool,
            arguments,
            timeout_ms,
        } = read_json(&head.headers, body).await?;
        let by = actor(head);
        let named = self.0.hub.called(name, &tool, by.clone())?;
        let timeout = timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        let began = Instant::now();
        let reply = named
            .server
            .call(&tool, &arguments)
            .timeout(timeout.min(LONGEST_TIMEOUT))
            .await;
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let outcome = reply
            .as_ref()
            .map_or_else(|error| error.outcome, |_answer| Outcome::Answered);
        self.0.hub.call_ended(&named, &tool, by, outcome);
        Ok(match reply {
            Ok(reply) => CallReport {
                took_us,
                result: reply.result.parse().ok(),
                error: None,
            },
            Err(error) => CallReport {
                took_us,
                result: None,
                error: Some(failure(&error)),
            },
        })
    }

    /// Pings the live connection of a server. Starts nothing.
    ///
    /// Cancel safety: dropping it drops the answer.
    pub(super) async fn ping(&self, name: &str, query: &Query<'_>) -> Result<PingReport, ApiProblem> {
        let named = self.0.hub.server(name)?;
        let timeout = query
            .number("timeout_ms")?
            .map_or(DEFAULT_PING_TIMEOUT, Duration::from_millis);
        let answered = named.server.ping(timeout.min(LONGEST_PING_TIMEOUT)).await;
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

fn failure(error: &CallError) -> CallFailure {
    CallFailure {
        message: error.reason(),
        outcome: error.outcome.as_str().to_owned(),
        may_have_run: error.outcome == Outcome::Unknown,
    }
}
