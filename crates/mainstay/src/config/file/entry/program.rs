//! Reads how a server that is a program is started.

use std::path::Path;

use super::{EntryContext, expanded, path, path_from_folder};
use crate::config::builder::ServerBuilder;
use crate::config::file::bounded::ReadError;
use crate::config::file::env_file::{EnvFile, MAX_ENV_FILE_BYTES};
use crate::config::file::expand::{from_cwd, from_folder};
use crate::config::file::fields::{Field, FieldSet};
use crate::config::file::host::Host;
use crate::config::file::keys::OF_ZED;
use crate::config::file::report::ProblemReport;
use crate::config::file::syntax::Value;
use crate::config::problem::{ProblemText, quoted};
use crate::config::server::ServerConfig;
use crate::config::target::{ConfigText, StdioTarget};

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
    fields: &FieldSet<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> ServerBuilder<StdioTarget> {
    let cwd = fields
        .get("cwd")
        .and_then(|field| directory(field, context, report));
    // VS Code runs the servers of a project in its folder.
    let cwd = cwd.or_else(|| {
        let project = context.project().filter(|_| context.host() == Host::VsCode);
        project.and_then(Path::to_str).map(ConfigText::from)
    });
    let mut program = Program::default();
    match fields.get("command").or(fields.get("cmd")) {
        Some(field) => program.command(field, context.host(), report),
        None => {
            let problem = ProblemText::new("there is no `command`", "name the program to run");
            entry.error(report, problem);
        }
    }
    program.args.extend(fields.items("args", report));
    for key in ["env", "environment", "envs"] {
        program.env.extend(fields.entries(key, report));
    }
    let command = program
        .command
        .as_ref()
        .and_then(|field| path(field, context, report));
    let command = command.unwrap_or_else(|| ConfigText::from(UNREADABLE));
    let is_shell = is_shell(command.value());
    let mut server = ServerConfig::stdio(name, from_cwd(command, cwd.as_ref()));
    if let Some(cwd) = cwd {
        server = server.cwd(cwd);
    }
    for item in &program.args {
        let mut variables = context.variables;
        variables.is_shell = is_shell;
        // One that cannot be read keeps its place, so that the others keep their numbers.
        let arg = item
            .scalar(report)
            .and_then(|written| expanded(item, written, &variables, report));
        server = server.arg(arg.unwrap_or_else(|| ConfigText::from(UNREADABLE)));
    }
    if let Some(field) = fields.get("env_file") {
        // Whatever `env` sets comes after it, and so counts.
        for (name, value) in env_file(field, context, report) {
            server = server.env(name, value);
        }
    }
    for (name, field) in &program.env {
        let value = field
            .scalar(report)
            .and_then(|written| expanded(field, written, &context.variables, report));
        if let Some(value) = value {
            server = server.env(*name, variable(name, value.value(), context));
        }
    }
    secrets(fields, &program, context, report);
    inherited(fields, report);
    server
}

impl<'a> Program<'a> {
    fn command(&mut self, field: &Field<'a>, host: Host, report: &mut ProblemReport<'_>) {
        match (field.value(), host) {
            (Value::Array(_), Host::OpenCode) => {
                let mut items = field.items(report).unwrap_or_default().into_iter();
                self.command = items.next();
                self.args = items.collect();
                if self.command.is_none() {
                    field.error(
                        report,
                        ProblemText::new("the command is empty", "name the program to run"),
                    );
                }
            }
            (Value::Array(_), _) => {
                let problem = ProblemText::new(
                    "expected a string, found an array",
                    r#"put all but the first item in "args""#,
                );
                field.error(report, problem);
            }
            (Value::Object(object), Host::Zed) => {
                let parts = FieldSet::of(field, object, &OF_ZED, report);
                self.command = parts.get("path").cloned();
                if self.command.is_none() {
                    field.error(
                        report,
                        ProblemText::new("there is no `path`", "name the program to run"),
                    );
                }
                self.args = parts.items("args", report);
                self.env = parts.entries("env", report);
            }
            _ => self.command = Some(field.clone()),
        }
    }
}

fn directory(
    field: &Field<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<ConfigText> {
    // VS Code and opencode start from the project, not from the folder that they keep its file in.
    match context.project() {
        Some(project) => from_project(field, project, context, report),
        None => path_from_folder(field, context, report),
    }
}

fn from_project(
    field: &Field<'_>,
    project: &Path,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<ConfigText> {
    let path = path(field, context, report)?;
    let absolute = from_folder(path, project);
    absolute.map_err(|problem| field.error(report, problem)).ok()
}

/// The variables of a file. They are all secrets.
fn env_file(
    field: &Field<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) -> Vec<(String, String)> {
    let Some(path) = directory(field, context, report) else {
        return Vec::new();
    };
    let shown = quoted(path.shown());
    let files = context.variables.files;
    let text = match files.read_text(Path::new(path.value()), MAX_ENV_FILE_BYTES) {
        Ok(text) => text,
        Err(error) => {
            let reason = match error {
                ReadError::Unreadable(source) => format!("cannot be read: {source}"),
                ReadError::TooLarge => format!("is larger than {MAX_ENV_FILE_BYTES} bytes"),
                ReadError::NotText => "is not UTF-8 text".to_owned(),
            };
            let problem = ProblemText::new(
                format!("the file of variables {shown} {reason}"),
                "create it with a line NAME=value for each, or remove the key",
            );
            field.lack(report, problem);
            return Vec::new();
        }
    };
    let file = EnvFile::parse(&text);
    if let Some(line) = file.bad_lines.first() {
        let problem = ProblemText::new(
            format!("line {line} of {shown} holds no variable and is passed over"),
            "write NAME=value",
        );
        field.warning(report, problem);
    }
    file.variables
}

/// The value of a variable. VS Code adds to the `PATH` that there is, unless the value holds that already.
fn variable(name: &str, value: &str, context: &EntryContext<'_>) -> String {
    let inherited = (context.variables.lookup)(name).filter(|path| !path.is_empty());
    match inherited {
        Some(path) if name == "PATH" && context.host() == Host::VsCode && !value.contains(&path) => {
            format!("{path}:{value}")
        }
        Some(_) | None => value.to_owned(),
    }
}

/// Goose keeps the values of `env_keys` in a store that only it can open; here they come from the environment.
fn secrets(
    fields: &FieldSet<'_>,
    program: &Program<'_>,
    context: &EntryContext<'_>,
    report: &mut ProblemReport<'_>,
) {
    for item in fields.items("env_keys", report) {
        let Some(name) = item.text(report) else {
            continue;
        };
        let is_set =
            program.env.iter().any(|(set, _)| *set == name) || (context.variables.lookup)(name).is_some();
        if !is_set {
            // A name that looks like none may be the secret itself.
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_name = name.len() <= MAX_NAME_SHOWN && name.chars().all(plain);
            let name = if is_name { name } else { "this variable" };
            let problem = ProblemText::new(
                format!("Goose keeps the value of {name} in its own store, and it is not set here"),
                "set it in the environment of Mainstay",
            );
            item.lack(report, problem);
        }
    }
}

/// Codex passes on only the variables that `env_vars` names; Mainstay passes on all of them.
fn inherited(fields: &FieldSet<'_>, report: &mut ProblemReport<'_>) {
    for item in fields.items("env_vars", report) {
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
