//! What `/proc` tells a test: which processes are left, which are zombies, which descriptors are open.

use std::fs;
use std::path::Path;
use std::process;
use std::time::Duration;

use crate::poll;

/// All processes that were started with `KEY=VALUE` in their environment, wherever they fled to.
#[derive(Clone, Debug)]
pub struct ProcTree {
    entry: Vec<u8>,
}

impl ProcTree {
    /// The tree marked by this entry.
    #[must_use]
    pub fn marked(key: &str, value: &str) -> Self {
        Self {
            entry: format!("{key}={value}").into_bytes(),
        }
    }

    /// The ids of its processes that are alive. Zombies have no environment and are not among them.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        all_pids().into_iter().filter(|&pid| self.holds(pid)).collect()
    }

    /// Waits until none is left; `false` when `limit` has passed first. Blocks the thread.
    #[must_use]
    pub fn wait_until_gone(&self, limit: Duration) -> bool {
        poll::comes_true(limit, || self.pids().is_empty())
    }

    /// As [`ProcTree::wait_until_gone`], without blocking the thread.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn wait_until_gone_async(&self, limit: Duration) -> bool {
        poll::comes_true_async(limit, || self.pids().is_empty()).await
    }

    /// Whether this process is one of the tree: a number that was reused is not.
    #[must_use]
    pub fn holds(&self, pid: i32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|&byte| byte == 0)
            .any(|entry| entry == self.entry)
    }
}

/// Whether this process exists and is no zombie.
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Whether this process is stopped, as by SIGSTOP.
#[must_use]
pub fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'T')
}

/// Our own children that have ended and were not reaped.
#[must_use]
pub fn zombie_children() -> Vec<i32> {
    zombies_of(i32::try_from(process::id()).expect("a process id fits"))
}

/// The children of a process that have ended and were not reaped.
#[must_use]
pub fn zombies_of(parent: i32) -> Vec<i32> {
    let is_zombie = |&pid: &i32| stat(pid).is_some_and(|stat| stat.parent == parent && stat.state == 'Z');
    all_pids().into_iter().filter(is_zombie).collect()
}

/// How many descriptors another process has open.
#[must_use]
pub fn descriptors_of(pid: i32) -> usize {
    entries(&format!("/proc/{pid}/fd"))
}

/// How many threads a process has.
#[must_use]
pub fn threads_of(pid: i32) -> usize {
    entries(&format!("/proc/{pid}/task"))
}

/// How many descriptors this process has open.
#[must_use]
pub fn open_descriptors() -> usize {
    // Reading the directory holds one open.
    entries("/proc/self/fd").saturating_sub(1)
}

/// What each descriptor of this process is open for: a path, a pipe, a socket.
#[must_use]
pub fn descriptors() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    // The one that reads the directory is closed when it is looked at.
    entries
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .map(|open| open.display().to_string())
        .filter(|open| !open.ends_with("/fd"))
        .collect()
}

/// How much memory this process holds.
#[must_use]
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    });
    kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1024)
}

fn entries(directory: &str) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

/// The group of a process. Read from `/proc`, because rustix panics when the leader is outside this pid namespace: its id is 0 here.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn group_of(pid: i32) -> i32 {
    stat(pid).expect("the process runs").group
}

/// The session of a process, read as [`group_of`] reads the group.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn session_of(pid: i32) -> i32 {
    stat(pid).expect("the process runs").session
}

struct Stat {
    state: char,
    parent: i32,
    group: i32,
    session: i32,
}

/// The name is in parentheses and may contain anything, so the fields are counted from the last one.
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    Some(Stat {
        state: fields.next()?.chars().next()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
    })
}

fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Ends its child even when the test fails.
    struct Sleeper(process::Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ended_already = self.0.kill();
            let _reaped_already = self.0.wait();
        }
    }

    #[track_caller]
    fn wait_for(shown: impl FnMut() -> bool) {
        assert!(poll::comes_true(poll::LIMIT, shown), "/proc shows it in time");
    }

    #[test]
    fn a_marked_process_is_found_until_it_is_dead_and_a_zombie_until_it_is_reaped() {
        let mark = format!("procfs-{}", process::id());
        let child = Command::new("sleep")
            .arg("60")
            .env("TESTKIT_MARK", &mark)
            .spawn()
            .unwrap();
        let mut sleeper = Sleeper(child);
        let pid = i32::try_from(sleeper.0.id()).unwrap();
        let tree = ProcTree::marked("TESTKIT_MARK", &mark);
        // The kernel shows the new environment a moment after the spawn is done.
        wait_for(|| tree.holds(pid));
        assert_eq!(tree.pids(), [pid]);
        assert!(ProcTree::marked("TESTKIT_MARK", "procfs-").pids().is_empty());
        assert!(is_alive(pid));

        sleeper.0.kill().unwrap();
        assert!(tree.wait_until_gone(poll::LIMIT));
        // A process that ends loses its environment a moment before it is a zombie.
        wait_for(|| zombie_children().contains(&pid));
        assert!(!is_alive(pid));
        sleeper.0.wait().unwrap();
        assert!(!zombie_children().contains(&pid));
    }

    #[test]
    fn descriptors_and_memory_are_counted() {
        let before = open_descriptors();
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(open_descriptors() >= before + 40);
        drop(files);
        assert!(resident_bytes() > 100_000);
    }
}
