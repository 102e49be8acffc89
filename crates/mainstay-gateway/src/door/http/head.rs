//! What the headers of a posted message say. Those of a modern request must say the same as its body, as proxies route by
//! them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderName};
use mainstay::message::{RawJson, RpcError};

use super::response::HttpRefusal;
use crate::door::request::ClientRequest;
use crate::protocol::{
    HEADER_MISMATCH, LEGACY_VERSIONS, MODERN_VERSIONS, VERSION_KEY, missing_in_meta, unsupported_version,
};
use crate::router::Router;
use crate::scope::Scope;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// What most clients send, word for word. These are compared, and not parsed.
const USUAL_ACCEPT: &str = "application/json, text/event-stream";
const USUAL_CONTENT_TYPE: &str = "application/json";

/// The version that a client names in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedVersion<'a> {
    None,
    Legacy(&'a str),
    Modern,
    Unknown(&'a str),
}

impl<'a> NamedVersion<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let Some(version) = headers.get(VERSION) else {
            return Self::None;
        };
        let version = version.to_str().unwrap_or("");
        if MODERN_VERSIONS.contains(&version) {
            Self::Modern
        } else if LEGACY_VERSIONS.contains(&version) {
            Self::Legacy(version)
        } else {
            Self::Unknown(version)
        }
    }

    /// Refuses a version that the gateway does not speak.
    pub(super) fn check_known(self) -> Result<(), HttpRefusal> {
        match self {
            Self::Unknown(version) => Err(HttpRefusal::with(
                StatusCode::BAD_REQUEST,
                unsupported_version(version),
            )),
            Self::None | Self::Legacy(_) | Self::Modern => Ok(()),
        }
    }
}

/// The kinds of response that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// A client without an `Accept` header accepts everything.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, HttpRefusal> {
        let first = headers.get(header::ACCEPT);
        if first.is_none_or(|first| first == USUAL_ACCEPT) {
            return Ok(Self {
                json: true,
                events: true,
            });
        }
        let mut accepts = Self {
            json: false,
            events: false,
        };
        let listed = headers
            .get_all(header::ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok());
        for kind in listed.flat_map(|value| value.split(',')) {
            let kind = media_type(kind);
            let is = |name: &str| kind.eq_ignore_ascii_case(name);
            let all = is("*/*");
            accepts.json |= all || is("application/json") || is("application/*");
            accepts.events |= all || is("text/event-stream") || is("text/*");
        }
        if accepts.json || accepts.events {
            return Ok(accepts);
        }
        let what = "accept application/json and text/event-stream: answers are one or the other";
        Err(HttpRefusal::invalid(StatusCode::NOT_ACCEPTABLE, what))
    }
}

pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let named = headers.get(header::CONTENT_TYPE);
    if named.is_some_and(|named| named == USUAL_CONTENT_TYPE) {
        return Ok(());
    }
    let named = named.and_then(|value| value.to_str().ok());
    if named.is_some_and(|named| media_type(named).eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let what = "the body must be application/json";
    Err(HttpRefusal::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, what))
}

/// A media type without its parameters.
fn media_type(text: &str) -> &str {
    let (kind, _parameters) = text.split_once(';').unwrap_or((text, ""));
    kind.trim()
}

/// Checks that a modern request has what it must have, and says the same in its headers and its body.
pub(super) fn check_modern(
    headers: &HeaderMap,
    request: &ClientRequest,
    scope: &Scope,
    router: &Router,
) -> Result<(), HttpRefusal> {
    let bad = |error: RpcError| HttpRefusal::with(StatusCode::BAD_REQUEST, error);
    let Some(version) = request.meta.version.as_deref() else {
        return Err(bad(missing_in_meta(VERSION_KEY)));
    };
    check_equal(
        "MCP-Protocol-Version",
        text(headers, "mcp-protocol-version"),
        version,
    )?;
    request.meta.check().map_err(bad)?;
    check_equal("Mcp-Method", text(headers, "mcp-method"), &request.method)?;
    let field = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        // The extension for tasks is newer: its clients may not know the header yet.
        "tasks/get" | "tasks/update" | "tasks/cancel" if headers.contains_key("mcp-name") => "taskId",
        _other => return Ok(()),
    };
    let params = &request.params;
    let Some(named) = params.get(field).and_then(|named| named.parse::<String>().ok()) else {
        // The router reports what is missing.
        return Ok(());
    };
    check_equal("Mcp-Name", decoded(headers, "mcp-name").as_deref(), &named)?;
    match (request.method.as_str(), params.get("arguments")) {
        ("tools/call", Some(arguments)) => {
            check_arguments(headers, router.mirrored(scope, &named, arguments))
        }
        _other => Ok(()),
    }
}

/// Checks the arguments that a tool wants mirrored in headers.
fn check_arguments(headers: &HeaderMap, mirrored: Vec<(String, RawJson)>) -> Result<(), HttpRefusal> {
    for (name, value) in mirrored {
        let header = format!("Mcp-Param-{name}");
        let shown = decoded(headers, &header);
        let number = value.parse::<f64>().ok();
        // Numbers are compared by value, however they are written.
        if number.is_some() && shown.as_deref().and_then(|shown| shown.parse().ok()) == number {
            continue;
        }
        let meant = value.parse().unwrap_or_else(|_| value.to_string());
        // The values are the caller's, and may be secret.
        let differs = || format!("the {header} header does not say what the body says");
        check_equal(&header, shown.as_deref(), &meant).map_err(|refusal| refusal.logged_as(differs()))?;
    }
    Ok(())
}

fn check_equal(header: &str, shown: Option<&str>, meant: &str) -> Result<(), HttpRefusal> {
    let what = match shown {
        Some(shown) if shown == meant => return Ok(()),
        Some(shown) => format!("the {header} header says {shown:?}, the body {meant:?}"),
        None => format!("the {header} header is missing or unreadable: the body says {meant:?}"),
    };
    Err(HttpRefusal::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, what))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The value of a header, which clients encode in base64 if a header cannot hold it as it is.
fn decoded(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = text(headers, name)?;
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}
