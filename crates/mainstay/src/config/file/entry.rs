//! Reads the entry of one server.
//!
//! The rest is read even after a mistake, so that a person sees everything that is wrong at once.

mod http;
mod program;

use super::expand::{self, Remark, Variables, from_folder, with_home};
use super::fields::{Field, FieldSet, unknown};
use super::filters;
use super::host::Host;
use super::keys::SERVER;
use super::layout::Layout;
use super::settings;
use super::syntax::Value;
use crate::config::builder::ServerBuilder;
use crate::config::nearest::nearest;
use crate::config::problem::{ProblemText, quoted};
use crate::config::server::{CommonSettings, ServerConfig};
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

/// The longest name of a variable that is repeated in a message.
const MAX_NAME_SHOWN: usize = 32;

/// The entry of one server, and what it is read against.
pub(super) struct ServerEntry<'a> {
    pub(super) name: &'a str,
    /// The entry as a whole.
    whole: Field<'a>,
    pub(super) fields: FieldSet<'a>,
    pub(super) layout: &'a Layout<'a>,
    variables: Variables<'a>,
}

/// The server of an entry, unless something about it is wrong.
pub(super) fn read<'a>(
    name: &'a str,
    whole: Field<'a>,
    layout: &'a Layout<'a>,
    variables: Variables<'a>,
) -> Option<ServerConfig> {
    let report = whole.report;
    report.begin(name);
    whole.stands_for("");
    let entry = ServerEntry {
        name,
        fields: whole.fields(&SERVER)?,
        whole,
        layout,
        variables,
    };
    if entry.is_part_of_host() {
        return None;
    }
    let switched_off = layout.switched_off(name);
    sandbox(&entry.fields);
    if is_off(&entry.fields) || switched_off.is_some() {
        report.is_disabled();
    }
    let mut target = entry.target()?;
    let mut settings = CommonSettings::new(name.to_owned());
    settings::foreign_timeouts(&mut settings, &entry.fields, layout.host);
    settings.tools = filters::tools(&entry);
    settings::read(&mut settings, &entry.fields);
    if let Some(why) = switched_off {
        entry.whole.note(format!("disabled, since {why}"));
        settings.enabled = false;
    }
    // Without a value that it needs, the server's start fails and names that value.
    if let Some(reason) = report.lacking() {
        target = UnusableTarget { reason }.into();
    }
    let (config, problems) = ServerBuilder { target, settings }.finish();
    for problem in problems {
        report.setting(problem);
    }
    (!report.is_refused(name)).then_some(config)
}

/// Whether an entry says that its server is not to run.
fn is_off(fields: &FieldSet<'_>) -> bool {
    let is =
        |key, flag| matches!(fields.get(key).map(Field::value), Some(Value::Flag(found)) if *found == flag);
    is("enabled", false) || is("disabled", true)
}

impl ServerEntry<'_> {
    /// Whether the entry is no server but a part of the program whose file it is. It is passed over, with a note where a
    /// person might look for it.
    fn is_part_of_host(&self) -> bool {
        let (host, fields) = (self.layout.host, &self.fields);
        if host != Host::Zed
            && let Some(field) = fields.get("settings")
        {
            field.warning(unknown(None));
        }
        if let Some(field) = fields.get("dev").filter(|field| says_something(field)) {
            field.note(
                "VS Code's development mode is not read: Mainstay watches no files and starts no debugger",
            );
        }
        let kind = fields.first_of(&["type", "source"]);
        let kind = kind.and_then(|field| match field.value() {
            Value::Text(text) => Some(&**text),
            _ => None,
        });
        let is_enabled = !matches!(fields.get("enabled").map(Field::value), Some(Value::Flag(false)));
        match (host, kind) {
            (Host::Goose, Some("builtin" | "platform" | "frontend")) => {
                if is_enabled {
                    self.whole
                        .note("not started, since this extension is a part of Goose itself");
                }
                true
            }
            (Host::Goose, Some("inline_python")) => {
                self.whole.error(ProblemText::new(
                    "Mainstay does not run code out of a configuration",
                    "save the code in a file, and name it in `args` of an extension of type stdio",
                ));
                true
            }
            (Host::Zed, _) if kind == Some("extension") || is_zed_extension(fields) => {
                self.whole.error(ProblemText::new(
                    "an extension of Zed starts this server, and only Zed knows how",
                    "write its `command` and `args`, as the server's own documentation has them",
                ));
                true
            }
            _ => false,
        }
    }

    /// How the server is reached.
    fn target(&self) -> Option<Target> {
        let url = self.fields.first_of(&ADDRESSES);
        Some(match transport(url, &self.fields)? {
            TransportChoice::Stdio => {
                without_effect(&self.fields, &OF_ADDRESSES, "this server is a program");
                program::read(self).into()
            }
            TransportChoice::Http(kind) => {
                let why = "this server is reached by its address";
                without_effect(&self.fields, &OF_PROGRAMS, why);
                http::read(self, url, kind).into()
            }
        })
    }

    /// A path, made absolute where it is relative to the folder of the file.
    fn path_from_folder(&self, field: &Field<'_>) -> Option<ConfigText> {
        let absolute = from_folder(self.path(field)?, self.variables.folder);
        absolute.map_err(|problem| field.error(problem)).ok()
    }

    fn path(&self, field: &Field<'_>) -> Option<ConfigText> {
        let path = with_home(self.text(field)?, self.variables.lookup);
        path.map_err(|problem| field.error(problem)).ok()
    }

    /// The text of a field, expanded.
    fn text(&self, field: &Field<'_>) -> Option<ConfigText> {
        expanded(field, field.text()?, &self.variables)
    }
}

