//! One scan of all processes for every stop that wants one.
//!
//! To see what is left of a tree takes the environment of every process on the machine. With as many scans as stops, the
//! end of many servers would take the square of their number. So all stops that ask while a scan runs share the next one.
//! A scan serves only stops that asked before it began, since it may miss what was started later.
//!
//! The memory and processor time of trees are read from the same scan, when a person asks and never on a timer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::marker;
use super::scan::{self, EnvironSearch};
use crate::lack::Lack;
use crate::lock::Lock;

/// The running processes of all trees of this program, and the groups of all processes that it may look at.
#[derive(Default)]
pub(super) struct ProcessScan {
    by_marker: HashMap<String, Vec<Pid>>,
    by_group: HashMap<i32, Vec<Pid>>,
}

impl ProcessScan {
    /// Those that carry the marker with this number.
    pub(super) fn marked(&self, number: &str) -> &[Pid] {
        self.by_marker.get(number).map_or(&[], Vec::as_slice)
    }

    /// Those in this group, without processes whose environment may not be read. Those are almost surely another user's, and
    /// could not be signalled either.
    pub(super) fn in_group(&self, group: Pid) -> &[Pid] {
        let group = group.as_raw_nonzero().get();
        self.by_group.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Looks at all processes; `None` where this machine lacks something for it.
    fn scan() -> Option<Self> {
        let mut found = Self::default();
        let mut search = EnvironSearch::new(&marker::prefix());
        for pid in scan::processes().ok()? {
            let number = match search.value_of(pid) {
                Ok(number) => number,
                Err(error) if Lack::of(&error).is_some() => return None,
                Err(_) => continue,
            };
            if let Some(number) = number {
                found.by_marker.entry(number).or_default().push(pid);
            }
            if let Some(group) = scan::group_of(pid) {
                found.by_group.entry(group).or_default().push(pid);
            }
        }
        Some(found)
    }
}

/// Hands a scan to a stop that waits for it.
type ScanCallback = Box<dyn FnOnce(&Arc<ProcessScan>) + Send>;

static SCANNER: Lock<Scanner> = Lock::new(Scanner {
    is_scanning: false,
    waiting: Vec::new(),
});

struct Scanner {
    /// A thread scans, and goes on as long as a stop waits.
    is_scanning: bool,
    waiting: Vec<ScanCallback>,
}

/// Asks for a scan. The caller must make it if it gets a [`ScanLeader`]; otherwise another thread does.
fn ask(waiting: ScanCallback) -> Option<ScanLeader> {
    let mut scanner = SCANNER.lock();
    scanner.waiting.push(waiting);
    let is_first = !std::mem::replace(&mut scanner.is_scanning, true);
    drop(scanner);
    is_first.then(|| ScanLeader)
}

/// The pause after a scan, as a multiple of its duration. The more processes there are, the more stops share a scan, and scans
/// never take more than a third of a processor.
const INTERVAL_FACTOR: u32 = 2;

/// The longest pause between two scans: no stop waits much longer for it than for the end of a process.
const LONGEST_INTERVAL: Duration = Duration::from_millis(50);

/// Scans for all stops that wait. If a runtime that shuts down drops it, their scans have failed.
pub(super) struct ScanLeader;

impl ScanLeader {
    fn scan_for_all(self) {
        let mut pause = Duration::ZERO;
        loop {
            let is_awaited = !SCANNER.lock().waiting.is_empty();
            if is_awaited {
                std::thread::sleep(pause);
            }
            let waiting = {
                let mut scanner = SCANNER.lock();
                if scanner.waiting.is_empty() {
                    // Under the same lock as the look: a stop that asks later gets the duty.
                    return self.end(&mut scanner);
                }
                std::mem::take(&mut scanner.waiting)
            };
            let began = Instant::now();
            let found = ProcessScan::scan().map(Arc::new);
            pause = LONGEST_INTERVAL.min(began.elapsed() * INTERVAL_FACTOR);
            let Some(found) = found else {
                // The drop says that the scan failed.
                drop(waiting);
                continue;
            };
            for hand_over in waiting {
                hand_over(&found);
            }
        }
    }

