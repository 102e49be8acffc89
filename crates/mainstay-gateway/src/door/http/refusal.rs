//! A request that is not answered but refused: with a status for HTTP, and an error for JSON-RPC.

use std::time::Duration;

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use mainstay::gateway::message::{self, RawJson, RpcError};

use super::access::Why;
use super::body::Body;
use crate::budget::Spent;
use crate::protocol::NoId;

/// Boxed, as it is the rare side of many results.
#[derive(Debug)]
pub(super) struct Refusal(Box<Words>);

#[derive(Debug)]
struct Words {
    status: StatusCode,
    /// The request that is refused, where it could be read.
    id: Option<RawJson>,
    error: RpcError,
    /// What is logged, where that is not what the client is told.
    logged: Option<String>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: i64, what: impl Into<String>) -> Self {
        Self::with(status, RpcError::new(code, what))
    }

    pub(super) fn with(status: StatusCode, error: RpcError) -> Self {
        Self(Box::new(Words {
            status,
            id: None,
            error,
            logged: None,
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

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.0.status
    }

    pub(super) fn of_request(mut self, id: &RawJson) -> Self {
        self.0.id = Some(id.clone());
        self
    }

    /// What is logged in place of the words for the client, which hold a value that may be a secret.
    pub(super) fn logged_as(mut self, what: String) -> Self {
        self.0.logged = Some(what);
        self
    }

    /// As a response. One to a request whose id is not known has none, or `null` for a client whose version wants one.
    pub(super) fn response(self, no_id: NoId) -> Response<Body> {
        let Words {
            status,
            id,
            error,
            logged,
            header,
        } = *self.0;
        let why = Why(logged.unwrap_or_else(|| error.message().to_owned()));
        let line = match id {
            Some(id) => message::response(&id, &Err(error)),
            None => no_id.refusal(error),
        };
        let mut response = json(status, Body::Whole(line));
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response.extensions_mut().insert(why);
        response
    }
}

/// When a client may find room again for what did not fit.
const ROOM_AGAIN: Duration = Duration::from_secs(5);

impl From<Spent> for Refusal {
    fn from(spent: Spent) -> Self {
        let status = match spent {
            Spent::Share { .. } => StatusCode::TOO_MANY_REQUESTS,
            Spent::All { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::with(status, spent.into()).retry_after(ROOM_AGAIN)
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
