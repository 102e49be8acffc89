//! The process tree of one connection.
//!
//! It outlives the dial that starts it: a process that is on its way when the dial is given up is waited for and ended
//! like any other, so that nothing runs, and nothing comes to run, once a connection is reported closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use crate::process::{
    self, Ladder, Process, ShutdownDeadline, SpawnError, Spawned, Spec, StderrRing, Stopped,
};

/// Dropped, it ends what runs by force, and what is on its way as soon as it runs.
#[derive(Default)]
pub(super) struct Tree {
    starting: Option<Starting>,
    process: Option<Process>,
    shutdown_deadline: ShutdownDeadline,
}

impl Tree {
    /// Nothing yet. Whatever it comes to be is stopped as soon as the shutdown_deadline wants it.
    pub(super) fn new(shutdown_deadline: ShutdownDeadline) -> Self {
        Self {
            shutdown_deadline,
            ..Self::default()
        }
    }

    /// Starts the process.
    ///
    /// Cancel safety: dropped, the process stays on its way, and [`Tree::stop`] ends it.
    pub(super) async fn start(
        &mut self,
        spec: Spec,
        generation: u64,
        ring: Arc<StderrRing>,
    ) -> Result<(ChildStdin, ChildStdout), SpawnError> {
        let starting = Starting::begin(move || process::spawn(&spec, generation, &ring));
        let started = (&mut self.starting.insert(starting).task).await;
        self.starting = None;
        match started {
            Ok(Some(started)) => {
                let spawned = started?;
                self.process = Some(spawned.process);
                Ok((spawned.stdin, spawned.stdout))
            }
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The runtime is shutting down, and everything in it with it.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// The process, once it runs.
    pub(super) fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Ends the tree and says how it went, if there was one. What is on its way is waited for.
    ///
    /// Cancel safety: dropped, the tree is ended as it is when this is dropped.
    pub(super) async fn stop(&mut self, ladder: &Ladder) -> Option<Stopped> {
        if let Some(starting) = &mut self.starting {
            if starting.has_begun()
                && let Ok(Some(Ok(spawned))) = (&mut starting.task).await
            {
                // Its pipes close here, which is the first rung.
                self.process = Some(spawned.process);
            }
            self.starting = None;
        }
        Some(self.process.take()?.stop(ladder, &self.shutdown_deadline).await)
    }
}

/// The start of a process, away from the threads of the runtime: until its program is loaded, whoever starts it stands
/// still.
struct Starting {
    task: JoinHandle<Option<Result<Spawned, SpawnError>>>,
    /// Taken by whoever comes first: the start that begins, or the end that keeps it from beginning.
    decided: Arc<AtomicBool>,
}

impl Starting {
    fn begin(spawn: impl FnOnce() -> Result<Spawned, SpawnError> + Send + 'static) -> Self {
        let decided = Arc::new(AtomicBool::new(false));
        let first = decided.clone();
        let task = tokio::task::spawn_blocking(move || (!first.swap(true, Ordering::Relaxed)).then(spawn));
        Self { task, decided }
    }

    /// Whether it has begun; if not, it never does.
    fn has_begun(&self) -> bool {
        self.decided.swap(true, Ordering::Relaxed)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.has_begun();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use mainstay_testkit::procfs::is_alive;
    use mainstay_testkit::{FaultyServer, Ledger};
    use tokio::task::spawn_blocking;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    fn spec(server: &FaultyServer) -> Spec {
        Spec {
            command: server.command().into(),
            args: server.args().into_iter().map(Into::into).collect(),
            env: std::collections::BTreeMap::new(),
            cwd: None,
            redaction: Default::default(),
        }
    }

    #[tokio::test]
    async fn a_process_that_is_on_its_way_is_waited_for_and_ended() {
        let ledger = Ledger::temporary();
        let spec = spec(&FaultyServer::new().ledger(&ledger));
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let starting = Starting::begin(move || {
            begin.send(()).expect("awaited");
            released.recv_timeout(SOON).expect("released");
            process::spawn(&spec, 1, &Arc::default())
        });
        let mut tree = Tree {
            starting: Some(starting),
            ..Tree::default()
        };
        begun.await.expect("begun");
        let ladder = Ladder::default();
        let mut stopping = std::pin::pin!(tree.stop(&ladder));
        let early = timeout(Duration::from_millis(20), &mut stopping).await;
        assert!(early.is_err(), "the process is still on its way");
        release.send(()).expect("waits");
        let stopped = timeout(SOON, stopping).await.expect("in time");
        assert_eq!(stopped.map(|stopped| stopped.survivors), Some(0));
        assert!(ledger.pids().into_iter().all(|pid| !is_alive(pid)));
    }

    #[test]
    fn a_start_that_has_not_begun_when_it_is_given_up_never_begins() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (release, released) = mpsc::channel::<()>();
            let in_the_way = spawn_blocking(move || released.recv_timeout(SOON));
            let begun = Arc::new(AtomicBool::new(false));
            let starting = || {
                let begun = begun.clone();
                Starting::begin(move || {
                    begun.store(true, Ordering::Relaxed);
                    unreachable!("given up")
                })
            };
            drop(starting());
            let mut tree = Tree {
                starting: Some(starting()),
                ..Tree::default()
            };
            let stopped = timeout(SOON, tree.stop(&Ladder::default())).await;
            assert_eq!(stopped.expect("there is nothing to wait for"), None);

            release.send(()).expect("waits");
            in_the_way.await.expect("no panic").expect("released");
            // It comes after the two, where one comes after the other.
            spawn_blocking(|| ()).await.expect("no panic");
            assert!(!begun.load(Ordering::Relaxed));
        });
    }
}
