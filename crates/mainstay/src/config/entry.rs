//! Reads the entry of one server.
//!
//! The rest is read even after a mistake, so that a person sees everything that is wrong at once.

mod http;
mod program;

use std::path::Path;

use super::builder::ServerBuilder;
use super::document::Value;
use super::expand::{self, Remark, Variables};
use super::fields::{Field, Fields, Keys, unknown};
use super::filters;
use super::host::Host;
use super::layout::Layout;
use super::limits::limits;
use super::nearest::nearest;
use super::parse::Surroundings;
use super::paths;
use super::problem::quoted;
use super::report::{Fault, Report};
use super::server::ServerConfig;
use super::settings::settings;
use super::target::{HttpKind, Target, Text};

/// What only a program has.
const OF_PROGRAMS: [&str; 5] = ["args", "env", "environment", "env_file", "cwd"];

/// What only an address has.
const OF_ADDRESSES: [&str; 9] = [
    "headers",
    "http_headers",
    "env_http_headers",
    "bearer_token_env",
    "bearer_token_env_var",
    "tls",
    "unix_socket",
    "connect_timeout",
    "first_byte_timeout",
];

/// The keys of an address, the first that is there counts.
const ADDRESSES: [&str; 4] = ["http_url", "url", "server_url", "uri"];

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
    ],
    adopted: &[
        "available_tools",
        "bearer_token",
        "bearer_token_env_var",
        "cmd",
        "connection_timeout",
        "dev",
        "disabled_tools",
        "enabled_tools",
        "env_file",
        "env_http_headers",
        "env_keys",
        "env_vars",
        "environment",
        "envs",
        "exclude_tools",
        "http_headers",
        "http_url",
        "include_tools",
        "request_options",
        "sandbox",
        "sandbox_enabled",
        "server_url",
        "settings",
        "source",
        "startup_timeout_ms",
        "startup_timeout_sec",
        "timeout",
        "tool_timeout_sec",
        "transport",
        "transport_type",
        "uri",
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
        "display_name",
        "description",
        "icon",
        "icons",
        "id",
        "version",
        "tags",
        "category",
        "gallery",
        "trust",
        "alwaysAllow",
        "autoApprove",
        "autoAllow",
        "auth",
        "authProviderType",
        "oauth",
        "oauthScopes",
        "oauth_resource",
        "scopes",
        "targetAudience",
        "targetServiceAccount",
        "bundled",
        "code",
        "dependencies",
        "default_tools_approval_mode",
        "faviconUrl",
        "remote",
        "serverName",
        "supports_parallel_tool_calls",
    ],
    unheeded: &[
        (
            "headers_helper",
            r#"write the headers in "headers", with variables: ${NAME}"#,
        ),
        ("watch_paths", "restart the server when they change"),
    ],
};

/// What an entry is read against.
pub(super) struct Scope<'a> {
    variables: Variables<'a>,
    layout: &'a Layout<'a>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(surroundings: &Surroundings<'a>, layout: &'a Layout<'a>) -> Self {
        let workspace = workspace(surroundings);
        Self {
            variables: Variables {
                lookup: surroundings.lookup,
                folder: surroundings.folder,
                workspace: workspace.unwrap_or(surroundings.directory),
                workspace_is_known: workspace.is_some(),
                inputs: &layout.inputs,
                bare_names: layout.host.expands_bare_names(),
                braces: layout.host.expands_braces(),
                is_shell: false,
            },
            layout,
        }
    }

    pub(super) fn host(&self) -> Host {
        self.layout.host
    }

    /// Patterns of `SERVER_TOOL` that are switched off.
    pub(super) fn hidden_tools(&self) -> &[&'a str] {
        &self.layout.hidden
    }

    /// The only tools that an agent sees, as `@SERVER`, `@SERVER/TOOL` or `*`; `None` for all of them.
    pub(super) fn granted_tools(&self) -> Option<&[&'a str]> {
        self.layout.granted.as_deref()
    }

    /// The project that the file belongs to, if its place says so.
    fn project(&self) -> Option<&'a Path> {
        self.variables
            .workspace_is_known
            .then_some(self.variables.workspace)
    }
}

