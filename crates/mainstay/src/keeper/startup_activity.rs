//! The activity of a server that starts: what it writes to stderr, and what its process tree does.
//!
//! An installer on a cold cache may write nothing for minutes while it works. So Mainstay looks at its processes, once a
//! second and only while the server starts. The status shows what they do.

use std::sync::Arc;
use std::time::Duration;

use mainstay_lifecycle::Generation;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use super::dial::Dial;
use super::start_queue::{PERMIT_TIMEOUT, StartPermit};
use crate::process::{Activity, InputGauge, Observer, Process};
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
                    before @ (StartStage::Waiting | StartStage::Installing | StartStage::Starting) => before,
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
