//! Variables in a configuration.
//!
//! `${NAME}`, `${NAME:-default}`, `$${` for a plain `${` and, in a default, `$$}` for a plain `}` are Mainstay's own. Beside them, whatever another program's
//! files may hold has the meaning that it has there: `${env:NAME}`, `${userHome}`, `${workspaceFolder}`,
//! `${workspaceFolderBasename}`, `${pathSeparator}` and `${/}` of editors, `${input:ID}` of VS Code, `${file:PATH}` of
//! Windsurf, `${{ secrets.NAME }}` of Continue; in Gemini's files also `$NAME`, in opencode's `{env:NAME}` and `{file:PATH}`.
//!
//! Names are looked up once, in the environment that was handed in; what comes out is not expanded again, so no value
//! can refer to another and no cycle can arise. A default counts when the variable is not set or empty, as in a shell,
//! and may hold variables of its own.

mod error;

use std::path::{MAIN_SEPARATOR_STR, Path, is_separator};

use error::ExpandErrorKind;

use super::bounded::FilesRead;
use super::host::Host;
use super::layout::{Inputs, Layout, input_variable};
use super::parse::FileContext;
use crate::config::problem::ProblemText;
use crate::config::target::ConfigText;

pub(super) use error::ExpandError;

/// How deep defaults may nest. A person needs two; the bound keeps a hostile file from using up the stack.
const MAX_NESTING: usize = 16;

/// How long an expanded text may grow: Linux passes no longer argument to a program.
const MAX_EXPANDED_BYTES: usize = 128 * 1024;

/// Variables that editors know of themselves and that mean nothing without one.
const OF_EDITORS: [&str; 10] = [
    "cwd",
    "defaultBuildTask",
    "execPath",
    "file",
    "fileBasename",
    "fileDirname",
    "lineNumber",
    "relativeFile",
    "selectedText",
    "fileWorkspaceFolder",
];

/// Where names are looked up.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What variables stand for.
#[derive(Clone, Copy)]
pub(super) struct Variables<'a> {
    pub(super) lookup: Lookup<'a>,
    /// Reads the files that `${file:…}` names.
    pub(super) files: &'a FilesRead,
    /// The folder of the file, where relative paths start.
    pub(super) folder: &'a Path,
    /// What editors call the workspace folder.
    pub(super) workspace: &'a Path,
    /// Whether the file itself lies in that workspace; where it does not, the working directory stands in.
    pub(super) workspace_is_known: bool,
    pub(super) inputs: &'a Inputs<'a>,
    /// Whether `$NAME` stands for a variable.
    pub(super) bare_names: bool,
    /// Whether `{env:NAME}` and `{file:PATH}` stand for something.
    pub(super) braces: bool,
    /// Whether the text is for a shell, which expands `$NAME` itself.
    pub(super) is_shell: bool,
}

impl<'a> Variables<'a> {
    /// What variables stand for in a file with this layout.
    pub(super) fn of(context: &FileContext<'a>, layout: &'a Layout<'a>) -> Self {
        let workspace = workspace(context);
        Self {
            lookup: context.lookup,
            files: context.files,
            folder: context.folder,
            workspace: workspace.unwrap_or(context.directory),
            workspace_is_known: workspace.is_some(),
            inputs: &layout.inputs,
            bare_names: layout.host.expands_bare_names(),
            braces: layout.host.expands_braces(),
            is_shell: false,
        }
    }

    /// The project that the file belongs to, if its place says so.
    pub(super) fn project(&self) -> Option<&'a Path> {
        self.workspace_is_known.then_some(self.workspace)
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

/// A text with its variables expanded.
#[derive(Debug)]
pub(super) struct Expanded {
    pub(super) text: ConfigText,
    /// What a person should know of it, each once.
    pub(super) remarks: Vec<Remark>,
}

/// What a person should know of an expanded text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Remark {
    /// `$NAME` stays as it is. The name is given if it can be no part of a password.
    Literal(Option<String>),
    /// `$NAME` of a file that expands it stays as it is, since there is no such variable.
    LiteralUnset(Option<String>),
    /// The default of an input was taken.
    InputDefault(String),
    /// The working directory stands in for the workspace folder.
    Workspace,
}

