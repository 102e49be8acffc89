//! `mainstay connect`: a bridge from a host on stdin and stdout to the daemon of this user.

mod quick;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use mainstay::config::parse_duration;
use mainstay::process::DescriptorLimit;
use mainstay_bridge::handover::hand_over;
use mainstay_bridge::hello::{
    CommandServer, ConnectRequest, DescriptorLimits, ServerRequestKind, Share, UrlServer,
};
use mainstay_bridge::{DEFAULT_VARIABLES, DaemonDialer, Launcher, RuntimeDirectory, bridge};

use crate::args::EraChoice;
use crate::exit::{CommandFailure, Done, Exit};
use crate::naming;

/// Connect a host on stdin and stdout to a server that all hosts share
///
/// Put it in front of a server's command in a host's configuration: `"command": "mainstay", "args": ["connect", "--", "npx", …]`. Name
/// each variable of the entry's `"env"` with `--env NAME` before the `--`: the server gets no others. All hosts of this user whose
/// command, arguments, working directory and named variables are equal share one server. One daemon keeps the
/// servers; it is started when it is needed, and ends when it is idle. Without a command and an address, the host is connected to
/// a server of the daemon's configuration, or to all of them as one.
#[derive(Debug, PartialEq, Eq, Args)]
#[command(
    override_usage = "mainstay connect [OPTIONS] -- COMMAND...\n       mainstay connect [OPTIONS] --url URL\n       \
                            mainstay connect [OPTIONS] [SERVER]",
    after_help = "\
Examples:
  mainstay connect -- npx -y @modelcontextprotocol/server-everything
  mainstay connect --env GITHUB_TOKEN -- github-mcp-server stdio
  mainstay connect --share never -- uvx mcp-server-time
  mainstay connect files"
)]
pub(crate) struct ConnectArgs {
    /// A server of the daemon's configuration; all of them as one, if none is named
    #[arg(value_name = "SERVER", conflicts_with_all = ["url", "command"])]
    server: Option<String>,
    /// Pass this variable on to the server; may be given more than once
    ///
    /// The server gets HOME, LOGNAME, PATH, SHELL, TERM and USER in any case, and nothing else of the environment.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["server", "url"])]
    env: Vec<String>,
    /// With whom the server is shared: `yes`, with all hosts that want the same; `roots`, with those of them that have the same
    /// roots; or `never`
    #[arg(
        long,
        value_name = "HOW",
        default_value = "yes",
        hide_possible_values = true,
        conflicts_with = "server"
    )]
    share: ShareWith,
    /// The server's working directory [default: this one]
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["server", "url"])]
    cwd: Option<PathBuf>,
    /// The server's name in messages [default: from its program or package, or the host of its address]
    #[arg(long, conflicts_with = "server")]
    name: Option<String>,
    /// How long a call of this host waits for a server that is not connected [default: that of the server, 15s]
    ///
    /// After an upgrade or a crash of the daemon, calls wait for the start that it caused, for as long as their own deadline.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// The address of a server over HTTP, in place of a command
    #[arg(long, conflicts_with = "command")]
    url: Option<String>,
    /// The variable that holds the bearer token of the address
    #[arg(long, value_name = "VARIABLE", requires = "url")]
    bearer_token_env: Option<String>,
    /// Speak to the server in this era only: `legacy` or `modern` [default: with a session where the server has one]
    #[arg(long, hide_possible_values = true, conflicts_with = "server")]
    era: Option<EraChoice>,
    /// The server's command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// With whom a server is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShareWith {
    Yes,
    Never,
    Roots,
}

/// Nothing heavy happens here: a bridge is to stay small.
pub(crate) fn run(arguments: &ConnectArgs, config: Option<&Path>, no_cache: bool) -> Done {
    let directory = RuntimeDirectory::find(|name| env::var_os(name)).map_err(CommandFailure::failed)?;
    let request = ConnectRequest {
        server: server(arguments)?,
        share: match arguments.share {
            ShareWith::Yes => Share::Yes,
            ShareWith::Never => Share::Never,
            ShareWith::Roots => Share::Roots,
        },
        config: named_configuration(config).map(|path| path.display().to_string()),
        roots: None,
        wait_ms: arguments
            .wait
            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        resumes: false,
    };
    let launcher = launcher(config, no_cache, &["--on-demand"])?;
    hand_over(&program()?, &launcher, &request);
    bridge::run(DaemonDialer::new(directory, launcher), request).map_err(CommandFailure::failed)?;
    Ok(Exit::Success)
}

/// How this program starts a daemon.
pub(crate) fn launcher(
    config: Option<&Path>,
    no_cache: bool,
    options: &[&str],
) -> Result<Launcher, CommandFailure> {
    let config = named_configuration(config).map(|path| ["--config".into(), path.into_os_string()]);
    let cache = no_cache.then(|| OsString::from("--no-cache"));
    let options = options.iter().map(OsString::from);
    let arguments = options.chain(config.into_iter().flatten()).chain(cache);
    Ok(Launcher::new(program()?, arguments))
}

/// The file of this program. An upgrade may have put another one in its place.
pub(crate) fn program() -> Result<PathBuf, CommandFailure> {
    let program = env::current_exe().context("the path of this program is not known");
    let program = program.map_err(CommandFailure::failed)?;
    let replaced = program.to_str().and_then(|path| path.strip_suffix(" (deleted)"));
    match replaced.map(PathBuf::from) {
        Some(path) if path.exists() => Ok(path),
        Some(_) | None => Ok(program),
    }
}

