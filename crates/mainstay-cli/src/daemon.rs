//! `mainstay daemon`: starts, stops, replaces and shows the daemon of this user.

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use mainstay::config::{Secret, parse_duration};
use mainstay_bridge::hello::{DaemonStatus, Share};
use mainstay_bridge::{DaemonDialer, DaemonStart, RuntimeDirectory, StartReport, detach, status, stop};
use mainstay_control::token_from_file;
use mainstay_daemon::daemon::{self, DaemonConfiguration, DaemonSettings, Place, PlaceError};
use mainstay_daemon::live::{DaemonOrigin, EnvironmentOwner, LiveStart, state_directory};

use crate::admin::default_token_file;
use crate::args::Common;
use crate::connect::{launcher, program};
use crate::control::{no_configuration, not_applied};
use crate::exit::{CommandFailure, Done, Exit};
use crate::json::DaemonDocument;
use crate::live::{live_start, say};
use crate::load::{cache_directory, load, user_file};
use crate::log::stamp;
use crate::login;
use crate::logins;
use crate::otlp;
use crate::output::{Cell, Ink, Paint, Screen, Text, count, plain, span, table, text};
use crate::serve::{recorder, serving_runtime};
use crate::watchdog;

/// How long the start of a daemon may take that takes over: it waits for the end of the other.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(90);

/// How long a daemon may take to end: it lets calls finish, and stops its servers.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The defaults of [`DaemonOptions`]. Its help names them.
const DEFAULT_IDLE: Duration = Duration::from_secs(10 * 60);
const DEFAULT_LINGER: Duration = Duration::from_secs(60);
const DEFAULT_DRAIN: Duration = Duration::from_secs(20);

/// How long calls and servers may take in all when the daemon ends. Bridges wait 45 s for the next daemon.
const END_LIMIT: Duration = Duration::from_secs(35);

/// Control the daemon that all hosts share
///
/// `mainstay connect` starts it when it is needed. Its socket is `daemon.sock` in `$XDG_RUNTIME_DIR/mainstay`, or in the directory that
/// MAINSTAY_RUNTIME names.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    pub(crate) command: DaemonCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start the daemon, with the servers of its configuration
    Start(StartArgs),
    /// Stop the daemon and its servers; a host that still needs it starts it again
    Stop,
    /// Replace the running daemon by this program; hosts keep their sessions
    Restart(StartArgs),
    /// Show whether the daemon runs, and for whom
    Status {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Run the daemon in the foreground
    Run(RunArgs),
}

impl DaemonArgs {
    /// Whether this process is to be the daemon.
    pub(crate) fn is_run(&self) -> bool {
        matches!(&self.command, DaemonCommand::Run(arguments) if !arguments.detach)
    }
}

/// How long the daemon and its servers last.
#[derive(Debug, Args)]
pub(crate) struct DaemonOptions {
    /// The daemon ends when no host has used it for this long; `never` to keep it [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = parse_idle)]
    idle: Option<IdleLimit>,
    /// How long a server runs after the last host that asked for it has left [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    linger: Option<Duration>,
    /// How long running calls may take when the daemon ends: 35s with --stop-within at most [default: 20s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    drain: Option<Duration>,
    /// Keep whole messages of each server in memory, for `mainstay record`: the last 4096, up to 8 MiB
    #[arg(long)]
    record: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    options: DaemonOptions,
    /// Pass this variable on to the daemon, for `${NAME}` in its configuration; repeat it for more
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
}

impl StartArgs {
    /// The options that were given.
    fn given(&self) -> Vec<&'static str> {
        let mut given = self.options.given();
        given.extend((!self.env.is_empty()).then_some("--env"));
        given
    }

    fn check(&self, common: &Common) -> Result<(), CommandFailure> {
        self.options.check(common)?;
        // `NAME=value` is no name either: a value in the arguments could be read by every user of this machine.
        match self.env.iter().find(|name| env::var_os(name).is_none()) {
            Some(name) => Err(CommandFailure::usage(anyhow!(
                "--env takes the name of a variable that is set here, and {} is not one: set it and run the command again",
                quoted_name(name)
            ))),
            None => Ok(()),
        }
    }
}

/// A name as a person gave it, without the value if there is one.
fn quoted_name(name: &str) -> String {
    format!("{:?}", name.split('=').next().unwrap_or_default())
}

impl DaemonOptions {
    fn idle(&self) -> Option<Duration> {
        self.idle.map_or(Some(DEFAULT_IDLE), |limit| limit.0)
    }

    fn linger(&self) -> Duration {
        self.linger.unwrap_or(DEFAULT_LINGER)
    }

    fn drain(&self) -> Duration {
        self.drain.unwrap_or(DEFAULT_DRAIN)
    }

