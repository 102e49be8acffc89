//! Answers: JSON, problems, streams of events.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use mainstay_gateway::MountBody;
use serde::Serialize;

use crate::api::{ApiProblem, ProblemKind};

pub(crate) fn json_answer(value: &impl Serialize) -> Response<MountBody> {
    match serde_json::to_vec(value) {
        Ok(json) => bytes_answer(StatusCode::OK, "application/json", json.into()),
        Err(error) => {
            tracing::warn!(%error, "an answer of the control API cannot be written as JSON");
            let title = "the answer cannot be written as JSON";
            problem_answer(&ApiProblem::new(ProblemKind::Internal, title))
        }
    }
}

pub(crate) fn bytes_answer(
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> Response<MountBody> {
    let body = Full::new(body).map_err(|never| match never {});
    with_type(status, content_type, body.boxed_unsync())
}

pub(super) fn problem_answer(problem: &ApiProblem) -> Response<MountBody> {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = serde_json::to_vec(problem).unwrap_or_default();
    let mut answer = bytes_answer(status, "application/problem+json", json.into());
    let allowed = problem
        .remedy
        .as_deref()
        .and_then(|remedy| remedy.strip_prefix("use "));
    if problem.kind == ProblemKind::MethodNotAllowed
        && let Some(allowed) = allowed.and_then(|allowed| HeaderValue::from_str(allowed).ok())
    {
        answer.headers_mut().insert(header::ALLOW, allowed);
    }
    answer
}

/// A stream of server-sent events.
pub(super) fn stream_answer(
    body: impl Body<Data = Bytes, Error = io::Error> + Send + 'static,
) -> Response<MountBody> {
    let mut answer = with_type(StatusCode::OK, "text/event-stream", body.boxed_unsync());
    let no_buffering = HeaderValue::from_static("no");
    answer.headers_mut().insert("x-accel-buffering", no_buffering);
    answer
}

fn with_type(status: StatusCode, content_type: &'static str, body: MountBody) -> Response<MountBody> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}
