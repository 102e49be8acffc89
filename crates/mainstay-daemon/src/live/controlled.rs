//! What the control API asks of a live configuration.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use mainstay_control::api::{
    Actor, ActorKind, ApiProblem, ConfigProblem, DesiredState, EntryDocument, ProblemKind, ReloadReport,
};
use mainstay_control::{Control, Controlled, Controlling};
use mainstay_hosts::servers::{
    EditCheck, ServerEditError, Written, add_server, change_server, remove_server,
};
use mainstay_hosts::text::ConfigValue;
use tokio::task::spawn_blocking;

use super::reload::{ReloadError, Reloaded};
use super::start::{LiveConfiguration, LiveEvent, ReloadTrigger};
use super::switches::SwitchError;

impl Reloaded {
    /// The same as a report of the control API.
    pub fn report(&self) -> ReloadReport {
        ReloadReport {
            file: Some(self.file.display().to_string()),
            still_disabled: self.still_disabled.clone(),
            problems: self.problems.iter().map(ConfigProblem::from).collect(),
            ..ReloadReport::of(self.changes.clone())
        }
    }
}

impl ReloadError {
    /// The same as a problem of the control API.
    pub fn problem(&self) -> ApiProblem {
        match self {
            Self::NoFile => ApiProblem::not_supported("this program has no configuration file")
                .remedy("start it with --config FILE"),
            Self::Unusable(error) => ApiProblem::new(ProblemKind::InvalidConfiguration, error.to_string())
                .remedy("correct the file; what was in force stays in force"),
            Self::Refused { file, problems } => {
                let title = format!("{} is not applied, for its errors", file.display());
                let problems = problems.iter().map(ConfigProblem::from).collect();
                ApiProblem::new(ProblemKind::InvalidConfiguration, title)
                    .at(file.display().to_string())
                    .remedy("correct the file; what was in force stays in force")
                    .problems(problems)
            }
            Self::TimedOut { .. } => ApiProblem::new(ProblemKind::TimedOut, self.to_string()),
            Self::Ending => ApiProblem::new(ProblemKind::Conflict, self.to_string()),
        }
    }
}

/// Records in the journal of the API what a live configuration reports. It is made before the [`Control`] is, which needs
/// the live configuration; what is reported before [`bind`](Self::bind) is not recorded.
#[derive(Clone, Default)]
pub struct ReloadJournal(Arc<OnceLock<Control>>);

impl ReloadJournal {
    /// Records in this journal from now on.
    pub fn bind(&self, control: &Control) {
        // A second one is not recorded twice.
        let _ = self.0.set(control.clone());
    }

    /// Records a report. What a command of the API caused is recorded by the API itself.
    pub fn record(&self, event: &LiveEvent<'_>) {
        let Some(control) = self.0.get() else { return };
        let (trigger, outcome) = match event {
            LiveEvent::Reloaded(trigger, reloaded) => (*trigger, Ok(reloaded.report())),
            LiveEvent::Refused(trigger, error) => (*trigger, Err(error.problem())),
            LiveEvent::NotWatched(_) => return,
        };
        let via = match trigger {
            ReloadTrigger::FileChanged => ActorKind::File,
            ReloadTrigger::Hangup => ActorKind::Signal,
            ReloadTrigger::Request => return,
        };
        control.record_reload(Actor::via(via), &outcome);
    }
}

