//! The process tree of one connection, and its activity while the server starts.
//!
//! It outlives the dial that starts it. If the dial is given up while the process is being started, the stop waits for the
//! start and then ends the process, so that nothing runs, and nothing comes to run, once a connection is reported closed.
//! A server has one process tree at a time: each holds the server's only permit until nothing of it is left.
//!
//! The activity of a server that starts: what it writes to stderr, and what its process tree does.
//!
//! An installer on a cold cache may write nothing for minutes while it works. So Mainstay looks at its processes, once a
//! second and only while the server starts. The status shows what they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mainstay_lifecycle::Generation;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

use super::dial::Dial;
use super::start_queue::{PERMIT_TIMEOUT, StartPermit};
use crate::process::{
    self, Activity, InputGauge, Ladder, Observer, Process, ShutdownDeadline, SpawnError, Spawned, Spec,
    StderrRing, Stopped,
};
use crate::server::{Settings, Slot, StartProgress, StartStage};

/// From one look at the processes to the next.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// At least so many looks fall within a `startup_timeout`, however short it is.
const LOOKS_WITHIN_TIMEOUT: u32 = 4;

/// The soonest next look: the system counts processor time in steps of 10 ms.
const SHORTEST_LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long a program that has read its input may be inactive before the status says that it does not answer. Most servers
/// answer at once.
const UNANSWERED_GRACE: Duration = Duration::from_secs(5);

pub(super) struct StartupActivity {
    slot: Arc<Slot>,
    generation: Generation,
    /// How long the server may be inactive.
    limit: Duration,
    /// When the processes were last active.
    worked: Instant,
    /// Where there are processes to look at.
    observer: Option<Observer>,
    /// Where it can be seen what the server has read.
    input: Option<Arc<InputGauge>>,
    is_package_runner: bool,
    progress: StartProgress,
    /// Its permit to start, and until when it may keep it.
    permit: Option<(StartPermit, Instant)>,
}

impl StartupActivity {
    /// The start itself counts as activity.
    pub(super) fn new(
        dial: &Dial,
        settings: &Settings,
        process: Option<&Process>,
        input: Option<Arc<InputGauge>>,
        permit: Option<StartPermit>,
    ) -> Self {
        let progress = StartProgress::new(StartStage::Starting);
        dial.slot.inbox.progress(dial.generation, progress.clone());
        Self {
            slot: dial.slot.clone(),
            generation: dial.generation,
            limit: settings.startup_timeout(),
            worked: Instant::now(),
            observer: process.map(Process::observer),
            input,
            is_package_runner: settings.is_package_runner(),
            progress,
            permit: permit.map(|permit| (permit, Instant::now() + PERMIT_TIMEOUT)),
        }
    }

    /// The program that was at work at the last look.
    pub(super) fn program(&self) -> Option<&str> {
        self.progress.program.as_deref()
    }

    /// Waits until the server was inactive for its limit.
    ///
    /// Cancel safety: dropped during a look, it sees no more of the processes.
    pub(super) async fn ceases(&mut self) {
        let interval = (self.limit / LOOKS_WITHIN_TIMEOUT).clamp(SHORTEST_LOOK_INTERVAL, LOOK_INTERVAL);
        let mut next_look = Instant::now() + interval;
        loop {
            let due = self.last_activity_at() + self.limit;
            if due <= Instant::now() {
                return;
            }
            if self.observer.is_none() {
                sleep_until(due).await;
                continue;
            }
            self.permit.take_if(|(_, until)| *until <= Instant::now());
            // The last look comes at the limit: what was done since the one before still counts.
            sleep_until(next_look.min(due)).await;
            self.look().await;
            next_look = Instant::now() + interval;
        }
    }

    fn last_activity_at(&self) -> Instant {
        let wrote = self.slot.stderr.last_activity();
        wrote.map_or(self.worked, |wrote| wrote.max(self.worked))
    }

    /// Whether the server has read its input some time ago, and was inactive since.
    fn is_unanswered(&self) -> bool {
        let has_read = self.input.as_ref().is_some_and(|input| !input.has_unread());
        has_read && self.last_activity_at().elapsed() >= UNANSWERED_GRACE
    }

    async fn look(&mut self) {
        let Some(mut observer) = self.observer.take() else {
            return;
        };
        let looked = spawn_blocking(move || {
            let activity = observer.look();
            (observer, activity)
        });
        // If the look fails, only what the server writes counts.
        let Ok((observer, activity)) = looked.await else {
            return;
        };
        self.observer = Some(observer);
        if activity.is_busy {
            self.worked = Instant::now();
        } else {
            // A start that waits for something takes no processor time from the others.
            self.permit = None;
        }
        self.show(activity);
    }