/// Expands a text. Where a variable was used, the result shows what was written.
pub(super) fn expand(written: &str, variables: &Variables<'_>) -> Result<Expanded, ExpandError> {
    let mut expansion = Expansion {
        text: written,
        at: 0,
        variables,
        used: false,
        remarks: Vec::new(),
    };
    let value = expansion.run(0, true)?;
    Ok(Expanded {
        text: if expansion.used {
            ConfigText::hidden(value, written)
        } else {
            ConfigText::from(value)
        },
        remarks: expansion.remarks,
    })
}

struct Expansion<'a> {
    text: &'a str,
    at: usize,
    variables: &'a Variables<'a>,
    /// Whether a variable was met.
    used: bool,
    remarks: Vec<Remark>,
}

impl<'a> Expansion<'a> {
    /// Expands up to the end of the text or, inside of a default, up to its `}`. Where the result is not wanted, a
    /// variable that is not set does no harm.
    fn run(&mut self, depth: usize, wanted: bool) -> Result<String, ExpandError> {
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            if rest.is_empty() || (depth > 0 && rest.starts_with('}')) {
                return Ok(value);
            }
            if rest.starts_with("$${") {
                value.push_str("${");
                self.at += 3;
            } else if depth > 0 && rest.starts_with("$$}") {
                value.push('}');
                self.at += 3;
            } else if rest.starts_with("${") {
                value.push_str(&self.variable(depth, wanted)?);
            } else if rest.starts_with('$') && !leading_name(&rest[1..]).is_empty() {
                value.push_str(&self.bare_name(wanted));
            } else if self.variables.braces && (rest.starts_with("{env:") || rest.starts_with("{file:")) {
                value.push_str(&self.in_braces(wanted)?);
            } else {
                let plain = rest
                    .char_indices()
                    .skip(1)
                    .find(|(_, c)| matches!(c, '$' | '}' | '{'));
                let end = plain.map_or(rest.len(), |(end, _)| end);
                value.push_str(&rest[..end]);
                self.at += end;
            }
            if value.len() > MAX_EXPANDED_BYTES {
                return Err(error(0, ExpandErrorKind::TooLong));
            }
        }
    }

    /// Expands the `${…}` that begins here.
    fn variable(&mut self, depth: usize, wanted: bool) -> Result<String, ExpandError> {
        let start = self.at;
        self.used = true;
        if depth >= MAX_NESTING {
            return Err(error(start, ExpandErrorKind::TooDeep));
        }
        let inside = &self.text[start + 2..];
        if let Some(of_editor) = self.of_editor(start, inside, wanted) {
            return of_editor;
        }
        let (prefix, name) = name(inside);
        self.at = start + 2 + prefix + name.len();
        let value = (self.variables.lookup)(name).filter(|_| !name.is_empty());
        let rest = &self.text[self.at..];
        if name.is_empty() || !(rest.starts_with('}') || rest.starts_with(":-")) {
            let kind = match inside.split_once('}') {
                None => ExpandErrorKind::Unterminated,
                Some((inside, _)) => match inside.split_once(':') {
                    Some((of, _)) if matches!(of, "command" | "config" | "workspaceFolder") => {
                        ExpandErrorKind::OfEditors(format!("{of}:…"))
                    }
                    Some(_) | None => ExpandErrorKind::NotAName,
                },
            };
            return Err(error(start, kind));
        }
        let value = if rest.starts_with('}') {
            value.or_else(|| (!wanted).then(String::new))
        } else {
            self.at += 2;
            let value = value.filter(|value| !value.is_empty());
            let default = self.run(depth + 1, wanted && value.is_none())?;
            value.or(Some(default))
        };
        if !self.text[self.at..].starts_with('}') {
            return Err(error(start, ExpandErrorKind::Unterminated));
        }
        self.at += 1;
        value.ok_or_else(|| error(start, not_set(name)))
    }

    /// Expands what is no variable of the environment: `${userHome}`, `${input:…}`, `${file:…}`, `${{ secrets.… }}`.
    fn of_editor(
        &mut self,
        start: usize,
        inside: &'a str,
        wanted: bool,
    ) -> Option<Result<String, ExpandError>> {
        if let Some(secret) = inside.strip_prefix('{') {
            let (reference, _) = secret.split_once("}}")?;
            self.at = start + "${{".len() + reference.len() + "}}".len();
            let name = reference.trim().split_once('.');
            let name = name.filter(|(of, _)| matches!(*of, "secrets" | "inputs" | "env"));
            let Some((_, name)) = name.filter(|(_, name)| is_name(name)) else {
                return Some(Err(error(start, ExpandErrorKind::NotAName)));
            };
            let value = (self.variables.lookup)(name).or_else(|| (!wanted).then(String::new));
            return Some(value.ok_or_else(|| error(start, not_set(name))));
        }
        let (inside, _) = inside.split_once('}')?;
        // `${file:-x}` is a variable with a default.
        let after = |of: &str| inside.strip_prefix(of).filter(|rest| !rest.starts_with('-'));
        let value = if let Some(id) = after("input:") {
            self.input(id, start)
        } else if let Some(path) = after("file:") {
            self.file(path, start)
        } else {
            let workspace = self.variables.workspace;
            match inside {
                "/" | "pathSeparator" => Ok(MAIN_SEPARATOR_STR.to_owned()),
                "userHome" => self.home(start),
                "workspaceFolder" | "workspaceRoot" => self.folder(workspace, start),
                "workspaceFolderBasename" => {
                    self.folder(Path::new(workspace.file_name().unwrap_or_default()), start)
                }
                _ => return None,
            }
        };
        self.at = start + "${".len() + inside.len() + "}".len();
        Some(if wanted {
            value
        } else {
            Ok(value.unwrap_or_default())
        })
    }

    fn input(&mut self, id: &str, start: usize) -> Result<String, ExpandError> {
        if let Some(value) = (self.variables.lookup)(&input_variable(id)) {
            return Ok(value);
        }
        let Some(default) = self.variables.inputs.default(id) else {
            let is_declared = self.variables.inputs.declares(id);
            let id = id.to_owned();
            return Err(error(start, ExpandErrorKind::NoInput { id, is_declared }));
        };
        self.remark(Remark::InputDefault(id.to_owned()));
        Ok(default.to_owned())
    }

    /// The text of a file, without the line break at its end.
    fn file(&self, path: &str, start: usize) -> Result<String, ExpandError> {
        let home = || self.home(start);
        let absolute = match path.strip_prefix("~/") {
            Some(below) => Path::new(&home()?).join(below),
            None => self.variables.folder.join(path),
        };
        let read = self.variables.files.read_text(&absolute, MAX_EXPANDED_BYTES);
        let text = read.map_err(|read_error| {
            let (path, reason) = (path.to_owned(), read_error.to_string());
            error(start, ExpandErrorKind::File { path, reason })
        })?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    fn folder(&mut self, folder: &Path, start: usize) -> Result<String, ExpandError> {
        if !self.variables.workspace_is_known {
            self.remark(Remark::Workspace);
        }
        let folder = folder.to_str().map(str::to_owned);
        folder.ok_or_else(|| error(start, ExpandErrorKind::NotUnicode))
    }

    fn home(&self, start: usize) -> Result<String, ExpandError> {
        let home = (self.variables.lookup)("HOME").filter(|home| !home.is_empty());
        home.ok_or_else(|| error(start, ExpandErrorKind::NoHome))
    }

    /// What the `$NAME` that begins here stands for, which may be itself.
    fn bare_name(&mut self, wanted: bool) -> String {
        let (before, rest) = self.text.split_at(self.at);
        let name = leading_name(&rest[1..]);
        let (literal, after) = rest.split_at(1 + name.len());
        self.at += literal.len();
        let value = (self.variables.lookup)(name);
        // In a password, `$` may stand before any letter; a variable that is meant is set, or named like one.
        let looks_meant = !self.variables.is_shell && !name.contains(|c: char| c.is_ascii_lowercase());
        match value {
            Some(value) if self.variables.bare_names => {
                self.used = true;
                return value;
            }
            Some(_) if self.variables.is_shell => {}
            Some(_) => self.remark(Remark::Literal(Some(name.to_owned()))),
            None if !(wanted && looks_meant) => {}
            None => {
                // `$A_B` that stands alone is the name of a variable, not a part of a password. Where the file's program expands
                // bare names, any word that stands alone is one.
                let stands_alone = (before.is_empty() || before.ends_with(' '))
                    && (after.is_empty() || after.starts_with([' ', '/']));
                let is_variable = stands_alone && (name.contains('_') || self.variables.bare_names);
                let name = is_variable.then(|| name.to_owned());
                self.remark(if self.variables.bare_names {
                    Remark::LiteralUnset(name)
                } else {
                    Remark::Literal(name)
                });
            }
        }
        literal.to_owned()
    }

    /// Expands the `{env:…}` or `{file:…}` that begins here.
    fn in_braces(&mut self, wanted: bool) -> Result<String, ExpandError> {
        let start = self.at;
        let Some((inside, _)) = self.text[start + 1..].split_once('}') else {
            return Err(error(start, ExpandErrorKind::Unterminated));
        };
        self.used = true;
        self.at = start + "{".len() + inside.len() + "}".len();
        if let Some(path) = inside.strip_prefix("file:") {
            return self.file(path, start);
        }
        let name = inside.strip_prefix("env:").unwrap_or_default().trim();
        if !is_name(name) {
            return Err(error(start, ExpandErrorKind::NotAName));
        }
        let value = (self.variables.lookup)(name).or_else(|| (!wanted).then(String::new));
        value.ok_or_else(|| error(start, not_set(name)))
    }

    fn remark(&mut self, remark: Remark) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }
}

