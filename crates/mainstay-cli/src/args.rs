//! What can be asked of the program.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use mainstay::config::parse_duration;

use crate::add::{AddArgs, RemoveArgs};
use crate::auth::AuthArgs;
use crate::completions::CompletionsArgs;
use crate::connect::ConnectArgs;
use crate::control::{
    DisableArgs, EnableArgs, EventsArgs, LogsArgs, ReloadArgs, RestartArgs, SessionsArgs, StatusArgs,
};
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

/// The times of all answers are kept for the figures at the end.
const MAX_PINGS: i64 = 100_000;

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
    /// Remember no catalogs from one run to the next, and use none remembered
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
    Restart(RestartArgs),
    Enable(EnableArgs),
    Disable(DisableArgs),
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
    #[command(hide = true)]
    Man(ManArgs),
    /// Run a small MCP server on stdin and stdout, to try things with
    DemoServer,
}

/// A server that no configuration knows, in place of those that one does.
#[derive(Debug, Default, Args)]
pub(crate) struct AdHoc {
    /// A server by its address, in place of a configured one
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// The variable that holds the bearer token of the address
    #[arg(long, value_name = "VARIABLE", requires = "url")]
    pub(crate) bearer_token_env: Option<String>,
    /// Start the servers for this command alone, even if the daemon has them
    #[arg(long)]
    pub(crate) no_daemon: bool,
    /// A server by its command, behind `--`, in place of a configured one
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Start every server, show what each offers and what is wrong with the rest
///
/// A server is given three attempts, within the timeout. The exit code is 0 if every server marked `required` is up; where
/// none is marked, every enabled server counts. A configuration with errors is exit code 2, whatever is up.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay check --server files --server web
  mainstay check --no-start
  mainstay check -- npx -y @modelcontextprotocol/server-everything")]
pub(crate) struct CheckArgs {
    /// Only this server; may be given more than once
    #[arg(long, short, value_name = "SERVER", conflicts_with_all = ["url", "command"])]
    pub(crate) server: Vec<String>,
    /// Only read the configuration, and start nothing
    #[arg(long)]
    pub(crate) no_start: bool,
    /// How long the servers may take to come up
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) adhoc: AdHoc,
}

/// List the tools, prompts and resources of all servers
///
/// While a server cannot be asked, its last known offers are shown and marked stale. The exit code is 1 if nothing is known
/// of a server that is not up.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay tools --server files
  mainstay tools --url https://example.com/mcp --bearer-token-env TOKEN")]
pub(crate) struct ToolsArgs {
    /// Only this server; may be given more than once
    #[arg(long, short, value_name = "SERVER", conflicts_with_all = ["url", "command"])]
    pub(crate) server: Vec<String>,
    /// How long the servers may take to come up
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Print one JSON document, with the whole definition of everything
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) adhoc: AdHoc,
}

/// Show what a tool does and which arguments it takes
#[derive(Debug, Args)]
#[command(
    override_usage = "mainstay describe [OPTIONS] TOOL\n       mainstay describe [OPTIONS] SERVER TOOL\n       \
                            mainstay describe [OPTIONS] TOOL [--url URL | -- COMMAND...]",
    after_help = "\
Examples:
  mainstay describe demo__echo
  mainstay describe demo echo
  mainstay describe echo -- npx -y @modelcontextprotocol/server-everything"
)]
pub(crate) struct DescribeArgs {
    /// The tool's public name, such as `server__tool`; or the server's name and its own name for the tool
    #[arg(value_name = "TOOL", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,
    /// How long the server may take to come up
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Print one JSON document, with the whole definition
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) adhoc: AdHoc,
}