/// The project that a file belongs to: the one around the folder that a program keeps its file in. In the home directory
/// such a folder is the user's own.
fn workspace<'a>(surroundings: &Surroundings<'a>) -> Option<&'a Path> {
    let folder = surroundings.folder;
    let name = folder.file_name()?.to_str()?;
    let home = (surroundings.lookup)("HOME");
    let around = folder.parent()?;
    let is_users = home.is_some_and(|home| Path::new(&home) == around);
    (Host::is_project_folder(name) && !is_users).then_some(around)
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
    if is_part_of_host(entry, &fields, scope.host(), report) {
        return None;
    }
    sandbox(&fields, report);
    if is_off(&fields) || scope.layout.switched_off(name).is_some() {
        report.is_disabled();
    }
    let url = ADDRESSES.iter().find_map(|key| fields.get(key));
    match transport(url, &fields, report)? {
        Transport::Stdio => {
            without_effect(&fields, &OF_ADDRESSES, "this server is a program", report);
            let server = program::read(name, entry, &fields, scope, report);
            with_settings(name, server, entry, &fields, scope, report)
        }
        Transport::Http(kind) => {
            without_effect(
                &fields,
                &OF_PROGRAMS,
                "this server is reached by its address",
                report,
            );
            let server = http::read(name, url, kind, entry, &fields, scope, report);
            with_settings(name, server, entry, &fields, scope, report)
        }
    }
}

