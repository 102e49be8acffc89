//! Whether a server's processes are stopped, as by SIGSTOP: they live, and do nothing until they are continued.
//!
//! A server that works on a call may be silent, use no processor and read no input: a tool that sleeps does just that. So
//! only what the system says counts: the state `T` of the process that was started, or of every leaf of its tree (a
//! package runner or a shell that waits for a stopped server). A process that a debugger stops (`t`) works for that
//! debugger. Without `/proc`, nothing is ever seen to be stopped.

use rustix::process::Pid;

use super::scan::{self, ProcStat};

/// How many processes of a tree are looked at; a larger tree is taken not to be stopped.
const TREE_LIMIT: usize = 64;

/// Whether the process is stopped, or all that it waits for. A look at a process costs some ten microseconds.
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

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
            let deadline = Instant::now() + Duration::from_secs(30);
            while !scan::stat(self.1).is_some_and(|stat| seen(stat.state)) {
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
