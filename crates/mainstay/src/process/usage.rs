//! How much memory and processor time the process trees of servers use. Read when a person asks, and never on a timer.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::Pid;

use super::marker;
use super::scan::{self, EnvironSearch};
use super::sightings::{self, Sightings};

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
    let Some(sightings) = sightings::look().await else {
        return none();
    };
    let wanted = leaders.to_vec();
    let read = tokio::task::spawn_blocking(move || {
        let mut search = EnvironSearch::new(&marker::prefix());
        let usage = |leader| usage_of(Pid::from_raw(leader)?, &sightings, &mut search);
        wanted.into_iter().map(usage).collect()
    });
    read.await.unwrap_or_else(|_| none())
}

fn usage_of(leader: Pid, sightings: &Sightings, search: &mut EnvironSearch) -> Option<TreeUsage> {
    scan::stat(leader)?;
    // A leader that hides its environment is counted with its group.
    let number = search.value_of(leader).ok().flatten();
    let marked = number
        .as_deref()
        .map_or(&[][..], |number| sightings.marked(number));
    let tree: HashSet<Pid> = marked
        .iter()
        .chain(sightings.in_group(leader))
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::tree_usage;

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
