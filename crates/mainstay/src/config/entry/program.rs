//! Reads how a server that is a program is started.

use std::path::Path;

use super::{Scope, expanded, path, path_from_folder};
use crate::config::builder::ServerBuilder;
use crate::config::document::Value;
use crate::config::env_file::{self, EnvFile, MAX_ENV_FILE_BYTES, ReadError};
use crate::config::fields::{Field, Fields, Keys};
use crate::config::host::Host;
use crate::config::paths;
use crate::config::problem::quoted;
use crate::config::report::{Fault, Report};
use crate::config::server::ServerConfig;
use crate::config::target::{StdioTarget, Text};

/// The older form of Zed's `command`.
const COMMAND: Keys = Keys::only(&["path", "args", "env"]);

/// Programs that expand `$NAME` in their own arguments.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "fish", "ksh", "zsh", "pwsh", "powershell"];

/// The longest name of a variable that is repeated in a message.
const MAX_NAME_SHOWN: usize = 32;

/// Stands in for a value that cannot be read and was reported, while the rest is read.
const UNREADABLE: &str = "unreadable";

/// What is to be run, as it is written.
#[derive(Default)]
struct Program<'a> {
    command: Option<Field<'a>>,
    args: Vec<Field<'a>>,
    env: Vec<(&'a str, Field<'a>)>,
}

pub(super) fn read(
    name: &str,
    entry: &Field<'_>,
    fields: &Fields<'_>,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> ServerBuilder<StdioTarget> {
    let cwd = fields
        .get("cwd")
        .and_then(|field| directory(field, scope, report));
    // VS Code runs the servers of a project in its folder.
    let cwd = cwd.or_else(|| {
        let project = scope.project().filter(|_| scope.host() == Host::VsCode);
        project.and_then(Path::to_str).map(Text::from)
    });
    let mut program = Program::default();
    match fields.get("command").or(fields.get("cmd")) {
        Some(field) => program.command(field, scope.host(), report),
        None => {
            let fault = Fault::new("there is no `command`", "name the program to run");
            entry.error(report, fault);
        }
    }
    let args = fields.get("args").and_then(|field| field.items(report));
    program.args.extend(args.unwrap_or_default());
    for key in ["env", "environment", "envs"] {
        let env = fields.get(key).and_then(|field| field.entries(report));
        program.env.extend(env.unwrap_or_default());
    }
    let command = program
        .command
        .as_ref()
        .and_then(|field| path(field, scope, report));
    let command = command.unwrap_or_else(|| Text::from(UNREADABLE));
    let is_shell = is_shell(command.value());
    let mut server = ServerConfig::stdio(name, paths::from_cwd(command, cwd.as_ref()));
    if let Some(cwd) = cwd {
        server = server.cwd(cwd);
    }
    for item in &program.args {
        let mut variables = scope.variables;
        variables.is_shell = is_shell;
        // One that cannot be read keeps its place, so that the others keep their numbers.
        let arg = item
            .scalar(report)
            .and_then(|written| expanded(item, written, &variables, report));
        server = server.arg(arg.unwrap_or_else(|| Text::from(UNREADABLE)));
    }
    if let Some(field) = fields.get("env_file") {
        // Whatever `env` sets comes after it, and so counts.
        for (name, value) in env_file(field, scope, report) {
            server = server.env(name, value);
        }
    }
    for (name, field) in &program.env {
        let value = field
            .scalar(report)
            .and_then(|written| expanded(field, written, &scope.variables, report));
        if let Some(value) = value {
            server = server.env(*name, variable(name, value.value(), scope));
        }
    }
    secrets(fields, &program, scope, report);
    inherited(fields, report);
    server
}

impl<'a> Program<'a> {
    fn command(&mut self, field: &Field<'a>, host: Host, report: &mut Report<'_>) {
        match (field.value(), host) {
            (Value::Array(_), Host::OpenCode) => {
                let mut items = field.items(report).unwrap_or_default().into_iter();
                self.command = items.next();
                self.args = items.collect();
                if self.command.is_none() {
                    field.error(
                        report,
                        Fault::new("the command is empty", "name the program to run"),
                    );
                }
            }
            (Value::Array(_), _) => {
                let fault = Fault::new(
                    "expected a string, found an array",
                    r#"put all but the first item in "args""#,
                );
                field.error(report, fault);
            }
            (Value::Object(object), Host::Zed) => {
                let parts = Fields::of(field, object, &COMMAND, report);
                self.command = parts.get("path").cloned();
                if self.command.is_none() {
                    field.error(
                        report,
                        Fault::new("there is no `path`", "name the program to run"),
                    );
                }
                let args = parts.get("args").and_then(|field| field.items(report));
                self.args = args.unwrap_or_default();
                let env = parts.get("env").and_then(|field| field.entries(report));
                self.env = env.unwrap_or_default();
            }
            _ => self.command = Some(field.clone()),
        }
    }
}