    /// Refuses times after which hosts would have given up.
    fn check(&self, common: &Common) -> Result<(), CommandFailure> {
        let all = self.drain().saturating_add(common.stop_within);
        if all <= END_LIMIT {
            return Ok(());
        }
        Err(CommandFailure::usage(anyhow!(
            "--drain and --stop-within are {:.1} s together, and {:.0} s are the most: hosts do not wait longer for the next daemon",
            all.as_secs_f64(),
            END_LIMIT.as_secs_f64()
        )))
    }

    /// The options that were given.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--idle", self.idle.is_some()),
            ("--linger", self.linger.is_some()),
            ("--drain", self.drain.is_some()),
            ("--record", self.record),
        ];
        let given = all.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    options: DaemonOptions,
    /// Start the daemon in a session of its own, and end
    #[arg(long, hide = true)]
    pub(crate) detach: bool,
    /// End the daemon that runs, and take its place
    #[arg(long, hide = true)]
    take_over: bool,
    /// Start the servers of the configuration only when a host wants one of them
    #[arg(long, hide = true)]
    on_demand: bool,
    /// Started by launchd at the login
    #[arg(long, hide = true, conflicts_with_all = ["detach", "take_over", "on_demand", "socket_on_stdin"])]
    at_login: bool,
    /// Use the socket that a service manager passes as the standard input
    #[arg(long, hide = true, conflicts_with_all = ["detach", "take_over"])]
    socket_on_stdin: bool,
}

/// How long the daemon may be idle.
#[derive(Clone, Copy, Debug)]
struct IdleLimit(Option<Duration>);

fn parse_idle(text: &str) -> Result<IdleLimit, String> {
    match text {
        "never" => Ok(IdleLimit(None)),
        text => parse_duration(text)
            .map(|limit| IdleLimit(Some(limit)))
            .map_err(|error| error.to_string()),
    }
}

pub(crate) fn run(arguments: &DaemonArgs, common: &Common, screen: &Screen) -> Done {
    let directory = RuntimeDirectory::find(|name| env::var_os(name));
    if let (DaemonCommand::Status { json: true }, Err(error)) = (&arguments.command, &directory) {
        screen.print(Text::document(&DaemonDocument::without_directory(error)))?;
        return Ok(Exit::Failed);
    }
    let directory = directory.map_err(CommandFailure::failed)?;
    match &arguments.command {
        DaemonCommand::Start(arguments) => start(arguments, common, &directory, false, screen),
        DaemonCommand::Restart(arguments) => start(arguments, common, &directory, true, screen),
        DaemonCommand::Stop => match stop(&directory, STOP_TIMEOUT).map_err(CommandFailure::failed)? {
            true => {
                screen.note("the daemon has ended");
                Ok(Exit::Success)
            }
            false => {
                screen.note("no daemon runs");
                Ok(Exit::Success)
            }
        },
        DaemonCommand::Status { json } => show_status(&directory, *json, screen),
        DaemonCommand::Run(arguments) if arguments.detach => run_detached(&directory),
        DaemonCommand::Run(arguments) => run_here(arguments, common, directory, screen),
    }
}

fn start(
    arguments: &StartArgs,
    common: &Common,
    directory: &RuntimeDirectory,
    takes_over: bool,
    screen: &Screen,
) -> Done {
    arguments.check(common)?;
    let given = arguments.given();
    let options = &arguments.options;
    // It would end, and the service manager would start one without these options.
    if takes_over && !given.is_empty() && is_inherited(directory) {
        return Err(does_not_apply(&given, MANAGED));
    }
    let idle = options
        .idle()
        .map_or_else(|| "never".to_owned(), |limit| format!("{}ms", limit.as_millis()));
    let times = [
        format!("--idle={idle}"),
        format!("--linger={}ms", options.linger().as_millis()),
        format!("--drain={}ms", options.drain().as_millis()),
        format!("--stop-within={}ms", common.stop_within.as_millis()),
    ];
    let mut words: Vec<&str> = times.iter().map(String::as_str).collect();
    if options.record {
        words.push("--record");
    }
    if takes_over {
        words.push("--take-over");
    }
    let launcher = launcher(common.config.as_deref(), common.no_cache, &words)?
        .with_variables(arguments.env.iter().cloned());
    let started = match takes_over {
        true => launcher
            .start(directory, TAKE_OVER_TIMEOUT)
            .map_err(CommandFailure::failed),
        // A daemon that was killed may still hold its lock and its socket: only one that answers runs.
        false => DaemonDialer::new(directory.clone(), launcher)
            .ensure_daemon()
            .map_err(CommandFailure::failed),
    };
    match started? {
        DaemonStart::Ready => screen.note("the daemon runs"),
        // Only a service manager takes the place of a program that takes over.
        DaemonStart::Running if takes_over && given.is_empty() => {
            screen.note("the daemon has ended, and the service manager that listens on its socket starts the next one");
            return Ok(Exit::Success);
        }
        DaemonStart::Running if given.is_empty() => {
            screen.note("a daemon runs already");
            return Ok(Exit::Success);
        }
        DaemonStart::Running if takes_over || is_inherited(directory) => {
            return Err(does_not_apply(&given, MANAGED));
        }
        DaemonStart::Running => {
            let remedy = "run `mainstay daemon restart` with the same options (hosts keep their sessions)";
            return Err(does_not_apply(&given, remedy));
        }
    }
    // Without a usable file it has no configured servers, and hosts that use them wait for the file to be fixed.
    if let Ok(Some(DaemonStatus {
        config_problem: Some(problem),
        ..
    })) = status(directory)
    {
        let why = Text::lines(&problem);
        screen.warning(text!("the daemon has none of the configured servers: {}", why));
    }
    Ok(Exit::Success)
}