/// Call a tool
///
/// Only the server that is called is started. The tool's answer is printed; if the call fails, the message and the exit
/// code say whether it may have run.
#[derive(Debug, Args)]
#[command(
    override_usage = "mainstay call [OPTIONS] TOOL [ARGUMENTS]\n       mainstay call [OPTIONS] SERVER TOOL [ARGUMENTS]\n       \
                            mainstay call [OPTIONS] TOOL [ARGUMENTS] [--url URL | -- COMMAND...]",
    after_help = "\
Examples:
  mainstay call demo__echo text=hello
  mainstay call demo echo '{\"text\": \"hello\"}'
  jq -n '{text: \"hello\"}' | mainstay call demo echo -
  mainstay call get_current_time timezone=UTC -- uvx mcp-server-time"
)]
pub(crate) struct CallArgs {
    /// The tool and its arguments
    ///
    /// The tool is given by its public name, such as `server__tool`, or by the server's name and its own name for the tool.
    /// The arguments are a JSON object, `-` to read one from stdin, or KEY=VALUE pairs. The value of a pair is text where the
    /// tool's schema says so; otherwise JSON if it is JSON, and text if not.
    #[arg(value_name = "TOOL", required = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// Read a resource
///
/// Its text is printed as it is. Where several servers are configured, the one that offers the URI is asked.
#[derive(Debug, Args)]
#[command(
    override_usage = "mainstay read [OPTIONS] URI\n       mainstay read [OPTIONS] SERVER URI\n       \
                            mainstay read [OPTIONS] URI [--url URL | -- COMMAND...]",
    after_help = "\
Examples:
  mainstay read demo://about
  mainstay read demo demo://square/7"
)]
pub(crate) struct ReadArgs {
    /// The resource's URI, behind the server's name where it is to be asked
    #[arg(value_name = "URI", required = true, num_args = 1..=2)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// Get a prompt
///
/// Its messages are printed, each behind its role.
#[derive(Debug, Args)]
#[command(
    override_usage = "mainstay prompt [OPTIONS] NAME [KEY=VALUE]...\n       mainstay prompt [OPTIONS] SERVER NAME [KEY=VALUE]...\n       \
                            mainstay prompt [OPTIONS] NAME [KEY=VALUE]... [--url URL | -- COMMAND...]",
    after_help = "\
Examples:
  mainstay prompt demo__summarize text='A long text'
  mainstay prompt demo summarize '{\"text\": \"A long text\"}'"
)]
pub(crate) struct PromptArgs {
    /// The prompt and its arguments
    ///
    /// The prompt is given by its public name, such as `server__prompt`, or by the server's name and its own name for the
    /// prompt. The arguments are KEY=VALUE pairs, a JSON object, or `-` to read one from stdin. All values are text.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// How one request to one server is made.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// How long it may take in all, the start of the server included
    ///
    /// By default the server has a minute to come up, and the request the time that its configuration gives it.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Print one JSON document, with the result as the server sent it
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) adhoc: AdHoc,
}

/// Serve all servers as one MCP server
///
/// Servers may crash, hang and come back: a client keeps its session, its tools and its answers. At `/mcp` all servers are
/// one, with tools and prompts named `server__name`; `/mcp/SERVER` is one of them under its own names; `/sse` is for
/// clients of HTTP+SSE.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay serve
  mainstay serve --listen 0.0.0.0:7332 --token-file token.txt --tls-cert cert.pem --tls-key key.pem
  mainstay serve --stdio")]
