//! Reads the entry of one server.
//!
//! The rest is read even after a mistake, so that a person sees everything that is wrong at once.

mod http;

use std::path::Path;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::builder::ServerBuilder;
use super::expand::{self, Lookup};
use super::fields::{Field, Fields, Keys};
use super::nearest::nearest;
use super::paths;
use super::problem::quoted;
use super::report::{Fault, Report};
use super::server::ServerConfig;
use super::settings::settings;
use super::target::{HttpKind, Text};

/// What only a program has.
const OF_PROGRAMS: [&str; 3] = ["args", "env", "cwd"];

/// What only an address has.
const OF_ADDRESSES: [&str; 6] = [
    "headers",
    "bearer_token_env",
    "tls",
    "unix_socket",
    "connect_timeout",
    "first_byte_timeout",
];

/// The values of `type` that a misspelt one is compared with.
const TYPES: [&str; 4] = ["stdio", "http", "sse", "streamable-http"];

const SERVER: Keys = Keys {
    known: &[
        "command",
        "args",
        "env",
        "cwd",
        "type",
        "url",
        "headers",
        "bearer_token_env",
        "tls",
        "unix_socket",
        "connect_timeout",
        "first_byte_timeout",
        "era",
        "enabled",
        "disabled",
        "required",
        "lazy",
        "isolation",
        "startup_timeout",
        "call_timeout",
        "call_idle_timeout",
        "wait_timeout",
        "restart",
        "replay",
        "probe",
        "idle_stop",
        "refresh_interval",
        "waiters",
        "tools",
        "server_url",
        "http_url",
        "transport",
        "transport_type",
    ],
    foreign: &[
        "$schema",
        "//",
        "_comment",
        "comment",
        "note",
        "name",
        "title",
        "displayName",
        "description",
        "icon",
        "icons",
        "id",
        "version",
        "tags",
        "category",
        "gallery",
        "dev",
        "trust",
        "alwaysAllow",
        "autoApprove",
        "autoAllow",
        "oauth",
    ],
    unheeded: &[
        ("timeout", r#"set "call_timeout" or "startup_timeout""#),
        ("disabled_tools", r#"list them in "tools": {"exclude": […]}"#),
        ("exclude_tools", r#"list them in "tools": {"exclude": […]}"#),
        ("enabled_tools", r#"list them in "tools": {"include": […]}"#),
        ("include_tools", r#"list them in "tools": {"include": […]}"#),
        ("env_file", r#"set the variables in "env""#),
    ],
};

/// What an entry is read against.
pub(super) struct Scope<'a> {
    /// Where variables are looked up.
    pub(super) lookup: Lookup<'a>,
    /// The folder of the file.
    pub(super) folder: &'a Path,
}

/// The server of an entry, unless something about it is wrong.
pub(super) fn read(
    name: &str,
    entry: &Field<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Option<ServerConfig> {
    report.begin(name);
    report.saw("", &entry.shown, entry.at);
    let fields = Fields::of(entry, entry.object(report)?, &SERVER, report);
    let url = ["url", "server_url", "http_url"]
        .iter()
        .find_map(|key| fields.get(key));
    let server = match transport(url, &fields, report)? {
        Transport::Stdio => {
            without_effect(&fields, &OF_ADDRESSES, "this server is a program", report);
            stdio(name, entry, &fields, scope, report)
        }
        Transport::Http(kind) => {
            without_effect(
                &fields,
                &OF_PROGRAMS,
                "this server is reached by its address",
                report,
            );
            http::read(name, url, kind, entry, &fields, scope, report)
        }
    };
    let (config, flaws) = settings(server, &fields, report).finish();
    for flaw in flaws {
        report.flaw(flaw);
    }
    (!report.is_refused(name)).then_some(config)
}

enum Transport {
    Stdio,
    Http(HttpKind),
}

fn transport(url: Option<&Field<'_>>, fields: &Fields<'_>, report: &mut Report<'_>) -> Option<Transport> {
    if let (Some(url), Some(_)) = (url, fields.get("command")) {
        let fault = Fault::new(
            "a server has a `command` or an address, not both",
            "remove one of the two",
        );
        url.error(report, fault);
        return None;
    }
    let Some(kind) = ["type", "transport", "transport_type"]
        .iter()
        .find_map(|key| fields.get(key))
    else {
        return Some(match url {
            Some(_) => Transport::Http(HttpKind::Auto),
            None => Transport::Stdio,
        });
    };
    let transport = match kind.text(report)? {
        "stdio" | "local" => Transport::Stdio,
        "http" | "streamable-http" | "streamable_http" | "streamableHttp" | "streamable" => {
            Transport::Http(HttpKind::Streamable)
        }
        "sse" => Transport::Http(HttpKind::Sse),
        "remote" => Transport::Http(HttpKind::Auto),
        other => {
            let mend = match nearest(other, TYPES) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => r#"write "stdio", "http" or "sse", or leave it out"#.to_owned(),
            };
            kind.error(
                report,
                Fault::new(format!("{} is not understood", quoted(other)), mend),
            );
            return None;
        }
    };
    match (&transport, url, fields.get("command")) {
        (Transport::Stdio, Some(url), _) => {
            let fault = Fault::new("a stdio server has no address", "name a `command` instead");
            url.error(report, fault);
            None
        }
        (Transport::Http(_), _, Some(command)) => {
            let fault = Fault::new(
                "a server of this type is not started by a command",
                r#"name its `url` instead, or write "type": "stdio""#,
            );
            command.error(report, fault);
            None
        }
        (Transport::Stdio, None, _) | (Transport::Http(_), _, None) => Some(transport),
    }
}

/// Warns of keys that belong to servers of another kind.
fn without_effect(fields: &Fields<'_>, keys: &[&'static str], why: &str, report: &mut Report<'_>) {
    for field in keys.iter().filter_map(|key| fields.get(key)) {
        if says_something(field) {
            field.warning(
                report,
                Fault::new(format!("has no effect, since {why}"), "remove it"),
            );
        }
    }
}

/// Whether a value says anything: other programs write empty ones for every server.
fn says_something(field: &Field<'_>) -> bool {
    match field.value() {
        Value::Object(object) => !object.properties.is_empty(),
        Value::Array(array) => !array.elements.is_empty(),
        Value::NullKeyword(_) => false,
        Value::StringLit(_) | Value::NumberLit(_) | Value::BooleanLit(_) => true,
    }
}

fn stdio(
    name: &str,
    entry: &Field<'_>,
    fields: &Fields<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> ServerBuilder {
    let cwd = fields
        .get("cwd")
        .and_then(|field| directory(field, scope, report));
    let command = match fields.get("command") {
        Some(field) => command(field, scope, report),
        None => {
            entry.error(
                report,
                Fault::new("there is no `command`", "name the program to run"),
            );
            None
        }
    };
    // A command that cannot be read was reported; any other stands in for it while the rest is read.
    let command = command.unwrap_or_else(|| Text::from("unreadable"));
    let mut server = ServerConfig::stdio(name, paths::from_cwd(command, cwd.as_ref()));
    if let Some(cwd) = cwd {
        server = server.cwd(cwd);
    }
    for item in fields
        .get("args")
        .and_then(|field| field.items(report))
        .unwrap_or_default()
    {
        // One that cannot be read keeps its place, so that the others keep their numbers.
        let arg = item
            .scalar(report)
            .and_then(|written| expanded(&item, written, scope, report));
        server = server.arg(arg.unwrap_or_else(|| Text::from("unreadable")));
    }
    for (name, field) in fields
        .get("env")
        .and_then(|field| field.entries(report))
        .unwrap_or_default()
    {
        let value = field
            .scalar(report)
            .and_then(|written| expanded(&field, written, scope, report));
        if let Some(value) = value {
            server = server.env(name, value.value());
        }
    }
    server
}

fn command(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Text> {
    if matches!(field.value(), Value::Array(_)) {
        let fault = Fault::new(
            "expected a string, found an array",
            r#"put all but the first item in "args""#,
        );
        field.error(report, fault);
        return None;
    }
    path(field, scope, report)
}

fn directory(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Text> {
    let path = path(field, scope, report)?;
    let absolute = paths::from_folder(path, scope.folder);
    absolute.map_err(|fault| field.error(report, fault)).ok()
}

fn path(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Text> {
    let written = field.text(report)?;
    let path = paths::with_home(expanded(field, written, scope, report)?, scope.lookup);
    path.map_err(|fault| field.error(report, fault)).ok()
}

fn expanded(field: &Field<'_>, written: &str, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Text> {
    match expand::expand(written, scope.lookup) {
        Ok(text) => Some(text),
        Err(error) => {
            // Without escapes, what was read stands one quote after the start of the value, byte for byte.
            let raw = report.raw(field.at, field.value().end());
            let at = if raw.contains('\\') {
                field.at
            } else {
                field.at + 1 + error.at
            };
            report.error(&field.shown, at, error);
            None
        }
    }
}
