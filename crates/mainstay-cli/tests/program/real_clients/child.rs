//! Child processes that end in time, or are killed with their whole process group.

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use mainstay_testkit::poll;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A child that leads a process group. Dropping it kills the group.
pub(crate) struct Group {
    pub(crate) child: Child,
}

/// What a child said until its end.
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Group {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.process_group(0).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child }
    }

    /// SIGTERM to the child alone.
    pub(crate) fn terminate(&self) {
        let _gone_already = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }

    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        poll::comes_true(limit, || match self.child.try_wait() {
            Ok(ended) => ended.is_some(),
            Err(error) => panic!("cannot wait for a child: {error}"),
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Its leader is our child and not reaped yet, so the number is nobody else's.
            let _gone_already = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _reaped_already = self.child.wait();
    }
}

/// Runs a command to its end, and to its end only within this time.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Said {
    let mut group = Group::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let stdout = reading(group.child.stdout.take().expect("piped"));
    let stderr = reading(group.child.stderr.take().expect("piped"));
    let ended = group.ends_within(limit);
    // What holds the pipes open goes with the group.
    drop(group);
    let read = |reader: thread::JoinHandle<String>| reader.join().expect("a pipe is read");
    let mut said = Said {
        stdout: read(stdout),
        stderr: read(stderr),
    };
    if !ended {
        said.stderr
            .push_str(&format!("\nkilled: it ran for more than {limit:?}"));
    }
    said
}

fn reading(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _until_it_breaks = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
