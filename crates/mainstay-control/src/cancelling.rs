//! A call of a client that a person cancels.

use mainstay::gateway::PlainText;

use crate::api::{Actor, ApiProblem, EventDetail, ProblemKind};
use crate::control::{Hub, NAME_CHARS_LIMIT};

impl Hub {
    /// Cancels a call of a client on behalf of a person, and records that.
    pub(crate) fn cancel_call(&self, server: &str, call: &str, by: Actor) -> Result<(), ApiProblem> {
        let named = self.server(server)?;
        let shown = PlainText::line(call).cut(NAME_CHARS_LIMIT).into_string();
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
        self.journal.write(
            Some(named.name),
            EventDetail::Command {
                command: format!("cancel {shown}{what}"),
                by,
                refused: done.as_ref().err().map(ToString::to_string),
            },
        );
        done
    }
}
