//! A call that failed: why, what the server said last, and whether it may have run.

use std::sync::Arc;
use std::time::Duration;

use mainstay::{CallError, Outcome, PlainText, Trouble};

use super::Called;
use crate::exit::{Done, Exit};
use crate::json;
use crate::output::{Text, plain, text};

/// How long the end of a process may take to be known once its connection is lost.
const HINDSIGHT: Duration = Duration::from_millis(500);

impl Called<'_> {
    pub(super) async fn failed(&self, error: &CallError) -> Done {
        let exit = Exit::of_call(error);
        let trouble = self.trouble(error).await;
        let trouble = trouble.as_deref();
        if self.call.json {
            let (server, tool) = (&self.call.server, &self.call.tool);
            let document = json::Call::failed(server, tool, error, trouble);
            self.screen.print(Text::document(&document))?;
            return Ok(exit);
        }
        self.screen.error(Text::lines(&error.to_string()));
        if let Some(trouble) = trouble {
            if matches!(error, CallError::Lost { .. }) {
                self.screen.say(text!("  {}", plain(&trouble.message)));
            }
            for line in &trouble.stderr {
                self.screen.say(text!("  stderr: {}", PlainText::line(line)));
            }
        }
        self.screen.say(verdict(error));
        Ok(exit)
    }

    /// What is known of the server's own trouble; when a connection was lost, its process may be a moment from ending.
    async fn trouble(&self, error: &CallError) -> Option<Arc<Trouble>> {
        match error {
            CallError::Lost { generation, .. } => {
                let moved_on = |status: &mainstay::Status| status.generation != Some(*generation);
                let status = self.server.wait_until(HINDSIGHT, moved_on).await;
                status.and_then(|status| status.last_error)
            }
            CallError::NotConnected(now) | CallError::WaitTimedOut { now, .. } => now.last_error.clone(),
            _ => None,
        }
    }
}

/// What a person must know before trying again.
fn verdict(error: &CallError) -> &'static str {
    match (error.outcome(), error) {
        (Outcome::NotSent, _) => "the call was not sent: it did not run",
        (Outcome::Refused, _) => "the call was refused: it did not run",
        (Outcome::Answered, CallError::Rpc { .. }) => "the call was answered: the server says why it failed",
        (Outcome::Answered, _) => {
            "the call has run, and its answer is lost: check its effects before you repeat it"
        }
        (_, _) => "the call may have run: find out before you repeat it",
    }
}
