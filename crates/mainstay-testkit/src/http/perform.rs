//! The stage of HTTP: what each action of a message does here.
//!
//! There is no stdout to close and no child to start, so a fault that would close the output silences the server, and the
//! actions that concern pipes and processes alone do nothing.

use std::io::Write;
use std::sync::Arc;

use super::script::AnswerForm;
use super::server::HttpServerCore;
use super::session::ScriptedSession;
use super::stream::AnswerStream;
use crate::action::Action;

/// Performs the actions of one message in a task of its own, which ends with the run.
pub(super) fn spawn(
    server: &Arc<HttpServerCore>,
    session: &Arc<ScriptedSession>,
    own: Option<(AnswerStream, AnswerForm)>,
    actions: Vec<Action>,
) -> tokio::task::AbortHandle {
    let performance = Performance {
        server: Arc::clone(server),
        session: Arc::clone(session),
        own,
    };
    let run = server.run();
    tokio::spawn(async move {
        let server = Arc::clone(&performance.server);
        tokio::select! {
            () = performance.perform_all(actions) => {}
            () = server.over(run) => {}
        }
    })
    .abort_handle()
}

#[derive(Clone)]
struct Performance {
    server: Arc<HttpServerCore>,
    session: Arc<ScriptedSession>,
    own: Option<(AnswerStream, AnswerForm)>,
}

impl Performance {
    async fn perform_all(self, actions: Vec<Action>) {
        self.perform(actions).await;
        if let Some((stream, _)) = &self.own {
            stream.set_performed();
        }
    }

    async fn perform(&self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Note(note) => self.server.note(note),
                Action::Write(bytes) => self.say(&bytes),
                Action::WriteFilled { head, fill, tail } => {
                    self.say(&[head, vec![b'x'; fill], tail].concat());
                }
                Action::Repeat { line, count } => (0..count).for_each(|_| self.say(&line)),
                Action::Wait(pause) | Action::Work(pause, _) | Action::Block(pause) => {
                    tokio::time::sleep(pause).await;
                }
                Action::StopIfCancelled(id) => {
                    if self.session.responder().is_cancelled(&id) {
                        return;
                    }
                }
                Action::Aside(actions) => self.aside(actions),
                Action::Silence | Action::CloseStdout => self.server.silence(),
                Action::Park | Action::CloseStdin => std::future::pending().await,
                Action::Exit(code) => self.server.exit(code),
                Action::Signal(signal) => self.server.signal(signal),
                // Its reader may be gone.
                Action::Stderr(bytes) => drop(std::io::stderr().write_all(&bytes)),
                Action::Spawn(_) => {}
            }
        }
    }

    fn aside(&self, actions: Vec<Action>) {
        let run = self.server.run();
        let aside = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = aside.perform(actions) => {}
                () = aside.server.over(run) => {}
            }
        });
    }

    fn say(&self, bytes: &[u8]) {
        self.session.say(bytes, self.own.as_ref());
    }
}