    fn end(self, scanner: &mut Scanner) {
        scanner.is_scanning = false;
        std::mem::forget(self);
    }
}

impl Drop for ScanLeader {
    fn drop(&mut self) {
        let mut scanner = SCANNER.lock();
        scanner.is_scanning = false;
        let dismissed = std::mem::take(&mut scanner.waiting);
        drop(scanner);
        drop(dismissed);
    }
}

/// A scan that begins after this call, off the runtime's threads; `None` if it failed.
///
/// Cancel safety: safe.
pub(super) async fn look() -> Option<Arc<ProcessScan>> {
    let (sender, found) = oneshot::channel();
    let duty = ask(Box::new(move |found| {
        // The stop may have been dropped meanwhile.
        let _ = sender.send(Arc::clone(found));
    }));
    if let Some(duty) = duty {
        spawn_blocking(move || duty.scan_for_all());
    }
    found.await.ok()
}

/// How long a thread waits for another's scan before it makes its own: many times what two scans take.
const SHARED_SCAN_TIMEOUT: Duration = Duration::from_millis(250);

/// A scan that begins after this call. Blocks the thread.
pub(super) fn look_now() -> Arc<ProcessScan> {
    let (sender, found) = sync_channel(1);
    let duty = ask(Box::new(move |found| {
        let _ = sender.send(Arc::clone(found));
    }));
    if let Some(duty) = duty {
        duty.scan_for_all();
    }
    let found = found.recv_timeout(SHARED_SCAN_TIMEOUT);
    found.unwrap_or_else(|_| Arc::new(ProcessScan::scan().unwrap_or_default()))
}

/// Holds up the scans of this process until the returned value is dropped, but for those of threads that waited
/// [`SHARED_SCAN_TIMEOUT`].
#[cfg(test)]
pub(super) async fn hold_scans() -> ScanLeader {
    loop {
        if let Some(duty) = ask(Box::new(|_| {})) {
            return duty;
        }
        tokio::task::yield_now().await;
    }
}

/// What the processes of one server use, with everything that they started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeUsage {
    /// How many processes run.
    pub processes: usize,
    /// Their resident memory, in bytes. Pages that two of them share count twice.
    pub resident_bytes: u64,
    /// The processor time that they have used, and their children that have ended.
    pub cpu_time: Duration,
}

/// What the trees of these processes use, in the same order. `None` for a process that has ended, and everywhere on systems
/// without `/proc`.
///
/// It looks at every process of this machine once, off the runtime's threads, however many trees are asked for: 10 to 25 µs
/// for each process. Calls at the same time share that look.
///
/// Cancel safety: dropping it changes nothing.
pub async fn tree_usage(leaders: &[i32]) -> Vec<Option<TreeUsage>> {
    let none = || vec![None; leaders.len()];
    if leaders.is_empty() {
        return Vec::new();
    }
    let Some(found) = look().await else {
        return none();
    };
    let wanted = leaders.to_vec();
    let read = spawn_blocking(move || {
        let mut search = EnvironSearch::new(&marker::prefix());
        let usage = |leader| usage_of(Pid::from_raw(leader)?, &found, &mut search);
        wanted.into_iter().map(usage).collect()
    });
    read.await.unwrap_or_else(|_| none())
}

fn usage_of(leader: Pid, found: &ProcessScan, search: &mut EnvironSearch) -> Option<TreeUsage> {
    scan::stat(leader)?;
    // A leader that hides its environment is counted with its group.
    let number = search.value_of(leader).ok().flatten();
    let marked = number.as_deref().map_or(&[][..], |number| found.marked(number));
    let tree: HashSet<Pid> = marked
        .iter()
        .chain(found.in_group(leader))
        .copied()
        .chain([leader])
        .collect();
    let page_size = rustix::param::page_size() as u64;
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let mut usage = TreeUsage::default();
    let mut ticks = 0;
    for stat in tree.into_iter().filter_map(scan::stat) {
        usage.processes += 1;
        usage.resident_bytes += stat.resident_pages.saturating_mul(page_size);
        ticks += stat.ticks;
    }
    let millis = u128::from(ticks) * 1000 / u128::from(ticks_per_second);
    usage.cpu_time = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
    Some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_ask_while_a_scan_runs_share_the_next_one() {
        let duty = hold_scans().await;
        let mut looks: Vec<_> = (0..100).map(|_| tokio::spawn(look())).collect();
        while SCANNER.lock().waiting.len() < 101 {
            tokio::task::yield_now().await;
        }
        spawn_blocking(move || duty.scan_for_all());
        let first = looks.pop().expect("a hundred").await.expect("no panic");
        let first = first.expect("a scan");
        for look in looks {
            let found = look.await.expect("no panic").expect("a scan");
            assert!(Arc::ptr_eq(&found, &first), "one scan serves all");
        }
        let next = look().await.expect("a scan");
        assert!(
            !Arc::ptr_eq(&next, &first),
            "a scan serves nobody who asks after it began"
        );
    }

    #[tokio::test]
    async fn a_scan_that_is_never_made_fails_for_those_who_wait_and_not_for_the_next() {
        let duty = hold_scans().await;
        let waits = tokio::spawn(look());
        while SCANNER.lock().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(duty);
        assert!(waits.await.expect("no panic").is_none());
        let own = i32::try_from(std::process::id()).expect("a number");
        let own = Pid::from_raw(own).expect("not zero");
        let found = look_now();
        let group = scan::group_of(own).and_then(Pid::from_raw).expect("its group");
        assert!(found.in_group(group).contains(&own));
    }

    #[tokio::test]
    async fn the_usage_of_this_program_is_seen_and_that_of_a_process_that_ended_is_not() {
        let own = i32::try_from(std::process::id()).expect("a number");
        let mut ended = std::process::Command::new("true").spawn().expect("a process");
        let ended_pid = i32::try_from(ended.id()).expect("a number");
        ended.wait().expect("it ends");
        let usage = tree_usage(&[own, ended_pid, 0]).await;
        let [Some(own), None, None] = usage[..] else {
            panic!("{usage:?}");
        };
        assert!(own.processes >= 1);
        assert!(own.resident_bytes > 1024 * 1024, "{own:?}");
    }
}
