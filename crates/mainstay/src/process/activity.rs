//! What a process tree does while its server starts, also where it writes nothing.
//!
//! A look compares the tree with the look before. Processor time, bytes read or written, and processes that came or
//! went count as work; a process that merely exists does not. All trees that start share one scan of `/proc`. Without
//! `/proc`, no tree is ever seen at work, and only what it writes to stderr counts.
//!
//! Also whether the processes of a server are stopped.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tokio::process::ChildStdin;

use super::scan::{self, ProcStat};
use crate::PlainText;
use crate::lock::Lock;

/// The processor time between two looks that counts as work. A server that waits for its first message uses less.
const BUSY_TICKS_LIMIT: u64 = 2;

/// The bytes moved between two looks that count as work: more than a handshake without an answer.
const BUSY_BYTES_LIMIT: u64 = 4 * 1024;

/// How old a scan may be that serves another tree's look. Looks of one tree are further apart.
const CENSUS_AGE_LIMIT: Duration = Duration::from_millis(90);

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Whether the tree worked since the last look.
    pub(crate) is_busy: bool,
    /// The program that worked most, by the first word of its name.
    pub(crate) program: Option<String>,
    /// Whether that was the leader: of a package runner, the runner itself.
    pub(crate) is_leader: bool,
}

/// Looks at one tree again and again.
pub(crate) struct Observer {
    leader: i32,
    before: BTreeMap<(i32, u64), Usage>,
}

#[derive(Clone, Copy)]
struct Usage {
    ticks: u64,
    bytes: u64,
}

impl Observer {
    pub(super) fn new(leader: Pid) -> Self {
        Self {
            leader: leader.as_raw_nonzero().get(),
            before: BTreeMap::new(),
        }
    }

    /// What the tree did since the last look. Blocks while it reads `/proc`.
    pub(crate) fn look(&mut self) -> Activity {
        let census = Census::recent();
        let mut now = BTreeMap::new();
        let mut work = Usage { ticks: 0, bytes: 0 };
        let mut came = false;
        let mut most: Option<(Usage, i32, &str)> = None;
        for (pid, stat) in census.tree(self.leader) {
            let usage = Usage {
                ticks: stat.ticks,
                bytes: Pid::from_raw(pid).map_or(0, scan::bytes_moved),
            };
            let key = (pid, stat.started);
            now.insert(key, usage);
            let before = self.before.get(&key);
            came |= before.is_none();
            let before = before.copied().unwrap_or(Usage { ticks: 0, bytes: 0 });
            let done = Usage {
                ticks: usage.ticks.saturating_sub(before.ticks),
                bytes: usage.bytes.saturating_sub(before.bytes),
            };
            work.ticks += done.ticks;
            work.bytes += done.bytes;
            if most.is_none_or(|(most, ..)| (done.ticks, done.bytes) > (most.ticks, most.bytes)) {
                most = Some((done, pid, &stat.name));
            }
        }
        let went = self.before.keys().any(|known| !now.contains_key(known));
        self.before = now;
        let is_busy = came || went || work.ticks >= BUSY_TICKS_LIMIT || work.bytes >= BUSY_BYTES_LIMIT;
        Activity {
            is_busy,
            program: most.and_then(|(_, _, name)| program(name)),
            is_leader: most.is_some_and(|(_, pid, _)| pid == self.leader),
        }
    }
}

/// The program that a name stands for: npm calls itself "npm exec @scope/pa".
fn program(name: &str) -> Option<String> {
    let name = PlainText::line(name).into_string();
    name.split_whitespace().next().map(str::to_owned)
}

/// All processes at one moment.
struct Census {
    at: Instant,
    processes: BTreeMap<i32, ProcStat>,
}

impl Census {
    /// A scan that is not older than [`CENSUS_AGE_LIMIT`]; of several threads that want one, one scans.
    fn recent() -> Arc<Self> {
        static LATEST: Lock<Option<Arc<Census>>> = Lock::new(None);
        let mut latest = LATEST.lock();
        if let Some(census) = latest
            .as_ref()
            .filter(|census| census.at.elapsed() < CENSUS_AGE_LIMIT)
        {
            return Arc::clone(census);
        }
        let processes = scan::processes()
            .into_iter()
            .flatten()
            .filter_map(|pid| Some((pid.as_raw_nonzero().get(), scan::stat(pid)?)))
            .collect();
        let at = Instant::now();
        Arc::clone(latest.insert(Arc::new(Self { at, processes })))
    }