/// Reads what all kinds of servers have in common, and finishes the server.
fn with_settings<T: Into<Target>>(
    name: &str,
    server: ServerBuilder<T>,
    entry: &Field<'_>,
    fields: &Fields<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Option<ServerConfig> {
    let server = limits(server, fields, scope.host(), report);
    let tools = filters::tools(name, fields, scope, report);
    let mut server = settings(server.tools(tools), fields, report);
    if let Some(why) = scope.layout.switched_off(name) {
        entry.note(report, format!("disabled, since {why}"));
        server = server.enabled(false);
    }
    let (config, flaws) = match report.lacking() {
        Some(value) => server.lacking(value).finish(),
        None => server.finish(),
    };
    for flaw in flaws {
        report.flaw(flaw);
    }
    (!report.is_refused(name)).then_some(config)
}

/// Whether an entry says that its server is not to run.
fn is_off(fields: &Fields<'_>) -> bool {
    let is =
        |key, flag| matches!(fields.get(key).map(Field::value), Some(Value::Flag(found)) if *found == flag);
    is("enabled", false) || is("disabled", true)
}

/// Whether an entry is no server but a part of the program whose file it is. It is passed over, with a note where a
/// person might look for it.
fn is_part_of_host(entry: &Field<'_>, fields: &Fields<'_>, host: Host, report: &mut Report<'_>) -> bool {
    if host != Host::Zed
        && let Some(field) = fields.get("settings")
    {
        field.warning(report, unknown(None));
    }
    if let Some(field) = fields.get("dev").filter(|field| says_something(field)) {
        let fault = Fault::from(
            "VS Code's development mode is not read: Mainstay watches no files and starts no debugger",
        );
        field.note(report, fault);
    }
    let kind = fields.get("type").or(fields.get("source"));
    let kind = kind.and_then(|field| match field.value() {
        Value::Text(text) => Some(&**text),
        _ => None,
    });
    let is_enabled = !matches!(fields.get("enabled").map(Field::value), Some(Value::Flag(false)));
    match (host, kind) {
        (Host::Goose, Some("builtin" | "platform" | "frontend")) => {
            if is_enabled {
                entry.note(
                    report,
                    "not started, since this extension is a part of Goose itself",
                );
            }
            true
        }
        (Host::Goose, Some("inline_python")) => {
            let fault = Fault::new(
                "Mainstay does not run code out of a configuration",
                "save the code in a file, and name it in `args` of an extension of type stdio",
            );
            entry.error(report, fault);
            true
        }
        (Host::Zed, _) if kind == Some("extension") || is_zed_extension(fields) => {
            let fault = Fault::new(
                "an extension of Zed starts this server, and only Zed knows how",
                "write its `command` and `args`, as the server's own documentation has them",
            );
            entry.error(report, fault);
            true
        }
        _ => false,
    }
}

fn is_zed_extension(fields: &Fields<'_>) -> bool {
    let is_server = ["command", "url"].iter().any(|key| fields.get(key).is_some());
    fields.get("settings").is_some() && !is_server
}

/// A server that is to run in a sandbox is not started without one.
fn sandbox(fields: &Fields<'_>, report: &mut Report<'_>) {
    let wanted = fields
        .get("sandbox_enabled")
        .map(|field| (field, field.flag(report)));
    let field = match (wanted, fields.get("sandbox")) {
        (Some((_, Some(false))), _) | (None, None) => return,
        (Some((field, _)), _) => field,
        (None, Some(field)) if says_something(field) && !matches!(field.value(), Value::Flag(false)) => field,
        (None, Some(_)) => return,
    };
    let fault = Fault::new(
        "this server is to run in a sandbox, and Mainstay has none, so it is not started",
        r#"name a program in `command` that makes a sandbox, and write "sandboxEnabled": false"#,
    );
    field.error(report, fault);
}

enum Transport {
    Stdio,
    Http(HttpKind),
}

fn transport(url: Option<&Field<'_>>, fields: &Fields<'_>, report: &mut Report<'_>) -> Option<Transport> {
    let command = fields.get("command").or(fields.get("cmd"));
    if let (Some(url), Some(_)) = (url, command) {
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
            // `httpUrl` is Streamable HTTP in every program that knows it; any other key leaves it open.
            Some(_) if fields.get("http_url").is_some() => Transport::Http(HttpKind::Streamable),
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
    match (&transport, url, command) {
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
        Value::Array(items) => !items.is_empty(),
        Value::Null => false,
        Value::Text(_) | Value::Number(_) | Value::Flag(_) => true,
    }
}

/// A path, made absolute where it is relative to the folder of the file.
fn path_from_folder(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Text> {
    let path = path(field, scope, report)?;
    let absolute = paths::from_folder(path, scope.variables.folder);
    absolute.map_err(|fault| field.error(report, fault)).ok()
}

fn path(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Text> {
    let written = field.text(report)?;
    let path = paths::with_home(
        expanded(field, written, &scope.variables, report)?,
        scope.variables.lookup,
    );
    path.map_err(|fault| field.error(report, fault)).ok()
}

/// Expands the text of a field, and says what a person should know of it.
fn expanded(
    field: &Field<'_>,
    written: &str,
    variables: &Variables<'_>,
    report: &mut Report<'_>,
) -> Option<Text> {
    match expand::expand(written, variables) {
        Ok(expanded) => {
            for remark in expanded.remarks {
                say(field, remark, report);
            }
            Some(expanded.text)
        }
        Err(error) => {
            // Without escapes, what was read stands byte for byte in the file.
            let raw = report.raw(field.at, field.end());
            let at = raw
                .find(written)
                .map_or(field.at, |begins| field.at + begins + error.at);
            if error.is_lack() {
                report.lack(&field.shown, at, error);
            } else {
                report.error(&field.shown, at, error);
            }
            None
        }
    }
}

fn say(field: &Field<'_>, remark: Remark, report: &mut Report<'_>) {
    match remark {
        Remark::Literal(Some(name)) => {
            let fault = Fault::new(
                format!("`${name}` is no variable here and is passed on as it is"),
                format!("write ${{{name}}} for its value"),
            );
            field.warning(report, fault);
        }
        Remark::Literal(None) => {
            let fault = Fault::new(
                "`$` before a name is passed on as it is",
                "write ${NAME} for the value of a variable",
            );
            field.warning(report, fault);
        }
        Remark::LiteralUnset(name) => {
            let fault = match name {
                Some(name) => Fault::new(
                    format!("the variable {name} is not set, so `${name}` is passed on as it is"),
                    "set it",
                ),
                None => Fault::new(
                    "`$NAME` is passed on as it is, since no such variable is set",
                    "set the variable",
                ),
            };
            field.warning(report, fault);
        }
        Remark::InputDefault(id) => {
            let variable = super::inputs::variable(&id);
            let fault = Fault::new(
                format!("the default of the input {} is used", quoted(&id)),
                format!("set the variable {variable} for another value"),
            );
            field.note(report, fault);
        }
        Remark::Workspace => field.note(
            report,
            "the workspace folder is the directory that Mainstay runs in, since this file belongs to no project",
        ),
    }
}
