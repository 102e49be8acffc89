//! `mainstay record`: writes the last messages of a server to stdout, for a file.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tokio::runtime::Builder;

use crate::control;
use crate::exit::{CommandFailure, Done, Exit};
use crate::output::{Screen, count, text};
use crate::recording_file;
use crate::ui::admin_client;

/// Write the last messages of a server to stdout, one JSON object a line
///
/// It is a server of the daemon, or of `mainstay serve --admin` where --url names that. The recorder keeps the heads of the last 256 messages of each server: direction,
/// method, id, size and time. A program that was started with --record keeps whole messages, for `mainstay replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay record github > github.jsonl
  mainstay record github --url http://127.0.0.1:7332 > github.jsonl")]
pub(crate) struct RecordArgs {
    /// The server
    #[arg(value_name = "SERVER")]
    server: String,
    /// Where `mainstay serve --admin` listens [default: the daemon is asked]
    #[arg(long)]
    url: Option<String>,
    /// The token file of `mainstay serve --admin`, if that was started with another one than its own
    #[arg(long, value_name = "FILE", requires = "url")]
    admin_token_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &RecordArgs, screen: &Screen) -> Done {
    let client = match &arguments.url {
        Some(url) => admin_client(url, arguments.admin_token_file.as_deref())?,
        None => control::daemon_client()?,
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    let recording = runtime.block_on(client.recording(&arguments.server, true));
    let recording = match &arguments.url {
        None => recording.map_err(control::failed)?,
        Some(url) => recording
            .with_context(|| format!("the program at {url} did not answer"))
            .map_err(CommandFailure::failed)?,
    };
    screen.print(recording_file::written(&recording))?;
    screen.note(text!("{}", count(recording.messages.len(), "message")));
    if !recording.has_payloads {
        screen.note("these are heads only: a program that was started with --record keeps whole messages");
    }
    if recording.dropped > 0 {
        let dropped = usize::try_from(recording.dropped).unwrap_or(usize::MAX);
        screen.note(text!("{} before them no longer kept", count(dropped, "message")));
    }
    Ok(Exit::Success)
}
