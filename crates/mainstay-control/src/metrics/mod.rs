//! Metrics for Prometheus, at `/metrics`.
//!
//! Everything is read when a scrape comes; between two scrapes nothing runs. What there is grows with the servers, and with the
//! tools that have a place of their own (`mainstay::gateway::OperationTable`), and with nothing else that a peer can choose.

mod exposition;
mod family;
mod snapshot;
mod text_format;

use std::borrow::Cow;
use std::fmt;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use mainstay::config::Secret;
use mainstay_gateway::MountBody;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use ring::digest::{SHA256, digest};

use crate::api::{ApiProblem, ProblemKind};
use crate::control::Hub;
use crate::service::bytes_answer;
use snapshot::MetricsSnapshot;

/// Where the metrics are.
pub const METRICS_PATH: &str = "/metrics";

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Who may read the metrics at an HTTP door, beside those who may use all of the control API.
#[derive(Default)]
pub struct MetricsAccess(AccessRule);

#[derive(Default)]
enum AccessRule {
    #[default]
    None,
    /// The digest of the token.
    Token([u8; 32]),
    Everyone,
}

impl MetricsAccess {
    /// No one else.
    pub fn none() -> Self {
        Self(AccessRule::None)
    }

    /// A client with this token, which opens nothing else.
    pub fn token(token: &Secret) -> Self {
        Self(AccessRule::Token(hashed(token.expose())))
    }

    /// Every client that reaches the door.
    pub fn everyone() -> Self {
        Self(AccessRule::Everyone)
    }

    pub(crate) fn is_public(&self) -> bool {
        match self.0 {
            AccessRule::Everyone => true,
            AccessRule::None | AccessRule::Token(_) => false,
        }
    }

    pub(crate) fn admits(&self, token: &str) -> bool {
        match &self.0 {
            // Digests are compared, so the time of it tells nothing of the token.
            AccessRule::Token(digest) => *digest == hashed(token),
            AccessRule::None | AccessRule::Everyone => false,
        }
    }
}

impl fmt::Debug for MetricsAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsAccess").finish_non_exhaustive()
    }
}

fn hashed(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

/// Answers a scrape.
///
/// Cancel safety: dropping it changes nothing.
pub(crate) async fn answer(
    hub: &Hub,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response<MountBody>, ApiProblem> {
    if method != Method::GET && method != Method::HEAD {
        let title = format!("{METRICS_PATH} cannot be changed");
        return Err(ApiProblem::new(ProblemKind::MethodNotAllowed, title).remedy("use GET, HEAD"));
    }
    let written = openmetrics(hub).await;
    let written =
        written.map_err(|_| ApiProblem::new(ProblemKind::Internal, "the metrics cannot be written"))?;
    let (content_type, body) = match accepts_openmetrics(headers) {
        true => (OPENMETRICS, written),
        false => (TEXT_FORMAT, text_format::from_openmetrics(&written)),
    };
    let mut answer = bytes_answer(StatusCode::OK, content_type, body.into());
    answer
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(answer)
}

async fn openmetrics(hub: &Hub) -> Result<String, fmt::Error> {
    let snapshot = MetricsSnapshot::read(hub).await;
    let node = hub.node.clone();
    let labels = node
        .into_iter()
        .map(|node| (Cow::Borrowed("node"), Cow::Owned(node)));
    let mut registry = Registry::with_labels(labels);
    registry.register_collector(Box::new(snapshot));
    let mut written = String::new();
    encode(&mut written, &registry)?;
    Ok(written)
}

/// Whether the reader asks for OpenMetrics, as Prometheus does.
fn accepts_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    accepted.any(|range| {
        let kind = range.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/openmetrics-text")
    })
}

#[cfg(test)]
mod tests;
