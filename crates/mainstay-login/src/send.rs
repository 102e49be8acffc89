//! Sends the requests of the protocol with Mainstay's HTTP client.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use mainstay::transport::http::{FetchRequest, Fetched, fetch};
use mainstay_oauth::{HttpRequest, HttpResponse};

use crate::error::LoginFailure;
use crate::settings::LoginSettings;

/// Sends one request. Only addresses that the server's rules permit are connected to.
///
/// Cancel safety: a request that was sent may have been handled. Refreshes therefore run in tasks of their own.
pub(crate) async fn send(
    request: &HttpRequest,
    settings: &LoginSettings,
) -> Result<HttpResponse, LoginFailure> {
    let headers = request.headers().into_iter().filter_map(|(name, value)| {
        let mut value = HeaderValue::from_str(value).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_static(name), value))
    });
    let sent = FetchRequest {
        url: request.url.to_string(),
        headers: headers.collect(),
        body: request
            .body
            .as_ref()
            .map(|body| Bytes::from(body.text.expose().to_owned())),
    };
    let fetched = fetch(sent, settings.http()).await;
    let fetched: Fetched = fetched.map_err(|failure| LoginFailure::Http {
        origin: request.url.origin().ascii_serialization(),
        failure: Box::new(failure),
    })?;
    let content_type = fetched.headers.get(http::header::CONTENT_TYPE);
    Ok(HttpResponse {
        status: fetched.status,
        content_type: content_type
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned),
        retry_after: fetched.retry_after,
        body: fetched.body.into(),
    })
}
