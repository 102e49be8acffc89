//! One request outside of MCP: a document of a login, or a form posted to an authorization server.
//!
//! A POST follows no redirect. A GET follows up to three within its origin. Body and duration are bounded.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::time::timeout;

use super::endpoint::Endpoint;
use super::options::HttpOptions;
use super::refusal::{Head, Refusal, read_body};
use super::{Challenge, HttpFailure, HttpStage};

/// The longest body that [`fetch`] reads. Metadata documents have a few kilobytes.
pub const FETCH_BODY_LIMIT: usize = 1024 * 1024;

/// How long a [`fetch`] may take in all.
pub const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to send with [`fetch`]. With a body it is a POST, otherwise a GET.
#[derive(Clone)]
pub struct FetchRequest {
    /// Where to send it.
    pub url: String,
    /// Its headers, beside those of the options.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body of a POST.
    pub body: Option<Bytes>,
}

/// The whole response to a [`FetchRequest`].
#[derive(Clone)]
#[non_exhaustive]
pub struct Fetched {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Bytes,
    /// The pause that `Retry-After` asks for.
    pub retry_after: Option<Duration>,
    /// What a 401 or 403 asks for.
    pub challenge: Challenge,
}

/// Sends one request and reads the whole response, whatever its status.
///
/// Cancel safety: dropping it closes the connection; the server may have handled the request.
pub async fn fetch(request: FetchRequest, options: HttpOptions) -> Result<Fetched, HttpFailure> {
    let took_too_long = |_elapsed| HttpFailure::TimedOut {
        step: HttpStage::FirstByte,
        limit: FETCH_TIMEOUT,
    };
    timeout(FETCH_TIMEOUT, fetch_unbounded(request, options))
        .await
        .map_err(took_too_long)?
}

async fn fetch_unbounded(request: FetchRequest, options: HttpOptions) -> Result<Fetched, HttpFailure> {
    let endpoint = Endpoint::new(&request.url, options).map_err(|error| HttpFailure::ConnectFailed {
        kind: std::io::ErrorKind::InvalidInput,
        message: error.to_string(),
    })?;
    let is_post = request.body.is_some();
    let method = if is_post { Method::POST } else { Method::GET };
    let mut outgoing = endpoint.request(method).await?;
    outgoing.headers.extend(request.headers);
    outgoing.body = request.body.unwrap_or_default();
    let is_followed = |status: u16| !is_post && matches!(status, 301 | 302 | 303 | 307 | 308);
    let mut response = endpoint.send_following(&outgoing, is_followed).await?;
    Refusal::if_unreadable(&response)?;
    let head = Head::of(&response);
    Ok(Fetched {
        status: head.status,
        body: read_body(&mut response, FETCH_BODY_LIMIT).await?,
        headers: response.headers().clone(),
        retry_after: head.retry_after,
        challenge: head.challenge,
    })
}
