//! Follows the configuration of a program that serves, and says what becomes of it.

use std::env;

use mainstay::ServerConfig;
use mainstay::config::{Problem, Severity};
use mainstay_control::Control;
use mainstay_daemon::live::{
    LiveConfiguration, LiveEvent, LiveStart, ReloadError, ReloadJournal, ReloadTrigger, Reloaded,
    state_directory,
};
use mainstay_gateway::Gateway;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::control::{changes, names};
use crate::exit::CommandFailure;
use crate::load::{Setup, Source};
use crate::output::{Screen, Text, plain, text};
use crate::tokens::FollowedTokens;

/// A configuration that will be followed, with SIGHUP, which from here on ends the program no more.
pub(crate) struct FollowedConfig {
    start: LiveStart,
    hangup: Signal,
}

impl FollowedConfig {
    pub(crate) fn prepare(setup: &Setup, screen: &Screen) -> Result<Self, CommandFailure> {
        let hangup = signal(SignalKind::hangup()).map_err(CommandFailure::failed)?;
        let start = live_start(setup, screen);
        Ok(Self { start, hangup })
    }

    /// The servers to start.
    pub(crate) fn servers(&self) -> Vec<ServerConfig> {
        self.start.servers()
    }

    /// Follows the configuration until the result is dropped. What becomes of it is an event of the control API, where there
    /// is one. SIGHUP and a request to reload make it read the token file too, even if the configuration is refused.
    pub(crate) fn follow(
        self,
        gateway: &Gateway,
        control: Option<Control>,
        tokens: Option<FollowedTokens>,
        screen: &Screen,
    ) -> LiveConfiguration {
        let screen = *screen;
        let journal = ReloadJournal::default();
        if let Some(control) = control {
            journal.bind(&control);
        }
        self.start
            .follow(gateway.clone(), Some(self.hangup), move |event| {
                say(&event, &screen);
                journal.record(&event);
                if let (Some(tokens), true) = (&tokens, was_requested(&event)) {
                    tokens.read_again();
                }
            })
    }
}

/// The configuration that a program begins with. What is said of it is said here.
pub(crate) fn live_start(setup: &Setup, screen: &Screen) -> LiveStart {
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
        Source::Demo { user_path } => LiveStart::standing_in(user_path.as_deref(), servers, state.as_deref()),
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
    start
}

/// Whether a person caused this, and not a change of the configuration file.
fn was_requested(event: &LiveEvent<'_>) -> bool {
    match event {
        LiveEvent::Reloaded(trigger, _) | LiveEvent::Refused(trigger, _) => {
            *trigger != ReloadTrigger::FileChanged
        }
        _ => false,
    }
}

pub(crate) fn say(event: &LiveEvent<'_>, screen: &Screen) {
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

fn say_problems(problems: &[Problem], screen: &Screen) {
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
fn applied(reloaded: &Reloaded) -> Text {
    let report = reloaded.report();
    let file = plain(report.file.as_deref().unwrap_or_default());
    text!("applied {}: {}", file, changes(&report))
}
