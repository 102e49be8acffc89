//! `mainstay add` and `mainstay remove`: a server of the configuration file. A daemon that uses the file makes the change itself: it
//! alone knows whether it can apply it, and it records who asked for it.

use std::path::Path;

use anyhow::anyhow;
use clap::Args;
use mainstay_bridge::hello::DaemonStatus;
use mainstay_control::api::{ApiProblem, EntryDocument, ProblemKind, ReloadReport};
use mainstay_hosts::servers::{ServerEditError, Written, add_server, remove_server};
use mainstay_hosts::text::ConfigValue;

use crate::args::Common;
use crate::audit;
use crate::control::{ConfigEdit, EditOutcome, changes, configure, refused, warn_of_problems};
use crate::exit::{CommandFailure, Done, Exit};
use crate::load::{self, warn_of_inherited};
use crate::naming;
use crate::output::{Screen, plain, text};
use crate::through_daemon::running_daemon;

/// Add a server to the configuration file
///
/// All other bytes of the file stay, and its previous version is kept beside it as FILE.previous. A running daemon that uses the file
/// applies the change at once.
#[derive(Debug, Args)]
#[command(
    override_usage = "mainstay add [OPTIONS] NAME -- COMMAND...\n       mainstay add [OPTIONS] NAME --url URL",
    after_help = "\
Examples:
  mainstay add files -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  mainstay add github --env GITHUB_TOKEN -- docker run -i --rm -e GITHUB_TOKEN ghcr.io/github/github-mcp-server
  mainstay add issues --url https://mcp.example.com/mcp --bearer-token-env ISSUES_TOKEN"
)]
pub(crate) struct AddArgs {
    /// The server's name
    pub(crate) name: String,
    /// The address of a server over HTTP, in place of a command
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// The variable that holds the bearer token of the address
    // clap does not require what conflicts with an argument that is given, hence the second condition.
    #[arg(long, value_name = "VARIABLE", requires = "url", conflicts_with = "command")]
    pub(crate) bearer_token_env: Option<String>,
    /// A header of every request to the address; may be given more than once
    #[arg(
        long,
        value_name = "NAME: VALUE",
        requires = "url",
        conflicts_with = "command"
    )]
    pub(crate) header: Vec<String>,
    /// A variable of the server: its value, or without one the value that Mainstay's environment has; may be given more
    /// than once
    #[arg(long, value_name = "NAME[=VALUE]", conflicts_with = "url")]
    pub(crate) env: Vec<String>,
    /// The directory that the server runs in
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "url")]
    pub(crate) cwd: Option<String>,
    /// Add it without starting it
    #[arg(long)]
    pub(crate) disabled: bool,
    /// The server's command and its arguments, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Remove a server from the configuration file
///
/// All other bytes of the file stay, and its previous version is kept beside it as FILE.previous. A running daemon that uses the file
/// applies the change at once.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The server's name
    pub(crate) name: String,
}

pub(crate) fn add(arguments: &AddArgs, common: &Common, screen: &Screen) -> Done {
    let entry = entry(arguments)?;
    let daemon = running_daemon();
    let file = load::file_beside(daemon.as_ref(), common)?;
    if let Some(daemon) = daemon.filter(|daemon| uses(daemon, &file)) {
        let edit = ConfigEdit::Add(EntryDocument {
            name: arguments.name.clone(),
            entry: match entry.clone().into() {
                serde_json::Value::Object(entry) => entry,
                _other => serde_json::Map::new(),
            },
        });
        match configure(&edit)? {
            EditOutcome::Applied(report) => {
                say_applied("added", &arguments.name, "to", &file, &daemon, &report, screen);
                return Ok(Exit::Success);
            }
            EditOutcome::Refused(problem) => return Err(not_added(&problem)),
            EditOutcome::NotTaken => {}
        }
    }
    let written = add_server(&file, &arguments.name, &entry, None).map_err(failure);
    let done = written.map(|written| {
        say("added", &arguments.name, "to", &written, screen);
        if !arguments.disabled {
            warn_of_inherited(&inherited(arguments), screen);
        }
        Exit::Success
    });
    audit::keep(Some(&arguments.name), "add", &done);
    done
}

/// Whether a daemon uses this configuration file.
fn uses(daemon: &DaemonStatus, file: &Path) -> bool {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    daemon.config.as_deref().map(Path::new) == Some(&*file)
}

/// The variables that the entry takes from Mainstay's environment.
fn inherited(arguments: &AddArgs) -> Vec<&str> {
    let named = arguments.env.iter().filter(|word| !word.contains('='));
    named
        .chain(&arguments.bearer_token_env)
        .map(String::as_str)
        .collect()
}

/// Why the daemon did not add the server.
fn not_added(problem: &ApiProblem) -> CommandFailure {
    let failure = refused(problem);
    match problem.kind {
        // The name is taken.
        ProblemKind::Conflict => CommandFailure::usage(failure.error),
        _ => failure,
    }
}

