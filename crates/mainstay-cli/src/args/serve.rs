//! The arguments of `serve` and `wrap`.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mainstay::Era;
use mainstay::config::parse_duration;
use mainstay_bridge::hello::PinnedEra;

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
    /// A file of bearer tokens, one on each line, of which clients must show one
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub(crate) token_file: Option<PathBuf>,
    /// The environment variable that holds the token
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
    /// How many connections there may be at once; each open stream is one. Above this, the longest idle one is closed
    #[arg(long, value_name = "COUNT", default_value = "4096")]
    pub(crate) max_connections: NonZeroUsize,
    /// How many of them one address may have [default: half of all]
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_connections_per_address: Option<NonZeroUsize>,
    /// How many sessions there may be at once; above this, the longest idle one is closed
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
    /// Speak to the server in this era only: `legacy` or `modern` [default: with a session where the server has one]
    #[arg(long, hide_possible_values = true)]
    pub(crate) era: Option<EraChoice>,
    /// The server's command and its arguments
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "url"
    )]
    pub(crate) command: Vec<String>,
}

/// The era that a server is pinned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraChoice {
    Legacy,
    Modern,
}

impl EraChoice {
    pub(crate) const fn era(self) -> Era {
        match self {
            Self::Legacy => Era::Legacy,
            Self::Modern => Era::Modern,
        }
    }

    /// This era as a bridge writes it into its first line.
    pub(crate) const fn pinned(self) -> PinnedEra {
        match self {
            Self::Legacy => PinnedEra::Legacy,
            Self::Modern => PinnedEra::Modern,
        }
    }
}
