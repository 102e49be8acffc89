//! A request that is not answered but refused: with a status for HTTP, and an error for JSON-RPC.

use std::time::Duration;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use mainstay::message::{self, RawJson, RpcError};

use super::body::Body;

/// Boxed, as it is the rare side of many results.
#[derive(Debug)]
pub(super) struct Refusal(Box<Words>);

#[derive(Debug)]
struct Words {
    status: StatusCode,
    /// The request that is refused, where it could be read.
    id: RawJson,
    error: RpcError,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: i64, what: impl Into<String>) -> Self {
        Self::with(status, RpcError::new(code, what))
    }

    pub(super) fn with(status: StatusCode, error: RpcError) -> Self {
        Self(Box::new(Words {
            status,
            id: RawJson::NULL,
            error,
            header: None,
        }))
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.0.header = HeaderValue::from_str(value).ok().map(|value| (name, value));
        self
    }

    /// The client may come back after this.
    pub(super) fn retry_after(self, pause: Duration) -> Self {
        let seconds = pause.as_secs_f64().ceil().max(1.0);
        self.header(header::RETRY_AFTER, &seconds.to_string())
    }

    pub(super) fn of_request(mut self, id: &RawJson) -> Self {
        self.0.id = id.clone();
        self
    }
}

impl From<Refusal> for Response<Body> {
    fn from(refusal: Refusal) -> Self {
        let Words {
            status,
            id,
            error,
            header,
        } = *refusal.0;
        tracing::debug!(%status, %error, "refused");
        let mut response = json(status, Body::Whole(message::response(&id, &Err(error))));
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A JSON body.
pub(super) fn json(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// No body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::EMPTY);
    *response.status_mut() = status;
    response
}
