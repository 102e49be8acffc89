//! What people ask of servers and of the configuration. Every command is an event, a refused one too. An unknown name is not recorded
//! as that of a server; the reason of the refusal has it.

use std::sync::Arc;

use mainstay::Outcome;
use mainstay::gateway::PlainText;
use mainstay::server::CommandError;

use super::{Hub, NAME_CHARS_LIMIT, Named, refresh};
use crate::api::{
    Actor, ApiProblem, DesiredState, EntryDocument, EventDetail, LoginBeginning, LoginProgress, ProblemKind,
    RefreshReport, ReloadReport, ServerOrigin,
};
use crate::controlled::Controlling;

/// What a person wants of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersonCommand {
    Restart,
    Enable,
    Disable,
}

impl PersonCommand {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }
}

/// What a person wants of the configuration.
pub(crate) enum ConfigCommand {
    Reload,
    Add(EntryDocument),
    Change(EntryDocument),
    Remove(String),
}

impl ConfigCommand {
    fn as_str(&self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Add(_) => "add",
            Self::Change(_) => "change",
            Self::Remove(_) => "remove",
        }
    }

    fn server(&self) -> Option<&str> {
        match self {
            Self::Reload => None,
            Self::Add(entry) | Self::Change(entry) => Some(&entry.name),
            Self::Remove(name) => Some(name),
        }
    }
}

impl Hub {
    /// Gives a server a command of a person, and records both the command and its refusal.
    pub(crate) async fn command(
        &self,
        command: PersonCommand,
        server: &str,
        by: Actor,
    ) -> Result<(), ApiProblem> {
        let done = self.give(command, server).await;
        let known = self.server(server).ok().map(|named| named.name);
        self.record_command(known, command.as_str(), by, &done);
        done
    }

    /// The server that a command is for. If there is none, the command is recorded as refused.
    fn commanded(&self, server: &str, command: &str, by: &Actor) -> Result<Named, ApiProblem> {
        let found = self.server(server);
        if found.is_err() {
            self.record_command(None, command, by.clone(), &found);
        }
        found
    }

    /// The server of a tool that a person calls. Records the call as it begins.
    pub(crate) fn called(&self, server: &str, tool: &str, by: Actor) -> Result<Named, ApiProblem> {
        let command = call_of(tool);
        let named = self.commanded(server, &command, &by)?;
        self.record_command(Some(named.name.clone()), &command, by, &Ok(()));
        Ok(named)
    }

    /// Records what became of a call.
    pub(crate) fn call_ended(&self, named: &Named, tool: &str, by: Actor, outcome: Outcome) {
        let detail = EventDetail::Command {
            command: call_of(tool),
            by,
            refused: None,
            outcome: Some(outcome.as_str().to_owned()),
        };
        self.journal.write(Some(named.name.clone()), detail);
    }

    async fn give(&self, command: PersonCommand, server: &str) -> Result<(), ApiProblem> {
        let named = self.server(server)?;
        let desired = match command {
            PersonCommand::Restart => None,
            PersonCommand::Enable => Some(DesiredState::Enabled),
            PersonCommand::Disable => Some(DesiredState::Disabled),
        };
        let kept = match (desired, named.group.origin, &named.group.remembered_as) {
            (Some(desired), ServerOrigin::Configured, _) => {
                self.controlled.remember(&named.name, desired).await
            }
            (Some(desired), ServerOrigin::AdHoc, Some(key)) => {
                self.controlled.remember_of_host(key, desired).await
            }
            (None, _, _) | (Some(_), ServerOrigin::AdHoc, None) | (Some(_), ServerOrigin::Unknown, _) => {
                Ok(())
            }
        };
        let taken = match command {
            PersonCommand::Restart => named.server.restart().await,
            PersonCommand::Enable => named.server.enable().await,
            PersonCommand::Disable => named.server.disable().await,
        };
        taken.map_err(|error| not_taken(&named.name, &error))?;
        // A full disk does not keep a person from disabling a server now.
        kept
    }

    /// Lists a server again on behalf of a person, and records that when the listing has ended.
    pub(crate) async fn refresh(&self, server: &str, by: Actor) -> Result<RefreshReport, ApiProblem> {
        let named = self.commanded(server, "refresh", &by)?;
        let listed = refresh::list_again(&named).await;
        self.record_command(Some(named.name), "refresh", by, &listed);
        listed
    }

    /// Begins a login on behalf of a person, and records it as it begins and as it ends.
    pub(crate) async fn begin_login(
        &self,
        server: &str,
        beginning: &LoginBeginning,
        by: Actor,
    ) -> Result<LoginProgress, ApiProblem> {
        let named = self.commanded(server, "login", &by)?;
        let begun = self.logins.begin(&named.name, &named.server, beginning).await;
        self.record_command(Some(named.name.clone()), "login", by.clone(), &begun);
        let begun = begun?;
        if begun.is_new {
            let (end, journal) = (begun.end(), self.journal.clone());
            tokio::spawn(async move { journal.write(Some(named.name), login_ended(by, end.await)) });
        }
        Ok(begun.progress().await)
    }

