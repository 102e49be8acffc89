//! What a person can do about a server that is not up.

mod http;

use std::fmt;

use mainstay::config::Target;
use mainstay::server::{Reason, StartStage};
use mainstay::{ServerConfig, StateKind, Status};

use crate::load::Setup;
use crate::login;
use crate::reach::command_line;
use crate::startup::Standing;
use crate::through_daemon::DaemonView;

/// The next step.
#[derive(Debug)]
pub(crate) struct Fix {
    pub(crate) advice: String,
    /// A command to run for it, to be copied as it stands.
    pub(crate) command: Option<String>,
}

/// The command that logs in: by name if the server is in a file, by address otherwise.
fn login_command(config: &ServerConfig, setup: &Setup) -> String {
    match (config.target(), setup.file()) {
        (Target::Http(target), None) => login::command(target.url().shown()),
        (_, _) => setup.login_command()(config.name()),
    }
}

/// The way out, where one is known. The library's messages name the fault; this names the next step.
pub(crate) fn fix(status: &Status, config: &ServerConfig, setup: &Setup) -> Option<Fix> {
    match Standing::of(status) {
        Standing::Up | Standing::Off => return None,
        Standing::Starting | Standing::Down => {}
    }
    if status.reason == Some(Reason::AuthRequired) {
        return Some(match config.target() {
            Target::Http(target) => Fix {
                advice: http::login(target).to_owned(),
                command: login::can_help(target).then(|| login_command(config, setup)),
            },
            _ => Fix::plain("log in to it"),
        });
    }
    match (&status.last_error, status.start.as_ref().map(|start| start.stage)) {
        (_, Some(StartStage::Installing)) => {
            return Some(Fix::plain(
                "it is still being installed: give it longer with --timeout",
            ));
        }
        (_, Some(StartStage::Unanswered)) => return by_hand(config, IS_IT_A_SERVER),
        (None, Some(StartStage::Listing)) => {
            return Some(Fix::plain(
                "it has answered, and not listed what it offers yet: give it longer with --timeout, or read its log",
            ));
        }
        (None, Some(_) | None) => {
            return Some(Fix::plain("it is still starting: give it longer with --timeout"));
        }
        (Some(_), Some(_) | None) => {}
    }
    let error = status.last_error.as_ref()?;
    if let (Target::Http(target), true) = (config.target(), status.state != StateKind::PermanentlyFailed) {
        return Some(Fix::plain(http::advice(target, error)));
    }
    let advice = match (status.state, &error.exit) {
        (StateKind::PermanentlyFailed, None) => {
            let advice = setup
                .file()
                .map(|file| format!("correct its entry in {}, then check again", file.display()));
            return advice.map(Fix::plain);
        }
        (_, Some(exit)) if exit.code == Some(0) => IS_IT_A_SERVER,
        (_, Some(_)) => "run it by hand to see why it ends",
        (_, None) => IS_IT_A_SERVER,
    };
    by_hand(config, advice)
}

/// The same for a server that the daemon runs.
pub(super) fn of_daemon(status: &Status, daemon: &DaemonView, setup: &Setup) -> Option<Fix> {
    let name = &status.server;
    match (Standing::of(status), status.reason) {
        (Standing::Up | Standing::Off, _) => None,
        (_, Some(Reason::AuthRequired)) if !daemon.without_login.contains(&**name) => Some(Fix {
            advice: "log in".to_owned(),
            command: Some(setup.login_command()(name)),
        }),
        (Standing::Starting | Standing::Down, _) => Some(Fix::plain(format!(
            "`mainstay status` says what happens next; correct the cause, then `mainstay restart {name}`"
        ))),
    }
}

const IS_IT_A_SERVER: &str = "is it an MCP server on stdin and stdout? run it by hand";

fn by_hand(config: &ServerConfig, advice: &str) -> Option<Fix> {
    command_line(config).map(|command| Fix {
        advice: advice.to_owned(),
        command: Some(command),
    })
}

impl Fix {
    fn plain(advice: impl Into<String>) -> Self {
        let (advice, command) = (advice.into(), None);
        Self { advice, command }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.advice)?;
        match &self.command {
            Some(command) => write!(f, ": {command}"),
            None => Ok(()),
        }
    }
}
