//! The arguments of the commands to the daemon.

use std::time::Duration;

use clap::Args;
use mainstay::config::parse_duration;

/// How many lines of stderr `logs` prints at most.
const MAX_LINES: i64 = 10_000;
/// How many events `events` prints at most.
pub(super) const MAX_EVENTS: i64 = 10_000;

/// Show what the daemon's servers do: state, since when, why, what happens next, and what to do
///
/// The exit code is 0 if every enabled server is up, and 1 if not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay status
  mainstay status github
  mainstay status -v github
  mainstay status --watch")]
pub(crate) struct StatusArgs {
    /// Only these servers
    #[arg(value_name = "SERVER")]
    pub(crate) servers: Vec<String>,
    /// Print one JSON document; with --watch one on each line
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on, and show each change as it happens
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Show of each server what is set aside of its offers, and how its calls failed
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

// The servers that an order is for. The help of each order stands at its variant of `Command`.
#[derive(Debug, Args)]
pub(crate) struct OrderArgs {
    /// The servers
    #[arg(value_name = "SERVER", required = true)]
    pub(crate) servers: Vec<String>,
}

/// Have the daemon read its configuration again, and apply what changed
///
/// It does that by itself when the file changes. A file with errors is refused, and the configuration before it stays in
/// force; then the exit code is 2.
#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what a server of the daemon wrote to stderr
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay logs github
  mainstay logs -f github")]
pub(crate) struct LogsArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    /// Go on, and print each line as it comes
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the last lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=MAX_LINES))]
    pub(crate) lines: u32,
    /// Print one JSON object for each line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what happened to the daemon's servers, and who did what
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay events
  mainstay events -f --server github
  mainstay events --since 2d")]
pub(crate) struct EventsArgs {
    /// Only this server
    #[arg(long, short, value_name = "SERVER")]
    pub(crate) server: Option<String>,
    /// Go on, and print each event as it happens
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the last events [default: 50; with --since: all]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MAX_EVENTS))]
    pub(crate) last: Option<u32>,
    /// What happened in this time, such as `2d`, with the commands that are kept on disk: also those that an earlier daemon, or
    /// `mainstay serve --admin`, was given. Needs no daemon
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Print one JSON object for each event
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show which clients the daemon has, and which servers they use
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