/// How options reach a daemon that a service manager starts.
const MANAGED: &str = "a service manager starts it: add options to `ExecStart=` and variables to `Environment=` with \
                       `systemctl --user edit mainstay.service`, and run `mainstay daemon restart` without options";

/// Whether the daemon that runs has its socket from a service manager.
fn is_inherited(directory: &RuntimeDirectory) -> bool {
    matches!(status(directory), Ok(Some(DaemonStatus { inherited: true, .. })))
}

/// The daemon that runs was started with options of its own.
fn does_not_apply(given: &[&'static str], remedy: &str) -> CommandFailure {
    let apply = match given {
        [_] => "does not apply",
        [] | [_, ..] => "do not apply",
    };
    let given = given.join(" and ");
    CommandFailure::failed(anyhow!(
        "a daemon runs already, and {given} {apply} to it: {remedy}"
    ))
}

/// Starts the daemon with the same arguments in a session of its own.
fn run_detached(directory: &RuntimeDirectory) -> Done {
    let arguments = env::args_os().skip(1).filter(|argument| argument != "--detach");
    let started = detach(&program()?, arguments, directory);
    if let Err(error) = started {
        StartReport::new().failed(&error.to_string());
        return Err(CommandFailure::failed(error));
    }
    Ok(Exit::Success)
}

fn run_here(arguments: &RunArgs, common: &Common, directory: RuntimeDirectory, screen: &Screen) -> Done {
    arguments.options.check(common)?;
    let report = StartReport::new();
    let place = match arguments.socket_on_stdin {
        true => Place::inherit(directory),
        false => Place::take(directory, arguments.take_over),
    };
    let place = match place {
        Ok(place) => place,
        Err(PlaceError::Running) => {
            report.running();
            return Ok(Exit::Success);
        }
        Err(error) => {
            report.failed(&error.to_string());
            return Err(CommandFailure::failed(error));
        }
    };
    let starter = match (place.is_inherited(), arguments.on_demand) {
        (true, _) => " by a service manager",
        (false, true) => " by `mainstay connect`",
        (false, false) if arguments.at_login => " by launchd",
        (false, false) => " by `mainstay daemon`",
    };
    let environment = EnvironmentOwner::Daemon(DaemonOrigin {
        who: daemon_in_words(std::process::id(), SystemTime::now(), starter).into(),
        // The daemon that launchd starts can be replaced by one with more variables, until the next login.
        is_managed: place.is_inherited(),
    });
    let configuration = configuration(common, environment, screen);
    let settings = DaemonSettings {
        starts_configured: !arguments.on_demand,
        configuration,
        store: (!common.no_cache).then(cache_directory).flatten(),
        credential_source: Some(logins::source()),
        login_command: Some(login::command),
        idle: arguments.options.idle(),
        linger: arguments.options.linger(),
        drain: arguments.options.drain(),
        stop_within: common.stop_within,
        recorder: recorder(arguments.options.record),
        page_token: page_token(),
        audit: state_directory(|name| env::var_os(name)),
    };
    let runtime = serving_runtime()?;
    let ended = runtime.block_on(async {
        otlp::start();
        watchdog::ready();
        daemon::run(place, settings, report).await
    });
    runtime.block_on(otlp::finish());
    runtime.block_on(logins::finish());
    runtime.shutdown_background();
    ended.map_err(CommandFailure::failed)?;
    Ok(Exit::Success)
}

/// What the dashboard's logins are made from. Without a place for the token, there is no dashboard.
fn page_token() -> Option<Secret> {
    let token = token_from_file(&default_token_file()?);
    token
        .inspect_err(|error| tracing::warn!(%error, "the daemon has no dashboard"))
        .ok()
}

/// The daemon's configuration. One that cannot be used is followed all the same, and bridges that need none of it are served.
fn configuration(common: &Common, environment: EnvironmentOwner, screen: &Screen) -> DaemonConfiguration {
    let live = match load(common) {
        Ok(mut setup) => {
            environment.explain(&mut setup.problems);
            setup.announce_in_daemon(screen);
            live_start(&setup, screen)
        }
        Err(failure) => {
            let why = format!("{:#}", failure.error);
            screen.error(Text::lines(&why));
            let state = state_directory(|name| env::var_os(name));
            LiveStart::unusable(user_file(common).ok().as_deref(), &why, state.as_deref())
        }
    };
    let screen = *screen;
    DaemonConfiguration {
        live: live.in_environment_of(environment),
        report: Box::new(move |event| say(&event, &screen)),
    }
}

/// A daemon that runs, for a message that another process may show.
pub(crate) fn daemon_in_words(pid: u32, since: SystemTime, starter: &str) -> String {
    format!(
        "the daemon (process {pid}, started at {}{starter})",
        stamp(since).as_str()
    )
}

fn show_status(directory: &RuntimeDirectory, json: bool, screen: &Screen) -> Done {
    let found = status(directory);
    if json {
        let shown = found.as_ref().map(Option::as_ref);
        screen.print(Text::document(&DaemonDocument::of(directory, shown)))?;
        return Ok(exit(matches!(found, Ok(Some(_)))));
    }
    let Some(found) = found.map_err(CommandFailure::failed)? else {
        screen.print("no daemon runs\n")?;
        return Ok(Exit::Failed);
    };
    screen.print(shown(&found, SystemTime::now(), screen.out))?;
    Ok(Exit::Success)
}

fn exit(is_running: bool) -> Exit {
    if is_running { Exit::Success } else { Exit::Failed }
}

fn shown(found: &DaemonStatus, now: SystemTime, paint: Paint) -> Text {
    let began = UNIX_EPOCH + Duration::from_secs(found.since);
    let age = now.duration_since(began).unwrap_or_default();
    let mut shown = text!(
        "process {}, version {}, for {}, {}\n",
        found.pid,
        plain(&found.version),
        span(age),
        count(found.bridges.len(), "bridge")
    );
    if found.config_missing {
        shown.push(no_configuration(paint));
    }
    if let Some(problem) = &found.config_problem {
        shown.push(not_applied(problem, paint));
    }
    let rows: Vec<Vec<Cell>> = found
        .servers
        .iter()
        .map(|server| {
            let users = match (server.configured, server.share) {
                (true, _) => "configured".into(),
                (false, Share::Yes) => text!("{}", count(server.bridges, "bridge")),
                (false, Share::Never) => text!("{}, not shared", count(server.bridges, "bridge")),
                (false, Share::Roots) => {
                    text!("{} with the same roots", count(server.bridges, "bridge"))
                }
            };
            vec![
                Cell::new(Ink::Cyan, &server.name),
                Cell::new(Ink::None, &server.state),
                Cell::new(Ink::Dim, users),
            ]
        })
        .collect();
    for line in table(paint, &rows) {
        shown.push_line(line);
    }
    shown
}

#[cfg(test)]
mod tests {
    use mainstay_bridge::hello::{BridgeStatus, SharedServerStatus};

    use super::*;

    #[test]
    fn the_daemon_is_shown_with_its_servers_and_who_uses_them() {
        let server = |name: &str, state: &str, configured, share, bridges| SharedServerStatus {
            name: name.to_owned(),
            state: state.to_owned(),
            configured,
            share,
            bridges,
        };
        let bridge = BridgeStatus {
            pid: Some(12),
            server: None,
            since: 0,
        };
        let status = DaemonStatus {
            pid: 4711,
            version: "0.1.0".to_owned(),
            since: 1_800_000_000,
            inherited: false,
            config: Some("/home/ann/.config/mainstay/mcp.json".to_owned()),
            config_missing: false,
            config_problem: None,
            bridges: vec![bridge.clone(), bridge],
            servers: vec![
                server("files", "connected", true, Share::Yes, 0),
                server("web\u{1b}[2J", "reconnecting", false, Share::Yes, 2),
                server("git", "connected", false, Share::Roots, 1),
                server("shell", "connected", false, Share::Never, 1),
            ],
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_800_007_200);
        let expected = "\
process 4711, version 0.1.0, for 2 h, 2 bridges
files  connected     configured
web    reconnecting  2 bridges
git    connected     1 bridge with the same roots
shell  connected     1 bridge, not shared
";
        let shown = shown(&status, now, Paint::PLAIN);
        assert_eq!(shown.as_str(), expected, "\n{}", shown.as_str());
    }
}
