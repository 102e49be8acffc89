//! The arguments of commands that ask servers something: `check`, `tools`, `describe`, `call`, `read`, `prompt`, `ping`.

use std::time::Duration;

use clap::Args;
use mainstay::config::parse_duration;

use super::AdHoc;

/// The times of all answers are kept for the figures at the end.
const MAX_PINGS: i64 = 100_000;

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
    /// Only read the configuration, and start nothing
    #[arg(long)]
    pub(crate) no_start: bool,
    #[command(flatten)]
    pub(crate) servers: ServersArgs,
}

/// List the tools, prompts and resources of all servers
///
/// While a server cannot be asked, its last known offers are shown and marked stale. The exit code is 1 if nothing is known
/// of a server that is not up. With `--json`, the document has the whole definition of everything.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay tools --server files
  mainstay tools --url https://example.com/mcp --bearer-token-env TOKEN")]
pub(crate) struct ToolsArgs {
    #[command(flatten)]
    pub(crate) servers: ServersArgs,
}

/// Which servers are asked.
#[derive(Debug, Args)]
pub(crate) struct ServersArgs {
    /// Only this server; may be given more than once
    #[arg(long, short, value_name = "SERVER", conflicts_with_all = ["url", "command"])]
    pub(crate) server: Vec<String>,
    /// How long the servers may take to come up
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    /// Print one JSON document
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
    /// The resource's URI, optionally preceded by a server's name
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

/// Measure how long a server takes to connect, and to answer a ping
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
