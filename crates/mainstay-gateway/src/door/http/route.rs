//! What a path means.

use std::borrow::Cow;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode, header};
use mainstay::Fleet;
use mainstay::gateway::message::RpcError;

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
    let server = &*decoded(server).ok_or_else(|| {
        let what =
            "the server's name in the path is not percent-encoded UTF-8, or holds an encoded slash or NUL";
        Refusal::new(StatusCode::BAD_REQUEST, RpcError::INVALID_REQUEST, what)
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
    Err(Refusal::new(
        StatusCode::NOT_FOUND,
        RpcError::INVALID_REQUEST,
        what,
    ))
}

/// A server's name as it was before it was percent-encoded into a path. `None` for text that is no encoding of a name, and for an
/// encoded slash or NUL: another reader of the path could take those for something else. A name may have slashes as they are.
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
    fn a_name_is_read_from_a_path_as_it_was_before_it_was_encoded() {
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
