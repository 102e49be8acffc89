//! What a person can do about a server over HTTP.

use std::io::ErrorKind;

use mainstay::Failure;
use mainstay::config::{HttpKind, HttpTarget, OAuthSetting};
use mainstay::transport::HttpFailure;
use mainstay::transport::http::HttpStage;

/// Where nothing better is known.
const IS_IT_THERE: &str = "is this the address of an MCP server?";

/// The next step for a server that asks for a login.
pub(super) fn login(target: &HttpTarget) -> &'static str {
    if target.has_credentials() {
        "its token is refused: is it still valid, and meant for this server?"
    } else if *target.oauth() == OAuthSetting::Off {
        r#"put a token for it into a variable, and name the variable in "bearer_token_env""#
    } else {
        r#"log in, or put a token for it into a variable and name the variable in "bearer_token_env""#
    }
}

/// The next step for one that cannot be reached, or answers badly.
pub(super) fn advice(target: &HttpTarget, failure: &Failure) -> String {
    let Some(http) = &failure.http else {
        return no_answer(target).to_owned();
    };
    let advice = match &**http {
        HttpFailure::ConnectFailed { kind, message } => match kind {
            ErrorKind::ConnectionRefused => "is the server running? nothing listens at this address",
            ErrorKind::InvalidData | ErrorKind::InvalidInput if message.contains("CaUsedAsEndEntity") => {
                "its certificate is marked as that of an authority, and so none of a server; make one with `openssl req -x509 … -addext \
                 basicConstraints=critical,CA:FALSE`"
            }
            // How a handshake of TLS fails.
            ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
                r#"if its certificate is from an authority of your own, name that in "tls": {"ca": …}; if it speaks no TLS, write http://"#
            }
            // A server that knows its clients by their certificates.
            ErrorKind::PermissionDenied if target.url().value().starts_with("https:") => {
                r#"show it a certificate that it knows: "tls": {"cert": …, "key": …}"#
            }
            _ => "is the address right, and the network up?",
        },
        HttpFailure::LocalLack { .. } => "the server is not to blame; it is tried again by itself",
        HttpFailure::AuthRequired { status: 401, .. } => login(target),
        HttpFailure::AuthRequired { .. } => "what it is shown does not suffice: use a token that may do more",
        HttpFailure::Throttled { .. } => "leave it alone for a while, then check again",
        HttpFailure::Status {
            status: 400..500 | 501,
            body,
        } if is_page(body) => {
            "a web page answered: is this the address of an MCP server? many answer at /mcp, older ones at /sse"
        }
        HttpFailure::Status {
            status: 404 | 405, ..
        } => match target.kind() {
            HttpKind::Auto => "is the path right? many servers answer at /mcp, older ones at /sse",
            HttpKind::Streamable => {
                r#"is the path right? many servers answer at /mcp; an older one needs "type": "sse""#
            }
            HttpKind::Sse => r#"is the path right? a newer server needs "type": "http""#,
        },
        HttpFailure::Status { status: 500.., .. } => "it fails by itself: its own log says why",
        HttpFailure::Redirect { .. } => "if you trust the address it names, write that one",
        HttpFailure::TimedOut {
            step: HttpStage::Connect,
            ..
        } => r#"is the address right? a firewall may keep it silent; "connect_timeout" gives it longer"#,
        HttpFailure::TimedOut {
            step: HttpStage::FirstByte,
            ..
        } => r#"is it overloaded? "first_byte_timeout" gives it longer"#,
        HttpFailure::Compressed { .. } => {
            "look for it in the settings of the server, or of the proxy before it"
        }
        HttpFailure::Broken { .. } | HttpFailure::Malformed { .. } => no_answer(target),
        HttpFailure::NoCredential { .. } => "see to the provider of its credential",
        _ => IS_IT_THERE,
    };
    advice.to_owned()
}

/// The next step for one that takes connections and gives no answer of HTTP.
fn no_answer(target: &HttpTarget) -> &'static str {
    match target.url().value().starts_with("http:") {
        true => "is this the address of an MCP server? if it speaks TLS, write https://",
        false => IS_IT_THERE,
    }
}

/// Whether this is the beginning of a page for people.
fn is_page(body: &str) -> bool {
    let body = body.trim_start();
    ["<!doctype html", "<html", "<head", "<body"].iter().any(|start| {
        body.get(..start.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(start))
    })
}
