//! Commands to the daemon that runs: what its servers do, and what they are to do.
//!
//! They speak the control API on the daemon's socket and start nothing. `show` and `say` turn the API's types into text for
//! a person.

mod args;
mod events;
mod logs;
mod orders;
mod say;
mod sessions;
mod show;
mod status;

use std::env;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;

use anyhow::anyhow;
use mainstay_bridge::RuntimeDirectory;
use mainstay_control::api::{ActorKind, ApiProblem, ConfigProblem, ProblemKind};
use mainstay_control::{ControlClient, ControlError};
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::runtime::Builder;

use args::MAX_EVENTS;
pub(crate) use args::{EventsArgs, LogsArgs, OrderArgs, ReloadArgs, SessionsArgs, StatusArgs};
pub(crate) use events::run as events;
pub(crate) use logs::run as logs;
pub(crate) use orders::{
    ConfigEdit, EditOutcome, configure, disable, enable, refresh, reload, restart, warn_of_problems,
};
pub(crate) use say::{changes, names};
pub(crate) use sessions::run as sessions;
pub(crate) use show::{no_configuration, not_applied};
pub(crate) use status::run as status;

use crate::exit::{CommandFailure, Done, Exit};

const NO_DAEMON: &str = "no daemon runs: start one with `mainstay daemon start`; `mainstay check` looks at the servers of \
                         the configuration without one";

/// Asks the daemon of this user. The command ends when the reader of its output does, as in `mainstay events -f | head -1`.
fn with_daemon(work: impl AsyncFnOnce(&ControlClient) -> Done) -> Done {
    let client = daemon_client()?;
    running(work(&client))
}

/// Runs this until it ends or the reader of stdout is gone.
fn running(work: impl Future<Output = Done>) -> Done {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(CommandFailure::failed)?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            done = work => done,
            () = output_closed() => Ok(Exit::Success),
        }
    })
}

/// A client of the daemon that runs.
pub(crate) fn daemon_client() -> Result<ControlClient, CommandFailure> {
    let directory = RuntimeDirectory::find(|name| env::var_os(name)).map_err(CommandFailure::failed)?;
    // A connection would start a daemon whose socket systemd holds.
    if !directory.has_daemon() {
        return Err(CommandFailure::failed(anyhow!(NO_DAEMON)));
    }
    Ok(ControlClient::unix(directory.socket()).via(ActorKind::Command))
}

/// Waits until the reader of stdout is gone. A file has none, and this waits for ever.
async fn output_closed() {
    // Unchecked: the other writers of this pipe need it to block.
    let output = io::stdout().as_fd().try_clone_to_owned();
    match output.and_then(pipe::Sender::from_owned_fd_unchecked) {
        Ok(output) => {
            let _gone = output.ready(Interest::ERROR).await;
        }
        Err(_no_pipe) => std::future::pending().await,
    }
}

/// What a failed request means for the person who made it.
pub(crate) fn failed(error: ControlError) -> CommandFailure {
    match error {
        ControlError::Unreachable(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            CommandFailure::failed(anyhow!(NO_DAEMON))
        }
        ControlError::Problem(problem) => refused(&problem),
        other => CommandFailure::failed(
            anyhow::Error::new(other)
                .context("the daemon did not answer; `mainstay daemon status` says whether it runs"),
        ),
    }
}

/// What a refusal means for the person who made the request.
pub(crate) fn refused(problem: &ApiProblem) -> CommandFailure {
    let mut said: Vec<String> = problem.problems.iter().map(in_place).collect();
    let mut title = problem.title.clone();
    if let Some(place) = problem.place.as_deref().filter(|place| !title.contains(*place)) {
        title = format!("{place}: {title}");
    }
    said.push(match (&problem.remedy, problem.nearest.first()) {
        (Some(remedy), _) => format!("{title}; {remedy}"),
        (None, Some(nearest)) => format!("{title}; did you mean {nearest:?}?"),
        (None, None) => title,
    });
    let error = anyhow!(said.join("\n"));
    match problem.kind {
        ProblemKind::UnknownServer | ProblemKind::BadRequest | ProblemKind::InvalidConfiguration => {
            CommandFailure::usage(error)
        }
        _ => CommandFailure::failed(error),
    }
}

/// A problem of a configuration: `mcp.json:3:5: mcpServers.x: what is wrong; what helps`.
fn in_place(problem: &ConfigProblem) -> String {
    let mut said = String::new();
    if let Some(file) = &problem.file {
        said.push_str(file);
        if let (Some(line), Some(column)) = (problem.line, problem.column) {
            said.push_str(&format!(":{line}:{column}"));
        }
        said.push_str(": ");
    }
    if let Some(key) = &problem.key {
        said.push_str(&format!("{key}: "));
    }
    said.push_str(&problem.message);
    if let Some(fix) = &problem.fix {
        said.push_str(&format!("; {fix}"));
    }
    said
}