pub(crate) struct ServeArgs {
    /// The address to listen on; one that others can reach needs a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7332")]
    pub(crate) listen: SocketAddr,
    /// Serve one client on stdin and stdout instead, until it closes stdin
    #[arg(long, conflicts_with_all = [
        "listen", "token_file", "token_env", "tls_cert", "allow_host", "allow_origin", "max_connections",
        "max_connections_per_address", "max_sessions", "max_sessions_per_client", "client_memory", "client_memory_per_client", "rate", "drain", "access_log",
    ])]
    pub(crate) stdio: bool,
    /// A file that holds the bearer token which clients must show
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub(crate) token_file: Option<PathBuf>,
    /// The variable that holds it
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) token_env: Option<String>,
    /// Speak TLS with this certificate: a PEM file, the chain included
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate: a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Answer under this host name too; may be given more than once
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Answer web pages of this origin too; may be given more than once
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<String>,
    /// How many servers with `"isolation": "session"` may run for all sessions together
    #[arg(long, value_name = "COUNT", default_value_t = 64)]
    pub(crate) max_isolated: usize,
    /// How many of them one client may have: one token, or one session where none is required [default: a quarter of all]
    #[arg(long, value_name = "COUNT", conflicts_with = "stdio")]
    pub(crate) max_isolated_per_client: Option<usize>,
    /// How many connections there may be at once; each open stream is one. With one more, the longest idle gives way
    #[arg(long, value_name = "COUNT", default_value = "4096")]
    pub(crate) max_connections: NonZeroUsize,
    /// How many of them one address may have [default: half of all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_connections_per_address: Option<NonZeroUsize>,
    /// How many sessions there may be at once; with one more, the longest idle gives way
    #[arg(long, value_name = "COUNT", default_value = "10000")]
    pub(crate) max_sessions: NonZeroUsize,
    /// How many of them one client may have: one token, or one address where none is required [default: two fifths of all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_sessions_per_client: Option<NonZeroUsize>,
    /// How many MiB may be held for all clients: running requests, answers that wait to be read, what sessions say of themselves
    #[arg(long, value_name = "MIB", default_value = "512")]
    pub(crate) client_memory: NonZeroUsize,
    /// How many of them for one client: one token, or one session where none is required [default: a quarter of all]
    #[arg(long, value_name = "MIB")]
    pub(crate) client_memory_per_client: Option<NonZeroUsize>,
    /// Requests that one client may make in a second, and as many at once; without it there is no bound
    #[arg(long, value_name = "COUNT")]
    pub(crate) rate: Option<NonZeroU32>,
    /// How long servers marked `required` may take to come up, before clients are served
    ///
    /// If one of them does not, the program ends with the reason of each, and exit code 1.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) required_within: Duration,
    /// How long running calls may take once shutdown begins
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub(crate) drain: Duration,
    /// Log a line for each request: address, method, path, status, server, duration and bytes
    #[arg(long)]
    pub(crate) access_log: bool,
    /// Log the parameters and the answer of each request, cut to 2,000 bytes
    ///
    /// They may hold secrets. Without this, neither is ever logged.
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) log_payloads: bool,
    /// Keep whole messages of each server in memory, for `mainstay record`: the last 4096, up to 8 MiB
    ///
    /// Without it, only their heads are kept: direction, method, id, size and time.
    #[arg(long)]
    pub(crate) record: bool,
    /// Serve the control API too, under /api/v1: status, events, restart, enable, disable
    ///
    /// It needs a token of its own, which is made at the first start, in a file that only this user can read.
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) admin: bool,
    /// The file that holds the token of the control API [default: $XDG_STATE_HOME/mainstay/control-token]
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Serve metrics for Prometheus at /metrics
    ///
    /// Where clients need no token for /mcp, none is needed here. Otherwise it needs the token in --metrics-token-file, which opens
    /// nothing else and is made at the first start. With --admin, the token of the control API is accepted too.
    #[arg(long, conflicts_with = "stdio")]
    pub(crate) metrics: bool,
    /// The file that holds the token for /metrics [default: $XDG_STATE_HOME/mainstay/metrics-token]
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(crate) metrics_token_file: Option<PathBuf>,
    /// Send traces to this receiver, over OTLP/HTTP, such as http://127.0.0.1:4318 [default: $OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
}

/// Serve one server under its own names on stdin and stdout, supervised
///
/// Put it in front of a server's command in a host's configuration: `"command": "mainstay", "args": ["wrap", "npx", …]`. The
/// first word that is no option of its own begins the command; `--` may stand before it. The server is started when the
/// host first asks for something, and meets the host as its client. What it writes to stderr goes to the program's own, as
/// it is. It ends when the host closes stdin, and leaves nothing behind.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay wrap npx -y @modelcontextprotocol/server-everything
  mainstay wrap --name time -- uvx mcp-server-time
  mainstay wrap --url https://example.com/mcp --bearer-token-env TOKEN")]
pub(crate) struct WrapArgs {
    /// The server's name in messages [default: from its program or package, or the host of its address]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The address of a server over HTTP, in place of a command
    #[arg(long, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// The variable that holds the bearer token of the address
    #[arg(long, value_name = "VARIABLE", requires = "url")]
    pub(crate) bearer_token_env: Option<String>,
    /// Put the server's name before each line that it writes to stderr
    #[arg(long)]
    pub(crate) stderr_prefix: bool,
    /// Pass nothing on of what the server writes to stderr
    #[arg(long, conflicts_with = "stderr_prefix")]
    pub(crate) no_stderr: bool,
    /// The server's command and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "url"
    )]
    pub(crate) command: Vec<String>,
}

/// Measure how long a server takes to connect, and to give a sign of life
///
/// The exit code is 0 if it came up and every question was answered in time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay ping demo
  mainstay ping http://localhost:3000/mcp --count 10 --interval 100ms
  mainstay ping -- uvx mcp-server-time")]
