//! Finds the configuration and says which one it is. Where there is none, the built-in demo server is supervised.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use mainstay::config::{ConfigError, ConfigOrigin, Host, Problem, Severity, locate, nearest};
use mainstay::{Configuration, ServerConfig};
use mainstay_bridge::hello::DaemonStatus;

use crate::adhoc;
use crate::args::{AdHoc, Common};
use crate::exit::CommandFailure;
use crate::login;
use crate::output::{Screen, Text, plain, text};
use crate::reach::literal;
use crate::through_daemon::{DaemonView, bridge_to, running_daemon, use_daemon};

/// The name of the server that stands in where there is no configuration.
const DEMO: &str = "demo";

/// The servers to supervise, and where they come from.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) source: Source,
    pub(crate) servers: Vec<ServerConfig>,
    pub(crate) problems: Vec<Problem>,
    /// Servers that are not used, for errors in their configuration.
    pub(crate) refused: BTreeSet<String>,
    /// Files in the working directory that look like configurations. They are never used unasked.
    pub(crate) mentioned: Vec<PathBuf>,
    /// Where catalogs are remembered.
    pub(crate) store: Option<PathBuf>,
    /// How long the servers may take to end.
    pub(crate) stop_within: Duration,
    /// The daemon whose servers these are, if each is a bridge to one of them.
    pub(crate) daemon: Option<DaemonView>,
}

/// Where the servers come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    File {
        path: PathBuf,
        found: FoundBy,
        /// Whose format it is in.
        host: Host,
    },
    Demo {
        user_path: Option<PathBuf>,
    },
    /// The arguments of the program.
    Arguments,
    /// An address on the command line.
    Address,
}

/// How the configuration file was found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundBy {
    /// A flag or variable names it, or it is the user's own.
    Search(ConfigOrigin),
    /// The running daemon uses it.
    Daemon,
}

/// The servers that a command is about: the one on the command line, or those of the configuration, which is announced.
pub(crate) fn servers(adhoc: &AdHoc, common: &Common, screen: &Screen) -> Result<Setup, CommandFailure> {
    if adhoc.no_daemon {
        return configured(adhoc, common, screen);
    }
    if let Some(setup) = adhoc::setup(adhoc, common)? {
        return Ok(setup);
    }
    let daemon = running_daemon();
    let mut setup = match load_beside(daemon.as_ref(), common) {
        Ok(setup) => setup,
        Err(failure) => {
            let kept = daemon.as_ref().and_then(|daemon| kept_by(daemon, common));
            let Some(kept) = kept else { return Err(failure) };
            screen.warning(text!(
                "{}; the daemon still has the servers of the file as it was before",
                plain(&format!("{:#}", failure.error))
            ));
            kept
        }
    };
    let daemon = daemon.filter(|daemon| setup.is_of(daemon));
    if let Some(daemon) = &daemon {
        setup.leave_values_to(daemon);
    }
    setup.announce(screen);
    if let Some(daemon) = daemon {
        use_daemon(&mut setup, &daemon, screen);
    }
    Ok(setup)
}

/// The same servers as they are configured, also if a daemon runs them.
pub(crate) fn configured(adhoc: &AdHoc, common: &Common, screen: &Screen) -> Result<Setup, CommandFailure> {
    if let Some(setup) = adhoc::setup(adhoc, common)? {
        return Ok(setup);
    }
    let daemon = (!adhoc.no_daemon).then(running_daemon).flatten();
    let setup = load_beside(daemon.as_ref(), common)?;
    setup.announce(screen);
    Ok(setup)
}

/// The servers that a daemon has from a file which cannot be read any more, if that file is the one to use.
fn kept_by(daemon: &DaemonStatus, common: &Common) -> Option<Setup> {
    let path = PathBuf::from(daemon.config.as_deref()?);
    let named = common.config.clone().or_else(|| set_path("MAINSTAY_CONFIG"));
    let is_other = |named: PathBuf| std::path::absolute(&named).unwrap_or(named) != path;
    if named.is_some_and(is_other) {
        return None;
    }
    let configured = daemon.servers.iter().filter(|server| server.configured);
    let servers: Option<Vec<_>> = configured.map(|server| bridge_to(&server.name)).collect();
    let servers = servers?;
    (!servers.is_empty()).then(|| Setup {
        source: Source::File {
            path,
            found: FoundBy::Daemon,
            host: Host::Common,
        },
        servers,
        problems: Vec::new(),
        refused: BTreeSet::new(),
        mentioned: Vec::new(),
        store: None,
        stop_within: common.stop_within,
        daemon: None,
    })
}

