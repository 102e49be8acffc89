//! Which requests are admitted.
//!
//! The checks of `Host` and `Origin` refuse web pages that a browser on this machine shows. By DNS rebinding such a page can
//! reach this machine under any name, but it cannot forge these headers. The token refuses all other strangers.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use super::options::HttpDoor;
use super::response::{HttpRefusal, ResponseBody, empty};
use super::tokens::DoorTokens;
use crate::principal::TokenDigest;

/// How long a browser may remember what it was allowed: two hours, the longest that common browsers do.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("7200");

/// The client that makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HttpCaller {
    /// All clients that send this token.
    Token(TokenDigest),
    /// All clients from this address, if the door needs no token.
    Peer(IpAddr),
}

impl HttpCaller {
    /// The client at this address. All IPv6 addresses of one network (/64) count as one.
    pub(super) fn from_peer(peer: IpAddr) -> Self {
        match peer.to_canonical() {
            IpAddr::V4(peer) => Self::Peer(IpAddr::V4(peer)),
            IpAddr::V6(peer) => Self::Peer(IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64))),
        }
    }

    /// Whether `by` may use what this caller opened: a token must be the same, an address may change.
    pub(super) fn may_use(self, by: Self) -> bool {
        match (self, by) {
            (Self::Token(mine), Self::Token(theirs)) => mine == theirs,
            (Self::Peer(_), Self::Peer(_)) => true,
            (Self::Token(_), Self::Peer(_)) | (Self::Peer(_), Self::Token(_)) => false,
        }
    }
}

/// Why a client is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unauthorized {
    NoToken,
    WrongToken,
}

impl From<Unauthorized> for HttpRefusal {
    fn from(unauthorized: Unauthorized) -> Self {
        let what = match unauthorized {
            Unauthorized::NoToken => "a bearer token is needed",
            Unauthorized::WrongToken => "the bearer token is not known",
        };
        Self::invalid(StatusCode::UNAUTHORIZED, what).header(header::WWW_AUTHENTICATE, "Bearer")
    }
}

/// Which clients a door admits.
#[derive(Clone, Default)]
pub(super) struct HttpGuard {
    /// Whether only this machine can reach the door.
    is_local: bool,
    /// Names of this server, without ports. A text that is no host matches no request.
    pub(super) hosts: Vec<String>,
    /// Origins of web pages, in lower case.
    pub(super) origins: Vec<String>,
    pub(super) tokens: DoorTokens,
}

impl HttpGuard {
    /// The guard of a door at this address.
    pub(super) fn new(door: &HttpDoor, address: IpAddr) -> Self {
        Self {
            is_local: address.is_loopback(),
            ..door.guard.clone()
        }
    }

    /// Checks the name of the server in a request.
    pub(super) fn check_host(&self, head: &Parts) -> Result<(), HttpRefusal> {
        let Some(named) = named_host(head)? else {
            return Err(bad_host("the Host header is missing"));
        };
        let is_own = |host: &str| match ip(host) {
            // DNS cannot make an address mean another machine.
            Some(address) => address.is_loopback() || !self.is_local,
            None => host.eq_ignore_ascii_case("localhost"),
        };
        let is_allowed = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        if host_in(named).is_some_and(|host| is_own(host) || is_allowed(host)) {
            return Ok(());
        }
        let what = format!("{named} is not a name of this server");
        Err(HttpRefusal::invalid(StatusCode::MISDIRECTED_REQUEST, what))
    }

    /// The same for a health probe, which may use any address, or send no name: its answer is no secret, and DNS cannot make
    /// an address mean another machine. A name must be one of this server.
    pub(super) fn check_probe(&self, head: &Parts) -> Result<(), HttpRefusal> {
        match named_host(head)? {
            None => Ok(()),
            Some(named) if host_in(named).and_then(ip).is_some() => Ok(()),
            Some(_) => self.check_host(head),
        }
    }

    /// Checks the origin of a request; returns it if the request comes from a web page.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, HttpRefusal> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else {
            return Ok(None);
        };
        let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        let is_answered = self.origins.contains(&text) || is_of_this_machine(&text);
        if is_answered && origins.next().is_none() {
            return Ok(Some(origin.clone()));
        }
        let what = "pages of this origin are not answered";
        Err(HttpRefusal::invalid(StatusCode::FORBIDDEN, what))
    }

    /// Checks the token, and returns the client.
    pub(super) fn caller(&self, headers: &HeaderMap, peer: IpAddr) -> Result<HttpCaller, Unauthorized> {
        if self.tokens.is_empty() {
            return Ok(HttpCaller::from_peer(peer));
        }
        let shown = bearer(headers).ok_or(Unauthorized::NoToken)?;
        let caller = HttpCaller::Token(TokenDigest::of(shown));
        let is_known = self.tokens.admits(caller);
        is_known.then_some(caller).ok_or(Unauthorized::WrongToken)
    }
}

/// The bearer token that a request shows.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The answer to the preflight request of a browser, if this is one.
pub(super) fn preflight(head: &Parts) -> Option<Response<ResponseBody>> {
    if head.method != Method::OPTIONS {
        return None;
    }
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, PATCH, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
    if let Some(wanted) = head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    Some(response)
}

/// Lets web pages of this origin read a response.
pub(super) fn allow_origin(origin: HeaderValue, response: &mut Response<ResponseBody>) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    let exposed = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

/// The host that a request names. A request with several names, or an unreadable one, is refused: a proxy may have read it
/// differently.
fn named_host(head: &Parts) -> Result<Option<&str>, HttpRefusal> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if another.is_some() {
        return Err(bad_host("there are several Host headers: send one"));
    }
    if let Some(authority) = head.uri.authority() {
        return Ok(Some(authority.as_str()));
    }
    let unreadable = |_| bad_host("the Host header is not ASCII");
    host.map(HeaderValue::to_str).transpose().map_err(unreadable)
}

fn bad_host(what: &str) -> HttpRefusal {
    HttpRefusal::invalid(StatusCode::BAD_REQUEST, what)
}

/// Whether this lower-case origin is of this machine: exactly `SCHEME://HOST` or `SCHEME://HOST:PORT` with a local host.
fn is_of_this_machine(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_local = |host: &str| host == "localhost" || ip(host).is_some_and(|ip| ip.is_loopback());
    is_scheme && host_in(authority).is_some_and(is_local)
}

/// The host in `HOST` or `HOST:PORT`, where an IPv6 address with a port stands in brackets. `None` for any other text, which
/// two readers could read in two ways.
pub(super) fn host_in(authority: &str) -> Option<&str> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let is_address = address.parse::<Ipv6Addr>().is_ok();
        return (is_address && is_port_or_nothing(port)).then_some(address);
    }
    if authority.parse::<Ipv6Addr>().is_ok() {
        return Some(authority);
    }
    let end = authority.find(':').unwrap_or(authority.len());
    let (host, port) = authority.split_at(end);
    (is_name(host) && is_port_or_nothing(port)).then_some(host)
}

/// Whether a text is empty, or a colon and a port. The port may be missing, as in `localhost:`.
fn is_port_or_nothing(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some("") => true,
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => text.is_empty(),
    }
}

/// Whether a text has only characters that the name of a host may have.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_name)
}

fn ip(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

#[cfg(test)]
mod tests;
