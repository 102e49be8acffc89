//! What a request says: its query, its body, and who sent it.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{self, HeaderMap};
use hyper::http::Uri;
use hyper::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::route::shown;
use crate::api::{Actor, ActorKind, ApiProblem, ProblemKind};

/// The longest body in bytes: an entry of a configuration has a few hundred.
pub(super) const BODY_LIMIT: usize = 256 * 1024;

/// How long a client may take to send the body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// By what means a person gave a command.
pub(crate) const VIA_HEADER: &str = "mainstay-via";

/// The parameters of a request.
pub(super) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    pub(super) fn of(uri: &'a Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self(form_urlencoded::parse(query.as_bytes()).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| &**value)
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, ApiProblem> {
        match self.get(name) {
            None => Ok(None),
            Some("true" | "1" | "") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(other) => Err(bad_parameter(name, other, "true or false")),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, ApiProblem> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let number = text.parse().map_err(|_| bad_parameter(name, text, "a number"))?;
        Ok(Some(number))
    }
}

pub(super) fn bad_parameter(name: &str, value: &str, wanted: &str) -> ApiProblem {
    let title = format!("the parameter {name} is {}, which is not {wanted}", shown(value));
    ApiProblem::new(ProblemKind::BadRequest, title).at(name)
}

/// What let a request in. Its door adds it to the request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Admission {
    /// The unix socket, which lets this user in alone.
    User(u32),
    /// The token of the control API.
    ControlToken,
    /// The login of a page of the dashboard.
    PageLogin,
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "uid {user}"),
            Self::ControlToken => f.write_str("control token"),
            Self::PageLogin => f.write_str("dashboard login"),
        }
    }
}

/// Who sends a command.
pub(super) fn actor(head: &Parts) -> Actor {
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let via = match text(VIA_HEADER) {
        Some("command") => ActorKind::Command,
        Some("dashboard") => ActorKind::Dashboard,
        Some("top") => ActorKind::Top,
        Some(_) | None => ActorKind::Api,
    };
    Actor {
        via,
        agent: text(header::USER_AGENT.as_str()).map(shown),
        who: head.extensions.get::<Admission>().map(Admission::to_string),
    }
}

/// Reads the whole body, within limits.
pub(super) async fn read_body<B>(headers: &HeaderMap, body: B) -> Result<Bytes, ApiProblem>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let too_large = || {
        let title = format!("the body is longer than {BODY_LIMIT} bytes");
        ApiProblem::new(ProblemKind::TooLarge, title)
    };
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > BODY_LIMIT as u64) {
        return Err(too_large());
    }
    let body = std::pin::pin!(body);
    let reading = Limited::new(body, BODY_LIMIT).collect();
    match timeout(BODY_TIMEOUT, reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiProblem::new(
            ProblemKind::BadRequest,
            "the body ended before it was whole",
        )),
        Err(_) => Err(ApiProblem::new(
            ProblemKind::TimedOut,
            "the body did not arrive in time",
        )),
    }
}

/// Reads a body of JSON. Without a body, the value is the default.
pub(super) async fn read_json_if_any<B, T>(headers: &HeaderMap, body: B) -> Result<T, ApiProblem>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    T: DeserializeOwned + Default,
{
    let body = read_body(headers, body).await?;
    if body.is_empty() {
        return Ok(T::default());
    }
    check_announced(headers)?;
    parse(&body)
}

/// Reads a body of JSON.
pub(crate) async fn read_json<B, T>(headers: &HeaderMap, body: B) -> Result<T, ApiProblem>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    T: DeserializeOwned,
{
    check_announced(headers)?;
    let body = read_body(headers, body).await?;
    parse(&body)
}

/// Checks that the body is announced as JSON, which no page of another origin can do unasked.
fn check_announced(headers: &HeaderMap) -> Result<(), ApiProblem> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let is_json = kind.is_some_and(|kind| {
        let essence = kind.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    });
    if is_json {
        return Ok(());
    }
    let title = "the body is not announced as JSON";
    let problem = ApiProblem::new(ProblemKind::BadRequest, title).at("Content-Type");
    Err(problem.remedy("send Content-Type: application/json"))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiProblem> {
    serde_json::from_slice(body).map_err(|error| {
        // The error of a parser names a place and a type, and no value.
        let place = format!("line {}, column {}", error.line(), error.column());
        let what = match error.classify() {
            serde_json::error::Category::Data => "the JSON in the body does not have the form that is wanted",
            serde_json::error::Category::Syntax | serde_json::error::Category::Eof => "the body is not JSON",
            serde_json::error::Category::Io => "the body cannot be read",
        };
        ApiProblem::new(ProblemKind::BadRequest, what).at(place)
    })
}
