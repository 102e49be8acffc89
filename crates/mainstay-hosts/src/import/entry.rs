//! A host's server as an entry of Mainstay's own configuration.

use std::path::Path;
use std::time::Duration;

use mainstay::ServerConfig;
use mainstay::config::source::{Mapping, Node, Value};
use mainstay::config::{Host, HttpKind, Target};

use super::variables::{DEFAULT, Inputs, MarkedHome, with_braces};
use crate::text::ConfigValue;

/// Stands in for the value of a variable where `${NAME}` would not be valid, as in the host of an address.
pub(super) const STAND_IN: &str = "mainstay-variable";

/// The keys of lists of tools that a host shows, and of those that it hides.
const SHOWN: [&str; 6] = [
    "enabled_tools",
    "enabledTools",
    "include_tools",
    "includeTools",
    "available_tools",
    "availableTools",
];
const HIDDEN: [&str; 4] = ["disabled_tools", "disabledTools", "exclude_tools", "excludeTools"];

/// How the texts of a host's file are written in Mainstay's.
#[derive(Clone, Copy)]
pub(super) struct Spelling<'a> {
    /// Whose file it is.
    pub(super) host: Host,
    /// Where relative paths of the file start.
    pub(super) folder: &'a Path,
    /// The home directory in what was read.
    pub(super) home: &'a MarkedHome,
    /// What the file asks a person for.
    pub(super) inputs: &'a Inputs,
}

/// The entry of a server that was read from `source`. The values of `server` hold variables in Mainstay's spelling.
pub(super) fn entry_of(server: &ServerConfig, source: &Node<'_>, spelling: Spelling<'_>) -> ConfigValue {
    let mut keys = Vec::new();
    let empty = Mapping::default();
    let object = source.as_object().unwrap_or(&empty);
    match server.target() {
        Target::Stdio(program) => {
            let nested = object.object("command").unwrap_or(object);
            let listed = nested.get("command").and_then(Node::as_array);
            let (command, written) = match listed.and_then(<[_]>::split_first) {
                // opencode has the command and its arguments in one list.
                Some((command, args)) => (command.as_text(), args),
                None => (
                    ["command", "cmd", "path"].iter().find_map(|key| nested.text(key)),
                    nested.get("args").and_then(Node::as_array).unwrap_or_default(),
                ),
            };
            let cwd = program.cwd().map(|cwd| Path::new(cwd.value()));
            let read = below_none(program.command().value(), cwd.unwrap_or(spelling.folder));
            let command = spelling.chosen(command, read);
            keys.push(("command".to_owned(), command));
            if !program.args().is_empty() {
                let args = program.args().iter().enumerate().map(|(n, arg)| {
                    let written = written.get(n).and_then(Node::as_text);
                    spelling.chosen(written, arg.value())
                });
                keys.push(("args".to_owned(), ConfigValue::List(args.collect())));
            }
            environment(program.env(), object, nested, spelling, &mut keys);
            if let Some(cwd) = program.cwd() {
                keys.push((
                    "cwd".to_owned(),
                    spelling.read(below_none(cwd.value(), spelling.folder)),
                ));
            }
        }
        Target::Http(address) => {
            let url = ["httpUrl", "http_url", "url", "serverUrl", "server_url", "uri"];
            let written = url.iter().find_map(|key| object.text(key));
            keys.push(("url".to_owned(), spelling.chosen(written, address.url().value())));
            match address.kind() {
                HttpKind::Auto => {}
                HttpKind::Streamable => keys.push(("type".to_owned(), "http".into())),
                HttpKind::Sse => keys.push(("type".to_owned(), "sse".into())),
            }
            let written = ["headers", "http_headers"]
                .iter()
                .find_map(|key| object.object(key));
            let headers: Vec<_> = address
                .headers()
                .iter()
                .map(|(name, value)| {
                    let written = written.and_then(|headers| headers.text(name));
                    (name.clone(), spelling.chosen(written, value.expose()))
                })
                .collect();
            if !headers.is_empty() {
                keys.push(("headers".to_owned(), ConfigValue::Table(headers)));
            }
            let token = ["bearer_token_env", "bearer_token_env_var", "bearerTokenEnv"];
            if let Some(variable) = token.iter().find_map(|key| object.text(key)) {
                keys.push(("bearer_token_env".to_owned(), variable.into()));
            }
        }
        // The library makes these for embedders alone.
        _ => {}
    }
    settings(server, object, spelling.host, &mut keys);
    ConfigValue::Table(keys)
}

type Environment = std::collections::BTreeMap<String, mainstay::config::Secret>;

fn environment(
    env: &Environment,
    object: &Mapping<'_>,
    nested: &Mapping<'_>,
    spelling: Spelling<'_>,
    keys: &mut Vec<(String, ConfigValue)>,
) {
    let written: Vec<&Mapping<'_>> = ["env", "environment", "envs"]
        .iter()
        .flat_map(|key| [object.object(key), nested.object(key)])
        .flatten()
        .collect();
    let of_file: Option<&str> = object.text("envFile").or_else(|| object.text("env_file"));
    let mut variables = Vec::new();
    for (name, value) in env {
        let source = written.iter().find_map(|env| env.get(name));
        // What a file of variables sets stays in that file.
        if source.is_some() || of_file.is_none() {
            let source = source.and_then(Node::as_text);
            variables.push((name.clone(), spelling.chosen(source, value.expose())));
        }
    }
    // Goose keeps the values in a store of its own: here they come from the environment.
    let stored = object
        .get("env_keys")
        .and_then(Node::as_array)
        .unwrap_or_default();
    for name in stored.iter().filter_map(Node::as_text) {
        if !variables.iter().any(|(set, _)| set == name) {
            variables.push((name.to_owned(), ConfigValue::Text(format!("${{{name}}}"))));
        }
    }
    if !variables.is_empty() {
        keys.push(("env".to_owned(), ConfigValue::Table(variables)));
    }
    if let Some(file) = of_file {
        let folder = spelling.folder;
        keys.push((
            "env_file".to_owned(),
            ConfigValue::Text(absolute(&in_project(file, folder), folder)),
        ));
    }
}