impl Controlled for LiveConfiguration {
    fn reload(&self) -> Controlling<'_, ReloadReport> {
        Box::pin(async {
            let reloaded = Self::reload(self).await.map_err(|error| error.problem())?;
            Ok(reloaded.report())
        })
    }

    fn add(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        self.edit(move |file, check| {
            let mut keys: Vec<_> = entry.entry.into_iter().collect();
            // JSON has no order, and a person looks for these first.
            keys.sort_by_key(|(key, _)| !matches!(key.as_str(), "command" | "url"));
            let keys = keys.into_iter().map(|(key, value)| (key, value.into()));
            add_server(
                file,
                &entry.name,
                &ConfigValue::Table(keys.collect()),
                Some(check),
            )
        })
    }

    fn change(&self, entry: EntryDocument) -> Controlling<'_, ReloadReport> {
        self.edit(move |file, check| {
            let keys = entry.entry.into_iter();
            let changes: Vec<_> = keys
                .map(|(key, value)| (key, (!value.is_null()).then(|| ConfigValue::from(value))))
                .collect();
            change_server(file, &entry.name, &changes, Some(check))
        })
    }

    fn remove(&self, server: &str) -> Controlling<'_, ReloadReport> {
        let server = server.to_owned();
        self.edit(move |file, check| remove_server(file, &server, Some(check)))
    }

    fn remember(&self, server: &str, desired: DesiredState) -> Controlling<'_, ()> {
        let server = server.to_owned();
        Box::pin(async move {
            let enabled = match desired {
                DesiredState::Enabled => true,
                DesiredState::Disabled => false,
            };
            let switched = self.switch(&server, enabled).await.map_err(|error| match error {
                SwitchError::Unknown(_) => ApiProblem::new(ProblemKind::UnknownServer, error.to_string()),
                SwitchError::NotTaken(_) | SwitchError::Ending => {
                    ApiProblem::new(ProblemKind::Conflict, error.to_string())
                }
            })?;
            match switched.not_kept {
                Some(why) => Err(not_kept(desired, &why)),
                None => Ok(()),
            }
        })
    }

    fn remember_of_host(&self, key: &str, desired: DesiredState) -> Controlling<'_, ()> {
        let key = key.to_owned();
        Box::pin(async move {
            let enabled = desired == DesiredState::Enabled;
            let kept = self.host_switches().set(&key, enabled).await;
            kept.map_err(|why| not_kept(desired, &why))
        })
    }

    fn configuration(&self) -> Option<String> {
        self.file().map(|file| file.display().to_string())
    }

    fn configuration_problem(&self) -> Option<String> {
        self.problem().map(|problem| problem.to_string())
    }

    fn configuration_missing(&self) -> bool {
        self.is_missing()
    }
}

impl LiveConfiguration {
    /// Edits the file, and applies it at once. The file is as it was if the edit is refused, or if this program would not apply it.
    fn edit<'a>(
        &'a self,
        edit: impl FnOnce(&Path, EditCheck<'_>) -> Result<Written, ServerEditError> + Send + 'static,
    ) -> Controlling<'a, ReloadReport> {
        Box::pin(async move {
            let file = self
                .file()
                .ok_or_else(|| ReloadError::NoFile.problem())?
                .to_owned();
            let checking = self.clone();
            let edited =
                spawn_blocking(move || edit(&file, &|configuration| checking.refuses(configuration))).await;
            let written = edited
                .map_err(|_| ApiProblem::new(ProblemKind::Internal, "the configuration could not be edited"))?
                .map_err(|error| refused(&error))?;
            let reloaded = Self::reload(self).await.map_err(|error| error.problem())?;
            let mut report = reloaded.report();
            report.problems.extend(written.warnings.into_iter().map(warning));
            Ok(report)
        })
    }
}

/// What a person wants is done, but not kept for the next start.
fn not_kept(desired: DesiredState, why: &str) -> ApiProblem {
    let done = match desired {
        DesiredState::Enabled => "enabled",
        DesiredState::Disabled => "disabled",
    };
    let title = format!("it is {done} now, but the next start will not know: {why}");
    ApiProblem::new(ProblemKind::Internal, title).remedy("make room, and give the command again")
}

fn refused(error: &ServerEditError) -> ApiProblem {
    let kind = match error {
        ServerEditError::Exists { .. } => ProblemKind::Conflict,
        ServerEditError::Unknown { .. } => ProblemKind::UnknownServer,
        ServerEditError::Invalid { .. } | ServerEditError::Edit(_) => ProblemKind::InvalidConfiguration,
        ServerEditError::Refused { file, problems } => {
            let file = file.display().to_string();
            let title = format!("{file} would be refused with this change, so it is not written");
            // The positions are those of a text that is in no file.
            let problems = problems.iter().map(|problem| ConfigProblem {
                file: None,
                line: None,
                column: None,
                ..ConfigProblem::from(problem)
            });
            return ApiProblem::new(ProblemKind::InvalidConfiguration, title)
                .at(file)
                .remedy("correct the errors first")
                .problems(problems.collect());
        }
        _ => ProblemKind::Internal,
    };
    ApiProblem::new(kind, error.to_string())
}

fn warning(message: String) -> ConfigProblem {
    ConfigProblem {
        severity: "warning".to_owned(),
        server: None,
        key: None,
        file: None,
        line: None,
        column: None,
        message,
        fix: None,
    }
}
