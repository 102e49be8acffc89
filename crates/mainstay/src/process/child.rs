//! One running server process, from the start of its leader to the end of its tree.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Child;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::ProcessExit;
use super::activity::Observer;
use super::guardian;
use super::leader::Leader;
use super::marker::Marker;
use super::stderr::Drain;
use super::tree::Tree;

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