/// Reads the configuration: the one that is named, or else the one that this daemon uses, or else the user's own. So all
/// commands are about the same servers as `mainstay status`.
pub(crate) fn load_beside(daemon: Option<&DaemonStatus>, common: &Common) -> Result<Setup, CommandFailure> {
    match daemon.and_then(|daemon| daemon.config.as_deref()) {
        Some(path) if !is_named(common) => {
            let store = (!common.no_cache).then(cache_directory).flatten();
            read(PathBuf::from(path), FoundBy::Daemon, store, common)
        }
        Some(_) | None => load(common),
    }
}

/// Finds and reads the configuration.
pub(crate) fn load(common: &Common) -> Result<Setup, CommandFailure> {
    let cwd = env::current_dir()
        .context("the working directory is not known")
        .map_err(CommandFailure::failed)?;
    let located =
        locate(common.config.as_deref(), |name| env::var_os(name), &cwd).map_err(CommandFailure::usage)?;
    let store = (!common.no_cache).then(cache_directory).flatten();
    let mentioned = located.mentioned;
    let Some(path) = located.path else {
        return Ok(Setup {
            source: Source::Demo {
                user_path: located.user_path,
            },
            servers: vec![demo_server()?],
            problems: Vec::new(),
            refused: BTreeSet::new(),
            mentioned,
            store,
            stop_within: common.stop_within,
            daemon: None,
        });
    };
    let setup = read(path, FoundBy::Search(located.origin), store, common)?;
    Ok(Setup { mentioned, ..setup })
}

fn read(
    path: PathBuf,
    found: FoundBy,
    store: Option<PathBuf>,
    common: &Common,
) -> Result<Setup, CommandFailure> {
    let configuration = Configuration::load(&path).map_err(CommandFailure::usage)?;
    Ok(Setup {
        source: Source::File {
            path,
            found,
            host: configuration.host,
        },
        servers: configuration.servers,
        problems: configuration.problems,
        refused: configuration.refused,
        mentioned: Vec::new(),
        store,
        stop_within: common.stop_within,
        daemon: None,
    })
}

/// The configuration file to edit while this daemon runs: the one that is named, or the daemon's.
pub(crate) fn file_beside(daemon: Option<&DaemonStatus>, common: &Common) -> Result<PathBuf, CommandFailure> {
    match daemon.and_then(|daemon| daemon.config.as_deref()) {
        Some(path) if !is_named(common) => Ok(PathBuf::from(path)),
        Some(_) | None => user_file(common),
    }
}

/// Whether a person names the configuration file.
fn is_named(common: &Common) -> bool {
    common.config.is_some() || set_path("MAINSTAY_CONFIG").is_some()
}

/// The configuration file to edit: the one that is named, or the user's own. It need not exist.
pub(crate) fn user_file(common: &Common) -> Result<PathBuf, CommandFailure> {
    let cwd = env::current_dir()
        .context("the working directory is not known")
        .map_err(CommandFailure::failed)?;
    match locate(common.config.as_deref(), |name| env::var_os(name), &cwd) {
        Ok(located) => located.path.or(located.user_path).ok_or_else(|| {
            CommandFailure::usage(anyhow!(
                "the home directory is not known; name a file with --config"
            ))
        }),
        Err(ConfigError::Missing { path, .. }) => Ok(path),
        Err(error) => Err(CommandFailure::usage(error)),
    }
}

/// Warns if entries take variables from Mainstay's environment: a daemon would not use their servers without them.
pub(crate) fn warn_of_inherited(names: &[&str], screen: &Screen) {
    if names.is_empty() {
        return;
    }
    let options: Vec<_> = names.iter().map(|name| format!("--env {name}")).collect();
    screen.warning(text!(
        "{} would come from Mainstay's environment, and a daemon that a host starts does not have your shell's variables; start it with \
         `mainstay daemon start {}`, or read each from a file with ${{file:PATH}}",
        plain(&names.join(", ")),
        plain(&options.join(" "))
    ));
}

impl Setup {
    /// Says what is used, what is not, and what is wrong with it.
    pub(crate) fn announce(&self, screen: &Screen) {
        self.announce_with("using the built-in demo server", screen);
    }

    /// The same for the daemon.
    pub(crate) fn announce_in_daemon(&self, screen: &Screen) {
        self.announce_with(
            "the built-in demo server starts when a host asks for the servers of the configuration",
            screen,
        );
    }

    /// `instead` is what becomes of a missing configuration.
    fn announce_with(&self, instead: &'static str, screen: &Screen) {
        match &self.source {
            Source::File { path, found, host } => {
                let mut found = how(*found);
                if let Some(name) = host.name() {
                    found += &format!(", in the format of {name}");
                }
                screen.note(text!("using {} ({})", shown(path), plain(&found)));
            }
            Source::Address => {}
            Source::Demo { user_path } => {
                let place = match user_path {
                    Some(path) => text!(
                        "take over those of your hosts with `mainstay import`, write {}, or name a file with --config",
                        shown(path)
                    ),
                    None => "name a file with --config".into(),
                };
                screen.note(text!("no configuration found: {}", instead));
                screen.note(text!("to use your own servers, {}", place));
            }
            Source::Arguments => {}
        }
        for file in &self.mentioned {
            screen.note(text!(
                "not used: {} (a file of the working directory is used only if --config names it)",
                shown(file)
            ));
        }
        for problem in &self.problems {
            let said = plain(&problem.to_string());
            match problem.severity {
                Severity::Error => screen.error(said),
                Severity::Warning => screen.warning(said),
                Severity::Note => screen.note(text!("note: {}", said)),
            }
        }
    }

