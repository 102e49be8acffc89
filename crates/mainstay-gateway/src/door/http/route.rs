//! What the path and the method of a request ask for.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use mainstay::Fleet;

use super::response::{HttpRefusal, ResponseBody, plain};
use super::service::HttpService;
use crate::scope::Scope;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HttpRoute {
    /// A client sends a message.
    Post(Scope),
    /// A client opens a stream of its session.
    Listen(Scope),
    /// A client ends its session.
    End(Scope),
    /// A client opens a session over HTTP+SSE.
    OpenSse(Scope),
    /// A client over HTTP+SSE sends a message in the session of this id.
    PostSse(String),
}

impl HttpRoute {
    /// Whether a request belongs to HTTP+SSE.
    pub(super) fn is_of_sse(head: &Parts) -> bool {
        let path = head.uri.path().trim_matches('/');
        let place = path.split('/').next();
        matches!(place, Some("sse" | "messages"))
    }

    pub(super) fn of(head: &Parts, fleet: &Fleet) -> Result<Self, HttpRefusal> {
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
                    _ => Err(HttpRefusal::method_not_allowed("GET, POST, DELETE")),
                }
            }
            ("sse", server) if head.method == Method::GET => Ok(Self::OpenSse(scope(server, fleet)?)),
            ("sse", _) => Err(HttpRefusal::method_not_allowed("GET")),
            ("messages", None) if head.method == Method::POST => {
                let query = head.uri.query().unwrap_or_default();
                let session = query.split('&').find_map(|field| field.strip_prefix("session="));
                Ok(Self::PostSse(session.unwrap_or_default().to_owned()))
            }
            ("messages", None) => Err(HttpRefusal::method_not_allowed("POST")),
            _ => {
                let what = "there is nothing here: /mcp is all servers, /mcp/SERVER is one of them";
                Err(HttpRefusal::invalid(StatusCode::NOT_FOUND, what))
            }
        }
    }
}

/// What a supervisor or a load balancer asks. The answers need no token. A client that may use MCP learns why the gateway is not
/// ready; to others the answers disclose no name, version or reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthProbe {
    /// `/healthz` or `/health`: does the program answer?
    Liveness,
    /// `/readyz`: should clients be sent here now?
    Readiness,
}

impl HealthProbe {
    pub(super) fn of(head: &Parts) -> Option<Self> {
        match head.uri.path() {
            "/healthz" | "/health" => Some(Self::Liveness),
            "/readyz" => Some(Self::Readiness),
            _other => None,
        }
    }

    pub(super) async fn answer(
        self,
        service: &HttpService,
        peer: IpAddr,
        head: &Parts,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        if head.method != Method::GET && head.method != Method::HEAD {
            return Err(HttpRefusal::method_not_allowed("GET, HEAD"));
        }
        Ok(match self {
            Self::Liveness => plain(StatusCode::OK, "ok"),
            Self::Readiness if service.is_ready() => plain(StatusCode::OK, "ready"),
            Self::Readiness => {
                let mut answer = "not ready".to_owned();
                if service.may_use_mcp(peer, head).await? {
                    answer.extend(service.unready().map(|reason| format!("\n{reason}")));
                }
                plain(StatusCode::SERVICE_UNAVAILABLE, answer)
            }
        })
    }
}

fn scope(server: Option<&str>, fleet: &Fleet) -> Result<Scope, HttpRefusal> {
    let Some(server) = server else {
        return Ok(Scope::Union);
    };
    let server = &*decoded(server).ok_or_else(|| {
        let what =
            "the server's name in the path is not percent-encoded UTF-8, or holds an encoded slash or NUL";
        HttpRefusal::invalid(StatusCode::BAD_REQUEST, what)
    })?;
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
    Err(HttpRefusal::invalid(StatusCode::NOT_FOUND, what))
}

/// The name of a server, decoded from a path. A name may have plain slashes. `None` if the text is no valid encoding, or has
/// an encoded slash or NUL, which another reader of the path could read differently.
fn decoded(name: &str) -> Option<Cow<'_, str>> {
    if !name.contains('%') {
        return Some(Cow::Borrowed(name));
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let byte = (hex(rest.next()?)? << 4) | hex(rest.next()?)?;
                (byte != b'/' && byte != 0).then_some(byte)?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_name_in_a_path_is_decoded() {
        for (name, expected) in [
            ("files", Some("files")),
            ("my%20server", Some("my server")),
            ("caf%C3%A9", Some("café")),
            ("100%25", Some("100%")),
            ("%61%2b", Some("a+")),
            ("io.example/one%20two", Some("io.example/one two")),
            ("a%2fb", None),
            ("a%00", None),
            ("%ff", None),
            ("%", None),
            ("%2", None),
            ("%zz", None),
            ("%+1", None),
        ] {
            assert_eq!(decoded(name).as_deref(), expected, "{name}");
        }
    }
}
