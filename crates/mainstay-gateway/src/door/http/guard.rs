//! Who may come in.
//!
//! `Host` and `Origin` keep web pages out: a page that a browser on this machine shows may name this machine as it likes
//! (DNS rebinding), but not lie about the name. The token keeps everybody else out.

use std::net::{IpAddr, Ipv6Addr};

use super::body::Body;
use super::options::HttpDoor;
use super::refusal::{Refusal, empty};
use crate::principal::TokenDigest;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use mainstay::gateway::message::RpcError;

/// How long a browser may remember what it was allowed: two hours, the longest that the common ones do.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Who makes a request, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// Who shows this token.
    Token(TokenDigest),
    /// Who comes from there, and need not show a token.
    Peer(IpAddr),
}

impl Caller {
    /// Who comes from there. The addresses that one network gives its host count as one.
    pub(super) fn from_peer(peer: IpAddr) -> Self {
        match peer.to_canonical() {
            IpAddr::V4(peer) => Self::Peer(IpAddr::V4(peer)),
            IpAddr::V6(peer) => Self::Peer(IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64))),
        }
    }

    /// Whether what this caller opened may be used by that one: a token must be the same, an address may change.
    pub(super) fn may_use(self, by: Self) -> bool {
        match (self, by) {
            (Self::Token(mine), Self::Token(theirs)) => mine == theirs,
            (Self::Peer(_), Self::Peer(_)) => true,
            (Self::Token(_), Self::Peer(_)) | (Self::Peer(_), Self::Token(_)) => false,
        }
    }
}

/// Who does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// Shows no token.
    NoToken,
    /// Shows one that is not known.
    WrongToken,
}

impl From<Stranger> for Refusal {
    fn from(stranger: Stranger) -> Self {
        let what = match stranger {
            Stranger::NoToken => "a bearer token is needed",
            Stranger::WrongToken => "the bearer token is not known",
        };
        Self::new(StatusCode::UNAUTHORIZED, RpcError::INVALID_REQUEST, what)
            .header(header::WWW_AUTHENTICATE, "Bearer")
    }
}

pub(super) struct Guard {
    /// Listens where only this machine reaches it.
    is_local: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// To compare tokens is to compare these: whoever guesses learns nothing from how long it takes.
    tokens: Vec<TokenDigest>,
}

impl Guard {
    pub(super) fn new(door: &HttpDoor, address: IpAddr) -> Self {
        Self {
            is_local: address.is_loopback(),
            hosts: door
                .hosts
                .iter()
                // What is no host is kept as it was written, and no request names it.
                .map(|host| host_in(host).unwrap_or(host).to_owned())
                .collect(),
            origins: door.origins.clone(),
            tokens: door
                .tokens
                .iter()
                .map(|token| TokenDigest::of(token.expose()))
                .collect(),
        }
    }

    /// Checks under which name the request was sent.
    pub(super) fn check_host(&self, head: &Parts) -> Result<(), Refusal> {
        let Some(named) = named(head)? else {
            return Err(bad_host("the Host header is missing"));
        };
        let is_own = |host: &str| match ip(host) {
            // Nobody can make an address mean another machine.
            Some(address) => address.is_loopback() || !self.is_local,
            None => host.eq_ignore_ascii_case("localhost"),
        };
        let is_allowed = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        if host_in(named).is_some_and(|host| is_own(host) || is_allowed(host)) {
            return Ok(());
        }
        let what = format!("{named} is not a name of this server");
        Err(Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            RpcError::INVALID_REQUEST,
            what,
        ))
    }

    /// The same for a probe, which may come by any address, and without a name: what it learns is no secret, and nobody can
    /// make an address mean another machine. A name must still be one of this server.
    pub(super) fn check_probe(&self, head: &Parts) -> Result<(), Refusal> {
        match named(head)? {
            None => Ok(()),
            Some(named) if host_in(named).and_then(ip).is_some() => Ok(()),
            Some(_) => self.check_host(head),
        }
    }

    /// Checks which page the request comes from; the origin, when it comes from one.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
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
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            RpcError::INVALID_REQUEST,
            what,
        ))
    }

    /// Checks the token.
    pub(super) fn caller(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Caller, Stranger> {
        if self.tokens.is_empty() {
            return Ok(Caller::from_peer(peer));
        }
        let shown = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let shown = TokenDigest::of(shown.ok_or(Stranger::NoToken)?);
        let is_known = self.tokens.contains(&shown);
        is_known
            .then_some(Caller::Token(shown))
            .ok_or(Stranger::WrongToken)
    }
}

/// What a browser asks before it lets a page of an allowed origin make a request.
pub(super) fn preflight(head: &Parts) -> Option<Response<Body>> {
    if head.method != Method::OPTIONS {
        return None;
    }
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
    if let Some(wanted) = head.headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    Some(response)
}

/// Lets a page of this origin read a response.
pub(super) fn readable_by(origin: HeaderValue, response: &mut Response<Body>) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    let exposed = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

/// The name under which a request was sent. Two names, or one that cannot be read, are a request that another reader may
/// take for another host's.
fn named(head: &Parts) -> Result<Option<&str>, Refusal> {
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

fn bad_host(what: &str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, RpcError::INVALID_REQUEST, what)
}

/// Whether this is the origin, in lower case, of a page that this machine serves or a program on it shows: `SCHEME://HOST`
/// or `SCHEME://HOST:PORT`, and nothing else.
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

/// The host in `HOST` or `HOST:PORT`, where an IPv6 address stands in brackets if there is a port. `None` for any other
/// text: what is not exactly an authority could be read in two ways.
fn host_in(authority: &str) -> Option<&str> {
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

/// Nothing, or a colon and a port. The port itself may be missing, as in `localhost:`.
fn is_port_or_nothing(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some("") => true,
        Some(port) => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        None => text.is_empty(),
    }
}

/// Whether a text holds only what the name of a host may hold.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_name)
}

fn ip(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

#[cfg(test)]
mod tests;
