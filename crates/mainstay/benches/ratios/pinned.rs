//! One processor for both sides of a call.
//!
//! Where two processes talk over pipes, most of the time goes to whichever processor wakes up for the other, and two
//! pairs of them are rarely placed alike. On one processor what is left is the work itself, which is what is compared.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This thread, and the processes it starts, on one processor until dropped.
pub(crate) struct Pinned(CpuSet);

impl Pinned {
    pub(crate) fn to_one() -> rustix::io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        // The last one: the first is where most systems handle their interrupts.
        if let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|&cpu| before.is_set(cpu)) {
            one.set(last);
        }
        sched_setaffinity(None, &one)?;
        Ok(Self(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A thread that stays on one processor only makes the figures that follow slower.
        let _ = sched_setaffinity(None, &self.0);
    }
}
