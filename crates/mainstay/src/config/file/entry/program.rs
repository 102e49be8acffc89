//! Reads how a server that is a program is started.

use std::path::Path;

use super::{COMMANDS, ServerEntry, expanded, may_show_name};
use crate::config::file::env_file::{EnvFile, MAX_ENV_FILE_BYTES};
use crate::config::file::expand::{from_cwd, from_folder};
use crate::config::file::fields::{Field, FieldSet};
use crate::config::file::host::Host;
use crate::config::file::keys::OF_ZED;
use crate::config::file::syntax::Value;
use crate::config::problem::{ProblemText, quoted};
use crate::config::target::{ConfigText, StdioTarget};

/// Programs that expand `$NAME` in their own arguments.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "fish", "ksh", "zsh", "pwsh", "powershell"];

/// Stands in for a value that cannot be read and was reported, while the rest is read.
const UNREADABLE: &str = "unreadable";

/// What is to be run, as it is written.
#[derive(Default)]
struct Program<'a> {
    command: Option<Field<'a>>,
    args: Vec<Field<'a>>,
    env: Vec<(&'a str, Field<'a>)>,
}

pub(super) fn read(entry: &ServerEntry<'_>) -> StdioTarget {
    let (fields, host) = (&entry.fields, entry.layout.host);
    let cwd = fields.read("cwd", |field| entry.directory(field));
    // VS Code runs the servers of a project in its folder.
    let cwd = cwd.or_else(|| {
        let project = entry.variables.project().filter(|_| host == Host::VsCode);
        project.and_then(Path::to_str).map(ConfigText::from)
    });
    let mut program = Program::default();
    match fields.first_of(&COMMANDS) {
        Some(field) => program.command(field, host),
        None => entry.whole.error(ProblemText::new(
            "there is no `command`",
            "name the program to run",
        )),
    }
    program.args.extend(fields.items("args"));
    for key in ["env", "environment", "envs"] {
        program.env.extend(fields.entries(key));
    }
    let command = program.command.as_ref().and_then(|field| entry.path(field));
    let command = command.unwrap_or_else(|| ConfigText::from(UNREADABLE));
    let mut of_args = entry.variables;
    of_args.is_shell = is_shell(command.value());
    let mut target = StdioTarget::new(from_cwd(command, cwd.as_ref()));
    target.cwd = cwd;
    for item in &program.args {
        // One that cannot be read keeps its place, so that the others keep their numbers.
        let arg = item
            .scalar()
            .and_then(|written| expanded(item, written, &of_args));
        let arg = arg.unwrap_or_else(|| ConfigText::from(UNREADABLE));
        target.args.push(arg);
    }
    if let Some(field) = fields.get("env_file") {
        // Whatever `env` sets comes after it, and so counts.
        let variables = entry.env_file(field).into_iter();
        target
            .env
            .extend(variables.map(|(name, value)| (name, value.into())));
    }
    for (name, field) in &program.env {
        if let Some(written) = field.scalar()
            && let Some(value) = expanded(field, written, &entry.variables)
        {
            let value = entry.variable(name, value.value());
            target.env.insert((*name).to_owned(), value.into());
        }
    }
    entry.check_secrets(&program);
    check_inherited(fields);
    target
}

impl<'a> Program<'a> {
    fn command(&mut self, field: &Field<'a>, host: Host) {
        match (field.value(), host) {
            (Value::Array(_), Host::OpenCode) => {
                let mut items = field.items().unwrap_or_default().into_iter();
                self.command = items.next();
                self.args = items.collect();
                if self.command.is_none() {
                    let problem = ProblemText::new("the command is empty", "name the program to run");
                    field.error(problem);
                }
            }
            (Value::Array(_), _) => field.error(ProblemText::new(
                "expected a string, found an array",
                r#"put all but the first item in "args""#,
            )),
            (Value::Object(_), Host::Zed) => {
                let Some(parts) = field.fields(&OF_ZED) else {
                    return;
                };
                self.command = parts.get("path").cloned();
                if self.command.is_none() {
                    let problem = ProblemText::new("there is no `path`", "name the program to run");
                    field.error(problem);
                }
                self.args = parts.items("args");
                self.env = parts.entries("env");
            }
            _ => self.command = Some(field.clone()),
        }
    }
}

impl ServerEntry<'_> {
    /// A path, made absolute. VS Code and opencode start from the project, not from the folder that they keep its file in.
    fn directory(&self, field: &Field<'_>) -> Option<ConfigText> {
        let folder = self.variables.project().unwrap_or(self.variables.folder);
        let absolute = from_folder(self.path(field)?, folder);
        absolute.map_err(|problem| field.error(problem)).ok()
    }

    /// The variables of a file. They are all secrets.
    fn env_file(&self, field: &Field<'_>) -> Vec<(String, String)> {
        let Some(path) = self.directory(field) else {
            return Vec::new();
        };
        let shown = quoted(path.shown());
        let files = self.variables.files;
        let text = match files.read_text(Path::new(path.value()), MAX_ENV_FILE_BYTES) {
            Ok(text) => text,
            Err(error) => {
                field.lack(ProblemText::new(
                    format!("the file of variables {shown} {error}"),
                    "create it with a line NAME=value for each, or remove the key",
                ));
                return Vec::new();
            }
        };
        let file = EnvFile::parse(&text);
        if let Some(line) = file.bad_lines.first() {
            field.warning(ProblemText::new(
                format!("line {line} of {shown} holds no variable and is passed over"),
                "write NAME=value",
            ));
        }
        file.variables
    }

    /// The value of a variable. VS Code adds to the `PATH` that there is, unless the value holds that already.
    fn variable(&self, name: &str, value: &str) -> String {
        let inherited = (self.variables.lookup)(name).filter(|path| !path.is_empty());
        match inherited {
            Some(path) if name == "PATH" && self.layout.host == Host::VsCode && !value.contains(&path) => {
                format!("{path}:{value}")
            }
            Some(_) | None => value.to_owned(),
        }
    }

    /// Goose keeps the values of `env_keys` in a store that only it can open; here they come from the environment.
    fn check_secrets(&self, program: &Program<'_>) {
        for item in self.fields.items("env_keys") {
            let Some(name) = item.text() else { continue };
            let is_set =
                program.env.iter().any(|(set, _)| *set == name) || (self.variables.lookup)(name).is_some();
            if !is_set {
                let fix = "set it in the environment of Mainstay";
                let lack = |shown: &str| {
                    format!("Goose keeps the value of {shown} in its own store, and it is not set here")
                };
                item.lack(match may_show_name(name) {
                    true => ProblemText::unset(name, lack(name), fix),
                    false => ProblemText::new(lack("this variable"), fix),
                });
            }
        }
    }
}

/// Codex passes on only the variables that `env_vars` names; Mainstay passes on all of them.
fn check_inherited(fields: &FieldSet<'_>) {
    for item in fields.items("env_vars") {
        let has_name = item.as_object().is_some_and(|item| item.text("name").is_some());
        if !has_name {
            item.text();
        }
    }
}

fn is_shell(command: &str) -> bool {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    SHELLS.contains(&name.strip_suffix(".exe").unwrap_or(name))
}
