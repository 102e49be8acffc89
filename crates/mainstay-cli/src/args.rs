//! What can be asked of the program: the command line, its common options and its commands. `ask` has the arguments of
//! commands that ask servers something, `serve` those of `serve` and `wrap`. Other commands hold their own.

mod ask;
mod serve;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mainstay::config::parse_duration;

use crate::add::{AddArgs, RemoveArgs};
use crate::auth::AuthArgs;
use crate::completions::CompletionsArgs;
use crate::connect::ConnectArgs;
use crate::control::{EventsArgs, LogsArgs, OrderArgs, ReloadArgs, SessionsArgs, StatusArgs};
use crate::daemon::DaemonArgs;
use crate::doctor::DoctorArgs;
use crate::import::ImportArgs;
use crate::login::LoginArgs;
use crate::logout::LogoutArgs;
use crate::man::ManArgs;
use crate::output::LogFormat;
use crate::record::RecordArgs;
use crate::replay::ReplayArgs;
use crate::schema::SchemaArgs;
use crate::service::ServiceArgs;
use crate::top::TopArgs;
use crate::ui::UiArgs;
pub(crate) use ask::{
    CallArgs, CheckArgs, DescribeArgs, PingArgs, PromptArgs, ReadArgs, RequestArgs, ToolsArgs,
};
pub(crate) use serve::{ServeArgs, WrapArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0    all is well
  1    something failed: a server that counts is down, or the server answered a call with an error
  2    the arguments or the configuration are wrong
  3    the call failed and did not run
  4    the call failed and may have run
  130  interrupted (SIGINT)
  143  terminated (SIGTERM)";

const ENVIRONMENT: &str = "\
Environment:
  MAINSTAY_CONFIG  the configuration file, where --config names none
  MAINSTAY_CACHE   where catalogs are remembered [default: $XDG_CACHE_HOME/mainstay or ~/.cache/mainstay]
  MAINSTAY_LOGINS  where logins are kept [default: $XDG_STATE_HOME/mainstay/logins or ~/.local/state/mainstay/logins]
  MAINSTAY_LOGIN_KEY_FILE
                   the key file that logins are encrypted with [default: they are not encrypted]
  MAINSTAY_RUNTIME where the daemon's socket is [default: $XDG_RUNTIME_DIR/mainstay, or a directory in /tmp]
  MAINSTAY_LOG     what is logged on stderr, such as `warn` or `mainstay=debug`, in place of what a command logs by itself
  NO_COLOR         set to anything: no colours";

/// Keeps MCP servers connected.
///
/// Without a configuration, every command supervises a small demo server that is built in.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, after_help = format!("{EXIT_CODES}\n\n{ENVIRONMENT}"))]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The heading of the options that every command has.
const EVERYWHERE: &str = "Options of every command";

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The configuration: a file with `mcpServers`
    #[arg(long, short, global = true, help_heading = EVERYWHERE, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Neither read nor write stored catalogs
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    pub(crate) no_cache: bool,
    /// Say nothing on stderr but what is wrong
    #[arg(long, short, global = true, help_heading = EVERYWHERE)]
    pub(crate) quiet: bool,
    /// How lines on stderr are written: `text`, or `json`, one object a line
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "FORMAT", default_value = "text", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// How long the servers may take to end when the program does
    ///
    /// A server's input is closed, SIGTERM comes after three eighths of this time (2s at most), and SIGKILL after three
    /// quarters (4s at most).
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DURATION", default_value = "800ms", value_parser = parse_duration)]
    pub(crate) stop_within: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(CheckArgs),
    Tools(ToolsArgs),
    Describe(DescribeArgs),
    Call(CallArgs),
    Read(ReadArgs),
    Prompt(PromptArgs),
    Serve(ServeArgs),
    Wrap(WrapArgs),
    Connect(ConnectArgs),
    Daemon(DaemonArgs),
    Ui(UiArgs),
    Ping(PingArgs),
    Status(StatusArgs),
    /// Restart servers of the daemon: at once, whatever happened before
    Restart(OrderArgs),
    /// Enable servers of the daemon, now and at its next starts
    Enable(OrderArgs),
    /// Disable servers of the daemon, now and at its next starts: nothing of them runs
    Disable(OrderArgs),
    /// Have the daemon list again what servers offer, and say whether it changed
    Refresh(OrderArgs),
    Reload(ReloadArgs),
    Logs(LogsArgs),
    Events(EventsArgs),
    Sessions(SessionsArgs),
    Record(RecordArgs),
    Replay(ReplayArgs),
    Login(LoginArgs),
    Logout(LogoutArgs),
    Auth(AuthArgs),
    Import(ImportArgs),
    Add(AddArgs),
    Remove(RemoveArgs),
    Doctor(DoctorArgs),
    Service(ServiceArgs),
    Top(TopArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Run a small MCP server on stdin and stdout, to try things with
    DemoServer,
}

/// Where the servers of a command come from, if not from the configuration or the daemon.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AdHoc {
    #[command(flatten)]
    pub(crate) server: AdHocServer,
    /// Start the servers for this command alone, even if the daemon has them
    #[arg(long)]
    pub(crate) no_daemon: bool,
}

/// A server that no configuration knows, in place of those that one does.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AdHocServer {
    /// A server by its address, in place of a configured one
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// The variable that holds the bearer token of the address
    #[arg(long, value_name = "VARIABLE", requires = "url")]
    pub(crate) bearer_token_env: Option<String>,
    /// A server by its command, behind `--`, in place of a configured one
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