    fn show(&mut self, activity: Activity) {
        let stage = if self.is_package_runner && activity.is_leader {
            StartStage::Installing
        } else {
            StartStage::Starting
        };
        let program = activity.program.filter(|_| activity.is_busy).map(Arc::from);
        let progress = StartProgress {
            stage: if self.is_unanswered() {
                StartStage::Unanswered
            } else if activity.is_busy {
                stage
            } else {
                match self.progress.stage {
                    StartStage::Unanswered => StartStage::Starting,
                    before @ (StartStage::Waiting
                    | StartStage::Installing
                    | StartStage::Starting
                    | StartStage::Listing) => before,
                }
            },
            program,
            since: self.progress.since,
        };
        if progress != self.progress {
            if progress.stage == StartStage::Unanswered {
                tracing::warn!(
                    server = %self.slot.name, generation = %self.generation,
                    "the server has read its input and does not answer; is it an MCP server on stdin and stdout?"
                );
            }
            self.slot.inbox.progress(self.generation, progress.clone());
            self.progress = progress;
        }
    }
}

/// Dropping it kills the process, or lets the start that is under way do so.
pub(super) struct ProcessTree {
    starting: Option<Starting>,
    process: Option<Process>,
    shutdown_deadline: ShutdownDeadline,
    permit: Arc<Semaphore>,
}

impl ProcessTree {
    /// No process yet. `permit` is the server's, for one tree at a time.
    pub(super) fn new(shutdown_deadline: ShutdownDeadline, permit: Arc<Semaphore>) -> Self {
        Self {
            starting: None,
            process: None,
            shutdown_deadline,
            permit,
        }
    }

    /// Starts the process, once nothing is left of the one before it.
    ///
    /// Cancel safety: dropped, the start goes on, and [`ProcessTree::stop`] ends the process.
    pub(super) async fn start(
        &mut self,
        spec: Spec,
        generation: u64,
        ring: Arc<StderrRing>,
    ) -> Result<(ChildStdin, ChildStdout), SpawnError> {
        let Ok(permit) = self.permit.clone().acquire_owned().await else {
            unreachable!("the semaphore is never closed");
        };
        let starting = Starting::begin(move || {
            let mut spawned = process::spawn(&spec, generation, &ring)?;
            spawned.process.hold_until_gone(permit);
            Ok(spawned)
        });
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

    /// Ends the tree, if there is one, and returns how it went. Waits for a start that is under way.
    ///
    /// Cancel safety: dropped, the process is killed.
    pub(super) async fn stop(&mut self, ladder: &Ladder) -> Option<Stopped> {
        if let Some(starting) = &mut self.starting {
            if starting.has_begun()
                && let Ok(Some(Ok(spawned))) = (&mut starting.task).await
            {
                // The drop of its pipes here is the first rung.
                self.process = Some(spawned.process);
            }
            self.starting = None;
        }
        Some(self.process.take()?.stop(ladder, &self.shutdown_deadline).await)
    }
}

/// The start of a process on a thread that may block: a start takes until the program is loaded.
struct Starting {
    task: JoinHandle<Option<Result<Spawned, SpawnError>>>,
    /// Set by the first of two: the start that begins, or the stop that keeps it from beginning.
    decided: Arc<AtomicBool>,
}

impl Starting {
    fn begin(spawn: impl FnOnce() -> Result<Spawned, SpawnError> + Send + 'static) -> Self {
        let decided = Arc::new(AtomicBool::new(false));
        let first = decided.clone();
        let task = spawn_blocking(move || (!first.swap(true, Ordering::Relaxed)).then(spawn));
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
    use mainstay_testkit::{FaultyServer, Ledger, clock, poll};
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = poll::LIMIT;

    fn spec(server: &FaultyServer) -> Spec {
        Spec {
            command: server.command().into(),
            args: server.args().into_iter().map(Into::into).collect(),
            base_env: None,
            env: std::collections::BTreeMap::new(),
            cwd: None,
            descriptors: None,
            redaction: Default::default(),
        }
    }

    fn tree_of(starting: Starting) -> ProcessTree {
        ProcessTree {
            starting: Some(starting),
            ..ProcessTree::new(ShutdownDeadline::default(), Arc::new(Semaphore::new(1)))
        }
    }

    #[tokio::test]
    async fn a_stop_waits_for_a_process_that_is_being_started_and_ends_it() {
        let ledger = Ledger::temporary();
        let spec = spec(&FaultyServer::new().ledger(&ledger));
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let starting = Starting::begin(move || {
            begin.send(()).expect("awaited");
            released.recv_timeout(SOON).expect("released");
            process::spawn(&spec, 1, &Arc::default())
        });
        let mut tree = tree_of(starting);
        begun.await.expect("begun");
        let ladder = Ladder::default();
        let mut stopping = std::pin::pin!(tree.stop(&ladder));
        assert!(
            clock::keeps_waiting(&mut stopping).await,
            "the process is still being started"
        );
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
            let mut tree = tree_of(starting());
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
