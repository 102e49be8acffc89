//! Keeps a person's commands that no running program records, beside those that the daemon and `serve --admin` keep.

use std::env;

use mainstay_control::api::{Actor, ActorKind, EventDetail};
use mainstay_control::append_audit;
use mainstay_daemon::live::state_directory;

use crate::exit::{Done, Exit};

/// Keeps a command that has ended, and why it failed if it did. If it cannot be kept, a warning says so: the command was carried out.
pub(crate) fn keep(server: Option<&str>, command: &str, done: &Done) {
    let Some(directory) = state_directory(|name| env::var_os(name)) else {
        return;
    };
    let refused = match done {
        Ok(Exit::Success) => None,
        Ok(exit) => Some(format!("it ended with exit code {}", exit.code())),
        Err(failure) => Some(format!("{:#}", failure.error)),
    };
    let command = EventDetail::Command {
        command: command.to_owned(),
        by: Actor {
            via: ActorKind::Command,
            agent: Some(concat!("mainstay/", env!("CARGO_PKG_VERSION")).to_owned()),
            who: Some(format!("uid {}", rustix::process::geteuid().as_raw())),
        },
        refused,
        outcome: None,
    };
    if let Err(error) = append_audit(&directory, server.map(str::to_owned), command) {
        tracing::warn!(%error, "the command is not kept on disk");
    }
}
