//! The dashboard: a page that the program serves itself, and the logins that let a browser use the API.
//!
//! The files need no token, since they hold no data. A browser is let in by a link that works once, which `mainstay ui` makes, and asks
//! for its tokens from then on.

mod assets;
mod login;
mod session;

pub use login::{PAGE_CODE_LIFETIME, PageLogins};

use std::error::Error;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use mainstay_gateway::{DoorAddress, MountBody};
use serde::{Deserialize, Serialize};

use crate::api::{ApiProblem, EventDetail, ProblemKind};
use crate::journal::Journal;
use crate::service::{bytes_answer, json_answer, read_json, shown};
use login::Redeemed;
use session::KeyKind;

/// Where the dashboard is.
pub const PAGE_ROOT: &str = "/ui";

/// A page that loads nothing from elsewhere and runs nothing that is not one of its files.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                              base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The code of a link.
#[derive(Deserialize)]
struct PageLogin {
    code: String,
}

/// A page asks for its next token. Any program may ask: only the page can read the answer.
#[derive(Deserialize)]
struct TokenRequest {
    session: String,
    key: KeyKind,
    nonce: String,
}

#[derive(Serialize)]
struct SealedToken {
    sealed: String,
}

/// Answers a request below [`PAGE_ROOT`].
pub(crate) async fn answer<B>(
    head: &Parts,
    body: B,
    logins: Option<&PageLogins>,
    journal: &Journal,
) -> Result<Response<MountBody>, ApiProblem>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let below = head.uri.path().strip_prefix(PAGE_ROOT).unwrap_or_default();
    match (&head.method, below) {
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
            let PageLogin { code } = read_json(&head.headers, body).await?;
            let redeemed = match (logins, address(head)) {
                (Some(logins), Some(DoorAddress(address))) => logins.redeem(&code, address),
                (None, _) | (_, None) => Redeemed::Refused,
            };
            let agent = head.headers.get(header::USER_AGENT);
            let agent = agent.and_then(|agent| agent.to_str().ok()).map(shown);
            log_in(redeemed, agent, journal)
        }
        (&Method::POST, "/token") => {
            let TokenRequest { session, key, nonce } = read_json(&head.headers, body).await?;
            let sealed = logins
                .zip(address(head))
                .and_then(|(logins, DoorAddress(address))| logins.seal_token(&session, key, &nonce, address));
            let sealed = sealed.ok_or_else(|| {
                ApiProblem::new(ProblemKind::Refused, "the login of this page is over").remedy(AGAIN)
            })?;
            Ok(json_answer(&SealedToken { sealed }))
        }
        _other => {
            Err(ApiProblem::new(ProblemKind::MethodNotAllowed, "the dashboard is read").remedy("use GET"))
        }
    }
}

/// What helps a page that is not let in.
const AGAIN: &str = "run `mainstay ui` for another login";

/// Where the door listens that a request came through.
fn address(head: &Parts) -> Option<DoorAddress> {
    head.extensions.get().copied()
}

/// Answers the use of a link, and records it.
fn log_in(
    redeemed: Redeemed,
    agent: Option<String>,
    journal: &Journal,
) -> Result<Response<MountBody>, ApiProblem> {
    let refused = |title| Err(ApiProblem::new(ProblemKind::Refused, title).remedy(AGAIN));
    match redeemed {
        Redeemed::Opened { link, keys } => {
            let again = false;
            journal.write(None, EventDetail::PageLinkUsed { link, again, agent });
            Ok(json_answer(&keys))
        }
        Redeemed::Again { link } => {
            tracing::warn!(
                link,
                agent,
                "a link to the dashboard was used twice: the page that it opened is logged out"
            );
            let again = true;
            journal.write(None, EventDetail::PageLinkUsed { link, again, agent });
            refused("this login link was used before, so the page that it opened is logged out too")
        }
        Redeemed::Refused => refused("this login link is too old, or was never valid"),
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
