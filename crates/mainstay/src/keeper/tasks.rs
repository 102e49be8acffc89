//! The tasks of one keeper, by kind and generation.
//!
//! The end of every task is a message to its keeper: what the task returns, or its panic. A task that the keeper aborts
//! sends nothing. Dropping the owner aborts all. Two of the tasks watch for a reachable address and for another credential
//! while a server cannot be used; the second one watches for the end of the credential while the server is connected.

use std::any::Any;
use std::collections::HashMap;
use std::future::pending;

use mainstay_lifecycle::{DisconnectReason, Generation, State};
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;

use super::Keeper;
use super::inbox::{KeeperMessage, Report, ServerCommand};
use crate::PlainText;
use crate::config::Target;
use crate::transport::http::Endpoint;

/// How much of a panic's message is kept.
const PANIC_MESSAGE_LIMIT: usize = 512;

/// What a task of a keeper does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Owns one connection, from its dial to its end.
    Connection,
    Listing,
    Probe,
    /// Waits until an unreachable server accepts connections.
    ReachabilityWatch,
    /// Waits for another credential.
    LoginWatch,
    /// Prepares a large catalog for publication.
    Prepare,
}

/// One task of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeeperTask {
    pub(crate) kind: TaskKind,
    pub(crate) generation: Option<Generation>,
}

/// A task that panicked. Everything that it held was dropped.
#[derive(Clone, Debug, thiserror::Error)]
#[error("its task panicked: {0}")]
pub(crate) struct Panicked(String);

#[derive(Default)]
pub(super) struct Tasks {
    running: JoinSet<Option<KeeperMessage>>,
    /// Those that were not aborted.
    known: HashMap<Id, (KeeperTask, AbortHandle)>,
}

impl Tasks {
    /// Starts a task. Its keeper gets the message that it returns.
    pub(super) fn spawn(
        &mut self,
        kind: TaskKind,
        generation: Option<Generation>,
        work: impl Future<Output = Option<KeeperMessage>> + Send + 'static,
    ) {
        let handle = self.running.spawn(work);
        let task = KeeperTask { kind, generation };
        self.known.insert(handle.id(), (task, handle));
    }

    /// Ends all tasks of this kind.
    pub(super) fn abort(&mut self, kind: TaskKind) {
        self.abort_if(|task| task.kind == kind);
    }

    /// Ends the task that owns this connection. The drop of what it owns ends the connection and kills its process.
    pub(super) fn abort_connection(&mut self, generation: Generation) {
        self.abort_if(|task| task.kind == TaskKind::Connection && task.generation == Some(generation));
    }

    pub(super) fn abort_all(&mut self) {
        self.abort_if(|_| true);
    }

    /// Ends all tasks, and waits until what they hold is dropped.
    pub(super) async fn shutdown(&mut self) {
        self.abort_all();
        self.running.shutdown().await;
    }

    /// The message of the next task that ends. Waits for ever while none runs.
    ///
    /// Cancel safety: safe.
    pub(super) async fn next_end(&mut self) -> KeeperMessage {
        while let Some(end) = self.running.join_next_with_id().await {
            match end {
                Ok((id, message)) => {
                    if let (Some(_), Some(message)) = (self.known.remove(&id), message) {
                        return message;
                    }
                }
                Err(error) => {
                    let known = self.known.remove(&error.id());
                    if let (Some((task, _)), Ok(panic)) = (known, error.try_into_panic()) {
                        return KeeperMessage::Panicked(task, Panicked::of(&*panic));
                    }
                }
            }
        }
        pending().await
    }

    fn abort_if(&mut self, is_meant: impl Fn(&KeeperTask) -> bool) {
        self.known.retain(|_, (task, handle)| {
            let is_meant = is_meant(task);
            if is_meant {
                handle.abort();
            }
            !is_meant
        });
    }
}

impl Panicked {
    fn of(panic: &(dyn Any + Send)) -> Self {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("without a message");
        Self(PlainText::line(message).cut(PANIC_MESSAGE_LIMIT).into_string())
    }
}

