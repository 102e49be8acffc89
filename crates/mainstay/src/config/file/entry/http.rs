//! Reads how a server over HTTP is reached.

use std::collections::BTreeMap;

use super::{EntryContext, expanded, path_from_folder};
use crate::config::builder::ServerBuilder;
use crate::config::file::fields::{Field, FieldSet};
use crate::config::file::host::Host;
use crate::config::file::keys::{OAUTH, OF_CONTINUE, OF_CURSOR, TLS};
use crate::config::file::report::ProblemReport;
use crate::config::file::syntax::Value;
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, quoted};
use crate::config::server::ServerConfig;
use crate::config::target::{
    ClientCertificate, ConfigText, FilePath, HttpKind, HttpTarget, OAuthConfig, OAuthGrant, OAuthResource,
    OAuthSetting,
};

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
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> ServerBuilder<HttpTarget> {
    let address = match url {
        Some(field) => {
            // Whatever the key is called, the checks call it so.
            report.saw("url", &field.shown, field.at);
            let written = field.text(report);
            written.and_then(|written| expanded(field, written, &context.variables, report))
        }
        None => {
            let problem = ProblemText::new("there is no `url`", "write where the server is: https://…");
            entry.error(report, problem);
            None
        }
    };
    let address = address.unwrap_or_else(|| ConfigText::from(UNREADABLE));
    let mut server = ServerConfig::http(name, address).http_kind(kind);
    server = headers(server, fields, context, report);
    let token = ["bearer_token_env", "bearer_token_env_var"]
        .iter()
        .find_map(|key| fields.get(key));
    if let Some(field) = token {
        report.saw("bearer_token", &field.shown, field.at);
        if let Some(token) = from_variable(field, "the token", context, report) {
            server = server.bearer_token(token);
        }
    }
    if let Some(field) = fields.get("bearer_token") {
        let problem = ProblemText::new(
            "a token does not belong in a file that others may read, so it is not used",
            r#"put it in a variable, and name that in "bearer_token_env""#,
        );
        field.error(report, problem);
    }
    server = server.oauth(read_oauth(fields, context, report));
    server.target.unix_socket = fields
        .get("unix_socket")
        .and_then(|field| file(field, context, report));
    if let Some(limit) = fields.read("connect_timeout", Field::duration, report) {
        server = server.connect_timeout(limit);
    }
    if let Some(limit) = fields.read("first_byte_timeout", Field::duration, report) {
        server = server.first_byte_timeout(limit);
    }
    tls(&mut server.target, fields, context, report);
    server
}

