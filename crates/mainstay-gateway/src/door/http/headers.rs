//! The headers of a modern request, by which others route it: they must say what the body says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use mainstay::gateway::message::{RawJson, RpcError};

use super::post::Asked;
use super::refusal::Refusal;
use crate::protocol::{HEADER_MISMATCH, VERSION_KEY, missing_in_meta};
use crate::router::Router;
use crate::scope::Scope;

/// Checks that a request says what it must, and the same in its headers and its body.
pub(super) fn check(
    headers: &HeaderMap,
    asked: &Asked,
    scope: &Scope,
    router: &Router,
) -> Result<(), Refusal> {
    let bad = |error: RpcError| Refusal::with(StatusCode::BAD_REQUEST, error);
    let Some(version) = asked.meta.version.as_deref() else {
        return Err(bad(missing_in_meta(VERSION_KEY)));
    };
    check_equal(
        "MCP-Protocol-Version",
        shown(headers, "mcp-protocol-version"),
        version,
    )?;
    asked.meta.check().map_err(bad)?;
    check_equal("Mcp-Method", shown(headers, "mcp-method"), &asked.method)?;
    let field = match asked.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        // The extension came later: a client may not know yet that it is to be seen.
        "tasks/get" | "tasks/update" | "tasks/cancel" if headers.contains_key("mcp-name") => "taskId",
        _other => return Ok(()),
    };
    let params = &asked.params;
    let Some(named) = params.get(field).and_then(|named| named.parse::<String>().ok()) else {
        // The desk says what is missing.
        return Ok(());
    };
    check_equal("Mcp-Name", decoded(headers, "mcp-name").as_deref(), &named)?;
    match (asked.method.as_str(), params.get("arguments")) {
        ("tools/call", Some(arguments)) => {
            check_arguments(headers, router.mirrored(scope, &named, arguments))
        }
        _other => Ok(()),
    }
}

/// Checks the arguments that a tool wants to be seen.
fn check_arguments(headers: &HeaderMap, mirrored: Vec<(String, RawJson)>) -> Result<(), Refusal> {
    for (name, value) in mirrored {
        let header = format!("Mcp-Param-{name}");
        let shown = decoded(headers, &header);
        let number = value.parse::<f64>().ok();
        // Numbers are the same however they are written.
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

fn check_equal(header: &str, shown: Option<&str>, meant: &str) -> Result<(), Refusal> {
    let what = match shown {
        Some(shown) if shown == meant => return Ok(()),
        Some(shown) => format!("the {header} header says {shown:?}, the body {meant:?}"),
        None => format!("the {header} header is missing or unreadable: the body says {meant:?}"),
    };
    Err(Refusal::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, what))
}

fn shown<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A header whose value is encoded where it does not fit into one as it is.
fn decoded(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = shown(headers, name)?;
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}
