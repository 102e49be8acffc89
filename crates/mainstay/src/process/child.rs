//! One running server process, from the start of its leader to the end of its tree: everything that descends from the leader.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Child;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::activity::Observer;
use super::leader::Leader;
use super::marker::{self, Marker};
use super::scan::{self, EnvironSearch};
use super::shared_scan::{self, ProcessScan};
use super::stderr::Drain;
use super::{ProcessExit, guardian};

/// The process tree of one generation.
///
/// Dropping it kills the process group at once. A thread of its own then kills what left the group, and holds the permit
/// until nothing is left. [`Process::stop`] ends the tree in order.
pub(crate) struct Process {
    pub(super) tree: Arc<Tree>,
    pub(super) drain: Drain,
    exit: watch::Receiver<Option<ProcessExit>>,
    /// `None` only while this is dropped.
    remains: Option<TreeRemains>,
}

/// How long [`Process::drain_stderr`] waits: enough to read a full pipe, too short to be felt.
pub(super) const STDERR_GRACE: Duration = Duration::from_millis(50);

impl Process {
    pub(super) fn new(child: Child, pid: Pid, marker: Marker, drain: Drain) -> Self {
        let guarded = guardian::watch(pid);
        let tree = Arc::new(Tree {
            leader: Leader::new(child, pid),
            marker,
        });
        let (ended, exit) = watch::channel(None);
        let watcher = Arc::clone(&tree);
        // Ends with the leader, which outlives neither its `Process` nor the runtime.
        tokio::spawn(async move { ended.send_replace(Some(watcher.leader.exited().await)) });
        let remains = Some(TreeRemains {
            tree: Arc::clone(&tree),
            guarded: Some(guarded),
            permit: None,
            is_gone: false,
        });
        Self {
            tree,
            drain,
            exit,
            remains,
        }
    }

    /// Holds a permit until nothing of the tree is left.
    pub(crate) fn hold_until_gone(&mut self, permit: OwnedSemaphorePermit) {
        if let Some(remains) = &mut self.remains {
            remains.permit = Some(permit);
        }
    }

    /// Notes that a stop has ended the whole tree.
    pub(super) fn note_gone(&mut self) {
        if let Some(remains) = &mut self.remains {
            remains.is_gone = true;
        }
    }

    /// The number of the leader, which is also that of its group.
    pub(crate) fn pid(&self) -> i32 {
        self.tree.leader.pid().as_raw_nonzero().get()
    }

    /// What the processes of this tree carry as `MAINSTAY_TREE` in their environment.
    pub(crate) fn marker(&self) -> &str {
        self.tree.marker.as_str()
    }

    /// Looks at what the tree does, while its server starts.
    pub(crate) fn observer(&self) -> Observer {
        Observer::new(self.tree.leader.pid())
    }

    /// Waits until the leader has ended. The rest of its tree may live on until [`Process::stop`].
    ///
    /// Cancel safety: safe.
    pub(crate) async fn exited(&self) -> ProcessExit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(ProcessExit::UNKNOWN),
            // The watching task is gone: the runtime is shutting down.
            Err(_) => self.tree.leader.exit().unwrap_or(ProcessExit::UNKNOWN),
        }
    }

    /// Waits, for [`STDERR_GRACE`] at most, until the ring has all that this tree wrote to stderr. Call it between
    /// [`Process::exited`] and a look at the ring: the exit may be noticed before the last line is read.
    ///
    /// Cancel safety: safe.
    pub(crate) async fn drain_stderr(&self) {
        // The wait runs out only where a descendant holds the pipe open; the stop ends that one.
        let _ = tokio::time::timeout(STDERR_GRACE, self.drain.ended()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(remains) = self.remains.take() {
            if remains.is_gone {
                drop(remains);
            } else {
                self.tree.leader.signal_group(Signal::KILL);
                // Where no thread can be started, the closure is dropped here, and this thread does the work.
                let _ = Builder::new()
                    .name("mainstay-sweep".into())
                    .spawn(move || drop(remains));
            }
        }
        self.drain.abort();
    }
}

