//! Another HTTP service at the same door, such as the control API.
//!
//! The door checks `Host`, `Origin` and the service's own token before the service sees a request. It refuses in the form of
//! RFC 9457, and not of JSON-RPC, since no MCP client asks there.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};

use super::guard::{HttpGuard, Unauthorized, allow_origin, bearer, preflight};
use super::response::{BodyContent, HttpRefusal, ResponseBody};
use super::service::HttpService;
use crate::principal::TokenDigest;

/// The body of a mounted service's response.
pub type MountBody = UnsyncBoxBody<Bytes, io::Error>;

/// Where the door listens. Each request to a mounted service carries it as an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorAddress(pub SocketAddr);

/// A service at the door of another.
pub trait HttpMount: Send + Sync + 'static {
    /// Answers a request that was admitted.
    fn handle(
        &self,
        request: Request<Incoming>,
    ) -> Pin<Box<dyn Future<Output = Response<MountBody>> + Send + '_>>;

    /// Whether a path needs no token.
    fn is_public(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// Whether a token that is not the mount's own lets a client use this path.
    fn admits(&self, path: &str, token: &str) -> bool {
        let _ = (path, token);
        false
    }
}

/// A mounted service.
#[derive(Clone)]
pub(super) struct Mounted {
    pub(super) paths: &'static [&'static str],
    pub(super) token: Option<TokenDigest>,
    pub(super) service: Arc<dyn HttpMount>,
}

impl Mounted {
    /// Whether this path is the service's.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.paths.iter().any(|own| {
            let below = path.strip_prefix(own);
            below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
        })
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<ResponseBody> {
        let answer = self.service.handle(request).await;
        answer.map(|body| ResponseBody::new(BodyContent::Mounted(body)))
    }

    fn check_token(&self, path: &str, headers: &HeaderMap) -> Result<(), Unauthorized> {
        if self.service.is_public(path) {
            return Ok(());
        }
        let shown = bearer(headers).ok_or(Unauthorized::NoToken)?;
        match self.token == Some(TokenDigest::of(shown)) || self.service.admits(path, shown) {
            true => Ok(()),
            false => Err(Unauthorized::WrongToken),
        }
    }
}

impl HttpService {
    /// Answers a request to the mounted service. Its `Host` was checked.
    pub(super) async fn respond_mounted(
        &self,
        mounted: &Mounted,
        peer: IpAddr,
        head: &Parts,
        body: Incoming,
    ) -> Response<ResponseBody> {
        let origin = match self.guard.check_own_origin(head) {
            Ok(origin) => origin,
            Err(refusal) => return refusal.problem(),
        };
        let mut answer = match preflight(head) {
            Some(answer) => answer,
            None => match self.check_mounted(mounted, peer, head).await {
                Ok(()) => {
                    let mut request = Request::from_parts(head.clone(), body);
                    request.extensions_mut().insert(DoorAddress(self.address));
                    mounted.answer(request).await
                }
                Err(refusal) => refusal.problem(),
            },
        };
        if let Some(origin) = origin {
            allow_origin(origin, &mut answer);
        }
        answer
    }

    async fn check_mounted(&self, mounted: &Mounted, peer: IpAddr, head: &Parts) -> Result<(), HttpRefusal> {
        let Err(unauthorized) = mounted.check_token(head.uri.path(), &head.headers) else {
            return Ok(());
        };
        self.delay_wrong_token(peer, unauthorized).await?;
        let remedy = "send the token in the file that the program named when it started";
        Err(HttpRefusal::from(unauthorized).remedy(remedy))
    }
}

impl HttpGuard {
    /// Checks that a web page comes from this very door, or from an allowed origin; returns an allowed origin. Other
    /// pages of this machine are not trusted with more than MCP.
    fn check_own_origin(&self, head: &Parts) -> Result<Option<HeaderValue>, HttpRefusal> {
        let mut origins = head.headers.get_all(header::ORIGIN).iter();
        let (Some(origin), another) = (origins.next(), origins.next()) else {
            return Ok(None);
        };
        let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        if another.is_none() {
            if self.origins.contains(&text) {
                return Ok(Some(origin.clone()));
            }
            let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let authority = text.split_once("://").map(|(_, authority)| authority);
            if authority.is_some() && authority == host.map(str::to_ascii_lowercase).as_deref() {
                return Ok(None);
            }
        }
        let what = "pages of this origin may not use the control API";
        Err(HttpRefusal::invalid(StatusCode::FORBIDDEN, what)
            .remedy("start the program with --allow-origin for it"))
    }
}
