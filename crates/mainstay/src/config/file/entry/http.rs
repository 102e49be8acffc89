//! Reads how a server over HTTP is reached.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{ServerEntry, expanded, may_show_name};
use crate::config::file::fields::{Field, FieldSet};
use crate::config::file::host::Host;
use crate::config::file::keys::{OAUTH, OF_CONTINUE, OF_CURSOR, TLS};
use crate::config::file::syntax::Value;
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, quoted};
use crate::config::target::{
    ClientCertificate, ConfigText, FilePath, HttpKind, HttpTarget, OAuthConfig, OAuthGrant, OAuthResource,
    OAuthSetting,
};

/// Stands in for an address that cannot be read and was reported, while the rest is read.
const UNREADABLE: &str = "https://unreadable.invalid/";

pub(super) fn read(entry: &ServerEntry<'_>, url: Option<&Field<'_>>, kind: HttpKind) -> HttpTarget {
    let fields = &entry.fields;
    let address = match url {
        Some(field) => {
            // Whatever the key is called, the checks call it so.
            field.stands_for("url");
            entry.text(field)
        }
        None => {
            entry.whole.error(ProblemText::new(
                "there is no `url`",
                "write where the server is: https://…",
            ));
            None
        }
    };
    let mut target = HttpTarget::new(address.unwrap_or_else(|| ConfigText::from(UNREADABLE)));
    target.kind = kind;
    headers(entry, &mut target);
    if let Some(field) = fields.first_of(&["bearer_token_env", "bearer_token_env_var"]) {
        field.stands_for("bearer_token");
        target.bearer_token = entry.variable_named_by(field, "the token").map(Into::into);
    }
    if let Some(field) = fields.get("bearer_token") {
        field.error(ProblemText::new(
            "a token does not belong in a file that others may read, so it is not used",
            r#"put it in a variable, and name that in "bearer_token_env""#,
        ));
    }
    target.oauth = oauth(entry);
    target.unix_socket = fields.read("unix_socket", |field| entry.file(field));
    target.connect_timeout = fields.read("connect_timeout", Field::duration);
    target.first_byte_timeout = fields.read("first_byte_timeout", Field::duration);
    if let Some(files) = fields.read("tls", |field| field.fields(&TLS)) {
        tls(entry, &files, &mut target);
    }
    target
}

fn headers(entry: &ServerEntry<'_>, target: &mut HttpTarget) {
    let fields = &entry.fields;
    let is_goose = entry.layout.host == Host::Goose;
    // The headers of one of Goose's extensions may use its variables.
    let envs = fields.get("envs").filter(|_| is_goose);
    let envs = envs.and_then(Field::entries).unwrap_or_default();
    let own = envs.into_iter().filter_map(|(name, field)| {
        let value = field.scalar()?;
        Some((name.to_owned(), value.to_owned()))
    });
    let own: BTreeMap<String, String> = own.collect();
    let lookup = |name: &str| own.get(name).cloned().or_else(|| (entry.variables.lookup)(name));
    let mut variables = entry.variables;
    variables.lookup = &lookup;
    variables.bare_names |= is_goose;
    let mut seen: Vec<String> = Vec::new();
    let mut is_new = |name: &str, field: &Field<'_>| {
        let canonical = name.to_ascii_lowercase();
        if seen.contains(&canonical) {
            field.error(ProblemText::new(
                "written twice, in another case; case does not count here",
                "keep one",
            ));
            return false;
        }
        seen.push(canonical);
        true
    };
    let options = fields.read("request_options", |field| field.fields(&OF_CONTINUE));
    let of_options = options.as_ref().and_then(|options| options.get("headers"));
    let all = [fields.get("headers"), fields.get("http_headers"), of_options];
    for (name, field) in all.into_iter().flatten().filter_map(Field::entries).flatten() {
        if is_new(name, &field)
            && let Some(written) = field.scalar()
            && let Some(value) = expanded(&field, written, &variables)
        {
            target.headers.push((name.to_owned(), value.value().into()));
        }
    }
    for (name, field) in fields.entries("env_http_headers") {
        if is_new(name, &field)
            && let Some(value) = entry.variable_named_by(&field, "the value")
        {
            target.headers.push((name.to_owned(), value.into()));
        }
    }
}

impl ServerEntry<'_> {
    /// What the variable of this name holds.
    fn variable_named_by(&self, field: &Field<'_>, what: &str) -> Option<String> {
        let name = field.text()?;
        // The line end of a file it was read from is no part of it.
        let value = (self.variables.lookup)(name).unwrap_or_default();
        if !value.trim().is_empty() {
            return Some(value.trim().to_owned());
        }
        if may_show_name(name) {
            field.lack(ProblemText::unset(
                name,
                format!("the variable {name} is not set, or empty"),
                format!("set it to {what}, or remove the key"),
            ));
        } else {
            field.error(ProblemText::new(
                "not a name of a variable that is set",
                format!(r#"write the name of the variable that holds {what}, such as "GITHUB_TOKEN""#),
            ));
        }
        None
    }

    fn file(&self, field: &Field<'_>) -> Option<FilePath> {
        self.path_from_folder(field).map(FilePath::from)
    }

    /// The text of a key, expanded.
    fn text_of(&self, fields: &FieldSet<'_>, key: &'static str) -> Option<String> {
        let text = fields.read(key, |field| self.text(field))?;
        Some(text.value().to_owned())
    }
}

