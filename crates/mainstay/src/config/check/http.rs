//! What a server that is reached by an address must satisfy.
//!
//! Every mistake is found at once, each under its own key. Certificate files are read, since a file that is not there is
//! a mistake like any other; those of the system are not, and nothing is connected to.

use url::Url;

use crate::config::problem::{ProblemText, SettingProblem, dotted};
use crate::config::target::{FilePath, HttpKind, HttpTarget};
use crate::protocol::Era;
use crate::transport::http::{self, HttpConfigError};

/// Headers that each request has of its own: another value would break it.
const OWN_HEADERS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn check(target: &HttpTarget, era: Option<Era>, problems: &mut Vec<SettingProblem>) {
    let url = url(target, problems);
    headers(target, problems);
    token(target, problems);
    tls(target, url.as_ref(), problems);
    if let Some(url) = &url {
        clear_text(target, url, problems);
    }
    if target
        .unix_socket()
        .is_some_and(|path| path.as_os_str().is_empty())
    {
        let problem = ProblemText::new("the path is empty", "name a socket, or remove the key");
        problems.push(SettingProblem::error("unix_socket", problem));
    }
    if target.kind == HttpKind::Sse && era == Some(Era::Modern) {
        let problem = ProblemText::new(
            "HTTP+SSE belongs to the legacy era",
            r#"write "legacy", or remove one of the two"#,
        );
        problems.push(SettingProblem::error("era", problem));
    }
}

/// The address itself is repeated in no message: it may hold a password or a key.
fn url(target: &HttpTarget, problems: &mut Vec<SettingProblem>) -> Option<Url> {
    let written = target.url.value();
    let problem = match http::address(written) {
        Ok(url) => return Some(url),
        Err(HttpConfigError::UnknownScheme { scheme }) => unknown_scheme(&scheme, target.url.shown()),
        Err(HttpConfigError::NotAnAddress { .. }) if written.trim().is_empty() => {
            ProblemText::new("the address is empty", "write where the server is: https://…")
        }
        Err(HttpConfigError::NotAnAddress { reason, .. }) if !written.contains("://") => ProblemText::new(
            format!("not an address: {reason}"),
            "begin it with https:// or http://",
        ),
        Err(HttpConfigError::NotAnAddress { reason, .. }) => {
            ProblemText::new(format!("not an address: {reason}"), "write https://HOST/PATH")
        }
        Err(HttpConfigError::CredentialInAddress) => ProblemText::new(
            "holds a user name or a password, which would be shown wherever the address is",
            r#"send it in "headers" as Authorization, or name its variable in "bearer_token_env""#,
        ),
        Err(error) => ProblemText::from(error.to_string()),
    };
    problems.push(SettingProblem::error("url", problem));
    None
}

/// The scheme is repeated only if it stands in the address as it is shown: the beginning of a variable's value may be a
/// secret that reads as a scheme.
fn unknown_scheme(scheme: &str, shown: &str) -> ProblemText {
    let stands_there = shown
        .split_once(':')
        .is_some_and(|(written, _)| written.trim_start().eq_ignore_ascii_case(scheme));
    let message = if stands_there {
        format!("{scheme:?} is not a scheme of HTTP")
    } else {
        "not an address of HTTP".to_owned()
    };
    match scheme {
        "unix" | "http+unix" => ProblemText::new(
            message,
            r#"write http://localhost/PATH, and name the socket in "unix_socket""#,
        ),
        "ws" | "wss" | "ftp" | "file" => ProblemText::new(message, "use https:// or http://"),
        // `localhost:3000/mcp` reads as the scheme `localhost`.
        _host => ProblemText::new(message, "begin the address with https:// or http://"),
    }
}