impl Keeper {
    /// Tries the address of an unreachable server as long as the machine waits for it. The longer the server has been
    /// unreachable, the less often.
    pub(super) fn watch_reachability(&mut self) {
        let unreachable = self.machine.unreachable();
        if self.watched_unreachable == unreachable {
            return;
        }
        self.watched_unreachable = unreachable;
        self.tasks.abort(TaskKind::ReachabilityWatch);
        let Some(generation) = unreachable else {
            return;
        };
        let since = *self.unreachable_since.get_or_insert_with(Instant::now);
        let settings = self.slot.settings.load();
        let probe = match settings.target() {
            // The dial reports an endpoint that cannot be made.
            Target::Http(target) => settings.endpoint(target).ok().and_then(Endpoint::port_probe),
            Target::Stdio(_) | Target::Custom(_) | Target::Unusable(_) => None,
        };
        // Without an address to try, the machine's pause ends by itself.
        if let Some(probe) = probe {
            self.tasks
                .spawn(TaskKind::ReachabilityWatch, Some(generation), async move {
                    probe.wait_until_reachable(since).await;
                    Some(KeeperMessage::Report(Report::Reachable(generation)))
                });
        }
    }

    /// Waits for another credential while the server asks for a login, and for the end of the credential while the server
    /// is connected.
    pub(super) fn watch_login(&mut self) {
        self.tasks.abort(TaskKind::LoginWatch);
        let is_connected = match self.machine.state() {
            State::Disconnected(DisconnectReason::AuthRequired | DisconnectReason::CredentialRefused(_)) => {
                false
            }
            State::Connected(_) => true,
            State::Disconnected(
                DisconnectReason::Idle | DisconnectReason::Lost(_) | DisconnectReason::BudgetSpent(..),
            )
            | State::Disabled
            | State::Connecting { .. }
            | State::Disabling
            | State::PermanentlyFailed => return,
        };
        let settings = self.slot.settings.load();
        let Target::Http(target) = settings.target() else {
            return;
        };
        // The credentials that the requests used.
        let credentials = settings.endpoint(target).ok().and_then(Endpoint::credentials);
        if let Some(credentials) = credentials {
            self.tasks.spawn(TaskKind::LoginWatch, None, async move {
                let command = if is_connected {
                    credentials.withdrawn().await;
                    ServerCommand::Logout
                } else {
                    credentials.changed().await;
                    ServerCommand::Login
                };
                Some(KeeperMessage::Command(command))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mainstay_lifecycle::Generation;
    use tokio::time::{sleep, timeout};

    use super::{KeeperTask, TaskKind, Tasks};
    use crate::keeper::inbox::KeeperMessage;

    #[tokio::test]
    async fn a_task_ends_with_its_message_or_with_its_panic_and_an_aborted_one_with_nothing() {
        let mut tasks = Tasks::default();
        tasks.spawn(TaskKind::Listing, None, async { Some(KeeperMessage::Deadline) });
        tasks.abort(TaskKind::Listing);
        tasks.spawn(TaskKind::Probe, None, async { None });
        tasks.spawn(TaskKind::LoginWatch, None, async { Some(KeeperMessage::Shown) });
        assert!(matches!(tasks.next_end().await, KeeperMessage::Shown));
        tasks.spawn(TaskKind::Probe, Some(Generation(7)), async { panic!("asked to") });
        let KeeperMessage::Panicked(task, panicked) = tasks.next_end().await else {
            panic!("another message");
        };
        let probe = KeeperTask {
            kind: TaskKind::Probe,
            generation: Some(Generation(7)),
        };
        assert_eq!(task, probe);
        assert_eq!(panicked.to_string(), "its task panicked: asked to");
        assert!(tasks.known.is_empty(), "nothing is remembered of what has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_connection_ends_no_other_task() {
        let mut tasks = Tasks::default();
        let kept = [
            (TaskKind::Connection, Some(Generation(8))),
            (TaskKind::Listing, Some(Generation(7))),
        ];
        for (kind, generation) in kept {
            tasks.spawn(kind, generation, async { Some(KeeperMessage::Deadline) });
        }
        tasks.spawn(TaskKind::Connection, Some(Generation(7)), async {
            Some(KeeperMessage::Shown)
        });
        tasks.abort_connection(Generation(7));
        for _ in kept {
            let end = timeout(Duration::from_secs(60), tasks.next_end()).await;
            assert!(matches!(end, Ok(KeeperMessage::Deadline)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_are_aborted_end_and_send_nothing() {
        let mut tasks = Tasks::default();
        for kind in [TaskKind::Listing, TaskKind::Probe] {
            tasks.spawn(kind, None, async {
                sleep(Duration::from_secs(1)).await;
                Some(KeeperMessage::Deadline)
            });
        }
        tasks.abort_all();
        let ended = timeout(Duration::from_secs(60), tasks.next_end()).await;
        assert!(ended.is_err(), "no message comes");
        assert!(tasks.running.is_empty());
    }
}