pub(crate) fn remove(arguments: &RemoveArgs, common: &Common, screen: &Screen) -> Done {
    let daemon = running_daemon();
    let file = load::file_beside(daemon.as_ref(), common)?;
    if let Some(daemon) = daemon.filter(|daemon| uses(daemon, &file)) {
        let name = &arguments.name;
        match configure(&ConfigEdit::Remove(name.clone()))? {
            EditOutcome::Applied(report) => {
                say_applied("removed", name, "from", &file, &daemon, &report, screen);
                return Ok(Exit::Success);
            }
            EditOutcome::Refused(problem) => return Err(refused(&problem)),
            EditOutcome::NotTaken => {}
        }
    }
    let written = remove_server(&file, &arguments.name, None).map_err(failure);
    let done = written.map(|written| {
        say("removed", &arguments.name, "from", &written, screen);
        Exit::Success
    });
    audit::keep(Some(&arguments.name), "remove", &done);
    done
}

fn entry(arguments: &AddArgs) -> Result<ConfigValue, CommandFailure> {
    let mut keys: Vec<(String, ConfigValue)> = Vec::new();
    let mut set = |key: &str, value: ConfigValue| keys.push((key.to_owned(), value));
    match (&arguments.url, arguments.command.split_first()) {
        (Some(url), _) => {
            // Not repeated in the message: it would be on the screen and in its scrollback.
            if naming::has_user_info(url) {
                return Err(CommandFailure::usage(anyhow!(
                    "the address holds a user name or a password before its `@`; leave it out, and name the variable that \
                     holds a token with --bearer-token-env"
                )));
            }
            set("url", url.as_str().into());
            if let Some(variable) = &arguments.bearer_token_env {
                set("bearer_token_env", variable.as_str().into());
            }
            let headers = pairs(&arguments.header, ':', "--header", "NAME: VALUE")?;
            if !headers.is_empty() {
                set("headers", ConfigValue::Table(headers));
            }
        }
        (None, Some((program, words))) => {
            set("command", program.as_str().into());
            if !words.is_empty() {
                set("args", ConfigValue::texts(words));
            }
            let env = variables(&arguments.env)?;
            if !env.is_empty() {
                set("env", ConfigValue::Table(env));
            }
            if let Some(cwd) = &arguments.cwd {
                let absolute = std::path::absolute(cwd).map_err(CommandFailure::usage)?;
                set("cwd", absolute.to_string_lossy().as_ref().into());
            }
        }
        (None, None) => {
            return Err(CommandFailure::usage(anyhow!(
                "name a command behind `--`, or an address with --url"
            )));
        }
    }
    if arguments.disabled {
        set("enabled", ConfigValue::Flag(false));
    }
    Ok(ConfigValue::Table(keys))
}

fn variables(words: &[String]) -> Result<Vec<(String, ConfigValue)>, CommandFailure> {
    let mut variables: Vec<(String, ConfigValue)> = Vec::new();
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (word.as_str(), format!("${{{word}}}")),
        };
        push_once(&mut variables, name, value, "--env")?;
    }
    Ok(variables)
}

fn pairs(
    words: &[String],
    between: char,
    option: &'static str,
    form: &'static str,
) -> Result<Vec<(String, ConfigValue)>, CommandFailure> {
    let mut pairs = Vec::new();
    for word in words {
        // Not repeated in the message: it may hold a secret.
        let (name, value) = word.split_once(between).ok_or_else(|| {
            CommandFailure::usage(anyhow!("{option} takes {form:?}; there is no {between:?} in it"))
        })?;
        push_once(&mut pairs, name.trim(), value.trim().to_owned(), option)?;
    }
    Ok(pairs)
}

fn push_once(
    pairs: &mut Vec<(String, ConfigValue)>,
    name: &str,
    value: String,
    option: &'static str,
) -> Result<(), CommandFailure> {
    if pairs.iter().any(|(set, _)| set == name) {
        return Err(CommandFailure::usage(anyhow!(
            "{option} names {name:?} twice; keep one"
        )));
    }
    pairs.push((name.to_owned(), ConfigValue::Text(value)));
    Ok(())
}

fn failure(error: ServerEditError) -> CommandFailure {
    match error {
        ServerEditError::File(_) => CommandFailure::failed(error),
        _ => CommandFailure::usage(error),
    }
}

/// Says what the daemon did.
fn say_applied(
    what: &'static str,
    name: &str,
    preposition: &'static str,
    file: &Path,
    daemon: &DaemonStatus,
    report: &ReloadReport,
    screen: &Screen,
) {
    screen.note(text!(
        "{} {} {} {}; the daemon (process {}) has applied it: {}",
        what,
        plain(name),
        preposition,
        plain(&file.display().to_string()),
        daemon.pid,
        changes(report)
    ));
    warn_of_problems(report, screen);
}

fn say(what: &'static str, name: &str, preposition: &'static str, written: &Written, screen: &Screen) {
    let file = plain(&written.file.display().to_string());
    let name = plain(name);
    match &written.previous {
        Some(previous) => screen.note(text!(
            "{} {} {} {}; the previous version is {}",
            what,
            name,
            preposition,
            file,
            plain(&previous.display().to_string())
        )),
        None => screen.note(text!("{} {} {} {}, a new file", what, name, preposition, file)),
    }
    for warning in &written.warnings {
        screen.warning(plain(warning));
    }
}
