//! One running server process, from the start of its leader to the end of its tree.

use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::watch;

use super::Exit;
use super::activity::Observer;
use super::guardian;
use super::leader::Leader;
use super::marker::Marker;
use super::stderr::Drain;
use super::tree::Tree;

/// The process tree of one generation.
///
/// Dropping it kills the tree at once, without mercy, and blocks the thread for the moment that takes (a few
/// milliseconds; 50 at most). [`Process::stop`] is the civil way.
pub(crate) struct Process {
    pub(super) tree: Arc<Tree>,
    pub(super) drain: Drain,
    /// Set when a stop has come to its end and nothing is left to kill.
    pub(super) cleared: bool,
    exit: watch::Receiver<Option<Exit>>,
    watched: Option<guardian::Watched>,
}

/// How long [`Process::last_words`] waits for the rest of stderr: enough to read a full pipe, too short to be felt.
const LAST_WORDS: Duration = Duration::from_millis(50);

impl Process {
    pub(super) fn new(child: Child, pid: rustix::process::Pid, marker: Marker, drain: Drain) -> Self {
        let watched = Some(guardian::watch(pid));
        let tree = Arc::new(Tree {
            leader: Leader::new(child, pid),
            marker,
        });
        let (ended, exit) = watch::channel(None);
        let watcher = Arc::clone(&tree);
        // Ends with the leader, which neither outlives its `Process` nor the runtime.
        tokio::spawn(async move { ended.send_replace(Some(watcher.leader.exited().await)) });
        Self {
            tree,
            drain,
            cleared: false,
            exit,
            watched,
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

    /// Waits until the leader has ended, by whatever cause; for any number of waiters. The rest of its tree may live on
    /// until [`Process::stop`].
    ///
    /// Cancel safety: safe.
    pub(crate) async fn exited(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or(Exit::UNKNOWN),
            // The watching task is gone without a word: the runtime is shutting down.
            Err(_) => self.tree.leader.exit().unwrap_or(Exit::UNKNOWN),
        }
    }

    /// Waits, for 50 ms at most, until all that this tree wrote to stderr is in the ring. To be awaited between
    /// [`Process::exited`] and a look at the ring: the exit may be noticed before the last line is read.
    ///
    /// Cancel safety: safe.
    pub(crate) async fn last_words(&self) {
        // A descendant that holds the pipe open is the one reason for the wait to run out; it has its own stop.
        let _ = tokio::time::timeout(LAST_WORDS, self.drain.ended()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.cleared {
            self.tree.kill_now();
        }
        self.drain.abort();
        // The guardian forgets the group before the number is let go, so it never knows one that is not ours.
        self.watched.take();
        self.tree.leader.reap();
    }
}
