//! Whether a server's processes are stopped, as by SIGSTOP: they live, and do nothing until somebody continues them.
//!
//! A server that works on a call may be silent, use no processor and read no input: a tool that sleeps does just that. So
//! only what the system itself says counts: the state `T` of the process that was started, or of every process at the end
//! of its tree (a package runner or a shell that waits for a stopped server). A process that a debugger stops (`t`) is at
//! work for that debugger. Where there is no `/proc`, nothing is ever seen to be stopped.

use imp::{children, state};

/// How many processes of a tree are looked at; one that has more is not stopped, as far as is known.
const TREE_LIMIT: usize = 64;

/// What the system says of a process that is stopped, and of one that has ended and waits for its parent.
const STOPPED: u8 = b'T';
const ENDED: u8 = b'Z';

/// Whether the process is stopped, or all that it waits for. A look at a process costs some ten microseconds.
pub(crate) fn is_stopped(leader: i32) -> bool {
    if state(leader) == Some(STOPPED) {
        return true;
    }
    let mut found = vec![leader];
    let mut looked_at = 0;
    let mut any_stopped = false;
    while let Some(&pid) = found.get(looked_at) {
        looked_at += 1;
        let children = children(pid).into_iter();
        let children: Vec<i32> = children
            .filter(|child| !found.contains(child) && state(*child).is_some_and(|state| state != ENDED))
            .collect();
        if children.is_empty() {
            match state(pid) {
                Some(STOPPED) => any_stopped = true,
                Some(_) => return false,
                None => {}
            }
        }
        found.extend(children);
        if found.len() > TREE_LIMIT {
            return false;
        }
    }
    any_stopped
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::fs;

    /// The one letter for what a process does; `None` if it is gone.
    pub(super) fn state(pid: i32) -> Option<u8> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        // "pid (name) state …": the name may hold anything, a closing bracket too.
        let name_end = memchr::memrchr(b')', &stat)?;
        stat.get(name_end + 2).copied()
    }

    /// The processes that this one started, each by one of its threads. None where the system does not tell.
    pub(super) fn children(pid: i32) -> Vec<i32> {
        let threads = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        let parse = |list: String| -> Vec<i32> {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect()
        };
        lists.flat_map(parse).collect()
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    pub(super) fn state(_: i32) -> Option<u8> {
        None
    }

    pub(super) fn children(_: i32) -> Vec<i32> {
        Vec::new()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, kill_process, kill_process_group};

    use super::{imp, is_stopped};

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
            let deadline = Instant::now() + Duration::from_secs(30);
            while !imp::state(self.1.as_raw_nonzero().get()).is_some_and(&seen) {
                assert!(Instant::now() < deadline, "the signal has no effect");
                std::thread::yield_now();
            }
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
        let shell = Shell::run("sleep 600 & echo $!; sleep 601 & wait");
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