pub(crate) struct PingArgs {
    /// The server's name, or an address: http://… or https://…
    #[arg(value_name = "SERVER|URL", required_unless_present_any = ["url", "command"], conflicts_with_all = ["url", "command"])]
    pub(crate) server: Option<String>,
    /// How often it is asked
    #[arg(long, short = 'n', value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=MAX_PINGS))]
    pub(crate) count: u32,
    /// The pause between an answer and the next question
    #[arg(long, short, value_name = "DURATION", default_value = "200ms", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// How long it may take to come up, and then each answer
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) adhoc: AdHoc,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        <CommandLine as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn the_common_options_stand_before_or_after_the_command() {
        for line in [
            ["mainstay", "--config", "a.json", "check"],
            ["mainstay", "check", "--config", "a.json"],
        ] {
            let arguments = CommandLine::try_parse_from(line).unwrap();
            assert_eq!(arguments.common.config, Some("a.json".into()));
        }
    }

    #[test]
    fn a_timeout_of_nothing_is_refused() {
        for timeout in ["0", "soon", "-1s"] {
            let line = ["mainstay", "check", &format!("--timeout={timeout}")].map(str::to_owned);
            assert!(CommandLine::try_parse_from(line).is_err(), "{timeout}");
        }
    }

    #[test]
    fn the_first_word_that_is_no_option_of_wrap_begins_the_command() {
        for line in [
            &["mainstay", "wrap", "python3", "x.py", "--quiet", "--name", "y"][..],
            &[
                "mainstay", "wrap", "--", "python3", "x.py", "--quiet", "--name", "y",
            ],
        ] {
            let arguments = CommandLine::try_parse_from(line).unwrap();
            assert!(!arguments.common.quiet);
            let Command::Wrap(wrap) = arguments.command else {
                panic!("it is wrap");
            };
            assert_eq!(wrap.command, ["python3", "x.py", "--quiet", "--name", "y"]);
            assert_eq!(wrap.name, None);
        }
        let line = ["mainstay", "wrap", "--name", "n", "-q", "npx", "--", "pkg"];
        let arguments = CommandLine::try_parse_from(line).unwrap();
        assert!(arguments.common.quiet);
        let Command::Wrap(wrap) = arguments.command else {
            panic!("it is wrap");
        };
        assert_eq!(
            (wrap.name.as_deref(), &wrap.command[..]),
            (Some("n"), &["npx", "--", "pkg"].map(str::to_owned)[..])
        );
        let misspelt = ["mainstay", "wrap", "--nmae", "n", "npx"];
        assert!(
            CommandLine::try_parse_from(misspelt).is_err(),
            "a misspelt option is no command"
        );
    }

    const DOCUMENT: &str = include_str!("../../../docs/cli.md");

    /// The part of the document below this heading.
    fn section(heading: &str) -> Option<&'static str> {
        let (_, rest) = DOCUMENT.split_once(&format!("\n## {heading}\n"))?;
        Some(rest.split("\n## ").next().unwrap_or(rest))
    }

    #[test]
    fn the_document_has_every_command_and_every_option() {
        let program = <CommandLine as clap::CommandFactory>::command();
        let everywhere = section("Options of every command").expect("it is there");
        for option in program.get_arguments().filter_map(clap::Arg::get_long) {
            assert!(
                everywhere.contains(&format!("`--{option}")),
                "--{option} of every command"
            );
        }
        for command in program.get_subcommands() {
            let name = command.get_name();
            assert!(
                DOCUMENT.contains(&format!("\nmainstay {name} ")),
                "{name} is in the list"
            );
            let nested = command.get_subcommands().flat_map(clap::Command::get_arguments);
            let options = command.get_arguments().chain(nested);
            let options = options.filter(|option| !option.is_hide_set());
            let options: Vec<_> = options.filter_map(clap::Arg::get_long).collect();
            let Some(section) = section(&format!("`mainstay {name}`")) else {
                assert!(options.is_empty(), "{name} has options and no section");
                continue;
            };
            for option in options {
                assert!(section.contains(&format!("--{option}")), "--{option} of {name}");
            }
        }
    }

    #[test]
    fn the_document_has_no_option_that_there_is_not() {
        let program = <CommandLine as clap::CommandFactory>::command();
        let mut known: Vec<_> = program.get_arguments().filter_map(clap::Arg::get_long).collect();
        for command in program.get_subcommands() {
            known.extend(command.get_arguments().filter_map(clap::Arg::get_long));
            let nested = command.get_subcommands();
            known.extend(
                nested
                    .flat_map(clap::Command::get_arguments)
                    .filter_map(clap::Arg::get_long),
            );
        }
        known.extend(["help", "version"]);
        let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
        for (at, _) in DOCUMENT.match_indices("--") {
            let before = DOCUMENT[..at].chars().next_back();
            let option: String = DOCUMENT[at + 2..].chars().take_while(|&c| is_name(c)).collect();
            // Lines of tables, and `--` by itself.
            if option.is_empty() || option.starts_with('-') || before == Some('-') {
                continue;
            }
            assert!(known.contains(&option.as_str()), "--{option}");
        }
    }
}
