//! Follows the configuration of a program that serves, and says what becomes of it.

use std::env;

use mainstay::ServerConfig;
use mainstay::config::{Problem, Severity};
use mainstay_daemon::live::{
    LiveConfiguration, LiveEvent, LiveStart, ReloadError, ReloadTrigger, Reloaded, state_directory,
};
use mainstay_gateway::Gateway;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::CommandFailure;
use crate::load::{Setup, Source};
use crate::output::{Screen, Text, count, plain, text};

/// How many names of servers one line holds.
const MAX_NAMES: usize = 12;

/// A configuration that will be followed, with SIGHUP, which from here on ends the program no more.
pub(crate) struct FollowedConfig {
    start: LiveStart,
    hangup: Signal,
}

impl FollowedConfig {
    pub(crate) fn prepare(setup: &Setup, screen: &Screen) -> Result<Self, CommandFailure> {
        let hangup = signal(SignalKind::hangup()).map_err(CommandFailure::failed)?;
        let state = state_directory(|name| env::var_os(name));
        let servers = setup.servers.clone();
        let start = match &setup.source {
            Source::File { path, .. } => LiveStart::of_file(
                path,
                servers,
                setup.refused.clone(),
                setup.problems.clone(),
                state.as_deref(),
            ),
            Source::Demo { user_path } => {
                LiveStart::standing_in(user_path.as_deref(), servers, state.as_deref())
            }
            Source::Arguments | Source::Address => LiveStart::standing_in(None, servers, None),
        };
        if let Some(ignored) = start.ignored_state() {
            screen.warning(text!(
                "what was enabled and disabled in an earlier run is not known: {}",
                plain(&ignored.to_string())
            ));
        }
        let disabled = start.still_disabled();
        if !disabled.is_empty() {
            screen.note(text!(
                "disabled in an earlier run: {}; enable with `mainstay enable SERVER`",
                names(&disabled)
            ));
        }
        Ok(Self { start, hangup })
    }

    /// The servers to start.
    pub(crate) fn servers(&self) -> Vec<ServerConfig> {
        self.start.servers()
    }

    /// Follows the configuration until the result is dropped.
    pub(crate) fn follow(self, gateway: &Gateway, screen: &Screen) -> LiveConfiguration {
        let screen = *screen;
        self.start
            .follow(gateway.clone(), Some(self.hangup), move |event| {
                say(&event, &screen);
            })
    }
}

fn say(event: &LiveEvent<'_>, screen: &Screen) {
    match event {
        LiveEvent::Reloaded(_, reloaded) => {
            say_problems(&reloaded.problems, screen);
            screen.note(applied(reloaded));
        }
        LiveEvent::Refused(trigger, error) => say_refused(*trigger, error, screen),
        LiveEvent::NotWatched(error) => screen.warning(text!(
            "changes of the configuration are not noticed: {}; after a change, send SIGHUP to process {}",
            plain(&error.to_string()),
            std::process::id()
        )),
        _ => {}
    }
}

fn say_refused(trigger: ReloadTrigger, error: &ReloadError, screen: &Screen) {
    match error {
        ReloadError::Refused { problems, .. } => say_problems(problems, screen),
        ReloadError::NoFile => {
            screen.note("nothing to read again: no configuration file is used; name one with --config");
            return;
        }
        _ => screen.error(plain(&error.to_string())),
    }
    let next = match trigger {
        ReloadTrigger::FileChanged => "it is read again when it changes",
        _ => "correct the file and try again",
    };
    screen.error(text!(
        "the changed configuration is not applied, and the one before stays in force; {}",
        next
    ));
}

pub(crate) fn say_problems(problems: &[Problem], screen: &Screen) {
    for problem in problems {
        let said = plain(&problem.to_string());
        match problem.severity {
            Severity::Error => screen.error(said),
            Severity::Warning => screen.warning(said),
            Severity::Note => screen.note(text!("note: {}", said)),
        }
    }
}

/// What a configuration changed, on one line.
pub(crate) fn applied(reloaded: &Reloaded) -> Text {
    let changes = &reloaded.changes;
    let parts = [
        ("added", &changes.added),
        ("removed", &changes.removed),
        ("replaced", &changes.replaced),
        ("adjusted", &changes.adjusted),
        ("enabled", &changes.enabled),
        ("disabled", &changes.disabled),
        ("still disabled", &reloaded.still_disabled),
    ];
    let parts = parts.into_iter().filter(|(_, servers)| !servers.is_empty());
    let mut said: Vec<_> = parts
        .map(|(word, servers)| text!("{} {}", word, names(servers)))
        .collect();
    if reloaded.is_unchanged() {
        said.push("nothing changed".into());
    }
    if !changes.unchanged.is_empty() {
        said.push(text!("{} left alone", count(changes.unchanged.len(), "server")));
    }
    text!(
        "applied {}: {}",
        plain(&reloaded.file.display().to_string()),
        Text::join(said, "; ")
    )
}

/// Names of servers, as many as a line holds.
fn names(servers: &[impl AsRef<str>]) -> Text {
    let mut names: Vec<_> = servers
        .iter()
        .take(MAX_NAMES)
        .map(|name| plain(name.as_ref()))
        .collect();
    if servers.len() > MAX_NAMES {
        names.push(text!("and {} more", servers.len() - MAX_NAMES));
    }
    Text::join(names, ", ")
}
