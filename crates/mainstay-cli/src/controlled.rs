//! What the control API asks of a program that follows its configuration file.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mainstay_control::api::{
    Actor, ActorKind, ApiProblem, ConfigProblem, DesiredState, EntryDocument, ProblemKind, ReloadReport,
};
use mainstay_control::{Control, Controlled, Controlling};
use mainstay_daemon::live::{
    LiveConfiguration, LiveEvent, ReloadError, ReloadTrigger, Reloaded, SwitchError,
};
use mainstay_hosts::servers::{self, ServerEditError, Written};
use mainstay_hosts::text::ConfigValue;

/// The configuration of this program, for the control API. It is set when the gateway runs; until then, what needs it is
/// refused.
#[derive(Default)]
pub(crate) struct LiveControl(OnceLock<LiveConfiguration>);

impl LiveControl {
    /// Lets the API use this configuration.
    pub(crate) fn set(&self, live: LiveConfiguration) {
        // A program follows one configuration.
        let _ = self.0.set(live);
    }

    fn live(&self) -> Result<&LiveConfiguration, ApiProblem> {
        self.0.get().ok_or_else(|| {
            let problem = ApiProblem::new(ProblemKind::Conflict, "the program is still starting");
            problem.remedy("try again when its required servers are up")
        })
    }

    fn file(&self) -> Result<PathBuf, ApiProblem> {
        let file = self.live()?.file().map(Path::to_owned);
        file.ok_or_else(|| no_file("there is no configuration file to change"))
    }

    async fn reload_file(&self) -> Result<ReloadReport, ApiProblem> {
        let reloaded = self.live()?.reload().await;
        reloaded
            .map(|reloaded| report(&reloaded))
            .map_err(|error| refusal(&error))
    }

    /// Edits the file on a thread that may block, and applies it.
    async fn edit<E>(&self, edit: E) -> Result<ReloadReport, ApiProblem>
    where
        E: FnOnce(&Path) -> Result<Written, ServerEditError> + Send + 'static,
    {
        let file = self.file()?;
        let edited = tokio::task::spawn_blocking(move || edit(&file)).await;
        let edited = edited
            .map_err(|_| ApiProblem::new(ProblemKind::Internal, "the edit failed inside the program"))?;
        let written = edited.map_err(|error| not_edited(&error))?;
        let mut report = self.reload_file().await?;
        report
            .problems
            .extend(written.warnings.into_iter().map(|message| ConfigProblem {
                severity: "warning".to_owned(),
                server: None,
                key: None,
                file: Some(written.file.display().to_string()),
                line: None,
                column: None,
                message,
                fix: None,
            }));
        Ok(report)
    }
}

impl Controlled for LiveControl {
    fn reload(&self) -> Controlling<'_, ReloadReport> {
        Box::pin(self.reload_file())
    }

    fn add(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        let value = ConfigValue::from(serde_json::Value::Object(entry.entry));
        Box::pin(self.edit(move |file| servers::add_server(file, &entry.name, &value)))
    }

    fn change(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        let keys = entry.entry.into_iter();
        let changes: Vec<_> = keys
            .map(|(key, value)| {
                let value = (!value.is_null()).then(|| ConfigValue::from(value));
                (key, value)
            })
            .collect();
        Box::pin(self.edit(move |file| servers::change_server(file, &entry.name, &changes)))
    }

    fn remove(&self, server: &str) -> Controlling<'_, ReloadReport> {
        let server = server.to_owned();
        Box::pin(self.edit(move |file| servers::remove_server(file, &server)))
    }

    fn remember(&self, server: &str, desired: DesiredState) -> Controlling<'_, ()> {
        let server = server.to_owned();
        Box::pin(async move {
            let enabled = desired == DesiredState::Enabled;
            let switched = self.live()?.switch(&server, enabled).await.map_err(|error| {
                let kind = match &error {
                    SwitchError::Unknown(_) => ProblemKind::UnknownServer,
                    _ => ProblemKind::Conflict,
                };
                ApiProblem::new(kind, error.to_string()).at(server.as_str())
            })?;
            if let Some(why) = switched.not_kept {
                tracing::warn!(
                    server,
                    why,
                    "the next start will not know that a person enabled or disabled it"
                );
            }
            Ok(())
        })
    }

    fn configuration(&self) -> Option<String> {
        let file = self.0.get()?.file()?;
        Some(file.display().to_string())
    }
}

/// Records what became of a configuration that no command of the API caused.
pub(crate) fn record(control: &Control, event: &LiveEvent<'_>) {
    let (trigger, outcome) = match event {
        LiveEvent::Reloaded(trigger, reloaded) => (trigger, Ok(report(reloaded))),
        LiveEvent::Refused(trigger, error) => (trigger, Err(refusal(error))),
        _ => return,
    };
    let via = match trigger {
        ReloadTrigger::FileChanged => ActorKind::File,
        ReloadTrigger::Hangup => ActorKind::Signal,
        // The API has recorded it.
        _ => return,
    };
    control.record_reload(Actor::via(via), &outcome);
}

fn report(reloaded: &Reloaded) -> ReloadReport {
    ReloadReport {
        file: Some(reloaded.file.display().to_string()),
        still_disabled: reloaded.still_disabled.clone(),
        problems: reloaded.problems.iter().map(ConfigProblem::from).collect(),
        ..ReloadReport::of(reloaded.changes.clone())
    }
}

fn refusal(error: &ReloadError) -> ApiProblem {
    match error {
        ReloadError::NoFile => no_file("there is no configuration file to read"),
        ReloadError::Refused { file, problems } => {
            let title = "the configuration has errors, and the one before stays in force";
            ApiProblem::new(ProblemKind::InvalidConfiguration, title)
                .at(file.display().to_string())
                .remedy("correct the file and reload")
                .problems(problems.iter().map(ConfigProblem::from).collect())
        }
        ReloadError::TimedOut { file } => {
            ApiProblem::new(ProblemKind::TimedOut, error.to_string()).at(file.display().to_string())
        }
        ReloadError::Ending => ApiProblem::new(ProblemKind::Conflict, error.to_string()),
        other => ApiProblem::new(ProblemKind::InvalidConfiguration, other.to_string()),
    }
}

fn no_file(title: &str) -> ApiProblem {
    ApiProblem::not_supported(title).remedy("start the program with --config FILE")
}

fn not_edited(error: &ServerEditError) -> ApiProblem {
    let kind = match error {
        ServerEditError::Exists { .. } => ProblemKind::Conflict,
        ServerEditError::Unknown { .. } => ProblemKind::UnknownServer,
        ServerEditError::Invalid { .. } | ServerEditError::Edit(_) => ProblemKind::InvalidConfiguration,
        _ => ProblemKind::Internal,
    };
    ApiProblem::new(kind, error.to_string())
}
