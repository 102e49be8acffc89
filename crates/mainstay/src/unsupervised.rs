//! A peer without a keeper: the baseline of the benchmarks, which measure the cost of supervision.
//!
//! No part of the library's promises: hidden from its documentation, and free to change with any version.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::recorder::ConnectionRecorder;
use crate::transport::Transport;
use crate::wire::{Handler, MessageOrigin, Peer, RawJson, RequestOptions};

/// One connection, without generation, state, catalog or recovery.
pub struct Unsupervised(Peer);

/// The request failed; a benchmark has no use for the reason beyond its text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

impl Unsupervised {
    /// Starts the transport; called inside a tokio runtime.
    pub fn start(transport: Box<dyn Transport>) -> Self {
        Self(Peer::start(
            transport,
            Arc::new(IgnoreAll),
            ConnectionRecorder::default(),
        ))
    }

    /// Sends a request as a supervised call does: with a deadline, an idle timeout, and a progress token.
    ///
    /// Cancel safety: dropping it cancels the request at the remote peer.
    pub async fn request(&self, method: &str, params: &impl Serialize) -> Result<RawJson, Failed> {
        const BASELINE_TIMEOUT: Duration = Duration::from_secs(300);
        let params = RawJson::from_value(params).map_err(|error| Failed(error.to_string()))?;
        let options = RequestOptions::within(BASELINE_TIMEOUT)
            .idle(BASELINE_TIMEOUT)
            .progress_counts();
        let answer = self.0.request(method, Some(params), options).await;
        answer.map_err(|error| Failed(error.to_string()))
    }
}

/// Ignores all notifications and requests.
struct IgnoreAll;

impl Handler for IgnoreAll {
    fn request(&self, _: &Peer, _: RawJson, _: &str, _: Option<RawJson>, _: MessageOrigin) {}

    fn notification(&self, _: &str, _: Option<RawJson>, _: MessageOrigin) {}
}
