//! Reads the `oauth` object of a server, and what other programs write for the same.

use super::http::from_variable;
use super::{EntryContext, expanded, path_from_folder};
use crate::config::file::fields::{Field, FieldSet};
use crate::config::file::keys::{OAUTH, OF_CURSOR};
use crate::config::file::report::ProblemReport;
use crate::config::file::syntax::Value;
use crate::config::nearest::nearest;
use crate::config::oauth::{OAuthConfig, OAuthGrant, OAuthResource, OAuthSetting};
use crate::config::problem::{ProblemText, quoted};

pub(super) fn read(
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
        set(
            &mut config.scopes,
            own.get("scopes").and_then(|field| scopes(field, report)),
        );
    }
    // Codex, and VS Code's forks.
    for key in ["oauth_scopes", "scopes"] {
        set(
            &mut config.scopes,
            fields.get(key).and_then(|field| scopes(field, report)),
        );
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
        set(
            &mut config.scopes,
            own.get(key).and_then(|field| scopes(field, report)),
        );
    }
    if let Some(field) = own.get("resource") {
        config.resource = match field.value() {
            Value::Flag(false) => OAuthResource::Omitted,
            _text => text(Some(field), context, report).map_or(OAuthResource::Published, OAuthResource::Text),
        };
    }
    for key in ["redirect_port", "callback_port"] {
        set(
            &mut config.redirect_port,
            own.get(key).and_then(|field| port(field, report)),
        );
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