/// The configuration file that was named for this run.
fn named_configuration(config: Option<&Path>) -> Option<PathBuf> {
    let named = config.map(Path::to_owned);
    let named = named.or_else(|| {
        env::var_os("MAINSTAY_CONFIG")
            .filter(|name| !name.is_empty())
            .map(Into::into)
    });
    named.map(|path| whole(&path))
}

/// The path that names this file from everywhere.
pub(crate) fn whole(path: &Path) -> PathBuf {
    let whole = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    whole.unwrap_or_else(|_| path.to_owned())
}

fn server(arguments: &ConnectArgs) -> Result<ServerRequestKind, CommandFailure> {
    if let Some(url) = &arguments.url {
        return of_address(arguments, url);
    }
    if arguments.command.is_empty() {
        if env::args_os().next_back().is_some_and(|last| last == "--") {
            return Err(CommandFailure::usage(anyhow!(
                "name a command behind `--`, or an address with --url"
            )));
        }
        if !arguments.env.is_empty() || arguments.cwd.is_some() {
            return Err(CommandFailure::usage(anyhow!(
                "--env and --cwd are for a command: name one behind `--`"
            )));
        }
        if arguments.era.is_some() {
            return Err(CommandFailure::usage(anyhow!(
                "--era is for a command or an address: set \"era\" for the servers of the configuration in its file"
            )));
        }
        return Ok(match &arguments.server {
            Some(name) => ServerRequestKind::Configured(name.clone()),
            None => ServerRequestKind::Union,
        });
    }
    of_command(arguments)
}

fn of_command(arguments: &ConnectArgs) -> Result<ServerRequestKind, CommandFailure> {
    let [program, rest @ ..] = &arguments.command[..] else {
        unreachable!("the command is not empty");
    };
    let name = arguments.name.clone();
    let DescriptorLimit { soft, hard } = DescriptorLimit::of_this_process();
    Ok(ServerRequestKind::Command(CommandServer {
        name: name.unwrap_or_else(|| naming::of_command(&arguments.command)),
        program: program.clone(),
        args: rest.to_vec(),
        cwd: working_directory(arguments.cwd.as_deref())?,
        env: named_variables(&arguments.env)?,
        base_env: default_variables()?,
        era: arguments.era.map(EraChoice::pinned),
        descriptors: Some(DescriptorLimits { soft, hard }),
    }))
}

fn of_address(arguments: &ConnectArgs, url: &str) -> Result<ServerRequestKind, CommandFailure> {
    // The same checks and messages as everywhere. The daemon builds it again.
    let token = arguments.bearer_token_env.as_deref();
    crate::adhoc::of_address(url, token, arguments.name.as_deref(), None)?;
    let name = arguments.name.clone();
    Ok(ServerRequestKind::Url(UrlServer {
        name: name.unwrap_or_else(|| naming::of_address(url)),
        url: url.to_owned(),
        bearer_token: token
            .map(|name| {
                variable(name)?
                    .with_context(|| not_set(name))
                    .map_err(CommandFailure::usage)
            })
            .transpose()?,
        era: arguments.era.map(EraChoice::pinned),
    }))
}

fn working_directory(named: Option<&Path>) -> Result<String, CommandFailure> {
    let here = match named {
        Some(named) => fs::canonicalize(named)
            .with_context(|| format!("the working directory {} cannot be used", named.display()))
            .map_err(CommandFailure::usage)?,
        None => env::current_dir()
            .context("the working directory is not known")
            .map_err(CommandFailure::failed)?,
    };
    let text = here.into_os_string().into_string();
    text.map_err(|path| {
        CommandFailure::usage(anyhow!("the working directory {} is not UTF-8", path.display()))
    })
}

fn named_variables(names: &[String]) -> Result<BTreeMap<String, String>, CommandFailure> {
    let mut variables = BTreeMap::new();
    for name in names {
        if name.is_empty() || name.contains('=') {
            return Err(CommandFailure::usage(anyhow!(
                "--env takes the name of a variable and no value: set the value in the host's configuration"
            )));
        }
        match variable(name)? {
            Some(value) => {
                variables.insert(name.clone(), value);
            }
            // A host may name a variable that its server can do without, and would start the server too.
            None => {
                let warning = format!("warning: the variable {name} is not set, and is not passed on\n");
                let _ = io::stderr().write_all(warning.as_bytes());
            }
        }
    }
    Ok(variables)
}

fn not_set(name: &str) -> String {
    format!(
        "the variable {name} is not set: set it in the host's configuration, or leave out the option that names it"
    )
}

fn default_variables() -> Result<BTreeMap<String, String>, CommandFailure> {
    let mut variables = BTreeMap::new();
    for name in DEFAULT_VARIABLES {
        if let Some(value) = variable(name)? {
            variables.insert(name.to_owned(), value);
        }
    }
    Ok(variables)
}

fn variable(name: &str) -> Result<Option<String>, CommandFailure> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        // The value is not repeated: it may be a secret.
        Err(env::VarError::NotUnicode(_)) => Err(CommandFailure::usage(anyhow!(
            "the variable {name} is not UTF-8, and cannot be passed on"
        ))),
    }
}