fn tls(entry: &ServerEntry<'_>, files: &FieldSet<'_>, target: &mut HttpTarget) {
    let read = |key| files.get(key).map(|field| (field, entry.file(field)));
    let (ca, certificate, key) = (read("ca"), read("cert"), read("key"));
    target.root_certificates = ca.and_then(|(_, path)| path);
    let (certificate, key) = match (certificate, key) {
        (Some((_, Some(certificate))), Some((_, Some(key)))) => (certificate, key),
        // Many files hold both.
        (Some((field, Some(certificate))), None) => {
            field.stands_for("tls.key");
            (certificate.clone(), certificate)
        }
        (None, Some((field, _))) => {
            return field.error(ProblemText::new(
                "a key without its certificate",
                r#"name the certificate in "cert""#,
            ));
        }
        (Some(_), _) | (None, None) => return,
    };
    target.client_certificate = Some(Box::new(ClientCertificate { certificate, key }));
}

/// Reads the `oauth` object of a server, and what other programs write for the same.
fn oauth(entry: &ServerEntry<'_>) -> OAuthSetting {
    let fields = &entry.fields;
    let mut config = OAuthConfig::default();
    if let Some(field) = fields.get("oauth") {
        match field.value() {
            Value::Flag(false) => return OAuthSetting::Off,
            Value::Flag(true) => {}
            _object => {
                let Some(own) = field.fields(&OAUTH) else {
                    return OAuthSetting::Automatic;
                };
                if own.read("enabled", Field::flag) == Some(false) {
                    return OAuthSetting::Off;
                }
                oauth_object(entry, &own, &mut config);
            }
        }
    }
    if let Some(field) = fields.get("auth")
        && field.as_object().is_some()
        && let Some(own) = field.fields(&OF_CURSOR)
    {
        set(&mut config.client_id, entry.text_of(&own, "CLIENT_ID"));
        let secret = entry.text_of(&own, "CLIENT_SECRET");
        set(&mut config.client_secret, secret.map(Into::into));
        set(&mut config.scopes, own.read("scopes", scopes));
    }
    // Codex, and VS Code's forks.
    for key in ["oauth_scopes", "scopes"] {
        set(&mut config.scopes, fields.read(key, scopes));
    }
    if let Some(resource) = entry.text_of(fields, "oauth_resource")
        && config.resource == OAuthResource::Published
    {
        config.resource = OAuthResource::Text(resource);
    }
    if config == OAuthConfig::default() {
        return OAuthSetting::Automatic;
    }
    OAuthSetting::Configured(Box::new(config))
}

fn oauth_object(entry: &ServerEntry<'_>, own: &FieldSet<'_>, config: &mut OAuthConfig) {
    config.client_id = entry.text_of(own, "client_id");
    config.client_metadata_url = entry.text_of(own, "client_metadata_url");
    config.issuer = entry.text_of(own, "issuer");
    config.user = entry.text_of(own, "user");
    if let Some(field) = own.get("client_secret_env") {
        config.client_secret = entry.variable_named_by(field, "the secret").map(Into::into);
    }
    let secret = entry.text_of(own, "client_secret");
    set(&mut config.client_secret, secret.map(Into::into));
    for key in ["scopes", "scope"] {
        set(&mut config.scopes, own.read(key, scopes));
    }
    if let Some(field) = own.get("resource") {
        config.resource = match field.value() {
            Value::Flag(false) => OAuthResource::Omitted,
            _text => entry
                .text_of(own, "resource")
                .map_or(OAuthResource::Published, OAuthResource::Text),
        };
    }
    for key in ["redirect_port", "callback_port"] {
        set(&mut config.redirect_port, own.read(key, port));
    }
    own.read_into(&mut config.grant, "grant", grant);
    let path = |key| {
        let path = own.read(key, |field| entry.path_from_folder(field))?;
        Some(PathBuf::from(path.value()))
    };
    config.private_key = path("private_key");
    config.assertion_file = path("assertion_file");
    own.read_into(&mut config.allow_private, "allow_private", Field::flag);
    check(own, config);
}

fn grant(field: &Field<'_>) -> Option<OAuthGrant> {
    let name = field.text()?;
    let grant = OAuthGrant::of_name(name);
    if grant.is_none() {
        let meant = nearest(name, OAuthGrant::NAMES.iter().copied()).unwrap_or(OAuthGrant::NAMES[0]);
        let fix = format!("one of {}; did you mean {meant:?}?", OAuthGrant::NAMES.join(", "));
        field.error(ProblemText::new(format!("{} is no grant", quoted(name)), fix));
    }
    grant
}

/// What belongs together.
fn check(own: &FieldSet<'_>, config: &OAuthConfig) {
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
        field.error(ProblemText::new(message, fix));
    }
}

/// Keeps what was written first.
fn set<T>(place: &mut Option<T>, value: Option<T>) {
    if place.is_none() {
        *place = value;
    }
}

/// Scopes as a list, or as one text with spaces.
fn scopes(field: &Field<'_>) -> Option<Vec<String>> {
    if let Value::Text(text) = field.value() {
        return Some(text.split_ascii_whitespace().map(str::to_owned).collect());
    }
    let items = field.items()?;
    let read = items.iter().filter_map(|item| item.text().map(str::to_owned));
    Some(read.collect())
}

fn port(field: &Field<'_>) -> Option<u16> {
    let number = field.whole_number()?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    if port.is_none() {
        field.error("expected a port, 1 to 65535");
    }
    port
}