fn is_zed_extension(fields: &FieldSet<'_>) -> bool {
    let is_server = ["command", "url"].iter().any(|key| fields.get(key).is_some());
    fields.get("settings").is_some() && !is_server
}

/// A server that is to run in a sandbox is not started without one.
fn sandbox(fields: &FieldSet<'_>) {
    let wanted = fields.get("sandbox_enabled").map(|field| (field, field.flag()));
    let field = match (wanted, fields.get("sandbox")) {
        (Some((_, Some(false))), _) | (None, None) => return,
        (Some((field, _)), _) => field,
        (None, Some(field)) if says_something(field) && !matches!(field.value(), Value::Flag(false)) => field,
        (None, Some(_)) => return,
    };
    field.error(ProblemText::new(
        "this server is to run in a sandbox, and Mainstay has none, so it is not started",
        r#"name a program in `command` that makes a sandbox, and write "sandboxEnabled": false"#,
    ));
}

enum TransportChoice {
    Stdio,
    Http(HttpKind),
}

fn transport(url: Option<&Field<'_>>, fields: &FieldSet<'_>) -> Option<TransportChoice> {
    let command = fields.first_of(&COMMANDS);
    if let (Some(url), Some(_)) = (url, command) {
        url.error(ProblemText::new(
            "a server has a `command` or an address, not both",
            "remove one of the two",
        ));
        return None;
    }
    let Some(kind) = fields.first_of(&["type", "transport", "transport_type"]) else {
        return Some(match url {
            // `httpUrl` is Streamable HTTP in every program that knows it; any other key leaves it open.
            Some(_) if fields.get("http_url").is_some() => TransportChoice::Http(HttpKind::Streamable),
            Some(_) => TransportChoice::Http(HttpKind::Auto),
            None => TransportChoice::Stdio,
        });
    };
    let transport = match kind.text()? {
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
            kind.not_understood(other, &fix);
            return None;
        }
    };
    match (&transport, url, command) {
        (TransportChoice::Stdio, Some(url), _) => {
            url.error(ProblemText::new(
                "a stdio server has no address",
                "name a `command` instead",
            ));
            None
        }
        (TransportChoice::Http(_), _, Some(command)) => {
            command.error(ProblemText::new(
                "a server of this type is not started by a command",
                r#"name its `url` instead, or write "type": "stdio""#,
            ));
            None
        }
        (TransportChoice::Stdio, None, _) | (TransportChoice::Http(_), _, None) => Some(transport),
    }
}

/// Warns of keys that belong to servers of another kind.
fn without_effect(fields: &FieldSet<'_>, keys: &[&'static str], why: &str) {
    for field in keys.iter().filter_map(|key| fields.get(key)) {
        if says_something(field) {
            field.warning(ProblemText::new(
                format!("has no effect, since {why}"),
                "remove it",
            ));
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

/// Whether the name of a variable may be repeated in a message. What looks like no name, or is long, may be the secret itself,
/// written in its place.
fn may_show_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=MAX_NAME_SHOWN).contains(&name.len()) && name.chars().all(is_plain)
}

/// Expands the text of a field, and says what a person should know of it.
fn expanded(field: &Field<'_>, written: &str, variables: &Variables<'_>) -> Option<ConfigText> {
    match expand::expand(written, variables) {
        Ok(expanded) => {
            for remark in expanded.remarks {
                say(field, remark);
            }
            Some(expanded.text)
        }
        Err(error) => {
            // Without escapes, what was read stands byte for byte in the file.
            let raw = field.report.raw(field.at, field.end());
            let at = raw
                .find(written)
                .map_or(field.at, |begins| field.at + begins + error.at);
            if error.is_lack() {
                field.report.lack(&field.shown, at, error);
            } else {
                field.report.error(&field.shown, at, error);
            }
            None
        }
    }
}

fn say(field: &Field<'_>, remark: Remark) {
    match remark {
        Remark::Literal(Some(name)) => field.warning(ProblemText::new(
            format!("`${name}` is no variable here and is passed on as it is"),
            format!("write ${{{name}}} for its value"),
        )),
        Remark::Literal(None) => field.warning(ProblemText::new(
            "`$` before a name is passed on as it is",
            "write ${NAME} for the value of a variable",
        )),
        Remark::LiteralUnset(Some(name)) => field.warning(ProblemText::unset(
            &name,
            format!("the variable {name} is not set, so `${name}` is passed on as it is"),
            "set it",
        )),
        Remark::LiteralUnset(None) => field.warning(ProblemText::new(
            "`$NAME` is passed on as it is, since no such variable is set",
            "set the variable",
        )),
        Remark::InputDefault(id) => {
            let variable = super::layout::input_variable(&id);
            field.note(ProblemText::new(
                format!("the default of the input {} is used", quoted(&id)),
                format!("set the variable {variable} for another value"),
            ));
        }
        Remark::Workspace => field.note(
            "the workspace folder is the directory that Mainstay runs in, since this file belongs to no project",
        ),
    }
}