fn directory(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Text> {
    // VS Code and opencode start from the project, not from the folder that they keep its file in.
    match scope.project() {
        Some(project) => from_project(field, project, scope, report),
        None => path_from_folder(field, scope, report),
    }
}

fn from_project(
    field: &Field<'_>,
    project: &Path,
    scope: &Scope<'_>,
    report: &mut Report<'_>,
) -> Option<Text> {
    let path = path(field, scope, report)?;
    let absolute = paths::from_folder(path, project);
    absolute.map_err(|fault| field.error(report, fault)).ok()
}

/// The variables of a file. They are all secrets.
fn env_file(field: &Field<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Vec<(String, String)> {
    let Some(path) = directory(field, scope, report) else {
        return Vec::new();
    };
    let shown = quoted(path.shown());
    let text = match env_file::read_text(Path::new(path.value()), MAX_ENV_FILE_BYTES) {
        Ok(text) => text,
        Err(error) => {
            let reason = match error {
                ReadError::Unreadable(source) => format!("cannot be read: {source}"),
                ReadError::TooLarge => format!("is larger than {MAX_ENV_FILE_BYTES} bytes"),
                ReadError::NotText => "is not UTF-8 text".to_owned(),
            };
            let fault = Fault::new(
                format!("the file of variables {shown} {reason}"),
                "create it with a line NAME=value for each, or remove the key",
            );
            field.lack(report, fault);
            return Vec::new();
        }
    };
    let file = EnvFile::parse(&text);
    if let Some(line) = file.bad_lines.first() {
        let fault = Fault::new(
            format!("line {line} of {shown} holds no variable and is passed over"),
            "write NAME=value",
        );
        field.warning(report, fault);
    }
    file.variables
}

/// The value of a variable. VS Code adds to the `PATH` that there is, unless the value holds that already.
fn variable(name: &str, value: &str, scope: &Scope<'_>) -> String {
    let inherited = (scope.variables.lookup)(name).filter(|path| !path.is_empty());
    match inherited {
        Some(path) if name == "PATH" && scope.host() == Host::VsCode && !value.contains(&path) => {
            format!("{path}:{value}")
        }
        Some(_) | None => value.to_owned(),
    }
}

/// Goose keeps the values of `env_keys` in a store that only it can open; here they come from the environment.
fn secrets(fields: &Fields<'_>, program: &Program<'_>, scope: &Scope<'_>, report: &mut Report<'_>) {
    let keys = fields.get("env_keys").and_then(|field| field.items(report));
    for item in keys.unwrap_or_default() {
        let Some(name) = item.text(report) else {
            continue;
        };
        let is_set =
            program.env.iter().any(|(set, _)| *set == name) || (scope.variables.lookup)(name).is_some();
        if !is_set {
            // A name that looks like none may be the secret itself.
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_name = name.len() <= MAX_NAME_SHOWN && name.chars().all(plain);
            let name = if is_name { name } else { "this variable" };
            let fault = Fault::new(
                format!("Goose keeps the value of {name} in its own store, and it is not set here"),
                "set it in the environment of Mainstay",
            );
            item.lack(report, fault);
        }
    }
}

/// Codex passes on only the variables that `env_vars` names; Mainstay passes on all of them.
fn inherited(fields: &Fields<'_>, report: &mut Report<'_>) {
    let names = fields.get("env_vars").and_then(|field| field.items(report));
    for item in names.unwrap_or_default() {
        let has_name = item.as_object().is_some_and(|item| item.text("name").is_some());
        if !has_name {
            item.text(report);
        }
    }
}

fn is_shell(command: &str) -> bool {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    SHELLS.contains(&name.strip_suffix(".exe").unwrap_or(name))
}