/// What is left of a process tree. Dropping it kills the rest and blocks the thread until that is done, for
/// [`Tree::kill_now`]'s time at most.
pub(super) struct TreeRemains {
    tree: Arc<Tree>,
    guarded: Option<guardian::GuardedGroup>,
    /// Held until nothing is left.
    permit: Option<OwnedSemaphorePermit>,
    is_gone: bool,
}

impl Drop for TreeRemains {
    fn drop(&mut self) {
        if !self.is_gone {
            self.tree.kill_now();
        }
        // The guardian forgets the group before its number is free, so it never knows a number that is not ours.
        self.guarded.take();
        self.tree.leader.reap();
    }
}

pub(super) struct Tree {
    pub(super) leader: Leader,
    pub(super) marker: Marker,
}

/// How often [`Tree::kill_now`] looks again, and how long it waits between.
const KILL_NOW_LIMIT: u32 = 25;
const KILL_NOW_INTERVAL: Duration = Duration::from_millis(2);

impl Tree {
    /// Every running process of the tree but the leader: those with the marker, and those in the group.
    pub(super) fn others(&self, found: &ProcessScan) -> HashSet<Pid> {
        let leader = self.leader.pid();
        let group = if self.leader.group_is_ours() {
            found.in_group(leader)
        } else {
            &[]
        };
        let marked = found.marked(self.marker.number());
        let all = marked.iter().chain(group).copied();
        all.filter(|&pid| pid != leader).collect()
    }

    /// Signals, one by one, those of `others` that a signal to the group does not reach.
    pub(super) fn signal_escaped(&self, others: &HashSet<Pid>, signal: Signal) {
        let group_is_ours = self.leader.group_is_ours();
        for &pid in others
            .iter()
            .filter(|&&pid| !(group_is_ours && self.in_group(pid)))
        {
            self.signal_one(pid, signal);
        }
    }

    /// Kills the whole tree and waits a moment for it to be gone. Blocks the thread, which is never one of the runtime.
    pub(super) fn kill_now(&self) {
        for _ in 0..KILL_NOW_LIMIT {
            self.leader.signal_group(Signal::KILL);
            let others = self.others(&shared_scan::look_now());
            self.signal_escaped(&others, Signal::KILL);
            if others.is_empty() && self.leader.exit().is_some() {
                return;
            }
            std::thread::sleep(KILL_NOW_INTERVAL);
        }
    }

    fn in_group(&self, pid: Pid) -> bool {
        scan::group_of(pid) == Some(self.leader.pid().as_raw_nonzero().get())
    }

    fn carries_marker(&self, pid: Pid) -> bool {
        let value = EnvironSearch::new(&marker::prefix()).value_of(pid).ok().flatten();
        value.is_some_and(|value| self.marker.is(&value))
    }

    /// The descriptor pins the process before its marker is read once more, so a number reused since the scan can
    /// only miss, never hit another program.
    #[cfg(target_os = "linux")]
    fn signal_one(&self, pid: Pid, signal: Signal) {
        use rustix::io::Errno;
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

        // A failure needs no answer: the next scan sees what is left.
        let _ = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pinned) if self.carries_marker(pid) => pidfd_send_signal(pinned, signal),
            // Kernels before 5.3, and sandboxes that forbid the call.
            Err(Errno::NOSYS | Errno::PERM) => return self.signal_unpinned(pid, signal),
            Ok(_) | Err(_) => Ok(()),
        };
    }

    #[cfg(not(target_os = "linux"))]
    fn signal_one(&self, pid: Pid, signal: Signal) {
        self.signal_unpinned(pid, signal);
    }

    /// Signals a process that cannot be pinned, if it belongs to this tree now. The start time is the same before and after
    /// the look at the marker, so that both are of the same process.
    pub(super) fn signal_unpinned(&self, pid: Pid, signal: Signal) {
        let started = || scan::stat(pid).map(|stat| stat.started);
        let before = started();
        if before.is_some() && self.carries_marker(pid) && started() == before {
            // It may be gone by now, which is as good.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}
