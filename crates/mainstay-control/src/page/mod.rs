//! The dashboard: a page that the program serves itself, and the logins that let a browser use the API.
//!
//! The files need no token, since they hold no data. A browser gets its token with a code that works once, which `mainstay ui` puts
//! into the address that it opens.

mod assets;
mod login;

pub use login::{PAGE_CODE_LIFETIME, PageLogins};

use std::error::Error;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use mainstay_gateway::MountBody;
use serde::{Deserialize, Serialize};

use crate::api::{ApiProblem, ProblemKind};
use crate::service::{bytes_answer, json_answer, read_json};

/// Where the dashboard is.
pub const PAGE_ROOT: &str = "/ui";

/// A page that loads nothing from elsewhere and runs nothing that is not one of its files.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                              base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The code of a login link.
#[derive(Deserialize)]
struct PageLogin {
    code: String,
}

/// The token for a page. Has no `Debug`.
#[derive(Serialize)]
struct LoginAnswer {
    token: String,
}

/// Answers a request below [`PAGE_ROOT`].
pub(crate) async fn answer<B>(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    body: B,
    logins: Option<&PageLogins>,
) -> Result<Response<MountBody>, ApiProblem>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let below = path.strip_prefix(PAGE_ROOT).unwrap_or_default();
    match (method, below) {
        // The files are named relative to the directory.
        (&Method::GET | &Method::HEAD, "") => Ok(redirected()),
        (&Method::GET | &Method::HEAD, _) => {
            let name = below.trim_start_matches('/');
            let asset = assets::find(if name.is_empty() { "index.html" } else { name });
            asset.map(file).ok_or_else(|| {
                let problem = ApiProblem::new(ProblemKind::NotFound, "the dashboard has no such file");
                problem.remedy("the page is at /ui/")
            })
        }
        (&Method::POST, "/login") => {
            let PageLogin { code } = read_json(headers, body).await?;
            let token = logins.and_then(|logins| logins.redeem(&code)).ok_or_else(|| {
                let title = "this login link was used already, or is too old";
                ApiProblem::new(ProblemKind::Refused, title).remedy("run `mainstay ui` for another one")
            })?;
            Ok(json_answer(&LoginAnswer { token }))
        }
        _other => {
            Err(ApiProblem::new(ProblemKind::MethodNotAllowed, "the dashboard is read").remedy("use GET"))
        }
    }
}

fn redirected() -> Response<MountBody> {
    let mut answer = bytes_answer(StatusCode::PERMANENT_REDIRECT, "text/plain", Bytes::new());
    answer
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_static("/ui/"));
    answer
}

fn file(asset: &assets::Asset) -> Response<MountBody> {
    let mut answer = bytes_answer(
        StatusCode::OK,
        asset.content_type,
        Bytes::from_static(asset.bytes),
    );
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(CONTENT_POLICY),
    );
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}
