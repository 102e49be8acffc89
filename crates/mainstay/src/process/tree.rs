//! A leader and everything that descends from it.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use super::leader::Leader;
use super::marker::{self, Marker};
use super::scan::{self, EnvironSearch};
use super::sightings::{self, Sightings};

pub(super) struct Tree {
    pub(super) leader: Leader,
    pub(super) marker: Marker,
}

/// How often [`Tree::kill_now`] looks again, and how long it waits between.
const KILL_NOW_LIMIT: u32 = 25;
const KILL_NOW_INTERVAL: Duration = Duration::from_millis(2);

impl Tree {
    /// Every running process of the tree but the leader: those with the marker, and those in the group.
    pub(super) fn others(&self, sightings: &Sightings) -> HashSet<Pid> {
        let leader = self.leader.pid();
        let group = if self.leader.group_is_ours() {
            sightings.in_group(leader)
        } else {
            &[]
        };
        let marked = sightings.marked(self.marker.number());
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
            let others = self.others(&sightings::look_now());
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