fn headers(target: &HttpTarget, problems: &mut Vec<SettingProblem>) {
    for (name, value) in &target.headers {
        let problem = match http::header(name, value.expose()) {
            Err(HttpConfigError::BadHeader { part: "name", .. }) => ProblemText::new(
                "not a name of a header",
                "use letters, digits and `-`, as in X-Api-Key",
            ),
            Err(_) => bad_value(value.expose()),
            Ok((name, _)) if OWN_HEADERS.contains(&name.as_str()) => {
                ProblemText::new("every request has this header of its own", "remove it")
            }
            Ok((name, _)) if name == "authorization" && has_token(target) => ProblemText::new(
                "contradicts the bearer token, which is sent in the same header",
                "remove one of the two",
            ),
            Ok(_) => continue,
        };
        problems.push(SettingProblem::error(dotted("headers", name), problem));
    }
}

fn token(target: &HttpTarget, problems: &mut Vec<SettingProblem>) {
    let Some(token) = &target.bearer_token else {
        return;
    };
    if token.expose().trim().is_empty() {
        let problem = ProblemText::new("the token is empty", "set it, or remove the key");
        problems.push(SettingProblem::error("bearer_token", problem));
    } else if http::header("authorization", token.expose()).is_err() {
        problems.push(SettingProblem::error("bearer_token", bad_value(token.expose())));
    }
}

/// The value itself may be a secret.
fn bad_value(value: &str) -> ProblemText {
    let what = if value.contains(['\r', '\n']) {
        "holds a line break, which no header may hold"
    } else if !value.is_ascii() {
        "holds a character that is not ASCII, which no header may hold"
    } else {
        "holds a control character, which no header may hold"
    };
    ProblemText::new(what, "remove it")
}

fn has_token(target: &HttpTarget) -> bool {
    target.bearer_token.is_some() || target.credentials.is_some()
}

fn tls(target: &HttpTarget, url: Option<&Url>, problems: &mut Vec<SettingProblem>) {
    if let Some(roots) = &target.root_certificates {
        let checked = http::check_roots(roots.path());
        problems.extend(file_flaw("tls.ca", roots, checked));
    }
    if let Some(files) = &target.client_certificate {
        let checked = http::check_certificate(files.certificate.path());
        let certificate = file_flaw("tls.cert", &files.certificate, checked);
        let is_readable = certificate.is_none();
        problems.extend(certificate);
        if is_readable {
            let checked = http::check_key(files.certificate.path(), files.key.path());
            problems.extend(file_flaw("tls.key", &files.key, checked));
        }
    }
    let has_tls = target.root_certificates.is_some() || target.client_certificate.is_some();
    if has_tls && url.is_some_and(|url| url.scheme() == "http") {
        let problem = ProblemText::new(
            "has no effect, since the address is not encrypted",
            "write https://, or remove it",
        );
        problems.push(SettingProblem::warning("tls", problem));
    }
}

fn file_flaw(
    key: &'static str,
    file: &FilePath,
    checked: Result<(), HttpConfigError>,
) -> Option<SettingProblem> {
    let problem = match checked {
        Ok(()) => return None,
        Err(HttpConfigError::Unreadable { source, .. }) => {
            ProblemText::new(format!("{file} cannot be read: {source}"), "name a PEM file")
        }
        Err(HttpConfigError::NoPem { what, .. }) => ProblemText::new(
            format!("{file} holds no {what} in PEM format"),
            match key {
                "tls.key" => r#"name the file of the key in "key""#,
                _certificate => "it begins with -----BEGIN CERTIFICATE-----",
            },
        ),
        Err(error) => ProblemText::from(format!("{file} cannot be used: {error}")),
    };
    Some(SettingProblem::error(key, problem))
}

/// Without encryption, anyone on the network path can read a credential.
fn clear_text(target: &HttpTarget, url: &Url, problems: &mut Vec<SettingProblem>) {
    let names = target.headers.iter().map(|(name, _)| name);
    let sends_credential = has_token(target) || names.into_iter().any(|name| is_credential(name));
    let is_local = target.unix_socket.is_some() || http::is_loopback(url);
    if url.scheme() == "http" && !is_local && sends_credential {
        let problem = ProblemText::new(
            "a credential is sent to another machine without encryption",
            "write https://",
        );
        problems.push(SettingProblem::warning("url", problem));
    }
}

fn is_credential(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    header == "authorization" || header == "cookie" || header.contains("api-key") || header.contains("token")
}