    /// Whether this daemon uses the same configuration.
    fn is_of(&self, daemon: &DaemonStatus) -> bool {
        let whole = self.file().and_then(|file| std::path::absolute(file).ok());
        whole.is_some() && whole.as_deref() == daemon.config.as_deref().map(Path::new)
    }

    /// Takes back what is said of variables that this shell lacks: the daemon's servers have those of the daemon.
    fn leave_values_to(&mut self, daemon: &DaemonStatus) {
        // A file that cannot be read any more is one that the daemon has read before.
        let Some(Ok(read)) = self.file().map(Configuration::load_for_another) else {
            return;
        };
        // While the file is not applied, the daemon may lack a server that is in it.
        let has = |name: &String| {
            let mut servers = daemon.servers.iter();
            daemon.config_problem.is_none() || servers.any(|server| server.configured && server.name == *name)
        };
        self.refused
            .retain(|name| !has(name) || read.refused.contains(name));
        self.problems
            .retain(|problem| !problem.server.as_ref().is_some_and(has) || read.problems.contains(problem));
        let servers = read.servers.into_iter();
        self.servers = servers
            .filter(|server| !self.refused.contains(server.name()))
            .collect();
    }

    /// Leaves only the servers of these names; all, where none is given.
    pub(crate) fn keep(&mut self, names: &[String]) -> Result<(), CommandFailure> {
        for name in names {
            if !self.servers.iter().any(|server| server.name() == name) {
                return Err(CommandFailure::usage(self.unknown(name)));
            }
        }
        if !names.is_empty() {
            self.servers
                .retain(|server| names.iter().any(|name| name == server.name()));
        }
        Ok(())
    }

    /// The configuration's file, for messages.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.source {
            Source::File { path, .. } => Some(path),
            Source::Demo { .. } | Source::Address | Source::Arguments => None,
        }
    }

    /// The command that logs in to a server of this configuration, by the server's name. It names the file if a person had to.
    pub(crate) fn login_command(&self) -> impl Fn(&str) -> String + Send + Sync + use<> {
        let file = match &self.source {
            Source::File {
                path,
                found: FoundBy::Search(ConfigOrigin::Flag),
                ..
            } => std::path::absolute(path).ok(),
            _ => None,
        };
        let option = file.map_or_else(String::new, |file| {
            format!(" --config {}", literal(&file.display().to_string()))
        });
        move |server| login::command(server) + &option
    }

    /// Says that no server has this name, and which one may be meant.
    pub(crate) fn unknown(&self, name: &str) -> anyhow::Error {
        if self.refused.contains(name) {
            return anyhow!("server {name:?} is not used, for the errors in its configuration");
        }
        let known = || self.servers.iter().map(ServerConfig::name);
        match nearest(name, known()) {
            Some(meant) => anyhow!("there is no server {name:?}; did you mean {meant:?}?"),
            None => {
                let known: Vec<_> = known().collect();
                anyhow!("there is no server {name:?}; there is: {}", known.join(", "))
            }
        }
    }
}

fn shown(path: &Path) -> Text {
    plain(&path.display().to_string())
}

/// How a file was found, in words.
fn how(found: FoundBy) -> String {
    match found {
        FoundBy::Daemon => "as the daemon does".to_owned(),
        FoundBy::Search(how @ (ConfigOrigin::Flag | ConfigOrigin::Env)) => format!("named by {how}"),
        FoundBy::Search(how) => format!("found in {how}"),
    }
}

fn demo_server() -> Result<ServerConfig, CommandFailure> {
    let program = env::current_exe().context("the path of this program is not known");
    let program = program.and_then(|path| {
        let path = path.into_os_string().into_string();
        path.map_err(|path| anyhow!("the path of this program is not UTF-8: {}", path.display()))
    });
    let program = program.map_err(CommandFailure::failed)?;
    let server = ServerConfig::stdio(DEMO, program).arg("demo-server").build();
    server.map_err(CommandFailure::failed)
}

/// `MAINSTAY_CACHE`, or `mainstay` in the user's cache directory.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    set_path("MAINSTAY_CACHE").or_else(|| {
        let base = set_path("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let base = base.or_else(|| set_path("HOME").map(|home| home.join(".cache")))?;
        Some(base.join("mainstay"))
    })
}

/// The path in a variable, if it is set.
pub(crate) fn set_path(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