impl Spelling<'_> {
    /// What the library made of a text, in Mainstay's spelling; or the text itself where that holds the contents of a file,
    /// which must not be copied, a `${` that is no variable, or the default of a variable.
    fn chosen(self, written: Option<&str>, read: &str) -> ConfigValue {
        let as_written = |text: String| match self.host {
            Host::Gemini => ConfigValue::Text(with_braces(&text)),
            _ => ConfigValue::Text(self.inputs.as_variables(&text)),
        };
        match written {
            Some(written) if written.contains("${file:") => {
                as_written(with_absolute_files(written, "${file:", self.folder))
            }
            Some(written) if self.host == Host::OpenCode && written.contains("{file:") => {
                let text = with_absolute_files(written, "{file:", self.folder);
                as_written(text.replace("{env:", "${"))
            }
            Some(written)
                if written.contains("$${") || written.contains(DEFAULT) || read.contains(STAND_IN) =>
            {
                as_written(in_workspace(written, self.folder))
            }
            Some(_) | None => self.read(read),
        }
    }

    /// What the library made of a text. The value of HOME is not copied, either, and an input keeps its default.
    fn read(self, read: &str) -> ConfigValue {
        ConfigValue::Text(self.inputs.with_defaults(&self.home.as_variable(read)))
    }
}

/// The text with each `begin` of a file's text as `${file:`, and the whole path behind it: Mainstay's file lies elsewhere, so a relative
/// path would mean another file there.
fn with_absolute_files(written: &str, begin: &str, folder: &Path) -> String {
    let mut parts = written.split(begin);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, rest) = part.split_once('}').unwrap_or((part, ""));
        text += &format!("${{file:{}}}{rest}", absolute(path, folder));
    }
    text
}

/// A path with the variables of editors resolved: they mean nothing in Mainstay's file, which lies outside of the project.
fn in_project(path: &str, project: &Path) -> String {
    in_workspace(path, project)
        .replace("${userHome}", "~")
        .replace("${pathSeparator}", "/")
        .replace("${/}", "/")
}

/// A path as it was read, where the reader took one that begins with a variable for one below a directory.
fn below_none<'a>(read: &'a str, directory: &Path) -> &'a str {
    let below = Path::new(read)
        .strip_prefix(directory)
        .ok()
        .and_then(Path::to_str);
    below.filter(|below| below.starts_with("${")).unwrap_or(read)
}

/// A text with the variables for the project of an editor resolved.
fn in_workspace(text: &str, project: &Path) -> String {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let project = project.to_string_lossy();
    text.replace("${workspaceFolderBasename}", &name)
        .replace("${workspaceFolder}", &project)
        .replace("${workspaceRoot}", &project)
}

fn absolute(path: &str, folder: &Path) -> String {
    if path.starts_with(['/', '~', '$']) {
        return path.to_owned();
    }
    folder.join(path).to_string_lossy().into_owned()
}

fn settings(server: &ServerConfig, object: &Mapping<'_>, host: Host, keys: &mut Vec<(String, ConfigValue)>) {
    if !server.enabled() {
        keys.push(("enabled".to_owned(), ConfigValue::Flag(false)));
    }
    let Ok(usual) = ServerConfig::stdio("usual", "usual").build() else {
        return;
    };
    for (key, set, usual) in [
        (
            "startup_timeout",
            server.startup_timeout(),
            usual.startup_timeout(),
        ),
        ("call_timeout", server.call_timeout(), usual.call_timeout()),
        (
            "call_idle_timeout",
            server.call_idle_timeout(),
            usual.call_idle_timeout(),
        ),
    ] {
        if set != usual {
            keys.push((key.to_owned(), duration(set)));
        }
    }
    let list = |names: &[&str]| {
        let found = names.iter().find_map(|key| object.get(key))?;
        Some(
            found
                .as_array()?
                .iter()
                .filter_map(Node::as_text)
                .collect::<Vec<_>>(),
        )
    };
    let hidden = list(&HIDDEN).unwrap_or_default();
    let shown = list(&SHOWN).map(|shown| {
        let is_shown = |name: &&str| !hidden.contains(name);
        shown.into_iter().filter(is_shown).collect::<Vec<_>>()
    });
    // An empty list means all tools to Goose.
    let shown = shown.filter(|shown| host != Host::Goose || !shown.is_empty());
    let own = object
        .get("tools")
        .filter(|tools| matches!(tools.value, Value::Array(_)));
    let shown = shown.map(ConfigValue::texts).or_else(|| own.map(ConfigValue::of));
    let mut tools = Vec::new();
    tools.extend(shown.map(|shown| ("include".to_owned(), shown)));
    if !hidden.is_empty() {
        tools.push(("exclude".to_owned(), ConfigValue::texts(hidden)));
    }
    if !tools.is_empty() {
        keys.push(("tools".to_owned(), ConfigValue::Table(tools)));
    }
}

fn duration(duration: Duration) -> ConfigValue {
    match duration.subsec_nanos() {
        0 => ConfigValue::Number(duration.as_secs().to_string()),
        _ => ConfigValue::Text(format!("{}ms", duration.as_millis())),
    }
}