    /// The leader, its group, and all that descends from either.
    fn tree(&self, leader: i32) -> impl Iterator<Item = (i32, &ProcStat)> {
        self.processes
            .iter()
            .filter(move |(pid, stat)| self.descends(**pid, stat, leader))
            .map(|(pid, stat)| (*pid, stat))
    }

    fn descends(&self, pid: i32, stat: &ProcStat, leader: i32) -> bool {
        /// Deeper than any tree that installs something. A scan of moving processes may even show a loop.
        const DEPTH_LIMIT: usize = 64;
        let (mut pid, mut stat) = (pid, stat);
        for _ in 0..DEPTH_LIMIT {
            if pid == leader || stat.group == leader {
                return true;
            }
            let Some(parent) = self.processes.get(&stat.parent) else {
                return false;
            };
            (pid, stat) = (stat.parent, parent);
        }
        false
    }
}

/// Reports whether a child has read its input.
///
/// It holds the writing end of the pipe open, so the child sees the end of its input only after this is dropped, too.
pub(crate) struct InputGauge(Option<OwnedFd>);

impl InputGauge {
    /// Without a descriptor to spare, nothing is ever unread.
    pub(crate) fn of(input: &ChildStdin) -> Self {
        Self(input.as_fd().try_clone_to_owned().ok())
    }

    /// Whether written bytes are still in the pipe. Only Linux shows that at the writing end; elsewhere this is `false`.
    pub(crate) fn has_unread(&self) -> bool {
        if !cfg!(target_os = "linux") {
            return false;
        }
        let unread = self.0.as_ref().map(rustix::io::ioctl_fionread);
        matches!(unread, Some(Ok(bytes)) if bytes > 0)
    }
}

/// How many processes of a tree are looked at; a larger tree is taken not to be stopped.
const TREE_LIMIT: usize = 64;

/// Whether the process is stopped, as by SIGSTOP, or all that it waits for. A look at a process costs some ten microseconds.
///
/// A server that works on a call may be silent, use no processor and read no input: a tool that sleeps does just that. So
/// only what the system says counts: the state `T` of the process that was started, or of every leaf of its tree (a
/// package runner or a shell that waits for a stopped server). A process that a debugger stops (`t`) works for that
/// debugger. Without `/proc`, nothing is ever seen to be stopped.
pub(crate) fn is_stopped(leader: i32) -> bool {
    let Some(leader) = Pid::from_raw(leader) else {
        return false;
    };
    if scan::stat(leader).is_some_and(|stat| stat.is_stopped()) {
        return true;
    }
    let mut found = vec![leader];
    let mut looked_at = 0;
    let mut any_stopped = false;
    while let Some(&pid) = found.get(looked_at) {
        looked_at += 1;
        let children = scan::children(pid).into_iter();
        let children: Vec<Pid> = children
            .filter(|child| !found.contains(child) && scan::stat(*child).is_some())
            .collect();
        if children.is_empty()
            && let Some(stat) = scan::stat(pid)
        {
            if !stat.is_stopped() {
                return false;
            }
            any_stopped = true;
        }
        found.extend(children);
        if found.len() > TREE_LIMIT {
            return false;
        }
    }
    any_stopped
}

impl ProcStat {
    fn is_stopped(&self) -> bool {
        self.state == b'T'
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process, kill_process_group};

    use mainstay_testkit::poll;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use super::{Activity, InputGauge, Observer};

    /// A shell that leads its own group, and ends with the test.
    struct Shell(Child);

    impl Shell {
        fn run(script: &str) -> (Self, Observer) {
            let shell = Command::new("/bin/sh")
                .args(["-c", script])
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("there is a shell");
            let observer = Observer::new(Pid::from_child(&shell));
            (Self(shell), observer)
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }

    /// What a look compares: long enough for the kernel to count the work in it.
    const WINDOW: Duration = Duration::from_millis(250);

    /// Looks until a look is as wanted.
    fn look_until(observer: &mut Observer, wanted: impl Fn(&Activity) -> bool) -> Activity {
        let mut last = None;
        let found = poll::look_for(poll::LIMIT, || {
            std::thread::sleep(WINDOW);
            let activity = observer.look();
            last = Some(format!("{activity:?}"));
            Some(activity).filter(&wanted)
        });
        found.unwrap_or_else(|| panic!("last seen: {last:?}"))
    }

    #[test]
    fn a_tree_that_waits_comes_to_be_seen_as_idle() {
        let (_shell, mut observer) = Shell::run("sleep 600 & wait");
        look_until(&mut observer, |activity| !activity.is_busy);
    }