fn headers(
    mut server: ServerBuilder<HttpTarget>,
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> ServerBuilder<HttpTarget> {
    let own = of_extension(fields, context, report);
    let lookup = |name: &str| {
        own.get(name)
            .cloned()
            .or_else(|| (context.variables.lookup)(name))
    };
    let mut variables = context.variables;
    variables.lookup = &lookup;
    variables.bare_names |= context.host() == Host::Goose;
    let mut seen: Vec<String> = Vec::new();
    let mut is_new = |name: &str, field: &Field<'_>, report: &mut ProblemReport<'_>| {
        let canonical = name.to_ascii_lowercase();
        if seen.contains(&canonical) {
            let problem = ProblemText::new(
                "written twice, in another case; case does not count here",
                "keep one",
            );
            field.error(report, problem);
            return false;
        }
        seen.push(canonical);
        true
    };
    let options = fields.get("request_options").and_then(|field| {
        let object = field.object(report)?;
        Some(FieldSet::of(field, object, &OF_CONTINUE, report))
    });
    let of_options = options.as_ref().and_then(|options| options.get("headers"));
    let all = [fields.get("headers"), fields.get("http_headers"), of_options];
    for field in all.into_iter().flatten() {
        for (name, field) in field.entries(report).unwrap_or_default() {
            if !is_new(name, &field, report) {
                continue;
            }
            let value = field
                .scalar(report)
                .and_then(|written| expanded(&field, written, &variables, report));
            if let Some(value) = value {
                server = server.header(name, value.value());
            }
        }
    }
    for (name, field) in fields.entries("env_http_headers", report) {
        if is_new(name, &field, report)
            && let Some(value) = from_variable(&field, "the value", context, report)
        {
            server = server.header(name, value);
        }
    }
    server
}

/// The variables of one of Goose's extensions: its headers may use them.
fn of_extension(
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> BTreeMap<String, String> {
    let envs = fields.get("envs").filter(|_| context.host() == Host::Goose);
    let envs = envs.and_then(|field| field.entries(report)).unwrap_or_default();
    let read = envs.into_iter().filter_map(|(name, field)| {
        let value = field.scalar(report)?;
        Some((name.to_owned(), value.to_owned()))
    });
    read.collect()
}

/// What the variable of this name holds.
pub(super) fn from_variable(
    field: &Field<'_>,
    what: &str,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<String> {
    let name = field.text(report)?;
    // The line end of a file it was read from is no part of it.
    let value = (context.variables.lookup)(name)
        .unwrap_or_default()
        .trim()
        .to_owned();
    if !value.is_empty() {
        return Some(value);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || name.len() > MAX_NAME_SHOWN {
        let problem = ProblemText::new(
            "not a name of a variable that is set",
            format!(r#"write the name of the variable that holds {what}, such as "GITHUB_TOKEN""#),
        );
        field.error(report, problem);
    } else {
        let problem = ProblemText::new(
            format!("the variable {name} is not set, or empty"),
            format!("set it to {what}, or remove the key"),
        );
        field.lack(report, problem);
    }
    None
}

fn tls(
    target: &mut HttpTarget,
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) {
    let Some(field) = fields.get("tls") else { return };
    let Some(object) = field.object(report) else {
        return;
    };
    let files = FieldSet::of(field, object, &TLS, report);
    let mut read = |key| {
        files
            .get(key)
            .map(|field| (field.clone(), file(field, context, report)))
    };
    let (ca, certificate, key) = (read("ca"), read("cert"), read("key"));
    target.root_certificates = ca.and_then(|(_, path)| path);
    let (certificate, key) = match (certificate, key) {
        (Some((_, Some(certificate))), Some((_, Some(key)))) => (certificate, key),
        // Many files hold both.
        (Some((field, Some(certificate))), None) => {
            report.saw("tls.key", &field.shown, field.at);
            (certificate.clone(), certificate)
        }
        (None, Some((field, _))) => {
            let problem = ProblemText::new(
                "a key without its certificate",
                r#"name the certificate in "cert""#,
            );
            return field.error(report, problem);
        }
        (Some(_), _) | (None, None) => return,
    };
    target.client_certificate = Some(Box::new(ClientCertificate { certificate, key }));
}

fn file(field: &Field<'_>, context: &EntryContext<'_>, report: &mut ProblemReport<'_>) -> Option<FilePath> {
    path_from_folder(field, context, report).map(FilePath::from)
}

/// Reads the `oauth` object of a server, and what other programs write for the same.
fn read_oauth(
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> OAuthSetting {
    let mut config = OAuthConfig::default();
    if let Some(field) = fields.get("oauth") {
        match field.value() {
            Value::Flag(false) => return OAuthSetting::Off,
            Value::Flag(true) => {}
            _object => {
                let Some(object) = field.object(report) else {
                    return OAuthSetting::Automatic;
                };
                let own = FieldSet::of(field, object, &OAUTH, report);
                if let Some(enabled) = own.get("enabled")
                    && enabled.flag(report) == Some(false)
                {
                    return OAuthSetting::Off;
                }
                object_of(&own, &mut config, context, report);
            }
        }
    }
    if let Some(field) = fields.get("auth")
        && let Some(object) = field.as_object()
    {
        let own = FieldSet::of(field, object, &OF_CURSOR, report);
        set(&mut config.client_id, text(own.get("CLIENT_ID"), context, report));
        let secret = text(own.get("CLIENT_SECRET"), context, report);
        set(&mut config.client_secret, secret.map(Into::into));
        set(&mut config.scopes, own.read("scopes", scopes, report));
    }
    // Codex, and VS Code's forks.
    for key in ["oauth_scopes", "scopes"] {
        set(&mut config.scopes, fields.read(key, scopes, report));
    }
    if let Some(resource) = text(fields.get("oauth_resource"), context, report)
        && config.resource == OAuthResource::Published
    {
        config.resource = OAuthResource::Text(resource);
    }
    if config == OAuthConfig::default() {
        return OAuthSetting::Automatic;
    }
    OAuthSetting::Configured(Box::new(config))
}

fn object_of(
    own: &FieldSet<'_>,
    config: &mut OAuthConfig,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) {
    config.client_id = text(own.get("client_id"), context, report);
    config.client_metadata_url = text(own.get("client_metadata_url"), context, report);
    config.issuer = text(own.get("issuer"), context, report);
    config.user = text(own.get("user"), context, report);
    if let Some(field) = own.get("client_secret_env") {
        config.client_secret = from_variable(field, "the secret", context, report).map(Into::into);
    }
    set(
        &mut config.client_secret,
        text(own.get("client_secret"), context, report).map(Into::into),
    );
    for key in ["scopes", "scope"] {
        set(&mut config.scopes, own.read(key, scopes, report));
    }
    if let Some(field) = own.get("resource") {
        config.resource = match field.value() {
            Value::Flag(false) => OAuthResource::Omitted,
            _text => text(Some(field), context, report).map_or(OAuthResource::Published, OAuthResource::Text),
        };
    }
    for key in ["redirect_port", "callback_port"] {
        set(&mut config.redirect_port, own.read(key, port, report));
    }
    if let Some(field) = own.get("grant")
        && let Some(name) = field.text(report)
    {
        match OAuthGrant::of_name(name) {
            Some(grant) => config.grant = grant,
            None => {
                let meant = nearest(name, OAuthGrant::NAMES.iter().copied()).unwrap_or(OAuthGrant::NAMES[0]);
                let fix = format!("one of {}; did you mean {meant:?}?", OAuthGrant::NAMES.join(", "));
                field.error(
                    report,
                    ProblemText::new(format!("{} is no grant", quoted(name)), fix),
                );
            }
        }
    }
    let path = |key, report: &mut ProblemReport<'_>| {
        let path = path_from_folder(own.get(key)?, context, report)?;
        Some(std::path::PathBuf::from(path.value()))
    };
    config.private_key = path("private_key", report);
    config.assertion_file = path("assertion_file", report);
    if let Some(field) = own.get("allow_private") {
        config.allow_private = field.flag(report).unwrap_or_default();
    }
    check(own, config, report);
}

/// What belongs together.
fn check(own: &FieldSet<'_>, config: &OAuthConfig, report: &mut ProblemReport<'_>) {
    let Some(field) = own.get("grant") else {
        return;
    };
    let lacks = match config.grant {
        OAuthGrant::Person => None,
        OAuthGrant::ClientCredentials if config.client_id.is_none() => Some((
            r#"this grant needs a client"#,
            r#"write its "client_id", and "client_secret_env" or "private_key""#,
        )),
        OAuthGrant::JwtBearer if config.assertion_file.is_none() => Some((
            r#"this grant needs the workload's token"#,
            r#"name its file in "assertion_file""#,
        )),
        OAuthGrant::ClientCredentials | OAuthGrant::JwtBearer => None,
    };
    if let Some((message, fix)) = lacks {
        field.error(report, ProblemText::new(message, fix));
    }
}

/// Keeps what was written first.
fn set<T>(place: &mut Option<T>, value: Option<T>) {
    if place.is_none() {
        *place = value;
    }
}

fn text(
    field: Option<&Field<'_>>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<String> {
    let field = field?;
    let written = field.text(report)?;
    Some(
        expanded(field, written, &context.variables, report)?
            .value()
            .to_owned(),
    )
}

/// Scopes as a list, or as one text with spaces.
fn scopes(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<Vec<String>> {
    if let Value::Text(text) = field.value() {
        return Some(text.split_ascii_whitespace().map(str::to_owned).collect());
    }
    let items = field.items(report)?;
    let read = items
        .iter()
        .filter_map(|item| item.text(report).map(str::to_owned));
    Some(read.collect())
}

fn port(field: &Field<'_>, report: &mut ProblemReport<'_>) -> Option<u16> {
    let number = field.whole_number(report)?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    if port.is_none() {
        field.error(report, "expected a port, 1 to 65535");
    }
    port
}