    /// Takes the address that a person's browser ended at, and records that. The address holds a secret, and is not recorded.
    pub(crate) async fn paste_login(
        &self,
        server: &str,
        address: String,
        by: Actor,
    ) -> Result<LoginProgress, ApiProblem> {
        let named = self.commanded(server, "login callback", &by)?;
        let taken = self.logins.paste(&named.name, address).await;
        self.record_command(Some(named.name), "login callback", by, &taken);
        taken
    }

    /// Cancels a call of a client on behalf of a person, and records that.
    pub(crate) fn cancel_call(&self, server: &str, call: &str, by: Actor) -> Result<(), ApiProblem> {
        let shown = PlainText::line(call).cut(NAME_CHARS_LIMIT).into_string();
        let named = self.commanded(server, &format!("cancel {shown}"), &by)?;
        let gone = || {
            ApiProblem::new(
                ProblemKind::Conflict,
                format!("no call {shown} waits for an answer"),
            )
            .at(shown.as_str())
            .remedy("it may be answered by now; the status of the server lists the calls that wait")
        };
        let pending = named.server.pending_calls(usize::MAX);
        let found = pending.iter().find(|pending| pending.id.to_string() == call);
        let what = found.map_or_else(String::new, |found| {
            let what = [Some(found.method.as_str()), found.name.as_deref()];
            let what: Vec<&str> = what.into_iter().flatten().collect();
            format!(" ({})", what.join(" "))
        });
        let done = match found {
            Some(found) if named.server.cancel_call(found.id) => Ok(()),
            Some(_) | None => Err(gone()),
        };
        self.record_command(Some(named.name), &format!("cancel {shown}{what}"), by, &done);
        done
    }

    /// Changes the configuration on behalf of a person, and records the command and what it did.
    pub(crate) async fn configure(
        &self,
        command: ConfigCommand,
        by: Actor,
    ) -> Result<ReloadReport, ApiProblem> {
        let word = command.as_str();
        let server = command.server().map(Arc::from);
        let applying: Controlling<'_, ReloadReport> = match command {
            ConfigCommand::Reload => self.controlled.reload(),
            ConfigCommand::Add(entry) => self.controlled.add(entry),
            ConfigCommand::Change(entry) => {
                self.commanded(&entry.name, word, &by)?;
                self.controlled.change(entry)
            }
            ConfigCommand::Remove(name) => {
                self.commanded(&name, word, &by)?;
                let name: Box<str> = name.into();
                Box::pin(async move { self.controlled.remove(&name).await })
            }
        };
        let outcome = applying.await;
        self.record_command(server, word, by.clone(), &outcome);
        self.record_reload(by, &outcome);
        outcome
    }

    /// Records a command of a person, and why it was refused if it was.
    pub(crate) fn record_command<T>(
        &self,
        server: Option<Arc<str>>,
        command: &str,
        by: Actor,
        outcome: &Result<T, ApiProblem>,
    ) {
        let refused = outcome.as_ref().err().map(ToString::to_string);
        let detail = EventDetail::Command {
            command: command.to_owned(),
            by,
            refused,
            outcome: None,
        };
        self.journal.write(server, detail);
    }

    pub(super) fn record_reload(&self, by: Actor, outcome: &Result<ReloadReport, ApiProblem>) {
        let detail = match outcome {
            Ok(report) => EventDetail::Reloaded {
                by,
                report: report.clone(),
            },
            Err(problem) => EventDetail::ReloadRefused {
                by,
                title: problem.title.clone(),
                remedy: problem.remedy.clone(),
            },
        };
        self.journal.write(None, detail);
        if let Ok(report) = outcome {
            let write = |names: &[String], detail: EventDetail| {
                for name in names {
                    self.journal.write(Some(name.as_str().into()), detail.clone());
                }
            };
            write(&report.added, EventDetail::Added);
            write(&report.removed, EventDetail::Removed);
        }
    }
}

/// What became of a login; `None` if it was given up for another one.
fn login_ended(by: Actor, end: Option<LoginProgress>) -> EventDetail {
    let (outcome, refused) = match end {
        None => ("given_up", None),
        Some(LoginProgress { error: None, .. }) => ("logged_in", None),
        Some(LoginProgress { error, .. }) => ("failed", error),
    };
    EventDetail::Command {
        command: "login".to_owned(),
        by,
        refused,
        outcome: Some(outcome.to_owned()),
    }
}

fn call_of(tool: &str) -> String {
    format!("call {}", PlainText::line(tool).cut(NAME_CHARS_LIMIT))
}

fn not_taken(server: &str, error: &CommandError) -> ApiProblem {
    let (title, remedy) = match error {
        CommandError::Disabled(_) => (format!("server {server} is disabled"), "enable it first"),
        CommandError::Gone(_) => (
            format!("server {server} is gone"),
            "look at the list of servers again",
        ),
        CommandError::KeeperFailed(_) => (format!("the command did not reach server {server}"), "try again"),
        other => (other.to_string(), "look at its status"),
    };
    ApiProblem::new(ProblemKind::Conflict, title)
        .at(server)
        .remedy(remedy)
}