    #[test]
    fn processor_time_of_a_process_that_left_the_group_is_work() {
        let (_shell, mut observer) = Shell::run("setsid sh -c 'while kill -0 $PPID; do :; done' & wait");
        // The first looks see processes come; later ones see nothing but their work.
        for _ in 0..3 {
            look_until(&mut observer, |activity| activity.is_busy && !activity.is_leader);
        }
    }

    #[test]
    fn writing_a_file_is_work() {
        let (_shell, mut observer) =
            Shell::run("exec dd if=/dev/zero of=/dev/null bs=64k iflag=fullblock 2>/dev/null");
        for _ in 0..3 {
            // The first looks may see the shell that becomes it.
            look_until(&mut observer, |activity| {
                activity.is_busy && activity.program.as_deref() == Some("dd")
            });
        }
    }

    #[test]
    fn processes_that_come_and_go_are_work() {
        let (_shell, mut observer) = Shell::run("while :; do sleep 0.2; done");
        for _ in 0..5 {
            look_until(&mut observer, |activity| activity.is_busy);
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_line_is_unread_until_the_child_has_read_it() {
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", "read go; read line; echo \"$line\"; read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a shell");
        let mut stdin = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let gauge = InputGauge::of(&stdin);
        // A stopped child reads nothing.
        let pid = Pid::from_raw(child.id().expect("it runs").cast_signed()).expect("an id");
        kill_process(pid, Signal::STOP).expect("it runs");
        stdin.write_all(b"go\nline\n").await.expect("there is room");
        assert!(gauge.has_unread());

        kill_process(pid, Signal::CONT).expect("it runs");
        let line = lines.next_line().await.expect("readable");
        assert_eq!(line.as_deref(), Some("line"));
        assert!(!gauge.has_unread(), "it has read both lines");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod stopped_tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use mainstay_testkit::poll;
    use rustix::process::{Pid, Signal, kill_process, kill_process_group};

    use super::{is_stopped, scan};

    /// A shell that leads its own group, and ends with the test; and the process whose number it writes first.
    struct Shell(Child, Pid);

    impl Shell {
        fn run(script: &str) -> Self {
            let mut shell = Command::new("/bin/sh")
                .args(["-c", script])
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .expect("there is a shell");
            let mut line = String::new();
            let stdout = shell.stdout.take().expect("piped");
            BufReader::new(stdout)
                .read_line(&mut line)
                .expect("a line of text");
            let inner = Pid::from_raw(line.trim().parse().expect("a number")).expect("of a process");
            Self(shell, inner)
        }

        fn leader(&self) -> i32 {
            Pid::from_child(&self.0).as_raw_nonzero().get()
        }

        /// Signals the inner process, and waits until the system says so.
        fn signal_inner(&self, signal: Signal, seen: impl Fn(u8) -> bool) {
            kill_process(self.1, signal).expect("it runs");
            let has_effect = || scan::stat(self.1).is_some_and(|stat| seen(stat.state));
            assert!(
                poll::comes_true(poll::LIMIT, has_effect),
                "the signal has no effect"
            );
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_is_stopped_until_it_is_continued() {
        let shell = Shell::run("echo $$; exec sleep 600");
        assert!(!is_stopped(shell.leader()), "one that sleeps is not");
        shell.signal_inner(Signal::STOP, |state| state == b'T');
        assert!(is_stopped(shell.leader()));
        shell.signal_inner(Signal::CONT, |state| state != b'T');
        assert!(!is_stopped(shell.leader()));
    }

    #[test]
    fn a_shell_that_waits_for_a_stopped_process_is_stopped_too() {
        let shell = Shell::run("sleep 600 & echo $!; wait");
        assert!(!is_stopped(shell.leader()));
        shell.signal_inner(Signal::STOP, |state| state == b'T');
        assert!(is_stopped(shell.leader()));
    }

    #[test]
    fn a_tree_in_which_anything_can_still_work_is_not_stopped() {
        let shell = Shell::run("sleep 600 & first=$!; sleep 601 & echo $first; wait");
        shell.signal_inner(Signal::STOP, |state| state == b'T');
        assert!(!is_stopped(shell.leader()));
    }

    #[test]
    fn a_process_that_is_gone_is_not_stopped() {
        let mut child = Command::new("/bin/true").spawn().expect("a program");
        let pid = Pid::from_child(&child).as_raw_nonzero().get();
        child.wait().expect("it ends");
        assert!(!is_stopped(pid));
    }
}
