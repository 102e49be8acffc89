//! Reads the entry of one server.
//!
//! The rest is read even after a mistake, so that a person sees everything that is wrong at once.

use std::path::Path;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;

use super::builder::ServerBuilder;
use super::expand::{self, Lookup};
use super::fields::{Field, Fields, Keys};
use super::paths;
use super::problem::quoted;
use super::report::{Fault, Report};
use super::server::ServerConfig;
use super::settings::settings;
use super::target::Text;

const SERVER: Keys = Keys {
    known: &[
        "command",
        "args",
        "env",
        "cwd",
        "type",
        "enabled",
        "disabled",
        "required",
        "lazy",
        "startup_timeout",
        "call_timeout",
        "call_idle_timeout",
        "restart",
        "replay",
        "probe",
        "idle_stop",
        "waiters",
        "tools",
        "url",
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
        "headers",
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
    let server = match transport(&fields, report)? {
        Transport::Stdio => stdio(name, entry, &fields, scope, report),
        Transport::Http => {
            let fault = Fault::new(
                "servers over HTTP are not supported in this version",
                "name a `command` instead",
            );
            entry.error(report, fault);
            return None;
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
    Http,
}

fn transport(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<Transport> {
    let url = ["url", "server_url", "http_url"]
        .iter()
        .find_map(|key| fields.get(key));
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
        return Some(if url.is_some() {
            Transport::Http
        } else {
            Transport::Stdio
        });
    };
    match kind.text(report)? {
        "stdio" | "local" if url.is_some() => {
            let fault = Fault::new("a stdio server has no address", "name a `command` instead");
            url?.error(report, fault);
            None
        }
        "stdio" | "local" => Some(Transport::Stdio),
        "http" | "sse" | "streamable-http" | "streamable_http" | "streamableHttp" | "remote" => {
            Some(Transport::Http)
        }
        other => {
            let fault = Fault::new(
                format!("{} is not understood", quoted(other)),
                r#"write "stdio", or leave it out"#,
            );
            kind.error(report, fault);
            None
        }
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
