//! Reads the entry of one server.
//!
//! The rest is read even after a mistake, so that a person sees everything that is wrong at once.

mod http;
mod program;

use std::path::Path;

use super::expand::{self, Remark, Variables, from_folder, with_home};
use super::fields::{Field, FieldSet, unknown};
use super::filters;
use super::host::Host;
use super::keys::SERVER;
use super::layout::Layout;
use super::parse::FileContext;
use super::report::ProblemReport;
use super::settings::{foreign_timeouts, settings};
use super::syntax::Value;
use crate::config::builder::ServerBuilder;
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, quoted};
use crate::config::server::ServerConfig;
use crate::config::target::{ConfigText, HttpKind, Target, UnusableTarget};

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
pub(super) const ADDRESSES: [&str; 4] = ["http_url", "url", "server_url", "uri"];

/// The keys of a program, the first that is there counts.
pub(super) const COMMANDS: [&str; 2] = ["command", "cmd"];

/// The values of `type` that a misspelt one is compared with.
const TYPES: [&str; 4] = ["stdio", "http", "sse", "streamable-http"];

/// What an entry is read against.
pub(super) struct EntryContext<'a> {
    variables: Variables<'a>,
    layout: &'a Layout<'a>,
}

impl<'a> EntryContext<'a> {
    pub(super) fn new(context: &FileContext<'a>, layout: &'a Layout<'a>) -> Self {
        let workspace = workspace(context);
        Self {
            variables: Variables {
                lookup: context.lookup,
                files: context.files,
                folder: context.folder,
                workspace: workspace.unwrap_or(context.directory),
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
fn workspace<'a>(context: &FileContext<'a>) -> Option<&'a Path> {
    let folder = context.folder;
    let name = folder.file_name()?.to_str()?;
    let home = (context.lookup)("HOME");
    let around = folder.parent()?;
    let is_users = home.is_some_and(|home| Path::new(&home) == around);
    (Host::is_project_folder(name) && !is_users).then_some(around)
}

/// The server of an entry, unless something about it is wrong.
pub(super) fn read(
    name: &str,
    entry: &Field<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<ServerConfig> {
    report.begin(name);
    report.saw("", &entry.shown, entry.at);
    let fields = FieldSet::of(entry, entry.object(report)?, &SERVER, report);
    if is_part_of_host(entry, &fields, context.host(), report) {
        return None;
    }
    sandbox(&fields, report);
    if is_off(&fields) || context.layout.switched_off(name).is_some() {
        report.is_disabled();
    }
    let url = ADDRESSES.iter().find_map(|key| fields.get(key));
    match transport(url, &fields, report)? {
        TransportChoice::Stdio => {
            without_effect(&fields, &OF_ADDRESSES, "this server is a program", report);
            let server = program::read(name, entry, &fields, context, report);
            with_settings(name, server, entry, &fields, context, report)
        }
        TransportChoice::Http(kind) => {
            without_effect(
                &fields,
                &OF_PROGRAMS,
                "this server is reached by its address",
                report,
            );
            let server = http::read(name, url, kind, entry, &fields, context, report);
            with_settings(name, server, entry, &fields, context, report)
        }
    }
}

/// Reads what all kinds of servers have in common, and finishes the server.
fn with_settings<T: Into<Target>>(
    name: &str,
    server: ServerBuilder<T>,
    entry: &Field<'_>,
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<ServerConfig> {
    let server = foreign_timeouts(server, fields, context.host(), report);
    let tools = filters::tools(name, fields, context, report);
    let mut server = settings(server.tools(tools), fields, report);
    if let Some(why) = context.layout.switched_off(name) {
        entry.note(report, format!("disabled, since {why}"));
        server = server.enabled(false);
    }
    let (config, problems) = match report.lacking() {
        Some(value) => lacking(server, value).finish(),
        None => server.finish(),
    };
    for problem in problems {
        report.setting(problem);
    }
    (!report.is_refused(name)).then_some(config)
}

/// The same server without a value that it needs. If it is enabled, its start fails and names that value.
fn lacking<T>(server: ServerBuilder<T>, value: &str) -> ServerBuilder<UnusableTarget> {
    ServerBuilder {
        target: UnusableTarget {
            reason: value.to_owned(),
        },
        settings: server.settings,
    }
}

/// Whether an entry says that its server is not to run.
fn is_off(fields: &FieldSet<'_>) -> bool {
    let is =
        |key, flag| matches!(fields.get(key).map(Field::value), Some(Value::Flag(found)) if *found == flag);
    is("enabled", false) || is("disabled", true)
}

/// Whether an entry is no server but a part of the program whose file it is. It is passed over, with a note where a
/// person might look for it.
fn is_part_of_host(
    entry: &Field<'_>,
    fields: &FieldSet<'_>,
    host: Host,
    report: &mut ProblemReport<'_>,
) -> bool {
    if host != Host::Zed
        && let Some(field) = fields.get("settings")
    {
        field.warning(report, unknown(None));
    }
    if let Some(field) = fields.get("dev").filter(|field| says_something(field)) {
        let problem = ProblemText::from(
            "VS Code's development mode is not read: Mainstay watches no files and starts no debugger",
        );
        field.note(report, problem);
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
            let problem = ProblemText::new(
                "Mainstay does not run code out of a configuration",
                "save the code in a file, and name it in `args` of an extension of type stdio",
            );
            entry.error(report, problem);
            true
        }
        (Host::Zed, _) if kind == Some("extension") || is_zed_extension(fields) => {
            let problem = ProblemText::new(
                "an extension of Zed starts this server, and only Zed knows how",
                "write its `command` and `args`, as the server's own documentation has them",
            );
            entry.error(report, problem);
            true
        }
        _ => false,
    }
}

fn is_zed_extension(fields: &FieldSet<'_>) -> bool {
    let is_server = ["command", "url"].iter().any(|key| fields.get(key).is_some());
    fields.get("settings").is_some() && !is_server
}

/// A server that is to run in a sandbox is not started without one.
fn sandbox(fields: &FieldSet<'_>, report: &mut ProblemReport<'_>) {
    let wanted = fields
        .get("sandbox_enabled")
        .map(|field| (field, field.flag(report)));
    let field = match (wanted, fields.get("sandbox")) {
        (Some((_, Some(false))), _) | (None, None) => return,
        (Some((field, _)), _) => field,
        (None, Some(field)) if says_something(field) && !matches!(field.value(), Value::Flag(false)) => field,
        (None, Some(_)) => return,
    };
    let problem = ProblemText::new(
        "this server is to run in a sandbox, and Mainstay has none, so it is not started",
        r#"name a program in `command` that makes a sandbox, and write "sandboxEnabled": false"#,
    );
    field.error(report, problem);
}

enum TransportChoice {
    Stdio,
    Http(HttpKind),
}

fn transport(
    url: Option<&Field<'_>>,
    fields: &FieldSet<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<TransportChoice> {
    let command = COMMANDS.iter().find_map(|key| fields.get(key));
    if let (Some(url), Some(_)) = (url, command) {
        let problem = ProblemText::new(
            "a server has a `command` or an address, not both",
            "remove one of the two",
        );
        url.error(report, problem);
        return None;
    }
    let Some(kind) = ["type", "transport", "transport_type"]
        .iter()
        .find_map(|key| fields.get(key))
    else {
        return Some(match url {
            // `httpUrl` is Streamable HTTP in every program that knows it; any other key leaves it open.
            Some(_) if fields.get("http_url").is_some() => TransportChoice::Http(HttpKind::Streamable),
            Some(_) => TransportChoice::Http(HttpKind::Auto),
            None => TransportChoice::Stdio,
        });
    };
    let transport = match kind.text(report)? {
        "stdio" | "local" => TransportChoice::Stdio,
        "http" | "streamable-http" | "streamable_http" | "streamableHttp" | "streamable" => {
            TransportChoice::Http(HttpKind::Streamable)
        }
        "sse" => TransportChoice::Http(HttpKind::Sse),
        "remote" => TransportChoice::Http(HttpKind::Auto),
        other => {
            let fix = match nearest(other, TYPES) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => r#"write "stdio", "http" or "sse", or leave it out"#.to_owned(),
            };
            kind.not_understood(other, &fix, report);
            return None;
        }
    };
    match (&transport, url, command) {
        (TransportChoice::Stdio, Some(url), _) => {
            let problem = ProblemText::new("a stdio server has no address", "name a `command` instead");
            url.error(report, problem);
            None
        }
        (TransportChoice::Http(_), _, Some(command)) => {
            let problem = ProblemText::new(
                "a server of this type is not started by a command",
                r#"name its `url` instead, or write "type": "stdio""#,
            );
            command.error(report, problem);
            None
        }
        (TransportChoice::Stdio, None, _) | (TransportChoice::Http(_), _, None) => Some(transport),
    }
}

/// Warns of keys that belong to servers of another kind.
fn without_effect(fields: &FieldSet<'_>, keys: &[&'static str], why: &str, report: &mut ProblemReport<'_>) {
    for field in keys.iter().filter_map(|key| fields.get(key)) {
        if says_something(field) {
            field.warning(
                report,
                ProblemText::new(format!("has no effect, since {why}"), "remove it"),
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
fn path_from_folder(
    field: &Field<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<ConfigText> {
    let path = path(field, context, report)?;
    let absolute = from_folder(path, context.variables.folder);
    absolute.map_err(|problem| field.error(report, problem)).ok()
}

fn path(field: &Field<'_>, context: &EntryContext<'_>, report: &mut ProblemReport<'_>) -> Option<ConfigText> {
    let written = field.text(report)?;
    let path = with_home(
        expanded(field, written, &context.variables, report)?,
        context.variables.lookup,
    );
    path.map_err(|problem| field.error(report, problem)).ok()
}

/// Expands the text of a field, and says what a person should know of it.
fn expanded(
    field: &Field<'_>,
    written: &str,
    variables: &Variables<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<ConfigText> {
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

fn say(field: &Field<'_>, remark: Remark, report: &mut ProblemReport<'_>) {
    match remark {
        Remark::Literal(Some(name)) => {
            let problem = ProblemText::new(
                format!("`${name}` is no variable here and is passed on as it is"),
                format!("write ${{{name}}} for its value"),
            );
            field.warning(report, problem);
        }
        Remark::Literal(None) => {
            let problem = ProblemText::new(
                "`$` before a name is passed on as it is",
                "write ${NAME} for the value of a variable",
            );
            field.warning(report, problem);
        }
        Remark::LiteralUnset(name) => {
            let problem = match name {
                Some(name) => ProblemText::new(
                    format!("the variable {name} is not set, so `${name}` is passed on as it is"),
                    "set it",
                ),
                None => ProblemText::new(
                    "`$NAME` is passed on as it is, since no such variable is set",
                    "set the variable",
                ),
            };
            field.warning(report, problem);
        }
        Remark::InputDefault(id) => {
            let variable = super::layout::input_variable(&id);
            let problem = ProblemText::new(
                format!("the default of the input {} is used", quoted(&id)),
                format!("set the variable {variable} for another value"),
            );
            field.note(report, problem);
        }
        Remark::Workspace => field.note(
            report,
            "the workspace folder is the directory that Mainstay runs in, since this file belongs to no project",
        ),
    }
}
