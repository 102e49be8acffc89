//! A request that failed: why, what the server said last, and whether it may have run.

use std::sync::Arc;
use std::time::Duration;

use mainstay::gateway::PlainText;
use mainstay::server::{NotConnected, Reason};
use mainstay::{CallError, CallErrorKind, Failure, Outcome, Server};

use super::Asking;
use crate::exit::{Done, Exit};
use crate::json;
use crate::output::{Text, plain, text};
use crate::reach::literal;
use crate::startup::Standing;

/// How long the end of a process may take to be known once its connection is lost.
const HINDSIGHT_TIMEOUT: Duration = Duration::from_millis(500);

impl Asking<'_> {
    /// Reports an error of the library.
    pub(crate) async fn failed(&self, server: &Server, error: &CallError) -> Done {
        let behind = match error.not_connected() {
            Some(_) => self.behind(server).await,
            None => None,
        };
        match behind.as_ref().map(|status| (status, Standing::of(status))) {
            Some((_, Standing::Off)) => self.disabled(server),
            Some((status, Standing::Down | Standing::Starting)) => {
                let error: CallError = NotConnected::from(status).into();
                self.report(server, &error).await
            }
            Some((_, Standing::Up)) | None => self.report(server, error).await,
        }
    }

    async fn report(&self, server: &Server, error: &CallError) -> Done {
        let exit = Exit::of_call(error);
        let failure = failure(server, error).await;
        let failure = failure.as_deref();
        if self.request.json {
            let document = json::AnswerDocument::failed(self.asked(), error, failure);
            self.screen.print(Text::document(&document))?;
            return Ok(exit);
        }
        self.screen.error(message(error, self.is_call));
        if let Some(failure) = failure {
            if matches!(error.kind(), CallErrorKind::Lost { failure: None, .. }) {
                self.screen.say(text!("  {}", plain(&failure.message)));
            }
            for line in &failure.stderr {
                self.screen.say(text!("  stderr: {}", PlainText::line(line)));
            }
        }
        if asks_for_login(error) && !self.without_login.contains(server.name()) {
            let mut command = (self.login_command)(self.address.as_deref().unwrap_or(server.name()));
            for scope in more_rights(error) {
                command.push_str(&format!(" --scope {}", literal(PlainText::line(scope).as_str())));
            }
            self.screen
                .say(text!("  run `{}`, then try again", plain(&command)));
        }
        if self.is_call {
            self.screen.say(verdict(error));
        }
        Ok(exit)
    }

    /// Reports a failure that a gateway of Mainstay reports as the result of a tool, for the agents that it serves.
    pub(crate) fn failed_at_gateway(&self, message: &str, outcome: Outcome) -> Done {
        let may_have_run = match outcome {
            Outcome::NotSent | Outcome::Refused => false,
            _unknown_or_answered => true,
        };
        if self.request.json {
            let message = message.to_owned();
            let document = json::AnswerDocument::without_answer(self.asked(), message, outcome, may_have_run);
            self.screen.print(Text::document(&document))?;
        } else {
            self.screen.error(Text::lines(message));
        }
        Ok(if may_have_run {
            Exit::MayHaveRun
        } else {
            Exit::DidNotRun
        })
    }

    /// Reports that a signal came before there was an answer.
    pub(crate) fn interrupted(&self, exit: Exit) -> Done {
        // What was handed to the library may be on its way; what was not has certainly not left.
        let (outcome, verdict) = if self.is_sent.get() {
            (Outcome::Unknown, MAY_HAVE_RUN)
        } else {
            (Outcome::NotSent, NOT_SENT)
        };
        if self.request.json {
            let signal = if exit == Exit::Terminated {
                "SIGTERM"
            } else {
                "SIGINT"
            };
            let may_have_run = outcome == Outcome::Unknown;
            let message = format!("interrupted by {signal}");
            let document = json::AnswerDocument::without_answer(self.asked(), message, outcome, may_have_run);
            self.screen.print(Text::document(&document))?;
        } else if self.is_call {
            self.screen.say(verdict);
        }
        Ok(exit)
    }
}

/// The error alone: stderr and, of a call, the outcome have their own lines.
fn message(error: &CallError, is_call: bool) -> Text {
    match error.kind() {
        CallErrorKind::NotConnected(now) => {
            let mut said = text!("server {} is {}", plain(&now.server), now.state);
            if let Some(reason) = now.reason {
                said.push(text!(" ({})", reason.as_str()));
            }
            if let Some(failure) = &now.last_error {
                said.push(text!(": {}", plain(&failure.message)));
            }
            said
        }
        CallErrorKind::Lost { reason, failure } => {
            let server = error.server().unwrap_or_default();
            let why = failure.as_ref().map_or(reason, |failure| &failure.message);
            text!(
                "the connection to server {} was lost: {}",
                plain(server),
                plain(why)
            )
        }
        _other if is_call => Text::lines(&error.reason()),
        _other => Text::lines(&error.to_string()),
    }
}

/// What is known of the server's own failure; when a connection was lost, its process may be a moment from ending.
async fn failure(server: &Server, error: &CallError) -> Option<Arc<Failure>> {
    match error.kind() {
        CallErrorKind::Lost { .. } => {
            let moved_on = |status: &mainstay::Status| status.generation != error.generation();
            let status = server.wait_until(HINDSIGHT_TIMEOUT, moved_on).await;
            status.and_then(|status| status.last_error)
        }
        _other => error.not_connected()?.last_error.clone(),
    }
}

const NOT_SENT: &str = "the call was not sent: it did not run";
const MAY_HAVE_RUN: &str = "the call may have run: find out before you repeat it";

/// What a person must know before trying again.
fn verdict(error: &CallError) -> &'static str {
    match (error.outcome(), error.kind()) {
        (Outcome::NotSent, _) => NOT_SENT,
        (Outcome::Refused, _) => "the call was refused: it did not run",
        (Outcome::Answered, CallErrorKind::Rpc(_)) => "the call was answered: the server says why it failed",
        (Outcome::Answered, _) => {
            "the call has run, and its answer is lost: check its effects before you repeat it"
        }
        (_, _) => MAY_HAVE_RUN,
    }
}

/// The scopes that the token lacks, if the server accepted it for other calls.
fn more_rights(error: &CallError) -> &[String] {
    match error.kind() {
        CallErrorKind::AuthRequired { challenge } if challenge.wants_more_rights() => &challenge.scopes,
        _other => &[],
    }
}

/// Whether a login is what the server asks for.
fn asks_for_login(error: &CallError) -> bool {
    match error.kind() {
        CallErrorKind::AuthRequired { .. } => true,
        CallErrorKind::NotConnected(now) => now.reason == Some(Reason::AuthRequired),
        _other => false,
    }
}
