//! A ping that a caller asks for.

use std::time::Duration;

use mainstay_lifecycle::Generation;
use tokio::time::Instant;

use super::Server;
use super::error::CallError;
use super::options::Waiting;
use crate::deadline;

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pong {
    /// The connection that answered.
    pub generation: Generation,
    /// From the question to the answer.
    pub round_trip: Duration,
}

impl Server {
    /// Asks the live connection for a sign of life: `ping` in the legacy era, `server/discover` in the modern one. Any
    /// answer is one, "method not found" included. Where there is no connection it fails at once; it starts nothing, and
    /// keeps no server from its idle stop. A question that stays without answer counts as a call that failed.
    ///
    /// Cancel safety: dropping it leaves an answer that is dropped when it comes.
    pub async fn ping(&self, within: Duration) -> Result<Pong, CallError> {
        let asked = Instant::now();
        let connection = self
            .0
            .lease(Waiting::FailFast, None, within, deadline::after(asked, within))
            .await?;
        let generation = connection.generation;
        match connection.probe(within).await {
            Ok(()) => Ok(Pong {
                generation,
                round_trip: asked.elapsed(),
            }),
            Err(error) => {
                self.0.judge(&connection, &error);
                Err(CallError::of(error, self.0.name.clone(), generation, None))
            }
        }
    }
}
