//! Reads how a server over HTTP is reached.

use super::{Scope, expanded, path};
use crate::config::builder::ServerBuilder;
use crate::config::fields::{Field, Fields, Keys};
use crate::config::paths;
use crate::config::report::{Fault, Report};
use crate::config::server::ServerConfig;
use crate::config::target::{FilePath, HttpKind, Text};

const TLS: Keys = Keys::only(&["ca", "cert", "key"]);

/// The longest name of a variable that is repeated in a message: what is longer may be a token that was written in its
/// place.
const MAX_NAME_SHOWN: usize = 32;

/// Stands in for an address that cannot be read and was reported, while the rest is read.
const UNREADABLE: &str = "https://unreadable.invalid/";

pub(super) fn read(
    name: &str,
    url: Option<&Field<'_>>,
    kind: HttpKind,
    entry: &Field<'_>,
    fields: &Fields<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> ServerBuilder {
    let address = match url {
        Some(field) => {
            // Whatever the key is called, the checks call it so.
            report.saw("url", &field.shown, field.at);
            let written = field.text(report);
            written.and_then(|written| expanded(field, written, scope, report))
        }
        None => {
            let fault = Fault::new("there is no `url`", "write where the server is: https://…");
            entry.error(report, fault);
            None
        }
    };
    let address = address.unwrap_or_else(|| Text::from(UNREADABLE));
    let mut server = ServerConfig::http(name, address).http_kind(kind);
    server = headers(server, fields, scope, report);
    if let Some(token) = fields
        .get("bearer_token_env")
        .and_then(|field| token(field, scope, report))
    {
        server = server.bearer_token(token);
    }
    if let Some(path) = fields
        .get("unix_socket")
        .and_then(|field| file(field, scope, report))
    {
        server = server.socket(path);
    }
    if let Some(limit) = fields
        .get("connect_timeout")
        .and_then(|field| field.duration(report))
    {
        server = server.connect_timeout(limit);
    }
    if let Some(limit) = fields
        .get("first_byte_timeout")
        .and_then(|field| field.duration(report))
    {
        server = server.first_byte_timeout(limit);
    }
    tls(server, fields, scope, report)
}

fn headers(
    mut server: ServerBuilder,
    fields: &Fields<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> ServerBuilder {
    let mut seen: Vec<String> = Vec::new();
    for (name, field) in fields
        .get("headers")
        .and_then(|field| field.entries(report))
        .unwrap_or_default()
    {
        let canonical = name.to_ascii_lowercase();
        if seen.contains(&canonical) {
            let fault = Fault::new(
                "written twice, in another case; case does not count here",
                "keep one",
            );
            field.error(report, fault);
            continue;
        }
        seen.push(canonical);
        let value = field
            .scalar(report)
            .and_then(|written| expanded(&field, written, scope, report));
        if let Some(value) = value {
            server = server.header(name, value.value());
        }
    }
    server
}

/// The token in the variable of this name.
fn token(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<String> {
    let name = field.text(report)?;
    report.saw("bearer_token", &field.shown, field.at);
    // The line end of a file it was read from is no part of it.
    let value = (scope.lookup)(name).unwrap_or_default().trim().to_owned();
    if !value.is_empty() {
        return Some(value);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let fault = if name.is_empty() || !name.chars().all(is_name) || name.len() > MAX_NAME_SHOWN {
        Fault::new(
            "not a name of a variable that is set",
            r#"write the name of the variable that holds the token, such as "GITHUB_TOKEN""#,
        )
    } else {
        Fault::new(
            format!("the variable {name} is not set, or empty"),
            "set it to the token, or remove the key",
        )
    };
    field.error(report, fault);
    None
}

fn tls(
    mut server: ServerBuilder,
    fields: &Fields<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> ServerBuilder {
    let Some(field) = fields.get("tls") else {
        return server;
    };
    let Some(object) = field.object(report) else {
        return server;
    };
    let files = Fields::of(field, object, &TLS, report);
    let mut read = |key| {
        files
            .get(key)
            .map(|field| (field.clone(), file(field, scope, report)))
    };
    let (ca, certificate, key) = (read("ca"), read("cert"), read("key"));
    if let Some((_, Some(path))) = ca {
        server = server.roots(path);
    }
    match (certificate, key) {
        (Some((_, Some(certificate))), Some((_, Some(key)))) => server.shows(certificate, key),
        // Many files hold both.
        (Some((field, Some(certificate))), None) => {
            report.saw("tls.key", &field.shown, field.at);
            server.shows(certificate.clone(), certificate)
        }
        (None, Some((field, _))) => {
            let fault = Fault::new(
                "a key without its certificate",
                r#"name the certificate in "cert""#,
            );
            field.error(report, fault);
            server
        }
        (Some(_), _) | (None, None) => server,
    }
}

/// A path, made absolute.
fn file(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<FilePath> {
    let path = path(field, scope, report)?;
    let absolute = paths::from_folder(path, scope.folder);
    absolute
        .map(FilePath::from)
        .map_err(|fault| field.error(report, fault))
        .ok()
}
