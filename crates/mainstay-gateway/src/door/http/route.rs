//! What a path means.

use hyper::http::request::Parts;
use hyper::{Method, StatusCode, header};
use mainstay::Fleet;
use mainstay::message::RpcError;

use super::refusal::Refusal;
use crate::scope::Scope;

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A message of a client.
    Post(Scope),
    /// A stream of a session.
    Listen(Scope),
    /// The end of a session.
    End(Scope),
    /// A session over HTTP+SSE.
    Sse(Scope),
    /// A message of a client over HTTP+SSE, to the session of this id.
    SseMessage(String),
}

impl Route {
    /// Whether a request is one of HTTP+SSE.
    pub(super) fn is_of_sse(head: &Parts) -> bool {
        let path = head.uri.path().trim_matches('/');
        let place = path.split('/').next();
        matches!(place, Some("sse" | "messages"))
    }

    pub(super) fn of(head: &Parts, fleet: &Fleet) -> Result<Self, Refusal> {
        let path = head.uri.path().trim_matches('/');
        let (place, server) = match path.split_once('/') {
            Some((place, server)) => (place, Some(server)),
            None => (path, None),
        };
        match (place, server) {
            ("mcp", server) => {
                let scope = scope(server, fleet)?;
                match head.method {
                    Method::POST => Ok(Self::Post(scope)),
                    Method::GET => Ok(Self::Listen(scope)),
                    Method::DELETE => Ok(Self::End(scope)),
                    _ => Err(not_allowed("GET, POST, DELETE")),
                }
            }
            ("sse", server) if head.method == Method::GET => Ok(Self::Sse(scope(server, fleet)?)),
            ("sse", _) => Err(not_allowed("GET")),
            ("messages", None) if head.method == Method::POST => {
                let query = head.uri.query().unwrap_or_default();
                let session = query.split('&').find_map(|field| field.strip_prefix("session="));
                Ok(Self::SseMessage(session.unwrap_or_default().to_owned()))
            }
            ("messages", None) => Err(not_allowed("POST")),
            _ => {
                let what = "there is nothing here: /mcp is all servers, /mcp/SERVER is one of them";
                Err(Refusal::new(
                    StatusCode::NOT_FOUND,
                    RpcError::INVALID_REQUEST,
                    what,
                ))
            }
        }
    }
}

/// A method that means nothing here.
pub(super) fn not_allowed(allowed: &str) -> Refusal {
    let what = format!("the method is not one of {allowed}");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, RpcError::INVALID_REQUEST, what)
        .header(header::ALLOW, allowed)
}

fn scope(server: Option<&str>, fleet: &Fleet) -> Result<Scope, Refusal> {
    let Some(server) = server else {
        return Ok(Scope::Union);
    };
    if fleet.server(server).is_some() {
        return Ok(Scope::Server(server.into()));
    }
    let names: Vec<String> = fleet
        .servers()
        .iter()
        .map(|server| server.name().to_owned())
        .collect();
    let what = match names.as_slice() {
        [] => format!("there is no server {server}, nor any other"),
        names => format!("there is no server {server}; there are: {}", names.join(", ")),
    };
    Err(Refusal::new(
        StatusCode::NOT_FOUND,
        RpcError::INVALID_REQUEST,
        what,
    ))
}