fn error(at: usize, kind: ExpandErrorKind) -> ExpandError {
    ExpandError { at, kind }
}

fn not_set(name: &str) -> ExpandErrorKind {
    if OF_EDITORS.contains(&name) {
        ExpandErrorKind::OfEditors(name.to_owned())
    } else {
        ExpandErrorKind::NotSet(name.to_owned())
    }
}

/// The name at the start of `inside`, and the length of the `env:` before it.
fn name(inside: &str) -> (usize, &str) {
    let plain = leading_name(inside);
    match inside.strip_prefix("env:").map(leading_name) {
        Some(after) if !after.is_empty() => ("env:".len(), after),
        Some(_) | None => (0, plain),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && leading_name(text) == text
}

fn leading_name(text: &str) -> &str {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    let name = &text[..end];
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        ""
    } else {
        name
    }
}

// Where the paths of a configuration start from. A relative `cwd` starts from the folder of the file it is written in, since
// an editor starts programs in any directory. A relative `command` with a slash starts from the server's own `cwd`, as in a
// shell; it is made absolute here, because systems disagree on it.

/// Replaces `~` or a leading `~/` by the home directory.
pub(super) fn with_home(text: ConfigText, lookup: Lookup<'_>) -> Result<ConfigText, ProblemText> {
    let Some(below) = text
        .value()
        .strip_prefix('~')
        .filter(|below| below.is_empty() || below.starts_with(is_separator))
    else {
        return Ok(text);
    };
    let Some(home) = lookup("HOME").filter(|home| !home.is_empty()) else {
        return Err(ProblemText::new(
            "`~` stands for HOME, which is not set",
            "set it, or write the whole path",
        ));
    };
    let value = format!("{home}{below}");
    Ok(text.with_value(value))
}

/// The directory a server runs in, made absolute.
pub(super) fn from_folder(cwd: ConfigText, folder: &Path) -> Result<ConfigText, ProblemText> {
    // An empty path is a mistake to be reported, not the folder itself.
    if cwd.value().is_empty() || Path::new(cwd.value()).is_absolute() {
        return Ok(cwd);
    }
    match folder.join(cwd.value()).into_os_string().into_string() {
        Ok(value) => Ok(cwd.with_value(value)),
        Err(_) => Err(ProblemText::new(
            "the folder of this file has a name that is not Unicode",
            "write the whole path",
        )),
    }
}

/// The program, made absolute where it is a relative path rather than a name to be looked up.
pub(super) fn from_cwd(command: ConfigText, cwd: Option<&ConfigText>) -> ConfigText {
    match cwd {
        Some(cwd) if command.value().contains(is_separator) => {
            let path = Path::new(cwd.value()).join(command.value());
            // Both halves are texts, so nothing is lost.
            let value = path.to_string_lossy().into_owned();
            command.with_value(value)
        }
        Some(_) | None => command,
    }
}

#[cfg(test)]
mod tests;
