//! One scan of all processes for every stop that wants one.
//!
//! To see who is left of a tree takes the environment of every process on the machine. With as many scans as stops, the end of
//! many servers would take the square of their number. So whoever wants a scan while one runs shares the next with all others
//! who do: a scan serves only those who asked before it began, since what was started later it may have missed.

use std::collections::HashMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::marker;
use super::scan::{self, Search};
use crate::lack::Lack;

/// The running processes of all trees of this program, and the groups of all processes that it may look at.
#[derive(Default)]
pub(super) struct Sightings {
    by_marker: HashMap<String, Vec<Pid>>,
    by_group: HashMap<i32, Vec<Pid>>,
}

impl Sightings {
    /// Those that carry the marker with this number.
    pub(super) fn marked(&self, number: &str) -> &[Pid] {
        self.by_marker.get(number).map_or(&[], Vec::as_slice)
    }

    /// Those in this group. Processes whose environment may not be read are left out: almost surely another user's, whom we
    /// could not signal either; half of all processes are.
    pub(super) fn in_group(&self, group: Pid) -> &[Pid] {
        let group = group.as_raw_nonzero().get();
        self.by_group.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Looks at all processes; `None` where this machine lacks something for it, and nothing is known of anybody.
    fn scan() -> Option<Self> {
        let mut sightings = Self::default();
        let mut search = Search::new(&marker::prefix());
        for pid in scan::processes().ok()? {
            let number = match search.value_of(pid) {
                Ok(number) => number,
                Err(error) if Lack::of(&error).is_some() => return None,
                Err(_) => continue,
            };
            if let Some(number) = number {
                sightings.by_marker.entry(number).or_default().push(pid);
            }
            if let Some(group) = scan::group_of(pid) {
                sightings.by_group.entry(group).or_default().push(pid);
            }
        }
        Some(sightings)
    }
}

/// Who waits for a scan, and how it is handed over.
type Waiting = Box<dyn FnOnce(&Arc<Sightings>) + Send>;

static LOOKOUT: Mutex<Lookout> = Mutex::new(Lookout {
    is_manned: false,
    waiting: Vec::new(),
});

struct Lookout {
    /// Somebody scans, and goes on as long as somebody waits.
    is_manned: bool,
    waiting: Vec<Waiting>,
}

fn lookout() -> MutexGuard<'static, Lookout> {
    LOOKOUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for a scan; returns the duty to make it, if nobody else has that.
fn ask(waiting: Waiting) -> Option<Duty> {
    let mut lookout = lookout();
    lookout.waiting.push(waiting);
    let is_first = !std::mem::replace(&mut lookout.is_manned, true);
    drop(lookout);
    is_first.then(|| Duty)
}

/// The duty to scan for all who wait. Dropped undone, by a runtime that is shutting down, those who wait learn it.
struct Duty;

impl Duty {
    fn fulfil(self) {
        loop {
            let waiting = {
                let mut lookout = lookout();
                if lookout.waiting.is_empty() {
                    // Under the same lock as the look: who asks after it has a duty of his own.
                    return self.end(&mut lookout);
                }
                std::mem::take(&mut lookout.waiting)
            };
            let Some(sightings) = Sightings::scan().map(Arc::new) else {
                // Dropped, they say that nothing was seen.
                drop(waiting);
                continue;
            };
            for hand_over in waiting {
                hand_over(&sightings);
            }
        }
    }

    fn end(self, lookout: &mut Lookout) {
        lookout.is_manned = false;
        std::mem::forget(self);
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        let mut lookout = lookout();
        lookout.is_manned = false;
        let dismissed = std::mem::take(&mut lookout.waiting);
        drop(lookout);
        drop(dismissed);
    }
}

/// A scan that begins after this call, off the runtime's threads; `None` if it failed.
///
/// Cancel safety: safe.
pub(super) async fn look() -> Option<Arc<Sightings>> {
    let (sender, sightings) = oneshot::channel();
    let duty = ask(Box::new(move |sightings| {
        // Who left meanwhile has no use for it.
        let _ = sender.send(Arc::clone(sightings));
    }));
    if let Some(duty) = duty {
        spawn_blocking(move || duty.fulfil());
    }
    sightings.await.ok()
}

/// How long a thread waits for another's scan before it makes its own: many times what two scans take.
const PATIENCE: Duration = Duration::from_millis(250);

/// A scan that begins after this call. Blocks the thread.
pub(super) fn look_now() -> Arc<Sightings> {
    let (sender, sightings) = sync_channel(1);
    let duty = ask(Box::new(move |sightings| {
        let _ = sender.send(Arc::clone(sightings));
    }));
    if let Some(duty) = duty {
        duty.fulfil();
    }
    let sightings = sightings.recv_timeout(PATIENCE);
    sightings.unwrap_or_else(|_| Arc::new(Sightings::scan().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_asks_while_a_scan_runs_shares_the_next_one() {
        // The duty is held here, so nobody scans until all have asked.
        let duty = loop {
            if let Some(duty) = ask(Box::new(|_| {})) {
                break duty;
            }
            tokio::task::yield_now().await;
        };
        let mut looks: Vec<_> = (0..100).map(|_| tokio::spawn(look())).collect();
        while lookout().waiting.len() < 101 {
            tokio::task::yield_now().await;
        }
        spawn_blocking(move || duty.fulfil());
        let first = looks.pop().expect("a hundred").await.expect("no panic");
        let first = first.expect("a scan");
        for look in looks {
            let sightings = look.await.expect("no panic").expect("a scan");
            assert!(Arc::ptr_eq(&sightings, &first), "one scan serves all");
        }
        let next = look().await.expect("a scan");
        assert!(
            !Arc::ptr_eq(&next, &first),
            "a scan serves nobody who asks after it began"
        );
    }

    #[tokio::test]
    async fn a_scan_that_is_never_made_is_said_to_those_who_wait_and_keeps_none_from_the_next() {
        let duty = loop {
            if let Some(duty) = ask(Box::new(|_| {})) {
                break duty;
            }
            tokio::task::yield_now().await;
        };
        let waits = tokio::spawn(look());
        while lookout().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(duty);
        assert!(waits.await.expect("no panic").is_none());
        let own = i32::try_from(std::process::id()).expect("a number");
        let own = Pid::from_raw(own).expect("not zero");
        let sightings = look_now();
        let group = scan::group_of(own).and_then(Pid::from_raw).expect("its group");
        assert!(sightings.in_group(group).contains(&own));
    }
}
