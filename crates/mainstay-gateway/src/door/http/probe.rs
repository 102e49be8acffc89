//! Whether the gateway is alive, and whether it can do its work: what a supervisor or a load balancer asks.
//!
//! The answers need no token and tell nothing else: no name, no version, no reason.

use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use super::body::Body;
use super::refusal::Refusal;
use super::route::not_allowed;
use super::service::HttpService;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// `/healthz`: whether the program answers at all.
    Health,
    /// `/readyz`: whether clients should be sent here now.
    Readiness,
}

impl Probe {
    pub(super) fn of(head: &Parts) -> Option<Self> {
        match head.uri.path() {
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Readiness),
            _other => None,
        }
    }
}

impl HttpService {
    pub(super) fn answer_probe(&self, probe: Probe, head: &Parts) -> Result<Response<Body>, Refusal> {
        if head.method != Method::GET && head.method != Method::HEAD {
            return Err(not_allowed("GET, HEAD"));
        }
        Ok(match probe {
            Probe::Health => plain(StatusCode::OK, "ok"),
            Probe::Readiness if !self.is_draining() && self.router.fleet().is_ready() => {
                plain(StatusCode::OK, "ready")
            }
            Probe::Readiness => plain(StatusCode::SERVICE_UNAVAILABLE, "not ready"),
        })
    }
}

fn plain(status: StatusCode, word: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::Whole(word.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    // An answer of a moment ago is worth nothing.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
